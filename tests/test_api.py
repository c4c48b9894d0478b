"""The Python API: the same engine as the workflow's, and the numbers of the report."""

from __future__ import annotations

import doctest
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from test_entering import replays, study_of
from toy import ROOT, Toy, advance, finish

import dngo
from dngo import archive
from dngo.archive import verify
from dngo.cli import main
from dngo.errors import UserError

DOCUMENTED = """
study: my
objective: {command: "true"}
space:
  x: {type: float, low: 0, high: 1}
  y: {type: float, low: 0, high: 1}
surrogate: gp
classifier: {networks: {steps: 20, epochs: 1}}
"""


def measure(p: dict[str, float]) -> dict[str, object]:
    """The toy's objective."""
    if p["x"] > 0.95:
        return {"status": "failed"}
    value = (p["x"] - 0.3) ** 2 + (p["y"] - 0.6) ** 2
    return {"objective": value, "small": p["x"] + p["y"] < 1.5}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toy, Toy]:
    """One study by the stages of the workflow, and the same through the API."""
    folder = tmp_path_factory.mktemp("api")
    toys = [Toy(folder / name, iterations=1, batch_size=4, sleep=0.0) for name in ("stages", "api")]
    study = study_of(toys[0])
    for t in range(2):
        advance(study, t)
    study_of(toys[1])
    for _ in range(2):
        path = toys[1].folder / "config.yaml"
        session = dngo.open(path, results=toys[1].folder / "results")
        for point in session.ask():
            session.tell({**point.parameters, **measure(point.parameters)})
        assert session.pending() == []
    return toys[0], toys[1]


def test_whoever_asks_is_given_the_same_points(both: tuple[Toy, Toy]) -> None:
    stages, api = (t.archive for t in both)
    space = archive.read_space(stages)
    for t in range(2):
        a, b = (archive.read_batch(path, t, space) for path in (stages, api))
        assert repr(a.proposals) == repr(b.proposals)  # NaN is not NaN
        assert b.environment["asked"]["through"] == "api" and "asked" not in a.environment
    assert both[1].evaluations() == {}
    assert verify(api) == [] and replays(study_of(both[1])) == ["identical"] * 2
    outcome = archive.read_outcomes(api, archive.read_batch(api, 1, space))[0]
    assert "@" in outcome.metadata["told"]["by"]


def test_a_study_changes_hands(both: tuple[Toy, Toy], tmp_path: Path) -> None:
    shutil.copytree(both[1].folder, tmp_path / "copy")
    config = tmp_path / "copy" / "config.yaml"
    session = dngo.open(config, results=tmp_path / "copy" / "results")
    asked = session.ask(3)
    assert len(asked) == 3 and len(session.pending()) == 3
    with pytest.raises(UserError, match="iteration 2 waits for outcomes"):
        session.ask()
    study = session._engine
    finish(study, 2)  # now the workflow evaluates what was asked for
    assert len(session.table()) == 15 and session.pending() == []
    with (
        study.run_claim.held(wait=1, what="it"),
        pytest.raises(UserError, match="is held by process"),
    ):
        session.ask()


def test_looking_needs_the_archive_alone(both: tuple[Toy, Toy], tmp_path: Path) -> None:
    copy = tmp_path / "mine.h5"
    shutil.copyfile(both[0].archive, copy)
    study = dngo.open(copy)
    table = study.table()
    assert len(table) == 12 and set(table.status) <= {"ok", "infeasible", "failed"}
    observed = study.best()
    assert observed.objective == table.objective[table.status == "ok"].min()
    assert study.best(by="model").feasibility >= 0.5
    points = [{"x": 0.2, "y": 0.3}, {"x": 0.9, "y": 0.9}]
    found = study.predict(points)
    assert (found.low < found["mean"]).all() and (found["mean"] < found.high).all()
    assert np.allclose(study.feasibility(points), found.feasibility)
    assert study.model(1).iteration == 1 and "iteration 1" in repr(study.model(1))
    sliced = study.slice("x")
    row = study.predict({**observed.parameters, "x": float(sliced.frame.x[5])})
    assert np.isclose(row["mean"][0], sliced.frame["mean"][5])
    assert len(sliced.figure.data) > 2 and "<table" in sliced._repr_html_()
    importance = study.importance().frame
    assert list(importance.index) == ["x", "y"] and (importance.objective_total > 0).all()
    assert study.figure("progress").data and "toy" in study._repr_html_() and "toy" in repr(study)
    for call, words in (
        (lambda: study.ask(), "you can only look at it"),
        (lambda: study.slice("z"), "'z' is no parameter"),
        (lambda: study.predict({"x": 2, "y": 0}), "x: 2 is outside 0 to 1"),
        (lambda: study.model(9), "has no iteration 9"),
        (lambda: study.model(0), "iteration 0 has a surrogate"),
        (lambda: study.figure("none"), "no figure 'none'; they are "),
        (lambda: dngo.open(tmp_path / "none.h5"), "there is no such archive"),
    ):
        with pytest.raises(UserError, match=words):
            call()


@pytest.mark.parametrize("end", ["sys.exit()", "os._exit(0)"])
def test_what_is_told_is_on_disk_at_once_and_merged_by_whoever_looks(
    end: str, tmp_path: Path
) -> None:
    (tmp_path / "my.yaml").write_text(DOCUMENTED)
    code = (
        # Other libraries, too, have something to do at the end, and HDF5 may end before that.
        "import os, sys, weakref; known = {0}; weakref.finalize(known, print)\n"
        "import dngo\n"
        "study = dngo.open('my.yaml')\n"
        "for i, point in enumerate(study.ask(2)): study.tell(point, i)\n"
        "assert not study.path.exists()\n"
    )
    words = [sys.executable, "-c", code + end]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert done.stderr == b""
    path = tmp_path / "results/my/archive.h5"
    assert path.exists() == (end == "sys.exit()")
    study = dngo.open(tmp_path / "my.yaml")
    assert study.pending() == [] and path.exists()  # whoever looks merges first
    assert list(study.table().objective[:2]) == [0, 1] and verify(path) == []


def test_what_a_session_was_told_is_read_by_every_command_while_it_goes_on(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(DOCUMENTED + "acquisition: random\n")
    commands = [
        ["status", "--json"],
        ["report"],
        ["best", "--json"],
        ["verify"],
        ["audit", "--all"],
    ]
    commands += [["compare", "--json"], ["export", "--format", "csv", "--output", "table.csv"]]
    commands += [["replay"]]
    session = dngo.open("my.yaml")
    places = itertools.cycle(["my.yaml", "results/my/archive.h5", "results/my"])
    for number, (name, *more) in enumerate(commands, start=1):
        session.tell(session.ask(1), [float(number)])
        assert not session.path.exists() or archive.read_header(session.path).rows == number - 1
        place = next(places) if number > 1 else "my.yaml"
        assert main([name, place, *more]) == 0, name
        assert archive.read_header(session.path).rows == number, name
    assert "7.0" in Path("table.csv").read_text() and session.pending() == []
    capsys.readouterr()


def test_who_may_not_write_or_looks_beside_another_reads_what_is_there(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.yaml").write_text(DOCUMENTED + "acquisition: random\n")
    session = dngo.open("my.yaml")
    session.tell(session.ask(1), [1.0])
    assert len(session.table()) == 1
    session.tell(session.ask(1), [2.0])
    with session._engine.run_claim.held(wait=1.0, what="the study"):
        assert main(["verify", "my.yaml"]) == 0 and len(session.table()) == 1
    # More room than any disk has is needed for a merge.
    for name, value in (("os.access", lambda path, mode: False), ("SPACE", 2**70)):
        with monkeypatch.context() as context:
            context.setattr(f"dngo.study.settling.{name}", value)
            assert main(["verify", "my.yaml"]) == 0 and len(session.table()) == 1
    assert main(["verify", "my.yaml"]) == 0 and len(session.table()) == 2


def test_the_table_has_a_column_for_each_constraint_and_name_of_the_metadata(both) -> None:
    table = dngo.open(both[1].archive).table()
    ran = table.status != "failed"
    assert set(table.constraint_small[ran]) <= {0, 1} and table.constraint_small[~ran].isna().all()
    assert table.metadata_told[0]["by"] and json.loads(table.metadata[0])["told"]


@pytest.mark.full
def test_the_page_is_what_happens(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.yaml").write_text(DOCUMENTED)
    page = str(ROOT / "docs" / "api.md")
    failed, tried = doctest.testfile(page, module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 15 and failed == 0


def test_a_study_shows_only_what_the_page_tells() -> None:
    """Nothing of the engine is a public name: `study.study` was one, with other methods."""
    session = dngo.create(None, {"x": (0, 1)})
    public = {name for name in dir(session) if not name.startswith("_")}
    page = (ROOT / "docs" / "api.md").read_text()
    untold = {name for name in public if not re.search(rf"\b{name}\b", page)}
    assert untold <= {"config", "has_model", "path"}
    assert not hasattr(session, "study")
    assert {name for name in dir(dngo.api.Fitted) if not name.startswith("_")} == {
        *("iteration", "predict", "feasibility")
    }


def test_a_list_of_two_numbers_is_a_choice_and_says_so() -> None:
    """Whoever writes [0, 1] mostly means the range, and would pay for a study of two points."""
    said = r"space.x: \[0, 1\] is a choice .* a range is \(0, 1\)"
    with pytest.warns(UserWarning, match=said) as first:
        session = dngo.create(None, {"x": [0, 1], "y": (0, 1)})
    with pytest.warns(UserWarning, match=said) as second:
        dngo.minimize(lambda x: x, {"x": [0, 1]}, 1, name=None, workers=0)
    assert {each.filename for each in (*first, *second)} == {__file__}
    assert session.config.space["x"].type == "categorical"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dngo.create(None, {"x": dngo.Choice([0, 1]), "y": [1, 2, 4], "z": ["a", "b"]})
    with pytest.raises(UserError, match="several objectives of one point are a dict by name"):
        session.tell(session.ask(1), [1.0, 2.0])


def test_the_report_and_its_figures_from_python(both, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    session = dngo.open(both[1].archive)
    assert "best" in session.report() and not Path("page.html").exists()
    for _ in range(2):  # an earlier page gives way
        assert session.report("page.html") == session.report()
    assert f"<title>Study {session.config.study}</title>" in Path("page.html").read_text()
    Path("mine.html").write_text("mine")
    with pytest.raises(UserError, match=r"mine\.html"):
        session.report("mine.html")
    assert {"course", "edf", "slices"} <= set(dir(session.figures))
    assert session.figures.course().data and session.figures.slices().data
    assert session.figures.course("course.svg", width=60).read_text().startswith("<?xml")
    with pytest.raises(UserError, match="there is no figure 'slice'; they are "):
        session.figures.slice()
