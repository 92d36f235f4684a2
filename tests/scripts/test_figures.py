"""`make figures`: what a notebook depends on, what it owns, and that nothing is done twice."""

import json
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import figures  # noqa: E402


def write_notebook(root, name, *code, prose="words"):
    cells = [{"cell_type": "markdown", "id": "p", "metadata": {}, "source": prose}]
    for i, text in enumerate(code):
        cells.append({"cell_type": "code", "id": f"c-{i}", "metadata": {}, "source": text, "outputs": [], "execution_count": None})
    path = root / "notebooks" / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    return path


def put(root, name, text=""):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


# --------------------------------------------------------------------------------------------------------------------
# Inputs

READS = 'let study = Record::load("../data/records/rate-a.json")?;'


def test_figures_depend_on_code_records_and_library_and_on_nothing_else(tmp_path):
    put(tmp_path, "data/records/rate-a.json", "1")
    put(tmp_path, "data/records/rate-b.json", "1")

    def now(*code, prose="words", library="one"):
        return figures.inputs(write_notebook(tmp_path, "02_rate", *code, prose=prose), library, tmp_path)

    before = now(READS, "x")
    assert now(READS, "x", prose="other words") == before
    put(tmp_path, "data/records/rate-b.json", "2")
    assert now(READS, "x") == before
    assert len({before, now(READS, "y"), now("x", READS), now(READS + "x"), now(READS, "x", library="two")}) == 5
    put(tmp_path, "data/records/rate-a.json", "2")
    assert now(READS, "x") != before


@pytest.mark.parametrize("name", ["Cargo.lock", "src/a.rs", "src/new/b.rs", "data/tables/iris.csv.gz", "tools/export/src/main.rs",
                                  "scripts/notebook.py", "scripts/kernel.py", "rust-toolchain.toml"])  # fmt: skip
def test_the_library_changes_with_its_sources_and_tools(tmp_path, name):
    put(tmp_path, "src/a.rs", "fn a() {}")
    before = figures.library(tmp_path)
    assert figures.library(tmp_path) == before
    put(tmp_path, name, "changed")
    assert figures.library(tmp_path) != before


def test_the_library_changes_with_its_features(tmp_path, monkeypatch):
    monkeypatch.setenv("LASTLAYER_FEATURES", "cpu")
    before = figures.library(tmp_path)
    monkeypatch.setenv("LASTLAYER_FEATURES", "mkl")
    assert figures.library(tmp_path) != before


# --------------------------------------------------------------------------------------------------------------------
# Outputs


@pytest.fixture
def stamps(tmp_path):
    (tmp_path / "figures").mkdir()
    return lambda: figures.Stamps(tmp_path / "stamps", tmp_path / "figures")


def publish(stamps, tmp_path, name, inputs, files):
    staged = tmp_path / "staged"
    for file, text in files.items():
        put(staged, file, text)
    return stamps().publish(name, inputs, staged)


def test_what_was_published_is_fresh_until_a_file_or_the_inputs_change(tmp_path, stamps):
    assert not stamps().fresh("a", "1")
    assert publish(stamps, tmp_path, "a", "1", {"a-1.svg": "x", "tables/a-1.tex": "y"}) == []
    assert (tmp_path / "figures" / "tables" / "a-1.tex").read_text() == "y"
    assert stamps().fresh("a", "1") and not stamps().fresh("a", "2")
    put(tmp_path, "figures/a-1.svg", "changed by hand")
    assert not stamps().fresh("a", "1")
    put(tmp_path, "figures/a-1.svg", "x")
    assert stamps().fresh("a", "1")
    (tmp_path / "figures" / "tables" / "a-1.tex").unlink()
    assert not stamps().fresh("a", "1")


def test_a_run_that_only_took_longer_has_the_same_figures(tmp_path, stamps):
    record = {"seed": 1, "seconds": 2.5, "provenance": {"revision": "a", "device": "cpu"}}
    publish(stamps, tmp_path, "a", "1", {"a-1.svg": "x", "a-1.json": json.dumps(record)})
    put(tmp_path, "figures/a-1.json", json.dumps({**record, "seconds": 3.5, "provenance": {"revision": "b", "device": "cpu"}}))
    assert stamps().fresh("a", "1")
    for other in ({**record, "seed": 2}, {**record, "provenance": {"revision": "a", "device": "cuda"}}, [], "text"):
        put(tmp_path, "figures/a-1.json", json.dumps(other))
        assert not stamps().fresh("a", "1")
    put(tmp_path, "figures/a-1.json", "no JSON")
    assert not stamps().fresh("a", "1")


def test_a_lost_or_changed_export_is_made_again_without_a_run(tmp_path, stamps, monkeypatch):
    def export(files):
        for svg in files:
            put(tmp_path, f"figures/{svg.stem}.pdf", "exported again")

    monkeypatch.setattr(figures, "export", export)
    publish(stamps, tmp_path, "a", "1", {"a-1.svg": "x", "a-1.pdf": "first", "a-2.svg": "x", "a-2.pdf": "first"})
    put(tmp_path, "figures/a-1.pdf", "half of i")
    now = stamps()
    assert now.fresh("a", "1") and now.changed("a") == [tmp_path / "figures" / "a-1.pdf"]
    now.export_again("a")
    assert stamps().changed("a") == [] and (tmp_path / "figures" / "a-1.pdf").read_text() == "exported again"
    assert (tmp_path / "figures" / "a-2.pdf").read_text() == "first"


def test_figures_that_are_no_longer_saved_are_removed_and_other_files_stay(tmp_path, stamps):
    mine = put(tmp_path, "figures/mine.svg", "saved in the lab")
    publish(stamps, tmp_path, "a", "1", {"old.svg": "x", "kept.svg": "x"})
    publish(stamps, tmp_path, "a", "2", {"kept.svg": "x", "new.svg": "x"})
    assert sorted(path.name for path in (tmp_path / "figures").iterdir()) == ["kept.svg", "mine.svg", "new.svg"]
    assert stamps().forget({"b"}) == ["a"]
    assert list((tmp_path / "figures").iterdir()) == [mine] and stamps().forget(set()) == []


def test_two_notebooks_cannot_save_under_one_name(tmp_path, stamps):
    publish(stamps, tmp_path, "a", "1", {"x.svg": "a"})
    (problem,) = publish(stamps, tmp_path, "b", "1", {"x.svg": "b"})
    assert "a" in problem and "b" in problem and "x.svg" in problem
    assert (tmp_path / "figures" / "x.svg").read_text() == "a" and not stamps().fresh("b", "1")


def test_an_interrupted_run_is_run_again_and_owns_its_files(tmp_path, stamps, monkeypatch):
    publish(stamps, tmp_path, "a", "1", {"old.svg": "x"})

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(figures.Stamps, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            publish(stamps, tmp_path, "a", "2", {"new.svg": "x"})
    assert not stamps().fresh("a", "1") and not stamps().fresh("a", "2")
    publish(stamps, tmp_path, "a", "3", {"newest.svg": "x"})
    assert [path.name for path in (tmp_path / "figures").iterdir()] == ["newest.svg"]


def test_only_figures_newer_than_their_exports_are_exported(tmp_path):
    for name in ("done", "changed", "bare"):
        put(tmp_path, f"{name}.svg")
    for name in ("done", "changed"):
        for ending in ("pdf", "png"):
            put(tmp_path, f"{name}.{ending}")
    os.utime(tmp_path / "done.svg", (1, 1))
    later = (tmp_path / "changed.png").stat().st_mtime + 5
    os.utime(tmp_path / "changed.svg", (later, later))
    assert [path.stem for path in figures.unexported(tmp_path)] == ["bare", "changed"]


# --------------------------------------------------------------------------------------------------------------------
# The whole, with a kernel that only writes down what it is asked for


@pytest.fixture
def project(tmp_path, monkeypatch):
    ran = []

    def process(path, mode, out):
        assert mode == "figures"
        ran.append(path.stem)
        source = json.loads(path.read_text())
        put(figures.notebook.EXECUTED, path.name, json.dumps(source))
        for cell in source["cells"][1:]:
            if cell["source"] == "panic":
                return ["cell 1: error"]
            for ending in ("svg", "pdf", "png"):
                put(out, f"figures/{cell['source']}.{ending}", cell["source"])
        return []

    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(figures, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(figures.notebook, "EXECUTED", tmp_path / "executed")
    monkeypatch.setattr(figures.notebook, "process", process)

    def run():
        ran.clear()
        problems = figures.run_changed(sorted((tmp_path / "notebooks").glob("*.ipynb")))
        return list(ran), problems

    return run


def names(folder):
    return sorted(path.stem for path in folder.glob("*.svg"))


def test_nothing_is_done_twice_and_a_change_runs_one_notebook(tmp_path, project, capsys):
    write_notebook(tmp_path, "00_tour", "tour-1", "tour-2")
    write_notebook(tmp_path, "02_rate", "rate-1")
    assert project() == (["00_tour", "02_rate"], [])
    capsys.readouterr()
    assert project() == ([], [])
    assert capsys.readouterr().out.splitlines()[1:] == ["00_tour: unchanged", "02_rate: unchanged"]
    write_notebook(tmp_path, "00_tour", "tour-1", "tour-3")
    assert project() == (["00_tour"], [])
    assert names(tmp_path / "figures") == ["rate-1", "tour-1", "tour-3"]
    (tmp_path / "notebooks" / "00_tour.ipynb").unlink()
    assert project() == ([], [])
    assert names(tmp_path / "figures") == ["rate-1"]


def test_a_notebook_that_fails_keeps_its_figures_and_runs_again(tmp_path, project):
    write_notebook(tmp_path, "00_tour", "tour-1")
    project()
    write_notebook(tmp_path, "00_tour", "tour-2", "panic")
    for _ in range(2):
        ran, problems = project()
        assert ran == ["00_tour"] and len(problems) == 1 and "00_tour.ipynb failed" in problems[0]
        assert names(tmp_path / "figures") == ["tour-1"]


def test_changed_words_reach_the_executed_copy_without_a_run(tmp_path, project):
    path = write_notebook(tmp_path, "00_tour", "tour-1")
    project()
    executed = tmp_path / "executed" / "00_tour.ipynb"
    content = json.loads(executed.read_text())
    content["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "said"}]
    executed.write_text(json.dumps(content))
    write_notebook(tmp_path, "00_tour", "tour-1", prose="better words")
    assert project() == ([], [])
    text = executed.read_text()
    assert "better words" in text and "said" in text and "said" not in path.read_text()
