#!/usr/bin/env python3
"""Builds the stand-in for a CUDA toolkit and its libraries into a folder of the shape that build scripts look for.

`build.py FOLDER MANIFEST TARGET` builds it there, for the cudarc that the Cargo.toml MANIFEST depends on, and prints the
environment in which cargo finds it, as lines for a shell. TARGET is the folder that cargo builds in.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.dont_write_bytecode = True  # nothing is written beside the sources

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import nvcc

SOURCES = ["report", "memory", "fault", "block", "order", "driver", "blas", "random"]
LIBRARIES = ["cuda", "cublas", "cublasLt", "curand", "nvrtc", "cudart", "cudnn"]
FLAGS = ["-std=c++17", "-O3", "-march=native", "-g", "-fPIC", "-Wall", "-Wextra", "-U_FORTIFY_SOURCE"]

# What a function returns that is not emulated, by the type it returns.
REFUSALS = {"CUresult": 801, "cublasStatus_t": 15, "curandStatus_t": 999, "nvrtcResult": 11, "cudnnStatus_t": 3000}


def stop(sentence):
    sys.exit(f"cuda-on-cpu: {sentence}")


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        stop(f"{' '.join(map(str, command[:3]))} … failed; its message stands above")
    return done.stdout


def cudarc_of(manifest):
    """Where the sources of cudarc lie. Without a lock file's consent nothing is resolved anew."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features", "--manifest-path", str(manifest)]
    for package in json.loads(run(command))["packages"]:
        if package["name"] == "cudarc":
            return Path(package["manifest_path"]).parent
    stop(f"{manifest} does not depend on cudarc")


def processor():
    """-march=native means something else on another one."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return "".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


def interface():
    return nvcc.interface(HERE / "nvcc.py", HERE / "include")


def key(cudarc):
    files = sorted(path for path in HERE.rglob("*") if path.suffix in (".py", ".h", ".cpp", "") and path.is_file())
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in files if "__pycache__" not in path.parts))
    digest.update(f"{cudarc} {processor()} {run(['g++', '--version'])}".encode())
    return digest.hexdigest()


def signatures(cudarc):
    """Names of the functions that cudarc declares, with what they return."""
    found = {}
    for part in ("driver", "cublas", "cublaslt", "curand", "nvrtc", "cudnn"):
        text = (cudarc / "src" / part / "sys" / "mod.rs").read_text()
        found.update(re.findall(r"pub unsafe fn (cu\w+|nvrtc\w+)\(.*\) -> ([^{]+?) \{", text))
    return found


def refusals(declared, defined):
    rows = []
    for name, kind in sorted(declared.items()):
        if name in defined or name.startswith("culib"):
            continue
        value = f"{REFUSALS.get(kind, 0)}" if "c_char" not in kind else '(long)"not emulated"'
        rows.append(f'long {name}() {{ cuda_on_cpu_refused("{name}"); return {value}; }}')
    head = 'extern "C" {\nint dprintf(int, const char*, ...);\n'
    head += 'static void cuda_on_cpu_refused(const char* name) { dprintf(2, "cuda-on-cpu: %s is not emulated\\n", name); }\n'
    return head + "\n".join(rows) + "\n}\n"


def compile_library(home, cudarc):
    work = home / "build"
    work.mkdir(exist_ok=True)
    jobs = []
    for name in SOURCES:
        command = ["g++", *FLAGS, f'-DCUDA_ON_CPU_INTERFACE="{interface()}"', "-c", str(HERE / "src" / f"{name}.cpp")]
        jobs.append(subprocess.Popen([*command, "-o", str(work / f"{name}.o")]))
    if any([job.wait() for job in jobs]):
        stop("the library did not compile; the message stands above")
    objects = [str(work / f"{name}.o") for name in SOURCES]
    defined = set(re.findall(r" T (\w+)", run(["nm", "--defined-only", *objects])))
    (work / "refusals.cpp").write_text(refusals(signatures(cudarc), defined))
    run(["g++", "-O0", "-fPIC", "-w", "-c", str(work / "refusals.cpp"), "-o", str(work / "refusals.o")])
    library = home / "lib" / "libcuda_on_cpu.so"
    library.parent.mkdir(exist_ok=True)
    # Its own name, so that a program made for the stand-in never finds a real driver, nor one made for that the stand-in.
    named = ["-shared", f"-Wl,-soname,{library.name}", "-Wl,-z,defs", "-o", f"{library}.new"]
    run(["g++", *named, *objects, str(work / "refusals.o"), "-ldl", "-lpthread"])
    os.replace(f"{library}.new", library)
    for name in LIBRARIES:
        link = library.parent / f"lib{name}.so"
        link.unlink(missing_ok=True)
        link.symlink_to(library.name)


def build(home, manifest):
    """Makes the folder if anything it is made of changed."""
    home = Path(home).resolve()
    home.mkdir(parents=True, exist_ok=True)
    with open(home / "lock", "w") as lock:  # two at once: the second waits, and finds it done
        fcntl.flock(lock, fcntl.LOCK_EX)
        cudarc = cudarc_of(manifest)
        wanted, made = key(cudarc), home / "key"
        if made.exists() and made.read_text() == wanted:
            return home
        made.unlink(missing_ok=True)
        if not shutil.which("g++"):
            stop("g++ was not found; install a C++ compiler, e.g. the package g++")
        shutil.rmtree(home / "include", ignore_errors=True)
        shutil.copytree(HERE / "include", home / "include")
        (home / "bin").mkdir(exist_ok=True)
        shutil.copy(HERE / "nvcc.py", home / "bin" / "nvcc")
        (home / "bin" / "nvcc").chmod(0o755)
        compile_library(home, cudarc)
        made.write_text(wanted)
    return home


def environment(home):
    """What cargo, and a program it made, must find."""

    def before(name, folder):
        return os.pathsep.join(filter(None, [str(folder), os.environ.get(name, "")]))

    return {
        "CUDA_HOME": str(home),
        "CUDA_PATH": str(home),
        "CUDA_COMPUTE_CAP": "80",
        "NVCC": str(home / "bin" / "nvcc"),
        "PATH": before("PATH", home / "bin"),
        "LIBRARY_PATH": before("LIBRARY_PATH", home / "lib"),
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", home / "lib"),
    }


def refresh_kernels(home, target):
    """Compiles the kernels in a target folder of cargo again that another version of the stand-in compiled, which cargo
    does not see: their place stays the same."""
    jobs = []
    for depth in ("*", "*/*"):  # with --target there is a folder more
        for made in sorted(Path(target).glob(f"{depth}/build/candle-kernels-*/out/*{nvcc.AGAIN}")):
            how = json.loads(made.read_text())
            if how["interface"] != interface():
                jobs.append(subprocess.Popen([str(home / "bin" / "nvcc"), *how["args"]]))
    if any([job.wait() for job in jobs]):
        stop("kernels did not compile again; the message stands above")


def main():
    if len(sys.argv) != 4:
        stop("build.py FOLDER MANIFEST TARGET")
    folder, manifest, target = map(Path, sys.argv[1:])
    home = build(folder, manifest)
    refresh_kernels(home, target)
    for name, value in {**environment(home), "CARGO_TARGET_DIR": str(target.resolve())}.items():
        print(f"export {name}={value}")


if __name__ == "__main__":
    main()
