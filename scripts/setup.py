#!/usr/bin/env python3
"""Installs what a command needs, once per machine, without root, pinned; says what it does and how long it takes.

`setup.py lab|figures|test|book|bench` makes ready for that command; `setup.py exec PROGRAM …` runs a program of the
virtual environment, with everything that was installed where it looks for it.
Standard library only. Tools live in ~/.cache/lastlayer (or $LASTLAYER_CACHE), builds in target/.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import kernel
from kernel import ROOT, cache_dir, stop

MDBOOK = ("mdbook", "0.5.4", ["--no-default-features", "--features", "search"])
MDBOOK_KATEX = ("mdbook-katex", "0.10.0", [])
EVCXR = ("evcxr_jupyter", kernel.EVCXR_VERSION, [])
LATEX = ("texlive-latex-base", "texlive-latex-recommended")  # Debian's packages

# What each command needs, in the order it is installed.
NEEDS = {
    "lab": ["python", "kernel", "export"],
    "figures": ["python", "kernel", "export"],
    "book": ["python", "book", "browser"],
    "test": ["python", "kernel", "export", "book", "browser", "latex", "c++"],
    "bench": ["python", "kernel", "peers"],
}


def say(sentence):
    print(f"lastlayer: {sentence}", flush=True)


def run(command, failed, **options):
    """Runs a step; on failure stops with a sentence. Its chatter is shown only on a terminal or when it fails."""
    if sys.stdout.isatty():
        if subprocess.run(command, **options).returncode:
            stop(failed)
        return
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        print(done.stdout[-4000:])
        stop(failed)


def check_machine():
    if sys.version_info < (3, 11):
        stop(f"Python 3.11 or later is needed, this is {sys.version.split()[0]}; set PYTHON3=/path/to/a/newer/python3")
    for tool, remedy in (("cargo", "install Rust with rustup"), ("cc", "install a C compiler, e.g. the package gcc")):
        if not shutil.which(tool):
            stop(f"{tool} was not found; {remedy}")
    if " " in str(ROOT):
        stop(f"the folder {ROOT} has a space in its name, which the kernel cannot load libraries from; move the project")


# --------------------------------------------------------------------------------------------------------------------
# Python


def venv(requirements):
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()[:12]
    return cache_dir() / f"{requirements.stem}-{digest}"


def python(requirements):
    return venv(requirements) / "bin" / "python"


def install_python(requirements=ROOT / "scripts" / "requirements.txt", minutes="1 minute"):
    folder = venv(requirements)
    if (folder / "ready").exists():
        return
    say(f"installing Python packages of {requirements.name} (about {minutes}, once)")
    shutil.rmtree(folder, ignore_errors=True)
    run(
        [sys.executable, "-m", "venv", str(folder)],
        "Python could not make a virtual environment; install its venv module, e.g. the package python3-venv",
    )
    run(
        [str(folder / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", "-r", str(requirements)],
        "pip could not install the pinned packages; check the network and run the command again",
    )
    (folder / "ready").touch()


# --------------------------------------------------------------------------------------------------------------------
# Programs written in Rust


def tool_bin(tool):
    return cache_dir() / "tools" / f"{tool[0]}-{tool[1]}" / "bin"


def install_tool(tool, minutes):
    name, version, options = tool
    if (tool_bin(tool) / name).exists():
        return
    say(f"building {name} {version} (about {minutes} minutes on two cores, once per machine)")
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CARGO_PROFILE_", "RUSTFLAGS"))}
    command = ["cargo", "install", name, "--version", version, "--locked", "--root", str(tool_bin(tool).parent), *options]
    run(command, f"{name} did not build; check the network and run the command again", cwd=ROOT, env=env)


def install_toolchain():
    """The pinned compiler and the parts that rust-toolchain.toml names, where rustup does not fetch them by itself."""
    if not shutil.which("rustup"):
        return
    known = subprocess.run(["rustup", "which", "rustc"], cwd=ROOT, capture_output=True).returncode == 0
    if not known:
        say("installing the pinned Rust toolchain (about 1 minute, once)")
        run(["rustup", "toolchain", "install"], "rustup could not install the toolchain; check the network", cwd=ROOT)
    if not kernel.standard_library_sources(kernel.real_tool("rustc")).exists():
        say("installing the sources of the standard library, from which the kernel infers types")
        failed = "rustup could not install rust-src; check the network, or run `rustup component add rust-src` here"
        run(["rustup", "component", "add", "rust-src"], failed, cwd=ROOT)


def install_kernel():
    install_toolchain()
    install_tool(EVCXR, 10)
    kernel.warm()
    kernel.write_spec(kernel.KERNELS / "jupyter")


def export_binary():
    return ROOT / "target" / "release" / "lastlayer-export"


def install_export():
    """Always asks cargo, which does nothing if nothing changed."""
    if not export_binary().exists():
        say("building the figure exporter (about 3 minutes, once)")
    run(["cargo", "build", "--release", "--quiet", "-p", "lastlayer-export"], "the exporter did not build", cwd=ROOT)


def install_book():
    install_tool(MDBOOK, 3)
    install_tool(MDBOOK_KATEX, 2)


def browser():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)


def install_browser():
    if browser():
        return
    say("installing Chromium for the tests of the book (about 2 minutes)")
    if os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        run(["apt-get", "update", "-qq"], "the package lists could not be read", env=quiet)
        run(["apt-get", "install", "-y", "-qq", "chromium"], "the package chromium could not be installed", env=quiet)
    if not browser():
        stop("the tests of the book need Chromium or Chrome on the PATH; install the package chromium")


def has_latex():
    """Whether a paper with our figures and tables can be compiled."""
    if not all(map(shutil.which, ("pdflatex", "bibtex", "kpsewhich"))):
        return False
    return subprocess.run(["kpsewhich", "booktabs.sty", "graphicx.sty"], stdout=subprocess.DEVNULL).returncode == 0


def install_latex():
    """For the test that compiles the pack of figures, which is skipped where there is no LaTeX."""
    if has_latex():
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing LaTeX for the test of the figures (about 1 minute)")
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for step in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *LATEX]):
            subprocess.run(["apt-get", *step], env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not has_latex():
        say(f"THERE IS NO LATEX: figures.tex will not be compiled by the tests; install {' and '.join(LATEX)}")


def install_cpp():
    """For the CUDA device made of the CPU, whose tests are skipped where there is no compiler."""
    if shutil.which("g++"):
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say("installing a C++ compiler for the tests on a CUDA device made of the CPU")
        quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        for step in (["update", "-qq"], ["install", "-y", "-qq", "g++"]):
            subprocess.run(["apt-get", *step], env=quiet, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not shutil.which("g++"):
        say("THERE IS NO C++ COMPILER: nothing is tested on a CUDA device; install g++")


def install_peers():
    install_python(ROOT / "benches" / "requirements.txt", "2 minutes")


INSTALL = {
    "python": install_python,
    "kernel": install_kernel,
    "export": install_export,
    "book": install_book,
    "browser": install_browser,
    "latex": install_latex,
    "c++": install_cpp,
    "peers": install_peers,
}


def environment():
    """What the scripts that run in the virtual environment need to find everything."""
    return {
        "LASTLAYER_CACHE": str(cache_dir()),
        "JUPYTER_PATH": str(kernel.KERNELS / "jupyter"),
        "LASTLAYER_EXPORT": str(export_binary()),
        "MDBOOK_BIN": str(tool_bin(MDBOOK)),
        "MDBOOK_KATEX_BIN": str(tool_bin(MDBOOK_KATEX)),
        "CHROMIUM": browser() or "",
    }


def main():
    command = sys.argv[1] if len(sys.argv) > 1 else ""
    if command == "exec":  # setup.py exec program args...: inside the virtual environment
        program = venv(ROOT / "scripts" / "requirements.txt") / "bin" / sys.argv[2]
        os.execve(program, [str(program), *sys.argv[3:]], {**os.environ, **environment()})
    if command not in NEEDS:
        stop(f"setup.py knows {', '.join(NEEDS)}, not {command!r}")
    check_machine()
    started = time.time()
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(cache_dir() / "setup.lock", "w") as lock:  # two commands at once: the second waits
        fcntl.flock(lock, fcntl.LOCK_EX)
        for need in NEEDS[command]:
            INSTALL[need]()
    if time.time() - started > 20:
        say(f"ready after {(time.time() - started) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
