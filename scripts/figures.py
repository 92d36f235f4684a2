"""Runs the notebooks at full length and makes every figure ready for a paper; `figures.py NAME` exports one figure.

Figures are where notebooks save them: figures/*.svg with .csv and .json, and here .pdf and .png beside them.
"""

import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import notebook
from kernel import ROOT

FIGURES = ROOT / "figures"


def export(files):
    if files and subprocess.run([os.environ["LASTLAYER_EXPORT"], *map(str, files)]).returncode:
        sys.exit("lastlayer: a figure could not be exported; the exporter's message stands above")


def main():
    if len(sys.argv) > 1:
        files = [FIGURES / f"{name}.svg" for name in sys.argv[1:]]
        missing = [file.stem for file in files if not file.exists()]
        if missing:
            sys.exit(f"lastlayer: no figure named {', '.join(missing)} in figures/; run `make figures` first")
        export(files)
    else:
        paths = sorted(notebook.NOTEBOOKS.glob("*.ipynb"))
        print(f"lastlayer: running {len(paths)} notebooks, each at most 2.5 minutes", flush=True)
        failed = [path.name for path in paths if notebook.process(path, "figures")]
        files = sorted(FIGURES.glob("*.svg"))
        export(files)
        if failed:
            sys.exit(f"lastlayer: failed: {', '.join(failed)}")
    names = sorted({file.stem for file in files})
    print(f"lastlayer: {len(names)} figures as svg, pdf, png, csv and json in figures/: {', '.join(names)}")


if __name__ == "__main__":
    main()
