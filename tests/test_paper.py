"""`dngo figure`: figures for a paper, which say what the archive says."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.figure import Figure

from dngo.cli import main
from dngo.config import validate
from dngo.errors import UserError
from dngo.report.data import View
from dngo.report.figures import all_figures
from dngo.report.paper import KINDS, write
from dngo.study import Study


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", [".pdf", ".svg", ".png"])
def test_a_figure_is_a_file_of_its_kind_and_the_same_each_time(
    small: Study, tmp_path: Path, kind: str, form: str
) -> None:
    view = View.of(small.archive)
    warnings.simplefilter("error", UserWarning)  # of a layout that has no room
    for name in ("first", "again"):
        write(
            kind,
            [view],
            tmp_path / (name + form),
            {"objective": "Delay (ms)", "rate": "Rate (1/s)"},
        )
    first, again = ((tmp_path / (name + form)).read_bytes() for name in ("first", "again"))
    assert first == again
    assert first[:4] == {".pdf": b"%PDF", ".svg": b"<?xm", ".png": b"\x89PNG"}[form]
    if form == ".svg":  # the text is text
        assert ("Rate (1/s)" if kind == "ranks" else "Delay (ms)") in first.decode()
        assert f"{88 / 25.4 * 72:.2f}"[:5] in re.search(r'width="([\d.]+)pt"', first.decode())[1]


def test_the_share_that_reached_a_value_counts_failures(small: Study) -> None:
    view = View.of(small.archive)
    figure = Figure()
    KINDS["edf"](figure, [view], str, 3.0)
    x, y = figure.axes[0].lines[0].get_data()
    values = np.where(view.ok, view.table.objective, np.inf)
    for value, share in zip(x, y, strict=True):
        assert share == pytest.approx(np.mean(values <= value))
    assert y[-1] == view.ok.mean() < 1


def test_the_course_is_that_of_the_best_so_far(small: Study, tmp_path: Path) -> None:
    other = synthetic.study(tmp_path, iterations=1, size=10, objective={"command": "false"})
    figure = Figure()
    KINDS["course"](figure, [View.of(small.archive), View.of(other.archive)], str, 3.0)
    for line, study in zip(figure.axes[0].lines, (small, other), strict=True):
        view = View.of(study.archive)
        np.testing.assert_array_equal(line.get_ydata(), view.best_so_far)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["course", "--output", "x.jpg"], "x.jpg: the name must end in .pdf, .svg, .png"),
        (
            ["course", "--output", "x.pdf", "--label", "rat=R"],
            "--label rat: is neither a parameter",
        ),
        (["course", "--output", "x.pdf", "--label", "rate"], "is to be NAME=VALUE"),
        (["course", "--output", "x.pdf", "--width", "0"], "--width: 0 mm is not between"),
        (["ranks", "TWICE", "--output", "x.pdf"], "ranks: is a figure of one study"),
    ],
)
def test_a_mistake_is_one_line(
    small: Study, tmp_path: Path, monkeypatch, capsys, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    studies = [str(small.archive)] * (2 if "TWICE" in words else 1)
    words = [word for word in words if word != "TWICE"]
    assert main(["figure", words[0], *studies, *words[1:]]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and said in told[0]
    assert list(tmp_path.iterdir()) == []


def test_the_command_writes_one_new_file(small: Study, tmp_path: Path, capsys) -> None:
    output = tmp_path / "course.pdf"
    words = ["figure", "course", str(small.archive), "--output", str(output)]
    assert main(words) == 0 and capsys.readouterr().out == f"{output}: written\n"
    assert main(words) == 1 and "is there already" in capsys.readouterr().err


def test_the_labels_of_a_study_stand_at_the_axes(small: Study, tmp_path: Path) -> None:
    labels = {"objective": "Delay <ms>", "rate": "Rate (1/s)", "alpha": "Alpha (rad)"}
    view = View.of(small.archive)
    view = replace(view, config={**view.config, "labels": labels})
    pages = {each.key: each.plot.to_json() for each in all_figures(view)}
    assert "Delay &lt;ms&gt;" in pages["progress"].encode().decode("unicode_escape")
    assert "Rate (1" in pages["parallel"] and "Alpha (rad)" in pages["importance"]
    figure = Figure()
    KINDS["ranks"](figure, [view], view.label, 3.0)
    assert {a.get_xlabel() for a in figure.axes} >= {"Rate (1/s)", "Alpha (rad)", "depth"}
    write("course", [view], tmp_path / "x.svg")
    assert "Delay &lt;ms&gt;" in (tmp_path / "x.svg").read_text()


def test_a_label_of_nothing_is_refused() -> None:
    document = {"study": "a", "objective": {"command": "true"}, "space": synthetic.SPACE}
    with pytest.raises(UserError, match=r"labels.rat: there is no 'rat'; did you mean 'rate'"):
        validate({**document, "labels": {"rat": "Rate"}})
    labelled = validate({**document, "labels": {"rate": "Rate", "objective": "Delay"}})
    plain = validate(document)
    # What a study looks like is no part of what it is, and archives of before have no such key.
    assert labelled.identity() == plain.identity() and "labels" not in plain.stored()


def test_labels_that_are_written_after_the_last_batch_count(
    small: Study, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    document = json.loads(small.config.resolved()) | {"labels": {"objective": "Delay (ms)"}}
    Path("my.yaml").write_text(json.dumps(document))  # which is YAML, too
    assert main(["figure", "edf", "my.yaml", "--output", "x.svg"]) == 0
    assert "Delay (ms), or less" in Path("x.svg").read_text()
