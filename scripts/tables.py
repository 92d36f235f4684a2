"""Makes data/tables/*.csv.gz, the tables of `bundled`, from scikit-learn's copies.

    python3 -m venv .venv && .venv/bin/pip install scikit-learn==1.7.2
    .venv/bin/python scripts/tables.py
"""

import csv
import gzip
import io
from pathlib import Path

from sklearn import datasets

TABLES = Path(__file__).resolve().parent.parent / "data" / "tables"


def write(name, label, columns, rows, labels):
    """One gzip CSV, the same bytes on every run: numbers as written in the source, no time stamp."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, label])
    for row, value in zip(rows, labels, strict=True):
        writer.writerow([*(int(number) if number == int(number) else float(number) for number in row), value])
    (TABLES / f"{name}.csv.gz").write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))


def main():
    TABLES.mkdir(parents=True, exist_ok=True)
    iris = datasets.load_iris()
    columns = [name.removesuffix(" (cm)") for name in iris.feature_names]
    write("iris", "species", columns, iris.data, iris.target_names[iris.target])
    cancer = datasets.load_breast_cancer()
    write("breast_cancer", "diagnosis", cancer.feature_names, cancer.data, cancer.target_names[cancer.target])
    digits = datasets.load_digits()
    write("digits", "digit", [f"pixel {i} {j}" for i in range(8) for j in range(8)], digits.data, digits.target)


if __name__ == "__main__":
    main()
