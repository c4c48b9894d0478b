"""A fork: points in the new space come along unchanged, others are named, and the old archive
stays."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mine import Mine
from test_exchange import SPACE, begin, study_in
from toy import advance

from dngo import archive
from dngo.archive import verify
from dngo.batch import STOPPED, Outcome
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.exchange.fork import fork
from dngo.replay import replay
from dngo.study import Study
from dngo.study.paths import Paths
from dngo.waiting import Entry


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begin(study_in(tmp_path_factory.mktemp("old")))


def changed(folder: Path, changes: dict[str, Any], **document: Any) -> Study:
    """The study of a space in which some parameters are others, or gone (None)."""
    space = {n: p for n, p in {**SPACE, **changes}.items() if p is not None}
    return study_in(folder, study="forked", space=space, **document)


def rows(path: Path) -> list[tuple[dict[str, Any], Any]]:
    space = archive.read_space(path)
    batch = archive.read_batch(path, 0, space)
    outcomes = archive.read_outcomes(path, batch)
    return [(p.parameters, o) for p, o in zip(batch.proposals, outcomes, strict=True)]


def inside(name: str, test: Any) -> Any:
    return lambda p: name not in p or test(p[name])


def everywhere(point: dict[str, Any]) -> bool:
    return True


CHANGES: dict[str, tuple[dict[str, Any], Any]] = {
    "narrowed": (
        {"rate": {"type": "float", "low": 1e-3, "high": 1, "log": True}},
        inside("rate", lambda v: v >= 1e-3),
    ),
    "widened": ({"rate": {"type": "float", "low": 1e-7, "high": 9, "log": True}}, everywhere),
    "fixed": ({"warm": {"type": "fixed", "value": True}}, inside("warm", lambda v: v is True)),
    "freed": ({"constant": {"type": "categorical", "choices": ["here", "there"]}}, everywhere),
    "added": ({"z": {"type": "float", "low": 0, "high": 1, "default": 0.25}}, everywhere),
    "category added": (
        {"kind": {"type": "categorical", "choices": ["adam", "sgd, plain", "lbfgs"]}},
        everywhere,
    ),
    "category removed": (
        {"mixed": {"type": "categorical", "choices": ["none", 1, 2.5]}},
        inside("mixed", lambda v: v is not True),
    ),
    "grid": ({"block": {"type": "int", "values": [16, 32]}}, inside("block", lambda v: v != 128)),
    "gone": ({"constant": None}, everywhere),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_lies_in_the_new_space_comes_along(old: Path, tmp_path: Path, change: str) -> None:
    changes, lies = CHANGES[change]
    study = changed(tmp_path, changes)
    before = old.read_bytes()
    found = fork(study, old)
    assert old.read_bytes() == before
    wanted = [(p, o) for p, o in rows(old) if lies(p) and o.status not in ("lost", "withdrawn")]
    forked = rows(study.archive)
    assert len(forked) == len(wanted) and len(found.skipped) == len(rows(old)) - len(wanted)
    for (p, o), (q, r) in zip(wanted, forked, strict=True):
        assert {n: q[n] for n in p if n in q} == {n: p[n] for n in p if n in q}
        assert q.get("z", 0.25) == 0.25
        kept = ("status", "host", "duration", "constraints", "objective")  # NaN is not NaN
        assert repr([getattr(r, n) for n in kept]) == repr([getattr(o, n) for n in kept])
        assert r.metadata["epochs"] == o.metadata["epochs"]
    assert verify(study.archive) == [] and replay(study.archive, 0).verdict == "imported"
    if change in ("narrowed", "fixed", "category removed", "grid"):
        assert any("is" in why and "lost" not in why for why in found.skipped.values())


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(low=st.floats(0.0, 0.35), width=st.floats(0.1, 0.35))
def test_there_and_back_is_a_subset(old: Path, tmp_path_factory, low: float, width: float) -> None:
    """Narrowed and widened again: what is there is what lay within, with the same outcomes."""
    folder = tmp_path_factory.mktemp("there")
    space = {"type": "float", "low": low, "high": low + width}
    narrow = changed(folder / "a", {"dropout": space})
    within = [
        o.metadata["epochs"]
        for p, o in rows(old)
        if low <= p["dropout"] <= low + width and o.status not in ("lost", "withdrawn")
    ]
    if not within:
        with pytest.raises(UserError, match="none of its evaluations lies in the space"):
            fork(narrow, old)
        return
    fork(narrow, old)
    back = changed(folder / "b", {})
    fork(back, narrow.archive)
    assert [o.metadata["epochs"] for _, o in rows(back.archive)] == within
    assert {json.dumps(p, sort_keys=True) for p, _ in rows(back.archive)} <= {
        json.dumps(p, sort_keys=True) for p, _ in rows(old)
    }
    record = json.loads(archive.iteration_attributes(back.archive, 0)["environment"])["import"]
    digests = [archive.read_header(p).digest for p in (old, narrow.archive)]  # type: ignore[union-attr]
    assert record["chain"] == digests and record["archive_digest"] == digests[1]


def test_constraints_of_the_new_study_judge_again_and_unknown_ones_are_named(
    old: Path, tmp_path: Path, capsys
) -> None:
    study = changed(tmp_path, {}, constraints=["quiet", "cheap"])
    words = ["--config", str(tmp_path / "config.yaml"), "--results", study.config.results]
    assert main(["fork", str(old), *words]) == 0
    ran = sum(o.ran for _, o in rows(study.archive))
    assert ran and f"constraints.cheap: is unknown for {ran} of them" in capsys.readouterr().out
    # `small` was what every infeasible one broke.
    assert not np.any(archive.read_table(study.archive).status == "infeasible")


@pytest.mark.parametrize(
    ("changes", "given_", "document", "words"),
    [
        ({"z": {"type": "int", "low": 0, "high": 9}}, {}, {}, "--with z=VALUE"),
        ({}, {"rate": "1"}, {}, "--with rate: earlier points already have values"),
        ({}, {"nothing": "1"}, {}, "--with nothing: is no parameter"),
        ({"rate": None}, {}, {}, "space.rate: is gone, and its values differ"),
        ({}, {}, {"objective": {"command": "true", "direction": "maximize"}}, "is to minimize"),
        ({}, {}, {"constraints": {"small": "<= 3", "quiet": True}}, "small: was true or false in"),
    ],
)
def test_mistakes_begin_nothing(
    old: Path, tmp_path: Path, changes: Any, given_: Any, document: Any, words: str
) -> None:
    study = changed(tmp_path, changes, **document)
    with pytest.raises(UserError, match=words.replace(".", r"\.")) as error:
        fork(study, old, given_)
    assert len(str(error.value).splitlines()) == 1 and not study.archive.exists()


def test_the_command(old: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    document = yaml.safe_load((old.parents[2] / "config.yaml").read_text())
    document["space"]["rate"]["low"] = 1e-3
    document["space"]["z"] = {"type": "int", "low": 0, "high": 9}
    path = tmp_path / "new.yaml"
    path.write_text(yaml.safe_dump({**document, "results": str(old.parents[1])}))
    with pytest.raises(UserError, match=r"`dngo fork .*archive.h5 --config`"):
        Study(load([path])).header()
    path.write_text(yaml.safe_dump({**document, "study": "new"}))
    assert main(["fork", str(old.parent), "--config", "new.yaml", "--with", "z=3"]) == 0
    said = capsys.readouterr()
    assert "left out: rate: " in said.err and "iteration 0 is " in said.out
    study = Study(load([path]))
    assert {p["z"] for p, _ in rows(study.archive)} == {3}
    assert main(["audit", str(study.archive), "--proposal", "0-1"]) == 0
    assert "study made, proposal 0-" in capsys.readouterr().out
    assert main(["fork", str(old), "--config", "new.yaml", "--with", "z=3"]) == 1
    assert "is there already" in capsys.readouterr().err


def test_a_fork_of_another_name_begins_in_the_named_folder_and_what_waits_is_named(
    tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = begin(study_in(tmp_path / "old"))
    point, outcome = rows(path)[0]
    entries = [Entry(point, "user", {}), Entry(point, "imported", {}, outcome)]
    Paths(path.parent).waiting.add(entries)
    assert main(["fork", str(path), "--name", "other", "--results", "new"]) == 0
    assert (tmp_path / "new" / "other" / "archive.h5").exists()
    assert not (path.parents[1] / "other").exists()
    said = capsys.readouterr().out
    assert "name='other', folder='new'" in said
    assert "1 point to evaluate and 1 told outcome wait there" in said


def test_an_option_of_several_values_leaves_the_archive_its_place(
    old: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changed(tmp_path, {"z": {"type": "int", "low": 0, "high": 9}})
    words = ["fork", "--config", "config.yaml", "--results", "new", "--with", "z=3"]
    with pytest.raises(SystemExit):
        main([*words, "z=4"])
    assert "OLD must be given" in capsys.readouterr().err
    assert main([*words, str(old)]) == 0
    assert main([*words, str(old), "--with=z=4"]) == 1
    assert "z is given twice" in capsys.readouterr().err


def ran(outcome: Outcome) -> Outcome:
    stop = {"stop": {"kind": "median"}} if outcome.status == STOPPED else {}
    return replace(outcome, curve=[[1.0, float(outcome.slot), 0.5], [2.0, None, None]], **stop)


def test_what_evaluations_reported_as_they_ran_comes_along(tmp_path: Path) -> None:
    old, study = begin(study_in(tmp_path / "old"), ran), changed(tmp_path / "new", {})
    fork(study, old)
    for (_, was), (_, is_) in pairs(old, study.archive):
        assert (is_.curve, is_.stop) == (was.curve, was.stop) and is_.curve
    assert verify(study.archive) == []
    # Nobody reported a new objective at these steps.
    objectives = {"error": "minimize", "epochs": "maximize"}
    two = changed(tmp_path / "two", {}, objectives=objectives, objective=NAMELESS)
    fork(two, old)
    assert not any(o.curve for _, o in rows(two.archive)) and verify(two.archive) == []


# ---- a problem that grows -----------------------------------------------------------------------


def measured(folder: Path, **metadata: Callable[[int], Any]) -> Path:
    """An archive whose evaluations have metadata, each a function of the slot."""

    def change(outcome: Any) -> Any:
        said = {name: of(outcome.slot) for name, of in metadata.items()}
        return replace(outcome, metadata={n: v for n, v in said.items() if v is not None})

    return begin(study_in(folder), change)


TWO = {"error": "minimize", "speed": "maximize"}
NAMELESS = {"command": "true"}


def pairs(old: Path, new: Path) -> list[tuple[Any, Any]]:
    """The parameters and outcome of each evaluation, as they were and as they came along."""
    came = [r for r in rows(old) if r[1].status not in ("lost", "withdrawn")]
    return list(zip(came, rows(new), strict=True))


def test_an_objective_is_added_from_metadata(tmp_path: Path, capsys) -> None:
    old = measured(tmp_path / "old", speed=lambda i: 100.0 + i)
    study = changed(tmp_path / "new", {}, objectives=TWO, objective=NAMELESS)
    words = ["--config", str(tmp_path / "new/config.yaml"), "--results", study.config.results]
    assert main(["fork", str(old), *words]) == 0
    assert "objectives.speed: taken from the metadata of 2" in capsys.readouterr().out
    for (_, was), (_, is_) in pairs(old, study.archive):
        assert is_.status == was.status and math.isnan(is_.objective)
        wanted = {"error": was.objective, "speed": was.metadata["speed"]} if was.ran else {}
        assert {n: v for n, v in is_.objectives.items() if was.ran} == wanted
        assert is_.noises.get("error", math.nan) == pytest.approx(was.noise, nan_ok=True)
    assert verify(study.archive) == [] and replay(study.archive, 0).verdict == "imported"
    assert study.plan().iterations[0] == 1, "nothing is evaluated again"


def test_the_objective_without_a_name_is_named(tmp_path: Path) -> None:
    both = measured(tmp_path / "old", speed=float, error=lambda i: 5.0)
    study = changed(tmp_path / "new", {}, objectives=TWO, objective=NAMELESS)
    with pytest.raises(
        UserError, match=r"which of error, speed is the objective that .* --objective"
    ):
        fork(study, both)
    with pytest.raises(UserError, match="its aim is to minimize, and study forked has to"):
        fork(study, both, objective="speed")
    fork(study, both, objective="error")
    values = [(was.objective, is_.objectives["error"]) for (_, was), (_, is_) in
              pairs(both, study.archive) if was.ran]  # fmt: skip
    assert values and all(a == b for a, b in values)
    # A name alone is no new problem.
    alone = changed(tmp_path / "alone", {}, objectives={"loss": "minimize"}, objective=NAMELESS)
    fork(alone, both)
    assert [o.objectives.get("loss") for _, o in rows(alone.archive) if o.ran] == [
        a for a, _ in values
    ]


@pytest.mark.parametrize(
    ("metadata", "document", "words"),
    [
        (
            {"speed": lambda i: None if i == 2 else 1.0 * i},
            {"objectives": TWO, "objective": NAMELESS},
            r"objectives.speed: is new, and the metadata of 0-2, .* .1 in all",
        ),
        (
            {"heat": lambda i: "high" if i == 3 else 2},
            {"constraints": {"small": True, "quiet": True, "heat": "<= 9"}},
            "proposal 0-3: constraint heat, which must be <= 9, must be",
        ),
    ],
)
def test_metadata_that_do_not_serve_begin_nothing(
    tmp_path: Path, metadata: Any, document: Any, words: str
) -> None:
    old = measured(tmp_path / "old", **metadata)
    study = changed(tmp_path / "new", {}, **document)
    with pytest.raises(UserError, match=words) as error:
        fork(study, old)
    assert len(str(error.value).splitlines()) == 1 and not study.archive.exists()


def test_constraints_are_added_from_metadata(tmp_path: Path) -> None:
    old = measured(tmp_path / "old", heat=float, whole=lambda i: i != 4 if i % 3 else None)
    held = {"small": True, "quiet": True, "heat": "<= 9", "whole": True}
    study = changed(tmp_path / "new", {}, constraints=held)
    found = fork(study, old)
    assert found.said.startswith("constraints.heat: taken from the metadata of ")
    for (_, was), (_, is_) in pairs(old, study.archive):
        heat = was.metadata["heat"]
        assert is_.numbers == {"heat": heat} and is_.constraints["heat"] == int(heat <= 9)
        assert is_.constraints.get("whole") == (
            int(was.metadata["whole"]) if "whole" in was.metadata else None
        )
        if was.ran:
            broken = heat > 9 or is_.constraints.get("whole") == 0 or was.status == "infeasible"
            assert is_.status == ("infeasible" if broken else "ok")
            assert is_.objective == was.objective
    assert verify(study.archive) == []


EPOCHS = {"type": "int", "low": 0, "high": 99}


@pytest.mark.parametrize(
    ("section", "given_", "wanted"),
    [
        (EPOCHS, {}, lambda i: None if i % 4 == 1 else i),
        ({**EPOCHS, "default": 50}, {}, lambda i: 50 if i % 4 == 1 else i),
        ({**EPOCHS, "default": 50}, {"epochs": "7"}, lambda i: 7),
    ],
)
def test_a_parameter_is_added_with_the_value_that_it_had(
    tmp_path: Path, section: Any, given_: Any, wanted: Callable[[int], Any]
) -> None:
    old = measured(tmp_path / "old", epochs=lambda i: None if i % 4 == 1 else i)
    study = changed(tmp_path / "new", {"epochs": section})
    found = fork(study, old, given_)
    came = [o.slot for _, o in rows(old) if o.status not in ("lost", "withdrawn")]
    values = [wanted(slot) for slot in came if wanted(slot) is not None]
    assert [p["epochs"] for p, _ in rows(study.archive)] == values
    assert ("epochs has no value" in found.skipped.values()) == (len(values) < len(came))
    assert ("space.epochs: taken from" in found.said) == (not given_)
    assert verify(study.archive) == []


SPEEDY = """
import json, os, sys
p = json.load(sys.stdin)
print(json.dumps({"objective": p["x"], "constraints": {"small": p["y"] < 0.9},
                  "metadata": {"speed": p["x"] * p["y"]}}))
with open("runs.txt", "a") as stream:
    stream.write(f"{p['x']} {p['y']}\\n")
"""
BOTH = SPEEDY.replace(
    '"objective": p["x"]', '"objectives": {"error": p["x"], "speed": p["x"] * p["y"]}'
)


def test_a_running_study_goes_on_with_two_objectives_and_repeats_nothing(mine: Mine) -> None:
    mine.write(**{"objective.py": SPEEDY})
    study = mine.study
    study.begin()
    advance(study, 0)
    runs = (mine.folder / "runs.txt").read_text().splitlines()
    old = study.archive.rename(mine.folder / "old.h5")
    mine.options["more"] = "objectives: {error: minimize, speed: maximize}"
    mine.write(**{"objective.py": BOTH})
    text = (mine.folder / "my.yaml").read_text().replace("study: mine", "study: mine_2")
    (mine.folder / "my.yaml").write_text(text)
    assert main(["fork", str(old), "--config", str(mine.folder / "my.yaml")]) == 0
    grown = Study(load([mine.folder / "my.yaml"]))
    grown.begin()
    advance(grown, 1)
    every = (mine.folder / "runs.txt").read_text().splitlines()
    assert every[: len(runs)] == runs and len(every) == len(set(every)) == len(runs) + 2
    table = archive.read_table(grown.archive)
    assert np.isfinite(table.objectives["speed"]).all() and len(table) == len(every)
    assert verify(grown.archive) == []


def test_an_import_of_the_export_names_the_one_way(tmp_path: Path, capsys) -> None:
    old = measured(tmp_path / "old", speed=lambda i: 100.0 + i)
    table = tmp_path / "table.csv"
    assert main(["export", str(old), "--format", "csv", "--output", str(table)]) == 0
    study = study_in(tmp_path / "new", study="grown", objectives=TWO, objective=NAMELESS)
    words = ["--config", str(tmp_path / "new/config.yaml"), "--results", study.config.results]
    capsys.readouterr()
    assert main(["import", str(table), *words]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "its metadata have speed: `dngo fork` begins a study with the archive" in line
    assert main(["fork", str(old), *words]) == 0
    assert "speed: taken from the metadata of" in capsys.readouterr().out
