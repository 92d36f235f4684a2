"""Kernels for the tests: warm, of every flavour, and the runner's own class to drive them."""

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
os.environ["JUPYTER_PATH"] = str(ROOT / "target" / "kernel" / "jupyter")

import kernel as launcher  # noqa: E402
import notebook  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def specs():
    launcher.write_spec(launcher.KERNELS / "jupyter", ("lastlayer", "uncured", "candle"))


@pytest.fixture(scope="session")
def lab():
    """One kernel with the library, shared by all tests that need nothing of their own."""
    launcher.warm(quiet=True)
    with notebook.Kernel() as running:
        running.execute("use lastlayer::prelude::*;")
        yield running


def text_of(kernel, code, name=None):
    """Runs a cell and returns what it printed."""
    outputs, compile_seconds, run_seconds = kernel.execute(code)
    return notebook.Cell(0, outputs, compile_seconds, run_seconds).text(name)
