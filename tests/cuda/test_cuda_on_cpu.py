"""The CUDA stand-in: what is right runs right, and each planted fault is found. Needs g++ and cargo, no Rust build."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TOOL = ROOT / "tools" / "cuda-on-cpu"
sys.dont_write_bytecode = True
sys.path.insert(0, str(TOOL))
import build

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="there is no C++ compiler to make a device with")
HOME = ROOT / "target" / "cuda-on-cpu"
HANGS_AFTER = 600  # seconds; a guard against a device that hangs, not a measure of speed
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer"]


def checked(command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def home():
    return build.build(HOME, ROOT / "Cargo.toml")


@pytest.fixture(scope="session")
def kernels(home, tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    options = ["-gencode=arch=compute_80,code=sm_80", "--output-directory", folder]
    checked([home / "bin" / "nvcc", "--ptx", *options, HERE / "planted.cu"])
    return folder / "planted.ptx"


@pytest.fixture(scope="session")
def plain(home, tmp_path_factory):
    program = tmp_path_factory.mktemp("plain") / "host"
    flags = ["-std=c++17", "-O1", "-g", f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}"]
    checked(["g++", *flags, HERE / "host.cpp", "-o", program, "-lcuda", "-lpthread"])
    return program


@pytest.fixture(scope="session")
def sanitized(home, tmp_path_factory):
    """The same program with the stand-in's own sources in it, all under the address and undefined sanitizers."""
    program = tmp_path_factory.mktemp("sanitized") / "host"
    flags = ["-std=c++17", "-O1", "-g", "-rdynamic", f'-DCUDA_ON_CPU_INTERFACE="{build.interface()}"']
    sources = [TOOL / "src" / f"{name}.cpp" for name in build.SOURCES]
    checked(["g++", *flags, *SANITIZE, *sources, HERE / "host.cpp", "-o", program, "-ldl", "-lpthread"])
    return program


def run(program, case, kernels, **settings):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CUDA_ON_CPU")}
    env |= {f"CUDA_ON_CPU_{key}": str(value) for key, value in settings.items()}
    # The stand-in keeps some memory for the next use; leaks of the device are counted by itself.
    env |= {"ASAN_OPTIONS": "detect_leaks=0"}
    return subprocess.run([program, case, kernels], capture_output=True, text=True, env=env, timeout=HANGS_AFTER)


def right(done):
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("case", ["right", "atomics", "short_floats", "products"])
@pytest.mark.parametrize("settings", [{}, {"SEED": 1}, {"SEED": 2, "ALIGNED": 1}, {"FRONT": 1}, {"FRONT": 1, "GUARDED": 3}], ids=str)
def test_what_is_right_runs_right(plain, kernels, case, settings):
    assert "WRONG" not in right(run(plain, case, kernels, **settings))


@pytest.mark.parametrize("case", ["right", "atomics", "products", "asserts", "two_barriers", "reads_past", "too_deep"])
@pytest.mark.parametrize("seed", [0, 3])
def test_the_stand_in_itself_under_sanitizers(sanitized, kernels, case, seed):
    done = run(sanitized, case, kernels, SEED=seed)
    right(done)
    assert "Sanitizer" not in done.stderr and "runtime error" not in done.stderr, done.stderr


FAULTS = {  # the error that the next call returns, and what is said
    "reads_past": (700, ["reads_past: block 3 0 0, thread 231 0 0: touches byte 1 past the end of allocation", "of 4000 bytes"]),
    "writes_past": (700, ["writes_past: block 3 0 0, thread 232 0 0: writes to byte 1 past the end of allocation"]),
    "writes_before": (700, ["4 bytes outside it were written; the first is byte 4 before its start"]),
    "host_memory": (700, ["copy: argument 0 points to memory of the host"]),
    "null": (700, ["copy: block 0 0 0, thread 0 0 0: touches a null pointer"]),
    "freed_before_use": (700, ["touches inside memory that was freed: allocation 1 of 4000 bytes"]),
    "freed_before_copy": (1, ["allocation 1 of 4000 bytes, which was freed"]),
    "freed_twice": (1, ["freed twice: allocation 1 of 4000 bytes"]),
    "copies_too_much": (1, ["4004 bytes from byte 0 on of allocation 1 of 4000 bytes"]),
    "leaves_before_barrier": (719, ["__syncthreads() in line"]),
    "two_barriers": (719, ["wait at different barriers, in lines"]),
    "waits_for_nobody": (719, ["wait for others that never come"]),
    "too_much_shared": (1, ["needs 65536 bytes of shared memory or more, of 48 KiB"]),
    "past_shared": (700, ["past_shared: block 0 0 0, thread 31 0 0: writes to byte 1 past the end of shared memory"]),
    "too_many_threads": (1, ["blocks of 1025 x 1 x 1 threads cannot be launched"]),
    "no_blocks": (1, ["a grid of 0 x 1 x 1 blocks"]),
    "too_much_dynamic": (1, ["asks for 49156 bytes of shared memory, of 48 KiB"]),
    "asserts": (710, ["asserts: block 0 0 0, thread 7 0 0: planted.cu:", "assertion `in["]),
    "too_deep": (700, ["too_deep: block 0 0 0, thread 0 0 0: writes to memory past the end of the thread's stack"]),
}


@pytest.mark.parametrize("case", FAULTS)
@pytest.mark.parametrize("seed", [0, 5])
def test_planted_faults_are_found(plain, kernels, case, seed):
    error, said = FAULTS[case]
    done = run(plain, case, kernels, SEED=seed)
    printed = right(done)
    assert (f"error {error}\n" in printed) if error else ("error" not in printed), printed + done.stderr
    for part in said:
        if seed and ": block" in part:  # in a drawn order another thread is the first
            part = part.split(": ")[-1].split(" byte ")[0]
        assert part in done.stderr, done.stderr


@pytest.mark.parametrize("seed", [0, 5])
def test_what_lies_before_an_allocation_is_found_at_its_front(plain, kernels, seed):
    said = {"reads_before": "touches 4 bytes before the start of allocation 1 of 4000", "writes_before": "writes to 4 bytes before the start of"}
    for case, part in said.items():
        done = run(plain, case, kernels, FRONT=1, SEED=seed)
        assert "error 700" in right(done) and f"{case}: block 0 0 0, thread 0 0 0: {part}" in done.stderr, done.stderr
    # Elsewhere it reads what no allocation holds; and what is written past the end is found when that is freed.
    assert "error" not in right(run(plain, "reads_before", kernels, SEED=seed))
    assert "byte 1 past its end" in run(plain, "writes_past", kernels, FRONT=1, SEED=seed).stderr


def test_an_order_of_blocks_does_not_hold(plain, kernels):
    assert "32 of 32 right" in right(run(plain, "reads_the_first_block", kernels))
    assert all("32 of 32 right" not in right(run(plain, "reads_the_first_block", kernels, SEED=seed)) for seed in (1, 2))


def test_what_was_never_written_is_not_a_number(plain, kernels):
    assert "1000 NaN" in right(run(plain, "uninitialised", kernels))


def test_a_missing_barrier_shows_in_another_order(plain, kernels):
    for seed in (0, 1, 2):  # of two threads that read from each other, the first finds poison
        assert "128 of 256 right" in right(run(plain, "reversed_without_waiting", kernels, SEED=seed))


def test_an_order_that_nobody_asked_for_does_not_hold(plain, kernels):
    assert "right 50 of 50" in right(run(plain, "streams", kernels))
    assert "right 50 of 50" not in right(run(plain, "streams", kernels, SEED=1))
    assert "right 50 of 50" in right(run(plain, "streams_with_event", kernels, SEED=1))


def test_the_same_seed_gives_the_same_run(plain, kernels):
    once, again = (run(plain, "streams", kernels, SEED=7).stdout for _ in range(2))
    assert once == again


def test_what_is_held_at_exit_is_in_the_report(plain, kernels, tmp_path):
    report = tmp_path / "report"
    for _ in range(2):
        run(plain, "leak", kernels, REPORT=report)
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    assert len(rows) == 2
    assert rows[0]["held"] == 2 and rows[0]["held_bytes"] == 8000 and rows[0]["held_sizes"] == [4000, 4000]
    assert rows[0]["allocations"] == 2 and rows[0]["host_to_device"] == 1 and rows[0]["host_to_device_bytes"] == 4000


def test_many_launches_are_quick(plain, kernels, tmp_path):
    report = tmp_path / "report"
    right(run(plain, "many_launches", kernels, REPORT=report))
    row = json.loads(report.read_text())
    assert row["launches"] == 200000 and row["held"] == 2


def test_more_allocations_than_guard_pages_are_said_once(plain, kernels):
    done = run(plain, "right", kernels, GUARDED=1)
    assert done.stderr.count("have no guard page") == 1


def test_what_is_not_emulated_says_so(home):
    library = home / "lib" / "libcuda_on_cpu.so"
    refused = {"cuGraphLaunch": 801, "cublasLtMatmul": 15, "curandGeneratePoisson": 999}
    for name, code in {**refused, "cudnnCreate": 3000, "cudnnConvolutionForward": 3000}.items():
        program = f"import ctypes; print(ctypes.CDLL({str(library)!r}).{name}())"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert f"cuda-on-cpu: {name} is not emulated" in done.stderr and int(done.stdout) == code


def test_a_declaration_that_is_not_understood_stops_the_compiler(home, tmp_path):
    source = tmp_path / "odd.cu"
    source.write_text('extern "C" __global__ void odd() { __shared__ int a[2], b[2]; a[0] = b[0]; }\n')
    done = subprocess.run([home / "bin" / "nvcc", "--ptx", "--output-directory", tmp_path, source], capture_output=True, text=True)
    assert done.returncode != 0 and "a declaration of shared memory was not understood" in done.stderr
