"""The figures of the pages: those of the file of results, which the measurements write."""

import json
import sys
from argparse import Namespace

import pytest
from benchmarks import figures, results, sure
from benchmarks.published import BEST_UNTRAINED, DNCNN


@pytest.mark.parametrize("page", figures.PAGES, ids=lambda page: page.name)
def test_the_tables_of_the_pages_are_those_of_the_results(page):
    text = page.read_text(encoding="utf-8")
    assert figures.fill(text, results.load()) == text, "run python -m benchmarks.figures"
    assert text.count("<!-- figures:") == text.count("<!-- end of figures -->")
    assert text.count("<!-- figures:") == len(figures.names_in(text))


def test_every_table_is_on_a_page():
    texts = [page.read_text(encoding="utf-8") for page in figures.PAGES]
    used = [name for text in texts for name in figures.names_in(text)]
    assert sorted(used) == sorted(figures.TABLES)


def test_every_figure_has_its_command_and_no_path_of_a_machine():
    text = results.FILE.read_text(encoding="utf-8")
    for runs in json.loads(text).values():
        assert all(run["command"] and run["values"] for run in runs)
    assert "/home" not in text
    assert "/tmp" not in text


def test_another_number_changes_the_table():
    known = results.load()
    page = figures.ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    now = f"{known['quality set12']['best']['25']:.2f}"
    known["quality set12"]["best"]["25"] = 99.99
    filled = figures.fill(text, known)
    assert filled.count("99.99") == 2  # both tables have it
    assert text.replace(now, "") == filled.replace("99.99", "")


def test_what_the_readme_claims():
    """The sentences at its top, which are written by hand."""
    known = results.load()
    text = (figures.ROOT / "README.md").read_text(encoding="utf-8")
    for name, published in BEST_UNTRAINED.items():
        best = known[f"quality {name}"]["best"]
        assert all(best[sigma] > value for sigma, value in published.items()), name
    ours, theirs = known["quality urban100"]["best"]["25"], DNCNN["urban100"]["25"]
    assert f"{ours:.2f} dB, against {theirs:.2f} dB" in text
    seconds = {name: columns.get("seconds at 25") for name, columns in known["speed"].items()}
    assert 0.25 < seconds["standard"] < 0.4  # a third of a second
    assert seconds["bm3d package"] > 20 * seconds["standard"]
    assert seconds["bm3d package"] > 60 * seconds["fast"]
    quality = known["quality set12"]
    assert quality["fast"]["25"] >= quality["bm3d package"]["25"]


def test_runs_replace_what_they_measure_again(tmp_path, monkeypatch):
    options = Namespace(json=tmp_path / "results.json")
    monkeypatch.setattr(
        sys, "argv", ["", "--data", "/some/where", "--json", "f", "--only", "speed"]
    )
    results.record(options, "speed", {"fast": {15: 1.0, 25: 2.0}, "best": {15: 9.0}})
    monkeypatch.setattr(sys, "argv", ["", "--only", "speed"])
    results.record(options, "speed", {"fast": {25: 3.0}})
    assert results.load(options.json) == {"speed": {"fast": {"15": 1.0, "25": 3.0}, "best": {"15": 9.0}}}  # fmt: skip
    first, second = json.loads(options.json.read_text())["speed"]
    assert first["command"] == "python -m benchmarks --data FOLDER --only speed"
    assert second == {"command": "python -m benchmarks --only speed", "values": {"fast": {"25": 3.0}}}  # fmt: skip
    results.record(Namespace(), "speed", {"fast": {25: 4.0}})  # without --json, nothing is recorded
    assert results.load(options.json)["speed"]["fast"]["25"] == 3.0


def test_a_measurement_records_the_figures_of_its_table(tmp_path, monkeypatch, capsys):
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    monkeypatch.setattr(sys, "argv", ["", "--only", "sure"])
    options = Namespace(json=tmp_path / "results.json", draws=2)
    sure.run(options)
    printed = capsys.readouterr().out
    header, rows = figures.TABLES["SURE"](results.load(options.json))
    assert len(header) == 4
    for number in (cell.split(" ± ")[0].replace("−", "-") for row in rows for cell in row[1:]):
        assert number in printed
