"""Whatever comes in, in any way: the right value, or one line that refuses it."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import entrances
import numpy as np
import pytest
from entrances import UNREADABLE, Said, archived, command, study_at
from test_exchange import begin

import dngo
from dngo import archive
from dngo.batch import Outcome
from dngo.cli import main
from dngo.errors import UserError
from dngo.exchange.fork import fork
from dngo.outcomes import NAMES
from dngo.retry import retry
from dngo.study import Study

CONSTRAINTS = {"small": True, "heat": "<= 350"}
GOOD: Said = {"objective": 0.25, "small": True, "heat": 341.5}
LEFT_OUT = object()
ALONE = dict.fromkeys(GOOD, LEFT_OUT)


def config_in(folder: Path, **changes: Any) -> Path:
    usual = {"constraints": CONSTRAINTS, "surrogate": "gp", "acquisition": "random"}
    return entrances.config_in(folder, **{**usual, **changes})


def study_in(folder: Path, **changes: Any) -> Study:
    return study_at(config_in(folder, **changes))


def imported(config: Path) -> Outcome:
    (outcome,) = archived(config)
    return outcome


ENTRANCES: dict[str, entrances.Entrance] = {
    name: getattr(entrances, name)
    for name in (
        *("report", "function", "tell_python", "tell_dict", "tell_frame", "tell_set", "tell_file"),
        *("import_csv", "import_parquet", "import_optuna"),
    )
}
REPORTS = {"report", "function"}
TEXT = {"tell_set", "tell_file", "import_csv"}  # there all is text
PYTHON = {"function", "tell_python", "tell_dict"}
TYPED = {"report", *PYTHON}
ALL = {*ENTRANCES}
# An Optuna study has numbers as objectives, and attributes of any name, which nobody needs to know.
OPTUNA = {"import_optuna"}
OURS, TOLD = ALL - OPTUNA, ALL - REPORTS
GIVEN = OURS & TOLD
# Where it is said, what changes of `GOOD`, and what becomes of it: the words of a refusal, or values.
Case = tuple[set[str], Said, Any]
CASES: list[Case] = [
    (ALL, {}, {"status": "ok", "objective": 0.25}),
    (ALL, {"small": False}, {"status": "infeasible", "objective": 0.25}),
    (ALL, {"small": 0}, {"status": "infeasible"}),
    (ALL, {"heat": 350.5}, {"status": "infeasible", "numbers": {"heat": 350.5}}),
    # the objective
    (OURS - {"tell_frame"}, {"objective": math.nan}, {"status": "invalid"}),
    (ALL, {"objective": math.inf}, {"status": "invalid"}),
    ({"tell_frame"}, {"objective": math.nan}, "there is no objective"),
    (TEXT, {"objective": ""}, "there is no objective"),
    (GIVEN, {"objective": LEFT_OUT}, "objective"),
    # A run that ends well with a part of what it was asked for keeps that part.
    (REPORTS, {"objective": LEFT_OUT}, {"status": "invalid", "numbers": {"heat": 341.5}}),
    (OURS, {"objective": LEFT_OUT, "objektive": 0.25}, "objekti?ve|no objective"),
    (OURS, {"objective": "much"}, "objective.*'much'"),
    (REPORTS, {"objective": "0.3"}, "objective must be a number, but is text"),
    (GIVEN, {"objective": "0.3"}, {"objective": 0.3}),
    (OURS, {"objective": "0,25"}, "objective.*'0,25'"),
    (TEXT, {"objective": "np.float64(0.25)"}, r"print\(float\(x\)\)"),
    (OURS, {"objective": True}, "objective.*(true|True)"),
    (TYPED, {"objective": [0.25, 1]}, "objective|2 values"),
    (PYTHON, {"objective": np.array([0.25])}, {"objective": 0.25}),
    (PYTHON, {"objective": Decimal("0.25")}, {"objective": 0.25}),
    (PYTHON | {"tell_frame"}, {"objective": np.float32(0.25)}, {"objective": 0.25}),
    (PYTHON, {"objective": np.ma.array([0.25], mask=[True])}, {"status": "invalid"}),
    (TYPED, {"objective": 10**400}, "objective.*larger"),
    # constraints
    (ALL, {"small": LEFT_OUT}, "small"),
    (ALL, {"heat": LEFT_OUT}, "heat"),
    (ALL, {"small": LEFT_OUT, "heat": LEFT_OUT}, "constraints"),
    (
        TYPED,
        {**ALONE, "objective": 0.25, "constraints": {"smal": True, "heat": 1}},
        "small is missing, 'smal' is unknown; did you mean 'small'",
    ),
    (
        TYPED,
        {**ALONE, "objective": 0.25, "constraints": {"small": False, "heat": 1}},
        {"status": "infeasible", "numbers": {"heat": 1.0}},
    ),
    (ALL, {"small": "perhaps"}, "small.*'perhaps'"),
    (ALL, {"small": 2}, "small.*2"),
    (ALL - TEXT, {"heat": True}, "heat.*must be a number"),
    (OURS, {"heat": math.nan}, {"status": "invalid", "objective": 0.25}),
    (ALL, {"heat": math.inf}, {"status": "infeasible", "objective": 0.25}),
    (ALL, {"heat": "hot"}, "heat.*'hot'"),
    # names
    (GIVEN, {"comment": 1}, "comment"),
    (REPORTS, {"comment": 1}, {"status": "ok", "metadata": {"comment": 1}}),
    (GIVEN, {"parameter_z": 1}, "parameter_z"),
    # noise
    (ALL, {"noise": 0.5}, {"noise": 0.5}),
    (ALL, {"noise": 0}, {"noise": 0.0}),
    (OURS, {"noise": math.nan}, {"status": "ok", "noise": math.nan}),
    (TOLD, {"noise": -1}, "noise: -1 is not a standard deviation"),
    (REPORTS, {"noise": -1}, {"status": "ok", "objective": 0.25}),
    (TOLD, {"noise": math.inf}, "noise: inf is not a standard deviation"),
    (TOLD, {"noise": "loud"}, "noise.*'loud'"),
    # what a report does not say
    (TOLD, {"duration": 2.5}, {"duration": 2.5}),
    (TOLD, {"duration": -5}, "duration: -5 is not a number of seconds"),
    (TOLD, {"duration": math.inf}, "duration: inf is not"),
    (TOLD, {"started": 1.7e9}, {"started": 1.7e9}),
    (TOLD, {"started": "2023-11-14T22:13:20+00:00"}, {"started": 1.7e9}),
    (
        {"tell_python", "tell_dict"},
        {
            "started": np.datetime64("2024-01-01T00:00:00.000000000"),
            "finished": date(2024, 1, 1),
            "duration": timedelta(minutes=1),
        },
        {"started": 1704067200.0, "finished": 1704067200.0, "duration": 60.0},
    ),
    # The clock was set back in autumn.
    (
        TOLD,
        {"started": 1.7e9, "finished": 1.6e9},
        {"status": "ok", "started": math.nan, "finished": math.nan, "duration": math.nan},
    ),
    (TOLD, {"started": 1e300}, "started: 1e[+]300 is not a time"),
    (TOLD, {"started": 1.7e12}, "in seconds since 1970"),
    (TOLD, {"started": "20240101"}, "started.*not a time"),
    (TOLD, {"finished": "yesterday"}, "finished: 'yesterday' is not a time"),
    (TOLD, {"status": "done"}, "status: 'done' is not one of"),
    (REPORTS, {"status": "ok"}, "unknown name 'status'"),
    (TOLD, {"status": "ok", "small": False}, "status is ok"),
    # By an earlier bound.
    (
        TOLD,
        {"status": "infeasible", "message": "broke heat"},
        {"status": "ok", "objective": 0.25, "message": ""},
    ),
    (TOLD, {"status": "ok", "heat": 351}, {"status": "infeasible"}),
    (TOLD, {"status": "failed"}, "it has an objective"),
    (
        TOLD - {"tell_file", "import_csv", "import_parquet"},
        {"status": "failed", **ALONE},
        {"status": "failed"},
    ),
    (TEXT, {"status": "failed", **dict.fromkeys(GOOD, "")}, {"status": "failed"}),
    (TOLD, {"message": "two\nlines \x1b[31mred\x07"}, {"message": "two lines \ufffd[31mred\ufffd"}),
    # metadata
    (ALL - {"import_parquet"}, {"metadata": {"epochs": 9}}, {"metadata": {"epochs": 9}}),
    (ALL, {"metadata": "a note"}, {"metadata": {"metadata": "a note"}}),
    (
        TOLD - {"import_parquet"} - OPTUNA,
        {"metadata": {"told": "mine", "imported_from": "a lab"}},
        {"status": "ok"},
    ),
    (
        PYTHON - {"tell_frame"},
        {"metadata": {1: Path("/x"), "1": np.arange(2)}},
        {"metadata": {"1": [0, 1], "1 (int)": "/x"}},
    ),
]


# Entrances that read alike: each case comes through one of them, in turn.
ALIKE = [("tell_set", "tell_file", "import_csv"), ("tell_python", "tell_dict")]


def tried(i: int, among: set[str]) -> list[str]:
    """The entrances through which the i-th case comes."""
    turns = [[name for name in alike if name in among] for alike in ALIKE]
    idle = {name for turn in turns for j, name in enumerate(turn) if j != i % len(turn)}
    return [name for name in ENTRANCES if name in among - idle]


@pytest.mark.parametrize(
    ("entrance", "case"),
    [
        pytest.param(entrance, case, id=f"{entrance}-{i}-{'-'.join(case[1])}")
        for i, case in enumerate(CASES)
        for entrance in tried(i, case[0])
    ],
)
def test_each_entrance_takes_the_right_value_or_refuses_it(
    tmp_path: Path, entrance: str, case: Case
) -> None:
    _, changes, expected = case
    said = {n: v for n, v in {**GOOD, **changes}.items() if v is not LEFT_OUT}
    config = config_in(tmp_path)
    try:
        (outcome,) = ENTRANCES[entrance](config, [said])
        words = outcome.message if outcome.message.startswith(UNREADABLE) else ""
    except UserError as error:
        words = str(error)
    if isinstance(expected, str):
        assert re.search(expected, words)
        assert len(words.splitlines()) == 1 and words.isprintable()
        assert not list(tmp_path.rglob("archive.h5")) and not study_at(config).entries()
        return
    assert not words
    if "told" in changes.get("metadata", {}):
        kept = json.dumps(outcome.metadata)
        assert "mine" in kept and "a lab" in kept
    for name, value in expected.items():
        found = getattr(outcome, name)
        if name == "metadata":
            found = {k: v for k, v in found.items() if k not in ("told", "imported_from")}
        if isinstance(value, float) and math.isnan(value):
            assert math.isnan(found)
        else:
            assert found == value, name


# ---- of points in flight --------------------------------------------------------------------------


@pytest.fixture
def flying(tmp_path: Path) -> dngo.Session:
    session = dngo.open(config_in(tmp_path))
    assert len(session.ask()) == 4
    return session


HELD = {"small": True, "heat": 1.0}
SECOND = object()  # the proposal itself


def test_an_id_is_its_proposal_with_its_parameters_or_without(flying: dngo.Session) -> None:
    points = {p.id: p for p in flying.pending()}
    for row in (
        {"id": "0-0", "objective": 1.0},
        {"id": "0-1", **points["0-1"].parameters, "objective": 1.0},
        {"id": "0-2", "x": points["0-2"].parameters["x"], "objective": 1.0},
    ):
        told = flying.tell(row, **HELD)
        assert told.concluded == [row["id"]] and not told.waiting
    told = flying.tell(points["0-3"], 1.0, **HELD)
    assert told.concluded == ["0-3"] and len(flying.table()) == 4


def test_a_point_that_is_proposed_again_is_told_by_its_id(flying: dngo.Session) -> None:
    flying.tell({"id": "0-0", "status": "failed"})
    for i, point in enumerate(flying.pending()):
        flying.tell(point, float(i), **HELD)
    retry(flying._engine)
    (again,) = flying.ask(1)
    assert again.source == "retry" and flying.tell(again, 1.0, **HELD).concluded == [again.id]
    assert flying.pending() == [] and list(flying.table().status) == ["failed", *["ok"] * 4]


@pytest.mark.parametrize(
    ("given", "outcome", "words"),
    [
        (
            ({"id": "0-1", "x": 0.123, "y": 0.5, "objective": 1.0},),
            HELD,
            "id 0-1: x is .* there, not 0.123, y is .* there, not 0.5",
        ),
        (({"id": "0-9", "objective": 1.0},), HELD, "0-9: there is no such proposal in flight"),
        (({"id": "first", "objective": 1.0},), HELD, "'first' is neither a proposal"),
        (({"id": "0-1", "objektive": 1.0},), HELD, "'objektive'; did you mean 'objective'"),
        (({"id": "0-1"},), {}, "there is no objective"),
        (({"idd": "0-1", "objective": 1.0},), HELD, "unknown name 'idd'; did you mean 'id'"),
        ((SECOND,), {}, "there is no objective"),
        ((SECOND, -100.0), {}, "constraints must be"),
        (([{"id": "0-1"}, SECOND], [1.0, 2.0]), HELD, "is there twice"),
        (({"id": "0-1", "objective": 1.0}, 2.0), HELD, "is given in a point and as an argument"),
        (({"id": "0-1", "constraints": HELD}, 2.0), HELD, "'small' is there twice"),
        ((["0-0", "0-1"], {1.0, 2.0}), HELD, "a set has no order; give a list"),
        (({"0-0", "0-1"}, [1.0, 2.0]), HELD, "a set has no order; give a list"),
    ],
)
def test_a_mistake_ends_no_point_in_flight(
    flying: dngo.Session, given: tuple[Any, ...], outcome: dict[str, Any], words: str
) -> None:
    second = flying.pending()[1]
    point, *rest = given
    point = [second if p is SECOND else p for p in point] if isinstance(point, list) else point
    with pytest.raises(UserError, match=words):
        flying.tell(second if point is SECOND else point, *rest, **outcome)
    assert len(flying.pending()) == 4 and flying._engine.entries() == []


def test_the_command_knows_ids_too(tmp_path: Path, flying: dngo.Session, capsys) -> None:
    config = str(tmp_path / "config.yaml")
    words = ["tell", "--config", config, "--set", "id=0-2", "small=true", "heat=1", "objective=3"]
    assert main(words) == 0 and "0-2: already has its outcome" in capsys.readouterr().out
    assert main(words) == 1 and "0-2: has its outcome: ok" in capsys.readouterr().err
    assert main([*words[:-1], "objective=3", "objective=4"]) == 1
    assert "objective is given twice" in capsys.readouterr().err
    (tmp_path / "m.csv").write_text("id,objective,small,heat\n0-1,0.5,true,2\n0-3,0.25,1,400\n")
    assert main(["tell", "--config", config, str(tmp_path / "m.csv")]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{n}: already has its outcome" for n in ("0-1", "0-3")
    ]
    assert [p.id for p in flying.pending()] == ["0-0"]


# ---- names ----------------------------------------------------------------------------------------

CLASH = {"type": "float", "low": 0, "high": 1}
CLASHES = [
    *(({"space": {n: CLASH}}, f"space.{n}") for n in (*NAMES, "id")),
    ({"constraints": ["noise"]}, "constraints.noise"),
    ({"constraints": ["x"]}, "constraints.x: is also the name of a parameter"),
    ({"space": {"constraint_small": CLASH}}, "is the name of another one's column"),
]


def test_no_study_begins_whose_names_can_be_mistaken(tmp_path: Path) -> None:
    (tmp_path / "told.csv").write_text("x,y,objective\n0.5,0.5,1\n")
    for changes, words in CLASHES:
        path = config_in(tmp_path, **changes)
        with pytest.raises(UserError, match=rf"config\.yaml:\d+: .*{words}"):
            command(["check", str(path)])
    with pytest.raises(UserError, match=words):
        dngo.open(path)
    with pytest.raises(UserError, match=words):
        command(["import", "told.csv", "--config", str(path)])
    assert not (tmp_path / "results" / "taken").exists()


OLD = {n: {"type": "float", "low": 0, "high": 1} for n in ("x", "noise", "duration")}


def old_study(folder: Path, **more: Any) -> Study:
    flags = ["small", "quiet"]
    return study_in(folder, **{"space": OLD, "constraints": flags, "design": {"size": 28}, **more})


@pytest.fixture
def begun(tmp_path: Path) -> dngo.Session:
    """A study of before, with parameters that are called as columns of outcomes are."""
    begin(old_study(tmp_path, constraints=["small", "quiet", "x"], iterations=2))
    return dngo.open(tmp_path / "config.yaml")


def test_a_study_of_before_goes_on_and_takes_nothing_for_another(begun: dngo.Session) -> None:
    point = {"x": 0.125, "noise": 0.25, "duration": 0.5}
    held = {"constraint_x": False, "small": True, "quiet": True}
    told = begun.tell({**point, **held, "objective": 1.0})
    (entry,) = told.waiting
    assert entry.parameters == point and entry.outcome is not None
    assert math.isnan(entry.outcome.noise) and math.isnan(entry.outcome.duration)
    assert entry.outcome.status == "infeasible" and entry.outcome.constraints["x"] == 0
    # With a prefix the name alone is the outcome's.
    other = {f"parameter_{n}": 0.75 for n in OLD}
    (entry,) = begun.tell({**other, **held, "noise": 0.5, "objective": 1.0}).waiting
    assert entry.outcome is not None and entry.outcome.noise == 0.5
    assert entry.parameters == dict.fromkeys(OLD, 0.75)
    with pytest.raises(UserError, match="noise: is given in a point and as an argument"):
        begun.tell({**point, "x": 0.2, "objective": 1.0}, noise=0.1, **held)
    (asked,) = begun.ask(1)
    assert begun.tell(asked, 1.0, noise=0.5, **{**held, "constraint_x": True}).concluded
    begun.table()  # what is told is merged when somebody looks
    batch = archive.read_batch(begun.path, 1, begun._engine.space)
    (outcome, *_) = archive.read_outcomes(begun.path, batch)
    assert (outcome.noise, outcome.status) == (0.5, "ok")


def test_an_export_of_a_study_of_before_is_told_as_it_was(tmp_path: Path) -> None:
    first, second = (old_study(tmp_path / name, seed=seed) for seed, name in enumerate("ab"))
    begin(first)
    begin(second)
    output, config = tmp_path / "old.csv", str(tmp_path / "b" / "config.yaml")
    command(["export", str(first.archive), "--format", "csv", "--output", str(output)])
    with pytest.raises(UserError, match=r"is in the archive with its outcome.*--ignore id"):
        command(["tell", "--config", config, str(output)])
    words = ["tell", "--config", config, str(output), "--ignore", "id", "--skip-invalid"]
    command(words)
    batch = archive.read_batch(first.archive, 0, first.space)
    told = list(zip(batch.proposals, archive.read_outcomes(first.archive, batch), strict=True))[1:]
    entries = second.entries()
    assert [e.parameters for e in entries] == [p.parameters for p, _ in told]
    for entry, (_, outcome) in zip(entries, told, strict=True):
        assert entry.outcome is not None and entry.outcome.metadata["epochs"] == outcome.slot
        for name in ("status", "objective", "constraints", "noise", "duration"):
            one, other = getattr(entry.outcome, name), getattr(outcome, name)
            assert one == other or (math.isnan(one) and math.isnan(other)), name
        said = " ".join(outcome.message.split())
        assert entry.outcome.message == (said or "broke small" * (outcome.status == "infeasible"))


# ---- points alone ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ({"x": 0.5, "y": 0.5, "objective": 1.0}, "is no parameter; outcomes are entered by"),
        ({"x": 0.5, "y": 0.5, "noise": 1.0}, "noise is no parameter"),
        ({"x": 0.5, "y": 0.5, "xx": 1.0}, "unknown name 'xx'; did you mean 'x'"),
        ({"id": "0-1"}, "id is no parameter"),
        ({"x": 0.5, "parameter_x": 0.25, "y": 0.5}, "'x' is there twice"),
        ({"x": 0.5}, "y has no value"),
        ({"x": "1_0", "y": 0.5}, "x: '1_0' is not a number"),
        ({"x": np.array([0.1, 0.2]), "y": 0.5}, "x: array.* is not a number"),
        ({"x": 10**400, "y": 0.5}, "x: .* is outside 0 to 1"),
        (5, "a point is a dict such as {'x': 0.5}, or a proposal, and not 5"),
        (["0-1"], "a point is a dict such as {'x': 0.5}, or a proposal, and not '0-1'"),
    ],
)
def test_what_is_no_point_is_not_added(tmp_path: Path, points: Any, words: str) -> None:
    session = dngo.open(config_in(tmp_path))
    with pytest.raises(UserError, match=words) as error:
        session.add(points)
    assert len(str(error.value).splitlines()) == 1 and session._engine.entries() == []


@pytest.mark.parametrize("kind", [Decimal, Fraction, np.float64])
def test_numbers_of_other_types_are_choices_too(tmp_path: Path, kind: Any) -> None:
    space = {
        "c": {"type": "categorical", "choices": ["a", 2.5, 3]},
        "o": {"type": "ordinal", "values": [1, 2, 4]},
        "n": {"type": "int", "low": 0, "high": 2**48},
        "f": {"type": "fixed", "value": 0.5},
    }
    session = dngo.open(config_in(tmp_path, space=space))
    session.add({"c": kind("2.5"), "o": kind("4"), "n": kind(str(2**48 - 1)), "f": kind("0.5")})
    (entry,) = session._engine.entries()
    assert entry.parameters == {"c": 2.5, "o": 4, "n": 2**48 - 1, "f": 0.5}
    for value in (kind("2.25"), Decimal("1e999999"), Decimal("inf"), Decimal("sNaN")):
        with pytest.raises(UserError, match=r"c: .* is not one of|c has no value"):
            session.add({"c": value, "o": 1, "n": 1, "f": 0.5})


def test_a_path_that_no_file_has_is_refused() -> None:
    with pytest.raises(UserError, match="no file can have NUL in its name"):
        dngo.open("a\0b")


def test_what_is_no_whole_number_of_things_is_refused(tmp_path: Path) -> None:
    session = dngo.open(config_in(tmp_path))
    session.tell(session.ask(np.int64(2)), [1.0, 2.0], **HELD)
    calls = {"n": session.ask, "count": session.top, "iteration": session.model}
    for number in ("3", 1.5, True, [2], math.nan):
        for name, call in calls.items():
            with pytest.raises(UserError, match=f"{name} must be a whole number, not "):
                call(number)


@pytest.mark.parametrize("name", ["kind", "flag", "rank"])
def test_what_is_no_choice_is_refused(tmp_path: Path, name: str) -> None:
    space = {
        "kind": {"type": "categorical", "choices": ["a", "b"]},
        "flag": {"type": "boolean"},
        "rank": {"type": "ordinal", "values": [1, 2]},
    }
    session = dngo.open(config_in(tmp_path, space=space))
    for value in (["a"], {}, np.array(["a", "b"]), date(2024, 1, 1), object(), 1j):
        with pytest.raises(UserError, match=f"{name}: .* is not one of") as error:
            session.add({"kind": "a", "flag": True, "rank": 1, name: value})
        assert len(str(error.value).splitlines()) == 1


def test_a_name_that_is_none_is_refused_of_a_prediction(tmp_path: Path) -> None:
    session = dngo.open(config_in(tmp_path, acquisition="mcei"))
    for n in (4, 1):
        session.tell(session.ask(n), [float(i) for i in range(n)], **HELD)
    assert len(session.predict(session.table())) == 5
    with pytest.raises(UserError, match="unknown name 'another'"):
        session.predict({"x": 0.5, "y": 0.5, "another": 1})


@pytest.mark.parametrize("form", ["csv", "parquet", "frame", "set"])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, form: str) -> None:
    config, file = str(config_in(tmp_path, constraints={})), tmp_path / f"told.{form}"
    names, values = ["x", "y", "x", "objective"], [0.1, 0.2, 0.3, 1.0]
    given = [str(file)]
    if form == "csv":
        file.write_text("x,y,x,objective\n0.1,0.2,0.3,1\n")
    elif form == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as parquet

        columns = [pa.array([value]) for value in values]
        parquet.write_table(pa.Table.from_arrays(columns, names), file)
    elif form == "set":
        given = ["--set", *(f"{n}={v}" for n, v in zip(names, values, strict=True))]
    tell: Callable[[], Any] = lambda: command(["tell", "--config", config, *given])  # noqa: E731
    if form == "frame":
        import pandas

        frame = pandas.DataFrame([values], columns=names)
        tell = lambda: dngo.open(config).tell(frame)  # noqa: E731
    with pytest.raises(UserError, match=r"two columns called 'x'|x is given twice"):
        tell()


def test_columns_that_mean_nothing_are_named_and_can_be_left_out(tmp_path: Path) -> None:
    config = str(config_in(tmp_path, constraints={}))
    (tmp_path / "t.csv").write_text("x,y,objektive,loss,\n0.1,0.2,7,1,\n")
    words = ["import", str(tmp_path / "t.csv"), "--config", config, "--objective", "loss"]
    with pytest.raises(UserError, match=r"'objektive'; did you mean .*--ignore objektive"):
        command(words)
    with pytest.raises(UserError, match=r"--ignore objective: .* has no such column; did you mean"):
        command([*words, "--ignore", "objective"])
    # The file after the option is a file, no column.
    command(
        ["import", "--config", config, "--objective", "loss", "--ignore", "objektive", words[1]]
    )
    assert imported(Path(config)).objective == 1.0
    with pytest.raises(UserError, match="--objective x: is a parameter"):
        command(["tell", str(tmp_path / "t.csv"), "--config", config, "--objective", "x"])


# ---- what earlier releases let in -----------------------------------------------------------------


def test_what_an_old_archive_holds_goes_on_and_out(tmp_path: Path, capsys) -> None:
    """Noise below zero, times beyond the calendar and messages with control characters: told before."""
    wrong = {"noise": -1.0, "duration": -5.0, "started": 1e300, "finished": 1e300}

    def spoil(outcome: Outcome) -> Outcome:
        message = "no\x1b[2J luck" if outcome.message else ""
        return replace(outcome, **wrong, message=message)  # type: ignore[arg-type]

    old = old_study(tmp_path)
    begin(old, spoil)
    row = int(np.flatnonzero(archive.read_table(old.archive).status == "invalid")[0])
    for words in (["status", str(tmp_path)], ["audit", str(old.archive), "--proposal", f"0-{row}"]):
        assert main(words) == 0
        said = capsys.readouterr().out
        assert "luck" in said and "\x1b" not in said
    for form in ("csv", "optuna", "ro-crate"):
        output = tmp_path / f"out.{form}"
        command(["export", str(old.archive), "--format", form, "--output", str(output)])
    # A fork keeps the names, too, and what nobody can mean is unknown in it.
    new = old_study(tmp_path, study="new")
    assert fork(new, old.archive).outcomes["ok"] > 0
    batch = archive.read_batch(new.archive, 0, new.space)
    for outcome in archive.read_outcomes(new.archive, batch):
        assert all(math.isnan(getattr(outcome, name)) for name in wrong)
        assert outcome.message.isprintable()
    more = {**OLD, "message": {"type": "float", "low": 0, "high": 1, "default": 0.5}}
    with pytest.raises(UserError, match=r"^space\.message: is the name of a value in an outcome"):
        fork(old_study(tmp_path, study="newer", space=more), old.archive)


@pytest.mark.parametrize("form", ["csv", "parquet", "optuna"])
def test_an_export_is_where_it_was_asked_for_and_is_read_again_however_long(
    tmp_path: Path, form: str
) -> None:
    name = "a?mode=ro#a%41" + os.fsdecode(b"caf\xe9")
    folder = tmp_path / name
    session = dngo.open(config_in(folder, design={"size": 1}))
    session.tell(session.ask(), [0.5], **HELD, metadata={"log": "x" * 200_000})
    there, table = sorted(tmp_path.iterdir()), folder / f"{name}.{form}"
    path = str(session.path)
    assert main(["export", path, "--format", form, "--output", str(table)]) == 0
    assert main(["replay", path]) == 0
    assert sorted(tmp_path.iterdir()) == there
    other = config_in(tmp_path / "other")
    assert main(["import", "--config", str(other), str(table)]) == 0
    found = imported(other)
    assert found.objective == 0.5 and found.metadata["log"] == "x" * 200_000
