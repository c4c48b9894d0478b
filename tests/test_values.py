"""Values are exact: distinct values stay distinct, and ranges in which that is impossible are
refused."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, assume, example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from values import ENTRANCES, tried

from dngo import derive
from dngo.acquisition.candidates import around, neighbours
from dngo.api import open_study
from dngo.audit import audit_all
from dngo.batch import Outcome, write_outcomes
from dngo.cli import main
from dngo.config import validate
from dngo.errors import UserError
from dngo.exchange.fork import fork
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row
from dngo.space import Space
from dngo.space.parameters import text
from dngo.space.types import AnyParameter, parameters_of_archive
from dngo.storage.digest import digest_parameters
from dngo.study import Study

SPACE = TypeAdapter(dict[str, AnyParameter])
MOST = 2**53
EXAMPLES = int(os.environ.get("DNGO_FUZZ_EXAMPLES", "300"))


def space_of(**parameters: dict[str, Any]) -> Space:
    return Space(SPACE.validate_python(parameters))


def decimals(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers as people write them, of a few digits, and any others."""
    few = st.builds(
        lambda digits, power: float(f"{digits}e{power}"),
        st.integers(-9999, 9999),
        st.integers(-320, 308),
    )
    near = st.builds(lambda d, p: float(f"{d}e{p}"), st.integers(-9999, 9999), st.integers(-6, 9))
    return (near | few | st.floats(allow_nan=False, allow_infinity=False)).filter(
        lambda x: low <= x <= high
    )


@st.composite
def ranges(draw: st.DrawFn) -> dict[str, Any]:
    """Ranges of numbers, many of which nobody could calculate with."""
    log = draw(st.booleans())
    largest = 1.7976931348623157e308
    if draw(st.booleans()):
        whole = st.integers(-100, 100) | st.integers(-MOST - 2, MOST + 2)
        low = abs(draw(whole)) + 1 if log else draw(whole)
        wide = st.integers(1, 100) | st.integers(1, 10**9) | st.integers(1, 2 * MOST)
        high = low + draw(wide)
        step = draw(st.none() | st.integers(1, 100) | st.integers(1, MOST))
        return {"type": "int", "low": low, "high": high, "step": step, "log": log}
    low = draw(decimals(5e-324 if log else -largest, largest))
    high = draw(
        decimals(low, largest) | st.integers(1, 10**7).map(lambda n: low + n * math.ulp(low))
    )
    assume(low < high < math.inf)
    steps = decimals(5e-324, largest) | st.integers(1, 10**9).map(lambda n: (high - low) / n)
    return {"type": "float", "low": low, "high": high, "step": draw(st.none() | steps), "log": log}


FEW = {"type": "float", "low": 0, "high": 1, "log": False, "step": None}


@settings(max_examples=EXAMPLES, deadline=None)
@given(ranges(), st.integers(0, 2**32))
@example(FEW | {"low": 1.6e308, "high": 1.7e308}, 0)
@example(FEW | {"high": 5e-324}, 0)
@example(FEW | {"step": 1 / 3}, 0)
@example(FEW | {"step": 1 / 49}, 0)
@example(FEW | {"low": 5e8, "high": 5e8 + 2000, "step": 0.5}, 0)
@example(FEW | {"high": 100.0, "step": 0.01}, 0)
@example(FEW | {"low": 1e-200, "high": 1e200, "log": True}, 0)
@example({"type": "int", "low": 0, "high": 2**32 - 1, "step": None, "log": False}, 0)
@example({"type": "int", "low": 0, "high": 100000007, "step": 7, "log": False}, 0)
@example({"type": "int", "low": MOST - 9, "high": MOST, "step": None, "log": False}, 0)
@example({"type": "int", "low": -MOST, "high": MOST, "step": 2**20 - 1, "log": False}, 0)
@example({"type": "int", "low": 1, "high": 10**13, "step": None, "log": True}, 0)
def test_a_range_is_refused_or_every_value_in_it_is_exact(p: dict[str, Any], seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            space = space_of(x=p)
        except ValidationError as error:
            (mistake,) = error.errors()
            assert mistake["type"] == "value_error" and len(mistake["msg"]) < 250
            return
        rng = np.random.default_rng(seed)
        v = space.sample(np.concatenate([[[0.0], [0.5], [1.0]], rng.random((40, 1))]))
        hold(space, p, v[:, 0])


@pytest.mark.parametrize("high", [6, 2**32 - 1, 2**40])
@pytest.mark.parametrize("more", [{"type": "int"}, {"type": "float", "step": 1.0}])
def test_the_neighbours_in_a_range_need_no_list_of_its_values(high: int, more: dict) -> None:
    space = space_of(n={"low": 0, "high": high, **more})
    for at in (0, 1, high // 2, high - 1, high):
        found = neighbours(space, np.array([[float(at)]]))[:, 0]
        assert found.tolist() == [max(at - 1, 0), min(at + 1, high)]
    near = around(space, np.full((1, 1), high // 2), 100, np.random.default_rng(0))
    assert (near == np.rint(near)).all() and (near != high // 2).all()


def hold(space: Space, p: dict[str, Any], v: np.ndarray) -> None:
    """The laws of exact values, for samples v (n,) of one range."""
    (column,) = space.columns
    low, high = p["low"], p["high"]
    assert ((v >= low) & (v <= high)).all()
    if not (p["log"] and p["step"]):  # of which all but one may lie at one end of the scale
        assert len(set(v.tolist())) >= min(column.levels or 20, 3)  # no degenerate design
    step = p["step"] or (1 if p["type"] == "int" else None)
    if step is not None:
        start, width = Fraction(repr(low)), Fraction(repr(step))
        k = [round((Fraction(x) - start) / width) for x in v.tolist()]
        # The float nearest to a decimal number; to the end of the range where a rounded step, as of
        # 1/3, just misses it.
        exact = [float(start + i * width) for i in k]
        ulps = np.abs(v - exact) / np.spacing(max(abs(low), abs(high)))
        last = (v == high) & (np.abs(v - exact) <= 1.1e-9 * step)
        assert (last | (ulps <= (column.levels or 0) * (p["type"] == "float"))).all()
        # The neighbours of a value are other values, for the model too.
        beside = space.round(np.clip(v + float(step), low, high)[:, None])[:, 0]
        other = beside != v
        assert other.any() or column.levels == 1
        u = space.unit(np.stack([v, beside]).reshape(-1, 1)).reshape(2, -1)
        assert (u[0] != u[1])[other].all()
        assert np.array_equal(space.from_unit(space.unit(v[:, None]))[:, 0], v)
    assert np.array_equal(space.round(v[:, None])[:, 0], v)
    points = space.to_parameters(v[:, None])
    assert space.from_parameters(points)[:, 0].tobytes() == v.tobytes()
    for given_ in (
        points,
        [{"x": repr(q["x"])} for q in points],
        [{"x": np.array(q["x"])[()]} for q in points],
    ):
        found, problems = points_of(space, [Row("", q) for q in given_])
        assert (found, problems) == (points, {})
    assert np.isfinite(space.encode(v[:, None])).all()
    (default,) = space.to_parameters(space.defaults())
    assert low <= default["x"] <= high


@pytest.mark.parametrize(
    ("p", "words"),
    [
        (FEW | {"low": -1e308, "high": 1.7e308}, "numbers beyond 1e+300"),
        (FEW | {"low": 1e-320, "log": True}, "log: true needs values from 1e-300 on"),
        (FEW | {"high": 1e-310}, "too narrow to calculate with"),
        (FEW | {"low": 1.0, "high": 1 + 2**-50}, "only 4 floating-point numbers lie between"),
        (FEW | {"low": 1.0, "high": 1 + 2**-50, "log": True}, "only 4 floating-point numbers"),
        (FEW | {"high": 1e16, "step": 0.5}, "0.5 apart cannot be told apart in floating point"),
        (FEW | {"low": 1e6, "high": 1e16, "step": 1e3, "log": True}, "on a logarithmic scale"),
        ({"type": "int", "low": 0, "high": MOST}, f"its {MOST + 1} values are more than the model"),
        ({"type": "int", "low": 0, "high": MOST + 1}, "integers beyond 2^53"),
        ({"type": "int", "low": 0, "high": 10**400, "default": 10**399}, "integers beyond 2^53"),
        ({"type": "int", "low": 1, "high": 10**14, "log": True}, "on a logarithmic scale"),
        ({"type": "float", "values": [1.0, 1 + 2**-52]}, "too close to be told apart"),
        ({"type": "float", "values": [1e5, 1e5 + 2**-36], "log": True}, "too close"),
        ({"type": "float", "values": [-1e308, 1.7e308]}, "numbers beyond 1e+300"),
        (FEW | {"step": 0.25, "default": 0.2500001}, "not on the grid; next to it is 0.25"),
        (FEW, ""),
        (FEW | {"low": -1e300, "high": 1e300}, ""),
        (FEW | {"low": 1e-300, "high": 1e300, "log": True}, ""),
        (FEW | {"high": 2e-300}, ""),
        ({"type": "int", "low": MOST - 9, "high": MOST}, ""),
        ({"type": "int", "low": 0, "high": 2**49 - 1}, ""),
        ({"type": "int", "low": -MOST, "high": MOST, "step": 2**20 - 1}, ""),
        ({"type": "int", "values": [MOST - 1, MOST]}, ""),
        ({"type": "float", "values": [1e200, 1e210, 1e250], "log": True}, ""),
    ],
)
def test_what_a_range_may_be(p: dict[str, Any], words: str) -> None:
    document = {"study": "s", "objective": {"command": "true"}, "space": {"x": p}}
    if words:
        with pytest.raises(UserError, match=re.escape(words)) as error:
            validate(document)
        assert "\n" not in str(error.value) and "space.x: " in str(error.value)
        return
    values = [q.parameters["x"] for q in derive.design(validate(document))]
    assert len({*values}) >= min(len(values), len(p.get("values", values)))


@pytest.mark.parametrize(
    ("p", "given_", "found"),
    [
        (FEW | {"low": 0.1, "high": 0.7, "step": 0.1}, 0.7000000000000001, 0.7),
        (FEW | {"low": 0.1, "high": 0.7, "step": 0.1}, 0.30000000000000004, 0.3),
        (FEW | {"low": -1, "high": 1, "step": 0.1}, 5.6e-17, 0.0),
        (FEW | {"step": 1 / 3}, 0.333333333333, 1 / 3),
        (FEW | {"step": 1 / 3}, 1 - 2**-53, 1.0),
        (FEW | {"low": 5e8, "high": 5e8 + 9, "step": 0.5}, 5e8 + 0.25, None),
        (FEW | {"step": 0.1}, 0.3000001, None),
        (FEW, 1 + 2**-52, None),  # of a continuous range every number is its own
        ({"type": "int", "low": 0, "high": 2**32}, 4093973500.4, None),
        ({"type": "int", "low": 0, "high": 2**32}, "4093973500.0", 4093973500),
        ({"type": "int", "low": 0, "high": 9}, 2.9999999999999996, 3),
        ({"type": "int", "low": MOST - 9, "high": MOST}, str(MOST + 1), None),
        ({"type": "int", "low": 0, "high": 9}, 10**400, None),
        ({"type": "int", "low": 0, "high": 10**11, "step": 10**10}, 10**10 + 1, None),
        ({"type": "float", "values": [0.0, 0.3]}, 5.6e-17, 0.0),
        ({"type": "float", "values": [1e-10, 1.0], "log": True}, 5e-10, None),
    ],
)
def test_rounding_is_forgiven_on_grids_and_nothing_else(
    p: dict[str, Any], given_: Any, found: Any
) -> None:
    points, problems = points_of(space_of(x=p), [Row("", {"x": given_})])
    if found is None:
        assert re.search(r"is outside .* to |is not on the grid; next to it is ", problems[0])
    else:
        assert not problems and repr(points[0]["x"]) == repr(found)


def test_a_value_that_an_earlier_release_wrote_beside_its_grid_is_known_again() -> None:
    space = space_of(x=FEW | {"high": 100.0, "step": 0.01})
    before, now = space.keys(np.array([[64.07000000000001], [64.07]]))
    assert before == now and space.keys(np.array([[64.08]]))[0] != now


# ---- choices ------------------------------------------------------------------------------------


ALIKE = [
    [1, 1.0],
    ["true", True],
    [False, "FALSE", "x"],
    ["1", 1],
    [2.5, "2.50"],
    ["a", 1000, " 1e3"],
    [0.0, -0.0],
    [10**20, 1e20],
]
APART = [
    [1, True, "yes"],
    ["1", "1.0", "01"],
    ["true", "True", 1],
    [2**53, 2**53 + 1, 2**60 + 1],
    ["nan", "inf", 1],
    [0.1, 0.1 + 2**-56, "0,1"],
    ["a", "A", "a ", "ä"],
    ["=1", "+1", "-1", "@x", 5],
]


@pytest.mark.parametrize("kind", ["categorical", "ordinal"])
@pytest.mark.parametrize("choices", ALIKE, ids=repr)
def test_choices_that_look_alike_are_refused_but_in_old_archives(kind: str, choices: list) -> None:
    name = "choices" if kind == "categorical" else "values"
    with pytest.raises(ValidationError, match="look alike"):
        space_of(c={"type": kind, name: choices})
    space = Space(dict(parameters_of_archive({"c": {"type": kind, name: choices}})))
    points = space.to_parameters(np.arange(len(choices), dtype=float)[:, None])
    assert [repr(p["c"]) for p in points] == [repr(c) for c in choices]
    if repr(choices) != "[0.0, -0.0]":
        assert space.from_parameters(points)[:, 0].tolist() == [*range(len(choices))]


@pytest.mark.parametrize("choices", APART, ids=repr)
def test_other_choices_are_told_apart_as_text_and_as_values(choices: list) -> None:
    space = space_of(c={"type": "categorical", "choices": choices}, x=FEW | {"step": 0.5})
    points = [{"c": choice, "x": 0.5} for choice in choices]
    cells = [{"c": text(choice), "x": "0.5"} for choice in choices]
    for given_ in (points, cells):
        found, problems = points_of(space, [Row("", q) for q in given_])
        assert [repr(p) for p in found] == [repr(p) for p in points] and not problems
    assert space.from_parameters(points)[:, 0].tolist() == [*range(len(choices))]


def test_an_archive_of_before_with_choices_that_look_alike_is_read(tmp_path: Path, capsys) -> None:
    document = {
        "study": "alike",
        "objective": {"command": "true"},
        "space": {"c": {"type": "categorical", "choices": ["1", 1, True, "true"]}},
        "design": {"size": 4},
        "results": str(tmp_path),
    }
    study = Study(validate(document, is_archived=True))
    batch = study.propose(0, None, study.iteration(0) / "proposals.json")
    for i, p in enumerate(batch.proposals):
        digest = digest_parameters(p.parameters)
        write_outcomes(study.paths.outcome_file(p), [Outcome(0, i, digest, "ok", float(i))])
    study.evaluate(0, 0, study.iteration(0) / "outcomes" / "0.json")
    study.merge(0, study.iteration(0) / "receipt.json")
    given_ = [p.parameters["c"] for p in batch.proposals]
    assert sorted(map(repr, given_)) == sorted(map(repr, ["1", 1, True, "true"]))
    path = str(study.archive)
    for command in (["verify"], ["best"], ["audit", "--all"], ["replay", "--iteration", "0"]):
        assert main([*command[:1], path, *command[1:]]) == 0, capsys.readouterr()
    assert "identical" in capsys.readouterr().out
    for found in (
        [row["parameter_c"] for row in audit_all(study.archive)],
        open_study(path).table()["parameter_c"],
    ):
        assert [repr(c) for c in found] == [repr(c) for c in given_]
    with pytest.raises(UserError, match=r"space\.c: (1 and '1'|'1' and 1) look alike"):
        validate(document)
    # What only looks like a choice of the new space does not come along.
    new = document | {"study": "new", "space": {"c": {"type": "categorical", "choices": [1, "x"]}}}
    fork(Study(validate(new)), study.archive)
    kept = [row["parameter_c"] for row in audit_all(tmp_path / "new" / "archive.h5")]
    assert [repr(c) for c in kept] == ["1"]


# ---- conditions ---------------------------------------------------------------------------------


def conditional(**active_if: dict[str, Any]) -> dict[str, Any]:
    """A study of which some parameters, m and child, wait for others."""
    space: dict[str, Any] = {
        "n": {"type": "int", "low": 1, "high": 9},
        "m": {"type": "int", "low": 0, "high": 100, "step": 5},
        "q": {"type": "float", "low": 0, "high": 1, "step": 0.25},
        "x": {"type": "float", "low": 0, "high": 1},
        "g": {"type": "int", "values": [1, 4, 9]},
        "b": {"type": "boolean"},
        "child": {"type": "boolean"},
    }
    for name, condition in active_if.items():
        space[name]["active_if"] = condition
    return {"study": "s", "objective": {"command": "true"}, "space": space}


def some_are_active(document: dict[str, Any]) -> bool:
    """Whether the child is there in some points of the space, and not in all."""
    space = validate(document).search_space
    child = next(j for j, c in enumerate(space.columns) if c.name == "child")
    v = space.sample(np.random.default_rng(0).random((2000, space.k)))
    return bool(0 < np.isfinite(v[:, child]).sum() < 2000)


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("n: 2.5", "n never has the value 2.5; it has the whole numbers from 1 to 9"),
        ("m: [5, 7]", "m never has the value 7; it has the values 0, 5, 10, ..., 100"),
        ("q: 0.2500001", "q never has the value 0.2500001; it has the values 0, 0.25, 0.5, ..., 1"),
        ("x: 0.5", "x is continuous, and no condition can wait for 0.5 exactly"),
        ("g: 2", "g never has the value 2; its values are [1, 4, 9]"),
        ("n: 12", "n never has the value 12; it ranges from 1 to 9"),
        ("b: 1", "b never has the value 1; it is true or false"),
        ("n: []", "names no value: never active"),
        ("n: [2.0, 3]", ""),
        ("q: 0.7500000000000001", ""),
        ("g: 4", ""),
    ],
)
def test_a_condition_waits_for_a_value_that_there_is(wanted: str, words: str) -> None:
    parent, _, value = wanted.partition(": ")
    document = conditional(child={parent: json.loads(value)})
    if not words:
        assert some_are_active(document)
        return
    with pytest.raises(UserError, match=re.escape(f"space.child.active_if.{parent}: {words}")):
        validate(document)
    if any(word in words for word in ("it has", "continuous", "no value")):
        validate(document, is_archived=True)  # as releases before took it


@pytest.mark.parametrize(
    ("first", "second", "active"),
    [
        ({"n": 1}, {"n": 2, "m": 5}, False),
        ({"n": [1, 2]}, {"n": [2, 3], "m": 5}, True),
        ({"q": 0.75}, {"q": 0.7500000000000001, "m": 5}, True),
        ({"b": True}, {"b": False, "m": 5}, False),
    ],
)
def test_conditions_that_exclude_those_of_a_parent_are_refused(
    first: dict, second: dict, active: bool
) -> None:
    document = conditional(m=first, child=second)
    if active:
        assert some_are_active(document)
        return
    with pytest.raises(UserError, match=r"space\.child\.active_if: .* leave [nb] no value"):
        validate(document)
    validate(document, is_archived=True)


# ---- What is given is archived, to the last bit, through every entrance (DNGO_VALUES_SPACES=200 tries many more)

SPACES = int(os.environ.get("DNGO_VALUES_SPACES", "1"))


@pytest.mark.parametrize("entrance", ENTRANCES)
@settings(max_examples=SPACES, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_values_given_are_values_archived(entrance: str, seed: int) -> None:
    assert not tried(seed, 12, entrance)
