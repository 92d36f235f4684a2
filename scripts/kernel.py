#!/usr/bin/env python3
"""The notebook kernel: built once, warm for every later start, several side by side.

`kernel.py warm`   builds the library exactly as the kernel will ask for it
`kernel.py spec`   writes the kernelspec that starts `kernel.py launch`
`kernel.py launch` gives one kernel a private folder, seeded by hard links, and becomes evcxr_jupyter

Standard library only: Jupyter starts this with whatever Python it has.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FACADE = ROOT / "tools" / "facade"
TARGET = ROOT / "target"
KERNELS = TARGET / "kernel"
EVCXR_VERSION = "0.22.0"
CANDLE = "=0.11.1"

# What the kernel would otherwise build with: opt-level 2, debug assertions and overflow checks. It ignores profiles of
# the crate, but cargo reads these from the environment. Keep in step with [profile.dev] in Cargo.toml.
PROFILE = {
    "CARGO_PROFILE_DEV_OPT_LEVEL": "3",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
    "CARGO_PROFILE_DEV_CODEGEN_UNITS": "1",
}
# Cells and the library are split, so that only what changed in them is compiled again. cargo finds this file above the
# private folders. Keep the library's share in step with Cargo.toml too.
SPLIT = """[profile.dev.package.ctx]
codegen-units = 16

[profile.dev.package.lastlayer]
codegen-units = 1024
"""

# The manifest evcxr writes for its cell crate. If a new evcxr writes another, the kernel would rebuild everything at
# each start; tests/kernel fails then.
MANIFEST = """[package]
name = "ctx"
version = "1.0.0"
edition = "2024"

[lib]
crate-type = ["cdylib"]
path = "src/lib.rs"

[profile.dev]
opt-level = 2
debug = false
strip = "debuginfo"
rpath = true
lto = false
debug-assertions = true
codegen-units = 16
panic = 'unwind'
incremental = true
overflow-checks = true

[dependencies]
{dependency}
"""

# cargo ends the name of everything a compilation unit owns in its hash.
UNIT = re.compile(r"-([0-9a-f]{16})\b")


def cache_dir():
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LASTLAYER_CACHE") or Path(base) / "lastlayer")


def evcxr_binary():
    return cache_dir() / "tools" / f"evcxr_jupyter-{EVCXR_VERSION}" / "bin" / "evcxr_jupyter"


def stop(sentence):
    sys.exit(f"lastlayer: {sentence}")


# --------------------------------------------------------------------------------------------------------------------
# The compiler


def real_tool(tool):
    """Path of cargo or rustc itself, past rustup's proxy, for the toolchain that rust-toolchain.toml pins."""
    if shutil.which("rustup"):
        found = subprocess.run(["rustup", "which", tool], cwd=ROOT, capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.strip()
        stop(f"the pinned Rust toolchain is missing ({found.stderr.strip()}); run `rustup toolchain install` here")
    path = shutil.which(tool)
    if not path:
        stop(f"{tool} was not found; install Rust from your package manager or with rustup")
    return path


def host_triple(rustc):
    text = subprocess.run([rustc, "-vV"], capture_output=True, text=True, check=True).stdout
    return next(line.split()[1] for line in text.splitlines() if line.startswith("host:"))


def rustflags():
    """The flags evcxr passes. It prefers mold (as `mold -run cargo`, no flag), then lld."""
    use_lld = not shutil.which("mold") and shutil.which("lld") and sys.platform != "darwin"
    return "-Cprefer-dynamic" + (" -Clink-arg=-fuse-ld=lld" if use_lld else "")


def build_environment(rustc):
    env = {key: value for key, value in os.environ.items() if not key.startswith("CARGO_PROFILE_")}
    env.update(PROFILE, RUSTC=rustc, RUSTFLAGS=rustflags())
    env.pop("CARGO_BUILD_BUILD_DIR", None)
    return env


# --------------------------------------------------------------------------------------------------------------------
# Flavours: the library behind its facade, the same linked into every cell, and plain candle


def features():
    """Features of the crate that the kernel is built with: as asked (`cpu` for none), else CUDA where there is one."""
    asked = os.environ.get("LASTLAYER_FEATURES")
    if asked is None:
        return ["cuda"] if shutil.which("nvcc") and shutil.which("nvidia-smi") else []
    return [name for name in asked.replace(",", " ").split() if name != "cpu"]


def companions():
    """Crates that cells may use beside the library, with their versions: `candle-transformers regex@1.11`. Those that
    depend on candle must depend on the library's, with which candle's own crates share the version."""
    asked = [word.partition("@")[::2] for word in os.environ.get("LASTLAYER_WITH", "").replace(",", " ").split()]
    return {name: version or (CANDLE if name.startswith("candle-") else "*") for name, version in asked}


def dependency(flavour):
    """What the manifest of the cells lists: the library first."""
    if flavour == "candle":
        return f'candle-core = "{CANDLE}"'
    package, path = ("lastlayer-facade", FACADE) if flavour == "lastlayer" else ("lastlayer", ROOT)
    listed = f", features = {json.dumps(features())}" if features() else ""
    library = f"lastlayer = {{ package = {json.dumps(package)}, path = {json.dumps(str(path))}{listed} }}"
    beside = companions() if flavour == "lastlayer" else {}
    return "\n".join([library, *(f"{name} = {json.dumps(version)}" for name, version in beside.items())])


def home(flavour):
    """Where a flavour is built; with other crates beside the library, elsewhere than without."""
    beside = companions() if flavour == "lastlayer" else {}
    return KERNELS / "-".join([flavour, *(["with", *beside] if beside else [])])


def manifests(root=ROOT):
    yield from (root / name for name in ("Cargo.toml", "Cargo.lock", "build.rs"))
    yield from sorted(root.glob("tools/facade/*"))


def sources(root=ROOT):
    yield from manifests(root)
    yield from sorted(root.glob("src/**/*.rs"))


def digest(paths, *settings):
    """Changes when a file does, or one of these texts."""
    told = [f"{path} {path.stat().st_mtime_ns} {path.stat().st_size}" for path in paths]
    return hashlib.sha256("\n".join([*settings, *told]).encode()).hexdigest()


def stamps(flavour, rustc):
    """Two words: the first changes when dependencies may have to be built anew, the second also when the library has."""
    settings = [dependency(flavour), rustc, rustflags(), json.dumps(PROFILE), SPLIT]
    return [digest(manifests(), *settings), digest(sources(), *settings)]


def warm(flavour="lastlayer", quiet=False):
    """Builds what the kernel will need. Dependencies are built once, in the folder that the tests use, and linked from
    there; the library itself is built for each, since cargo tells a library of the workspace from one outside it. If
    only the library changed, only what changed in it is compiled."""
    if " " in str(ROOT):
        stop(f"the folder {ROOT} has a space in its name, which evcxr cannot load libraries from; move the project")
    rustc = real_tool("rustc")
    folder = home(flavour)
    mark = folder / "stamp"
    wanted = stamps(flavour, rustc)
    (KERNELS / ".cargo").mkdir(parents=True, exist_ok=True)
    (KERNELS / ".cargo" / "config.toml").write_text(SPLIT)
    with open(KERNELS / "warm.lock", "w") as lock:  # two notebooks opened at once: one builds, the other waits
        fcntl.flock(lock, fcntl.LOCK_EX)
        built = mark.read_text().split() if mark.exists() else []
        if built == wanted:
            return
        if not quiet:
            beside = "".join(f" and {name}" for name in companions())
            print(f"lastlayer: building the library{beside} for the kernel (5 minutes the first time, then half a minute)", flush=True)
        env, target = build_environment(rustc), ["--target", host_triple(rustc)]
        hush = ["--quiet"] if quiet else []

        def build(where, output, *options):
            command = [real_tool("cargo"), "build", *target, *options]
            there = dict(env, CARGO_TARGET_DIR=str(output))
            done = subprocess.run(command, cwd=where, env=there, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                stop("the library did not build; the compiler's message stands above")
            return done.stdout

        if built[:1] != wanted[:1]:
            enabled = f"--features={' '.join(features())}"
            listing = build(ROOT, TARGET, "--lib", enabled, "--message-format=json-render-diagnostics", *hush)
            (folder / "src").mkdir(parents=True, exist_ok=True)
            (folder / "src" / "lib.rs").write_text("")
            (folder / "Cargo.toml").write_text(MANIFEST.format(dependency=dependency(flavour)))
            shutil.copy2(ROOT / "Cargo.lock", folder / "Cargo.lock")  # pinned versions; cargo drops what it does not need
            mark.unlink(missing_ok=True)
            shutil.rmtree(folder / "target", ignore_errors=True)
            seed(TARGET, folder / "target", set(UNIT.findall(listing)))
        build(folder, folder / "target", *hush)
        mark.write_text(" ".join(wanted))


# --------------------------------------------------------------------------------------------------------------------
# One private folder per kernel


def seed(source, destination, units=None):
    """Gives a kernel its own target folder in about 0.2 s: big files as hard links, small ones that cargo rewrites in
    place (fingerprints, dependency lists) as copies. Takes the given compilation units, or all."""
    for profile in ("debug", f"{host_triple(real_tool('rustc'))}/debug"):
        for part in ("deps", "build", ".fingerprint"):
            into = destination / profile / part
            into.mkdir(parents=True)
            for entry in os.scandir(source / profile / part):
                unit = UNIT.search(entry.name)
                if entry.name.startswith(("ctx", "libctx")) or (units is not None and (not unit or unit[1] not in units)):
                    continue
                if entry.is_dir():
                    linked = shutil.copy2 if part == ".fingerprint" else os.link
                    shutil.copytree(entry.path, into / entry.name, copy_function=linked)
                elif entry.name.endswith(".d"):
                    shutil.copy2(entry.path, into / entry.name)
                else:
                    os.link(entry.path, into / entry.name)


def sweep():
    """Removes folders of kernels that have ended: a living kernel holds the lock on its own."""
    for folder in KERNELS.glob("run-*"):
        try:
            with open(folder / "lock") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except FileNotFoundError:
            if time.time() - folder.stat().st_mtime > 60:
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass


def standard_library_sources(rustc):
    root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    return Path(root, "lib", "rustlib", "src", "rust", "library")


def standard_library(rustc):
    """The sources from which the kernel infers types, less the half it never needs (processor intrinsics, tests), and
    the same crates empty. Each saves three seconds of every start; see `private_folder`."""
    library = standard_library_sources(rustc)
    if not library.exists():
        stop("the sources of the standard library are missing; run `rustup component add rust-src` in this folder")
    trimmed, empty = KERNELS / "rust-src", KERNELS / "rust-src-empty"
    trimmed.mkdir(exist_ok=True)
    for name in ("core", "alloc", "std", "proc_macro"):
        link = trimmed / name
        if not link.is_symlink() or os.readlink(link) != str(library / name):
            link.unlink(missing_ok=True)
            link.symlink_to(library / name)
        (empty / name / "src").mkdir(parents=True, exist_ok=True)
        (empty / name / "src" / "lib.rs").touch()
    return trimmed, empty


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def private_folder(flavour, rustc):
    run = Path(tempfile.mkdtemp(prefix="run-", dir=KERNELS))
    lock = os.open(run / "lock", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.set_inheritable(lock, True)  # the lock lives as long as the kernel
    seed(home(flavour) / "target", run / "target")
    (run / "config").mkdir()
    # The first failed compilation of a session costs evcxr its rich display, and the first `?` is one: spend it here.
    prelude = '[evcxr]\nprelude = \'"1".parse::<u8>()?;\'\n\n'
    (run / "config" / "evcxr.toml").write_text(f"{prelude}[dependencies]\n{dependency(flavour)}\n")
    # These two stand before the real tools, for three reasons. evcxr's first cell has no dependencies, so cargo empties
    # Cargo.lock, and a later cell would resolve to whatever is newest: the pinned versions are put back. And evcxr reads
    # the standard library once for that first cell, which does not need it, and again for the dependency: the sources
    # are empty until it asks for the dependency. And the units of a cell, unlike those of the library, are not optimised
    # across: that would cost every cell a third of its time, and a profile can say so only for all crates at once.
    trimmed, empty = standard_library(rustc)
    (run / "library").symlink_to(empty)
    tools = run / "bin"
    tools.mkdir()
    pinned, name = home(flavour) / "Cargo.lock", dependency(flavour).split()[0]
    script(
        tools / "cargo",
        f"""if [ "$1" = metadata ]; then ln -sfn "{trimmed}" "{run}/library"; fi
if [ "$1" = build ]; then shift; set -- rustc "$@" -- -Clto=off; fi
if [ "$PWD" = "{run}" ] && ! grep -q '^name = "{name}"$' Cargo.lock 2>/dev/null; then cp "{pinned}" Cargo.lock; fi
exec "{real_tool("cargo")}" "$@"
""",
    )
    script(tools / "rustup", f'case "$1 $2" in "which cargo") echo "{tools}/cargo";; "which rustc") echo "{rustc}";; *) exit 1;; esac\n')
    return run


def launch(flavour, connection_file):
    binary = evcxr_binary()
    if not binary.exists():
        stop("the kernel program is not installed; run `make lab` once")
    warm(flavour, quiet=True)
    quietly = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.executable, __file__, "sweep"], start_new_session=True, **quietly)
    rustc = real_tool("rustc")
    run = private_folder(flavour, rustc)
    env = dict(os.environ)
    env.update(
        PROFILE,
        EVCXR_TMPDIR=str(run),
        EVCXR_CONFIG_DIR=str(run / "config"),
        PATH=f"{run / 'bin'}{os.pathsep}{Path(rustc).parent}{os.pathsep}{env.get('PATH', '')}",
        RUST_SRC_PATH=str(run / "library"),
        LASTLAYER_KERNEL=EVCXR_VERSION,
        LASTLAYER_OUT=env.get("LASTLAYER_OUT", str(ROOT)),
        # The kernel fills a gigabyte while it reads types: let its allocator keep what it has, in large pages.
        MIMALLOC_PURGE_DELAY="-1",
        MIMALLOC_ALLOW_LARGE_OS_PAGES="1",
        RUST_LIB_BACKTRACE="0",  # evcxr asks for backtraces, and candle would put one into every message
    )
    if "LASTLAYER_RUN_FILE" in env:  # tells the notebook runner where the cells are compiled
        Path(env["LASTLAYER_RUN_FILE"]).write_text(str(run))
    os.execve(binary, [str(binary), "--control_file", connection_file], env)


def write_spec(folder, flavours=("lastlayer",)):
    """Kernelspecs below `folder`, for JUPYTER_PATH."""
    beside = " ".join(f"{name}@{version}" for name, version in companions().items())
    for flavour in flavours:
        spec = folder / "kernels" / flavour
        spec.mkdir(parents=True, exist_ok=True)
        content = {
            "argv": [sys.executable, str(Path(__file__).resolve()), "launch", "--flavour", flavour, "{connection_file}"],
            "display_name": "Rust (lastlayer)" if flavour == "lastlayer" else f"Rust ({flavour})",
            "language": "rust",
            "interrupt_mode": "message",
            "env": dict(PROFILE, LASTLAYER_FEATURES=" ".join(features()) or "cpu", LASTLAYER_WITH=beside),
        }
        (spec / "kernel.json").write_text(json.dumps(content, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    for name in ("warm", "launch"):
        action = actions.add_parser(name)
        action.add_argument("--flavour", default="lastlayer", choices=("lastlayer", "uncured", "candle"))
        if name == "launch":
            action.add_argument("connection_file")
    spec = actions.add_parser("spec")
    spec.add_argument("folder", type=Path)
    spec.add_argument("--flavour", action="append", default=None)
    actions.add_parser("sweep")
    args = parser.parse_args()
    if args.action == "warm":
        warm(args.flavour)
    elif args.action == "launch":
        launch(args.flavour, args.connection_file)
    elif args.action == "spec":
        write_spec(args.folder, args.flavour or ("lastlayer",))
    else:
        sweep()


if __name__ == "__main__":
    main()
