#!/usr/bin/env python3
"""Stands in for nvcc: compiles CUDA kernels for the CPU with g++.

`--ptx` leaves a shared library beside the "PTX", whose only text names that library; the stand-in of the driver loads
it. A file beside it says how to compile it again. `-c` is used for kernels of quantised models, which are not emulated: it makes an object whose functions say so.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent.parent  # this file is installed as bin/nvcc
INCLUDE = HOME / "include"
VERSION = """\
nvcc: a stand-in that compiles for the CPU
Copyright: see the project's licence
Built where it runs
Cuda compilation tools, release 13.0, V13.0.0
Build cuda-on-cpu"""

NOT_EMULATED = {"quantized"}  # byte-wise dot products and packed formats, for quantised models only
MARK = "// cuda-on-cpu "
AGAIN = ".cuda-on-cpu.json"

# An expression is contracted to fused multiply-adds as nvcc does it; a half is rounded after every operation.
FLAGS = ["-std=c++17", "-O2", "-march=native", "-ffp-contract=fast", "-fexcess-precision=16", "-fno-strict-aliasing"]
FLAGS += ["-fPIC", "-fno-exceptions", "-fvisibility=hidden", "-w"]

KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
DYNAMIC = re.compile(r"extern\s+__shared__\s+([^;\[\]]+?)\s*\b(\w+)\s*\[\s*\]\s*;")
SHARED = re.compile(r"(?:static\s+)?__shared__\s+([^;\[\]]+?)\s*\b(\w+)\s*((?:\[[^\];]+\]\s*)*);")


def stop(sentence):
    sys.exit(f"cuda-on-cpu: {sentence}")


def run(command, text=None):
    done = subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE)
    if done.returncode:
        stop(f"{command[0]} failed; its message stands above")
    return done.stdout


def interface(compiler=Path(__file__), include=INCLUDE):
    """What a compiled kernel and the driver must agree on: both carry it, so that the one refuses the other's past."""
    files = [compiler, *sorted(path for path in include.rglob("*") if path.is_file())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def shared_memory(text):
    """Declarations of shared memory become references into the block's own, asked for by the declaration's address."""
    text = DYNAMIC.sub(r"\1* \2 = (\1*)cuda_on_cpu_shared(nullptr, 0);", text)

    def declaration(match):
        kind, name, sizes = match.groups()
        asked = f"cuda_on_cpu_shared(&key, sizeof(type_of_{name}))"
        storage = f"[]() -> type_of_{name}* {{ static char key; return (type_of_{name}*){asked}; }}()"
        return f"typedef {kind} type_of_{name}{sizes}; type_of_{name}& {name} = *{storage};"

    text = SHARED.sub(declaration, text)
    if "__shared__" in text:
        stop("a declaration of shared memory was not understood: " + re.search(r".*__shared__.*", text).group().strip())
    return text


def architecture(args):
    found = re.search(r"(?:sm|compute)_(\d+)", " ".join(args))
    return int(found.group(1)) * 10 if found else 800


def compile_ptx(source, args, output):
    library = output.with_suffix(".cuda-on-cpu.so")
    options = [arg for arg in args if re.match(r"-[DI]", arg)]
    kernels, text = [], ""
    if source.stem not in NOT_EMULATED:
        defines = [*options, f"-D__CUDA_ARCH__={architecture(args)}"]
        defines += ["-D__CUDACC__", "-D__CUDACC_VER_MAJOR__=13", "-D__CUDACC_VER_MINOR__=0", f"-I{INCLUDE}"]
        # Preprocessed first, so that macros and included files are read as the compiler will see them.
        text = run(["g++", "-x", "c++", "-E", *FLAGS, *defines, "-include", "cuda_on_cpu.h", str(source)])
        kernels = list(dict.fromkeys(KERNEL.findall(text)))
        text = re.sub(r"\b__global__\b", "", shared_memory(text))
    else:
        text = f'#include "{INCLUDE / "cuda_on_cpu.h"}"\n'
    rows = [f'cuda_on_cpu::Entry<&{name}>::named("{name}"),' for name in kernels]
    table = "extern const cuda_on_cpu::Kernel cuda_on_cpu_kernels[] = {\n" + "\n".join(rows) + "\n{nullptr}};"
    key = f'extern const char cuda_on_cpu_interface[] = "{interface()}";'
    text += f'\n#pragma GCC visibility push(default)\nextern "C" {{\n{table}\n{key}\n}}\n'
    language = "c++-cpp-output" if kernels else "c++"
    run(["g++", "-x", language, *FLAGS, "-shared", "-o", f"{library}.new", "-"], text)
    os.replace(f"{library}.new", library)  # a program that runs keeps the old one
    text = f"{MARK}{library}\n"
    if not output.exists() or output.read_text() != text:  # written again it would make cargo build candle anew
        output.write_text(text)
    again = {"interface": interface(), "args": ["--ptx", f"-arch=sm_{architecture(args) // 10}", *options]}
    again["args"] += ["--output-directory", str(output.parent), str(source)]
    output.with_suffix(AGAIN).write_text(json.dumps(again))


def compile_refusals(source, output):
    """The functions that candle declares for these kernels, in the file of declarations above the source."""
    found = next((folder / "ffi.rs" for folder in source.parents if (folder / "ffi.rs").exists()), None)
    if not found:
        stop(f"{source.name} is to be called by the host's linker, which is not emulated")
    names = re.findall(r"pub fn (\w+)", found.read_text())
    rows = [f'__attribute__((weak)) void {name}() {{ cuda_on_cpu_not_emulated("{name}"); }}' for name in names]
    text = 'extern "C" {\nvoid cuda_on_cpu_not_emulated(const char*);\n' + "\n".join(rows) + "\n}\n"
    run(["g++", "-x", "c++", "-fPIC", "-w", "-c", "-o", str(output), "-"], text)


def main():
    args = sys.argv[1:]

    def after(option):
        return Path(args[args.index(option) + 1])

    if "--version" in args:
        print(VERSION)
    elif "--list-gpu-code" in args:
        print("sm_80")
    elif "--lib" in args:
        after("-o").unlink(missing_ok=True)
        run(["ar", "rcs", str(after("-o")), *[arg for arg in args if arg.endswith(".o")]])
    elif "--ptx" in args:
        source = Path(args[-1]).resolve()
        compile_ptx(source, args, (after("--output-directory").resolve() / source.name).with_suffix(".ptx"))
    elif "-c" in args:
        compile_refusals(Path(args[-1]).resolve(), after("-o"))
    else:
        stop("only --ptx, -c, --lib, --version and --list-gpu-code are understood")


if __name__ == "__main__":
    main()
