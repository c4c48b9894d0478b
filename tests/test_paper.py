"""`dngo figure`: figures for a paper, which say what the archive says."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.figure import Figure

import dngo
from dngo.cli import main
from dngo.config import validate
from dngo.errors import UserError
from dngo.report.data import View
from dngo.report.figures import all_compared, all_figures
from dngo.report.paper import KINDS, write
from dngo.report.ranks import ranks, reached
from dngo.study import Study


@pytest.mark.parametrize(
    ("kind", "form"), [*((kind, ".svg") for kind in KINDS), ("course", ".pdf"), ("course", ".png")]
)
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


def test_ranks_count_the_ok_evaluations_of_all_studies(small: Study, tmp_path: Path) -> None:
    other = synthetic.study(tmp_path, iterations=1, size=10, objective={"command": "false"})
    views = [View.of(small.archive), View.of(other.archive)]
    found = np.concatenate(ranks(views))
    values = np.concatenate([np.where(v.ok, v.table.objective, np.nan) for v in views])
    ok = np.isfinite(values)
    np.testing.assert_array_equal(np.isfinite(found), ok)
    assert sorted(found[ok]) == list(range(1, ok.sum() + 1))
    for a, value in zip(found[ok], values[ok], strict=True):
        assert np.sum(values < value) < a <= np.sum(values <= value)
    figure = Figure()
    KINDS["ranks"](figure, views, str, 3.0)
    assert [a.get_xlabel() for a in figure.axes] == [c.name for _, c in views[0].columns]
    drawn = sum(len(dots.get_offsets()) for dots in figure.axes[0].collections)
    assert drawn == ok.sum()  # the first parameter is always active


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_shares_of_a_page_are_those_of_a_paper(small: Study, direction: str) -> None:
    view = replace(View.of(small.archive), direction=direction)
    values, share = reached(view)
    better = np.less_equal if direction == "minimize" else np.greater_equal
    every = np.where(view.ok, view.table.objective, view.sign * np.inf)
    for value, part in zip(values, share, strict=True):
        assert part == pytest.approx(np.mean(better(every, value)))
    figure = {each.key: each.plot for each in all_compared([("a", view)])}["edf"]
    assert set(figure.data[0].x) <= set(values) and figure.data[0].y[-1] == np.float32(share[-1])
    assert (figure.layout.xaxis.autorange == "reversed") == (direction == "maximize")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["course", "--output", "x.jpg"], "x.jpg: the name must end in .pdf, .svg, .png"),
        (
            ["course", "--output", "x.pdf", "--label", "rat=R"],
            "--label rat: is neither a parameter",
        ),
        (["course", "--output", "x.pdf", "--label", "rate"], "must be NAME=VALUE"),
        (["course", "--output", "x.pdf", "--width", "0"], "--width: 0 mm is not between"),
        (["ranks", "OTHER", "--output", "x.pdf"], "no parameter in common"),
    ],
)
def test_a_mistake_is_one_line(
    small: Study, tmp_path: Path, monkeypatch, capsys, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    other = dngo.create("other", {"z": (0, 1)}, folder=tmp_path)
    other.tell(other.ask(2), [1.0, 2.0])
    other.table()
    words = [str(other.path) if word == "OTHER" else word for word in words]
    assert main(["figure", words[0], str(small.archive), *words[1:]]) == 1
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1 and said in told[0]
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


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
