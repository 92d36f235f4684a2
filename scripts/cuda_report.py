#!/usr/bin/env python3
"""What this version does on a CUDA device, in one file that anybody can send: `make cuda-report`.

`cuda_report.py`            tests, steps of each method, notebooks, studies; writes target/cuda-report.json
`cuda_report.py --record`   writes it to data/records/, from where the book has its page about devices
`cuda_report.py --brief`    without notebooks and studies

With a GPU, which `nvidia-smi` and `nvcc` tell, it is that GPU; otherwise the device is made of the CPU, and the report
says so. Nothing is sent anywhere.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # nothing is written into the source tree
import cuda_studies
import cuda_test
import provenance
import programs
from kernel import ROOT, real_tool, stop

ASKED = ("name", "compute_cap", "driver_version", "memory.total")
RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored")
FAILED = re.compile(r"^    (\S+)$")  # the names stand below the last line "failures:"


def gpu():
    """What the driver says of the first GPU, and the toolkit's version; None without either."""
    if not (shutil.which("nvidia-smi") and shutil.which("nvcc")):
        return None
    query = ["nvidia-smi", f"--query-gpu={','.join(ASKED)}", "--format=csv,noheader"]
    done = subprocess.run(query, capture_output=True, text=True)
    rows = done.stdout.splitlines()
    if done.returncode or not rows:
        return None
    toolkit = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout
    version = re.search(r"release ([\d.]+)", toolkit)
    return dict(zip(ASKED, re.split(r",\s*", rows[0]))) | {"toolkit": version[1] if version else "unknown"}


def processor():
    lines = open("/proc/cpuinfo").read().splitlines() if os.path.exists("/proc/cpuinfo") else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def tested(command, env):
    """Runs tests, shows what they say, and counts them."""
    began, counts, failed, listed = time.time(), [0, 0, 0], [], []
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    for line in process.stdout:
        print(line, end="", flush=True)
        if found := RESULT.match(line):
            counts = [a + int(b) for a, b in zip(counts, found.groups())]
            failed, listed = failed + listed, []
        elif line.strip() == "failures:":
            listed = []
        elif found := FAILED.match(line.rstrip()):
            listed.append(found[1])
    passed, wrong, ignored = counts
    code = process.wait()
    wrong = wrong or int(code != 0)  # what does not compile or is killed fails without a count
    ran = {"passed": passed, "failed": wrong, "ignored": ignored, "minutes": round((time.time() - began) / 60, 1)}
    return ran | ({"names": sorted(set(failed))} if failed else {})


def told(path):
    """Lines of JSON that tests wrote."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def notebooks(env, features):
    began = time.time()
    done = programs.run(features=features, env=env)
    each = {name: "ok" if not outcome.problems else outcome.problems[0] for name, outcome in done.items()}
    passed = sum(verdict == "ok" for verdict in each.values())
    checks = sum(len(programs.checks(cell.text())) for outcome in done.values() for cell in outcome.cells)
    minutes = round((time.time() - began) / 60, 1)
    return {"passed": passed, "failed": len(each) - passed, "check_lines": checks, "minutes": minutes, "each": each}


def report(whole):
    """Everything, as a record of the library is written."""
    card = gpu()
    lines = ROOT / "target" / "cuda-report.jsonl"
    lines.unlink(missing_ok=True)
    device = {"CARGO_TARGET_DIR": str(ROOT / "target" / "cuda-report")} if card else cuda_test.stand_in()
    env = {**cuda_test.counted(device), "LASTLAYER_CUDA_TOLD": str(lines), "LASTLAYER_EXPORT": ""}
    began = time.time()
    results = {"library": tested([*cuda_test.CARGO, "--tests"], env)}
    if card:
        results["times"] = tested([*cuda_test.CARGO, "--test", "cuda", "times_of_steps", "--", "--ignored"], env)
    else:
        results["counts"] = cuda_test.totals(cuda_test.lines_of(cuda_test.REPORT))
    results["steps"], results["differences"] = {}, {}
    for line in told(lines):
        if "method" in line:
            results["steps"].setdefault(line.pop("method"), {}).update(line)
        else:
            worst = results["differences"].setdefault(line.pop("operation"), {})
            worst.update({kind: max(apart, worst.get(kind, 0.0)) for kind, apart in line.items()})
    if whole:
        results["notebooks"] = notebooks(env, cuda_test.FEATURES)
        results["studies"] = cuda_studies.run(cuda_test.FEATURES, env)
    lock = (ROOT / "Cargo.lock").read_text(encoding="utf-8")
    version = {name: re.search(rf'name = "{name}"\nversion = "([^"]+)"', lock)[1] for name in ("lastlayer", "candle-core", "cudarc")}
    rustc = subprocess.run([real_tool("rustc"), "--version"], capture_output=True, text=True).stdout.split()
    name = "cuda-on-cpu" if not card else "cuda-" + re.sub(r"[^a-z0-9]+", "-", card["name"].lower()).strip("-")
    return {
        "name": name,
        "config": {"device": card or "made of the CPU", "processor": processor(), "cores": os.cpu_count()},
        "seed": None,
        "results": results,
        "seconds": round(time.time() - began, 1),
        "provenance": {
            "versions": version | {"rustc": rustc[1] if len(rustc) > 1 else "unknown", "python": platform.python_version()},
            "revision": provenance.revision(),
            "device": "cuda",
            "threads": os.cpu_count(),
            "platform": f"{sys.platform} {platform.machine()}",
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write to data/records/")
    parser.add_argument("--brief", action="store_true")
    args = parser.parse_args()
    if args.record and (problem := provenance.unrecordable()):
        stop(problem)
    made = report(not args.brief)
    path = ROOT / "data" / "records" / f"{made['name']}.json" if args.record else ROOT / "target" / "cuda-report.json"
    path.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(f"cuda: the report is {path.relative_to(ROOT)}")
    results = made["results"]
    failed = [part for part in ("library", "times", "notebooks") if results.get(part, {}).get("failed")]
    faults = results.get("counts", {}).get("faults") or results.get("counts", {}).get("held")
    sys.exit(bool(failed or faults or any(outcome["wrong"] for outcome in results.get("studies", {}).values())))


if __name__ == "__main__":
    main()
