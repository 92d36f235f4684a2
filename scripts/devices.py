"""The tables of the page "What has run on CUDA": one section for each record `data/records/cuda-*.json`, which
`make cuda-report` makes. Needs only the standard library.
"""

from __future__ import annotations

import json
from pathlib import Path


def table(head: list[str], rows: list[list[str]]) -> str:
    """Markdown, the first column to the left and the others to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def number(value, form: str = ",.0f") -> str:
    return "" if value is None else "0" if value == 0 else format(value, form).replace(",", "&nbsp;")


def title(record: dict) -> str:
    device = record["config"]["device"]
    if isinstance(device, str):
        return f"A device {device}"
    return f"{device['name']}, compute capability {device['compute_cap']}"


def suite(results: dict) -> str:
    rows = []
    for part, what in (("library", "tests of the library"), ("notebooks", "notebooks")):
        if ran := results.get(part):
            rows.append([what, number(ran["passed"]), number(ran["failed"]), number(ran["minutes"], ".1f")])
    text = table(["what", "passed", "failed", "minutes"], rows)
    each = results.get("notebooks", {}).get("each", {})
    wrong = [f"`{name}`: {verdict}" for name, verdict in each.items() if verdict != "ok"]
    wrong += [f"`{name}` fails" for name in results.get("library", {}).get("names", [])]
    text += "".join(f"- {line}\n" for line in wrong) + ("\n" if wrong else "")
    if studies := results.get("studies"):
        told = [[f"`{name}`", number(ran["numbers"]), "; ".join(ran["wrong"]) or "yes"] for name, ran in studies.items()]
        text += table(["one run of the study", "numbers", "as on the CPU, to 3 %"], told)
    if counts := results.get("counts"):
        text += (
            f"The tests used the device from {counts['programs']} processes: {number(counts['launches'])} kernels were launched, "
            f"{number(counts['products'])} products computed, {number(counts['device_to_host'])} copies made to the host.\n\n"
        )
    return text


def steps(results: dict, emulated: bool) -> str:
    """What a step copies by method, and how long it takes, unless the device is an emulation."""
    columns = [
        ("copies_down", "copies", ",.0f"),
        ("down", "bytes", ",.0f"),
        ("down_per_sample", "a sample", ",.0f"),
        ("up_per_sample", "sent", ",.0f"),
        ("copies_down_before", "copies, before", ",.0f"),
        ("down_per_sample_before", "a sample, before", ",.0f"),
        ("cpu_ms", "CPU, ms", ".2f"),
        ("device_ms", "device, ms", ".2f"),
    ]
    found = results.get("steps", {})
    columns = [column for column in columns if any(column[0] in line for line in found.values())]
    columns = [column for column in columns if not (emulated and column[0].endswith("_ms"))]
    if not columns:
        return ""
    rows = [[f"`{name}`", *(number(line.get(key), form) for key, _, form in columns)] for name, line in found.items()]
    told = (
        "Copies to the host in a step, their bytes whatever the batch, bytes for each sample of the batch, and bytes sent to the "
        "device for each sample.\n\n"
    )
    return told + table(["step of", *(head for _, head, _ in columns)], rows)


def differences(results: dict) -> str:
    """The largest difference between the two devices, by operation."""
    found = results.get("differences", {})
    keys = sorted({key for line in found.values() for key in line})
    rows = [[f"`{name}`", *(number(line.get(key), ".0e") for key in keys)] for name, line in sorted(found.items())]
    return table(["operation", *keys], rows) if rows else ""


def section(record: dict) -> str:
    results, made = record["results"], record["provenance"]
    versions = ", ".join(f"{name} {version}" for name, version in made["versions"].items())
    device = record["config"]["device"]
    driver = "" if isinstance(device, str) else f" driver {device['driver_version']}, toolkit {device['toolkit']},"
    text = f"## {title(record)}\n\n"
    text += f"On {record['config']['processor']} with {record['config']['cores']} cores,{driver} {versions}; revision `{made['revision']}`.\n\n"
    text += suite(results)
    for heading, body in (("Steps", steps(results, isinstance(device, str))), ("CPU against device", differences(results))):
        text += f"### {heading}\n\n{body}" if body else ""
    return text


def sections(records: Path) -> str:
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(records.glob("cuda-*.json"))]
    return "".join(section(record) for record in found)
