"""What `scripts/cuda_test.py` makes of the reports of processes."""

import json
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))
import cuda_test

FINE = {"pid": 1, "launches": 5, "products": 2, "device_to_host": 3, "faults": 0, "held": 0, "held_sizes": []}
CASES = {
    "nothing ran": ([], True, True),
    "nothing ran on the device": ([{**FINE, "launches": 0}], True, True),
    "all is well": ([FINE, FINE], False, False),
    "a fault": ([FINE, {**FINE, "faults": 1}], True, True),
    "memory that is held": ([FINE, {**FINE, "pid": 7, "held": 2, "held_sizes": [4, 8]}], True, False),
    "a fault of a program without launches": ([{**FINE, "launches": 0, "faults": 1}], True, True),
}


@pytest.mark.parametrize("case", CASES)
def test_reports_are_judged(tmp_path, capsys, case):
    lines, in_tests, in_notebooks = CASES[case]
    report = tmp_path / "report"
    # What a process wrote that was killed meanwhile is no report.
    report.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"pid": 9, "faul')
    assert cuda_test.told(report, may_hold=False) == in_tests
    assert cuda_test.told(report, may_hold=True) == in_notebooks
    said = capsys.readouterr().out
    assert f"{sum(line['faults'] for line in lines)} faults" in said
    assert ("process 7 left 2 allocations, of [4, 8] bytes" in said) == (case == "memory that is held")


def test_no_report_is_no_success(tmp_path):
    assert cuda_test.told(tmp_path / "none", may_hold=False)
