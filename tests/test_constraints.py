"""Known constraints: what an expression means, and that every point drawn or moved keeps them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing import model_of, propose
from toy import FEW as LITTLE
from toy import advance

from dngo.acquisition import History, Pick, design
from dngo.acquisition import candidates as cand
from dngo.acquisition.keys import NoKeys
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.state import BatchState
from dngo.archive import read_table, verify
from dngo.cli import main
from dngo.config import load, validate
from dngo.errors import UserError
from dngo.space import ExpressionError, Space
from dngo.space.parameters import Boolean, Categorical, Fixed, Float, Int, Ordinal
from dngo.study import Study


def floats(k: int, **options: Any) -> dict[str, Any]:
    return {
        f"x{i}": Float(type="float", **{"low": 0, "high": 1, **options}) for i in range(1, k + 1)
    }


def everything() -> dict[str, Any]:
    return {
        "rate": Float(type="float", low=1e-5, high=1e-1, log=True),
        "x": Float(type="float", low=-1, high=1),
        "n": Int(type="int", low=1, high=64),
        "m": Int(type="int", low=1, high=512, log=True),
        "kind": Categorical(type="categorical", choices=["a", "b", 3]),
        "deep": Boolean(type="boolean"),
        "size": Ordinal(type="ordinal", values=[8, 16, 32]),
        "gamma": Float(type="float", low=0, high=1, active_if={"kind": ["b", 3]}),
        "lambda": Float(type="float", low=0, high=1),
        "four": Fixed(type="fixed", value=4),
        "mode": Fixed(type="fixed", value="fast"),
    }


POINT = {"rate": 1e-3, "x": -0.5, "n": 6, "m": 12, "kind": "b", "deep": True, "size": 16}
POINT |= {"gamma": 0.25, "lambda": 0.75}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n < m", True),
        ("m <= n", False),
        ("m % n == 0", True),
        ("m // n + 1 == 3 and n * m <= 72", True),
        ("1 < n < 6", False),
        ("not 1 < n < 6", True),
        ("kind == 'b'", True),
        ("kind in ('a', 3)", False),
        ("kind not in ['a', 3] and n in (4, 6)", True),
        ("deep", True),
        ("not deep or x >= 0", False),
        ("deep == false or size == n + 10", True),
        ("size / four == four", True),
        ("mode == 'fast'", True),
        ("mode == 'slow' or lambda + gamma == 1", True),
        ("log(rate) > -6.9", False),
        ("sqrt(abs(x)) * 2**2 <= 2.8285", True),
        ("count_nonzero(n, x, gamma) < 3", False),
        ("max(n, m, size) - min(n, m) == 10", True),
        ("sum(n, m, -2 * x) != 19", False),
        ("1 / (n - 6) <= 0", False),  # not a number that could be compared
        ("log(x) <= 1", False),
        ("rate * 3 == 0.003", True),  # to rounding
    ],
)
def test_an_expression_means_what_it_says(text: str, expected: bool) -> None:
    space = Space(everything(), [text])
    assert space.holds(space.from_parameters([POINT])).tolist() == [expected]


def test_rounding_is_allowed_for_and_nothing_else() -> None:
    """Of a hair more than one part in 1e9 a condition is broken; of what sums come to it is not."""
    x1, x2 = 0.3 * (1 + np.array([0, 0.9e-9, 3e-9])), np.full(3, 0.3)
    v = np.stack([x1, x2], axis=1)
    for text in ("x1 <= 0.3", "x1 == x2", "10 * x1 - 3 <= 0"):
        assert Space(floats(2), [text]).holds(v).tolist() == [True, True, False]
    # The terms of the square's root are small beside those of a sum: 1e-9 of 0.01, not of 0.36.
    square = np.array([[0.3 + 0.1, 0.3 + 0.1 * (1 + d)] for d in (0.0, 1e-10, 5e-8)])
    assert Space(floats(2), ["(x2 - 0.3)**2 <= 0.01"]).holds(square).tolist() == [True, True, False]
    assert Space(floats(3), ["x1 - x2 - x3 <= 0"]).holds(np.array([[0.3, 0.1, 0.2]])).all()


def test_an_expression_holds_where_a_parameter_that_it_names_is_inactive() -> None:
    space = Space(everything(), ["gamma >= 0.5 and x >= 0", "n == 6 or gamma > 1"])
    without = {k: v for k, v in POINT.items() if k != "gamma"} | {"kind": "a", "x": 0.0, "n": 7}
    points = space.from_parameters([POINT | {"x": 0.0}, without, without | {"x": -0.1}])
    assert space.holds(points).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x + nn <= 2", "column 5: there is no parameter 'nn'; did you mean 'n'?"),
        ("x + <= 3", "column 5"),
        ("x + 1", "column 1: is not a condition"),
        ("kind < 3", "column 1: is a choice"),
        ("kind == 'c'", "never is 'c'; its choices are"),
        ("'ä' == kind or y < 1", "column 8: never is 'ä'"),
        ("__import__('os').system('true') == 0", "there is no such function"),
        ("x.real <= 1", "is not a number or a parameter"),
        ("(lambda: x)() <= 1", "column"),
        ("[n for n in (1, 2)] == 1", "is not a number"),
        ("x <= 1e999", "column 6: numbers must be finite"),
        ("x <= 1e308 * 10", "column 6: 1e308 * 10 is no finite number"),
        ("x + size <= 1 + exp(1000)", "column 17: exp(1000) is no finite number"),
        ("n * 1e308 * 10 <= 1", "column 1: the numbers in n * 1e308 * 10 overflow"),
        ("n < 1e308 * 1e5 or x < 1", "is no finite number"),
        ("log(0) * x <= 1", "column 1: log(0) is no finite number"),
        ("x <= 1 / 0", "nothing can be divided by zero"),
        ("n % (2 - 2) == 0", "nothing can be divided by zero"),
        ("9**9**9 <= x", "a power must be a constant"),
        ("n ** x <= 2", "a power must be a constant"),
        ("x <= 'one'", "'one' is not a number"),
        ("abs(x, n) <= 1", "abs takes one number"),
        ("x is 1", "compare with"),
        ("(" * 300 + "x" + ")" * 300 + " <= 1", "is not an expression"),
        ("-" * 90 + "x <= 1", "too long or too deeply nested"),
        ("x <= 1" + " + 0" * 400, "must have 1 to 1000 characters"),
        ("", "must have 1 to 1000 characters"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=re.escape(message)) as error:
        Space(everything(), [text])
    assert "\n" not in str(error.value)


# ---- drawing ------------------------------------------------------------------------------------


def test_a_mixture_is_uniform_on_its_simplex() -> None:
    space = Space(floats(4), ["x1 + x2 + x3 + x4 == 1"])
    v = space.sample(np.random.default_rng(0).random((20_000, 4)))
    np.testing.assert_allclose(v.sum(axis=1), 1.0, rtol=1e-12)
    # Of a flat Dirichlet distribution each part has the distribution function 1 - (1 - x)^3.
    for x in (0.1, 0.3, 0.6):
        np.testing.assert_allclose((v <= x).mean(axis=0), 1 - (1 - x) ** 3, atol=0.015)


@pytest.mark.parametrize(
    ("space", "mean"),
    [
        # The centre of a simplex of which one corner has been cut off: few of the cube's points.
        (Space(floats(8), [" + ".join(f"x{i}" for i in range(1, 9)) + " <= 0.3"]), 0.3 / 9),
        (Space(floats(4), [f"{i / 10} <= x{i} <= {i / 10 + 0.1}" for i in range(1, 5)]), None),
    ],
)
def test_a_thin_part_is_drawn_uniformly(space: Space, mean: float | None) -> None:
    assert space.feasible.share() < 1e-3
    v = space.sample(np.random.default_rng(0).random((8192, space.k)))
    assert space.holds(v).all()
    expected = [mean] * space.k if mean else [i / 10 + 0.05 for i in range(1, space.k + 1)]
    np.testing.assert_allclose(v.mean(axis=0), expected, rtol=0.1)


def test_draws_follow_from_the_coordinates_alone() -> None:
    u = np.random.default_rng(0).random((64, 3))
    constraints = ["x1 + x2 + x3 <= 0.5"]
    first, again = (Space(floats(3), constraints).sample(u) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    kept = Space(floats(3), constraints).holds(u)
    assert 0 < kept.sum() < 64
    np.testing.assert_array_equal(first[kept], u[kept])


def test_what_cannot_be_kept_is_said() -> None:
    with pytest.raises(
        UserError, match=r"no point of the space keeps all of 'x1 \+ x2 >= 1.5', 'x1"
    ):
        Space(floats(2), ["x1 + x2 >= 1.5", "x1 <= 0.4"]).feasible.find()
    with pytest.raises(UserError, match=r"'x1\*\*2 \* x2 >= 2' alone holds at 0 of them"):
        Space(floats(2), ["x1 <= 2", "x1**2 * x2 >= 2"]).feasible.find()
    n = Int(type="int", low=1, high=9)
    with pytest.raises(UserError, match="no point of the space keeps"):
        Space({"n": n, "m": n}, ["2 * n + 2 * m == 7"]).feasible.find()


@pytest.mark.parametrize("text", ["x1 + x2 == 0.7", "x1 * x2 == 0.25", "x1 == 0 or x1 >= 0.9"])
def test_what_no_uniform_draw_hits_is_hit(text: str) -> None:
    space = Space(floats(3), [text])
    v = space.sample(np.random.default_rng(0).random((256, 3)))
    assert space.holds(v).all()
    assert len(set(space.keys(v))) > 200
    if "or" in text:
        assert 0.2 < (v[:, 0] == 0).mean() < 0.9


def test_at_most_so_many_are_not_zero() -> None:
    space = Space(floats(6), ["count_nonzero(x1, x2, x3, x4, x5, x6) <= 3", "x1 + x2 + x3 == 0.4"])
    v = space.sample(np.random.default_rng(0).random((512, 6)))
    assert space.holds(v).all()
    supports = {tuple(row) for row in v != 0}
    assert len(supports) >= 20
    near = cand.around(space, v[:8], 512, np.random.default_rng(1))
    assert ((near != 0).sum(axis=1) <= 3).all()
    assert len(set(space.keys(near))) > 256


# ---- moving -------------------------------------------------------------------------------------


def test_a_point_is_moved_onto_the_nearest_face() -> None:
    space = Space(floats(3), ["x1 + x2 <= 0.6"])
    np.testing.assert_allclose(
        space.round(np.array([[0.5, 0.5, 0.2]])), [[0.3, 0.3, 0.2]], atol=1e-7
    )
    space = Space(floats(3), ["x1 + x2 + x3 == 1"])
    moved = space.round(np.array([[0.5, 0.5, 0.3], [0.9, 0.4, 0.0]]))
    np.testing.assert_allclose(moved, [[0.4, 0.4, 0.2], [0.75, 0.25, 0.0]], atol=1e-6)


def test_steps_along_an_active_face_are_not_lost() -> None:
    space = Space(floats(4), ["x1 + x2 + x3 + x4 == 1", "x1 + x2 <= 0.6"])
    centre = np.array([[0.6, 0.0, 0.4, 0.0]])
    near = cand.around(space, centre, 512, np.random.default_rng(0), largest=0.05)
    assert len(set(space.keys(near))) > 400
    assert np.median(np.abs(near - centre).max(axis=1)) > 1e-4


def test_an_equality_holds_on_a_grid() -> None:
    space = Space(floats(4, step=0.05), ["x1 + x2 + x3 + x4 == 1"])
    v = space.sample(np.random.default_rng(0).random((256, 4)))
    near = cand.around(space, v[:16], 256, np.random.default_rng(1))
    for points in (v, near):
        assert all(math.isclose(math.fsum(row), 1.0, rel_tol=1e-9) for row in points)
        np.testing.assert_allclose(points / 0.05, np.round(points / 0.05), atol=1e-9)
    assert len(set(space.keys(near))) > 64


# ---- the law: whatever the space and the constraints, every point keeps them ---------------------


@st.composite
def constrained(draw: st.DrawFn) -> tuple[Space, list[tuple[np.ndarray, str, float]]]:
    """A space with linear constraints that some point of it keeps, and these as numbers."""
    k = draw(st.integers(2, 6))
    parameters: dict[str, Any] = {"kind": Categorical(type="categorical", choices=["a", "b", "c"])}
    for i in range(k):
        low = draw(st.integers(-3, 3))
        match draw(st.sampled_from(["float", "float", "log", "step", "int"])):
            case "log":
                p: Any = Float(type="float", low=1e-3, high=10.0, log=True)
            case "step":
                p = Float(type="float", low=low, high=low + 2, step=0.25)
            case "int":
                p = Int(type="int", low=low, high=low + draw(st.integers(2, 40)))
            case _:
                p = Float(type="float", low=low, high=low + draw(st.sampled_from([0.5, 1, 7])))
        parameters[f"x{i}"] = p
    bare = Space(parameters)
    inside = bare.decode(np.random.default_rng(draw(st.integers(0, 999))).random((1, bare.k)))[0]
    texts, forms = [], []
    for equality in draw(st.lists(st.sampled_from([False, False, True]), min_size=1, max_size=3)):
        a = np.array(draw(st.lists(st.integers(-2, 2), min_size=k, max_size=k)), dtype=float)
        a = np.concatenate([[0.0], a])  # the names are in order, and "kind" is the first
        if not a.any() or (equality and sum("==" in t for t in texts) > 0):
            continue
        room = 0.0 if equality else draw(st.sampled_from([0.01, 0.5, 3.0]))
        bound = float(a @ inside) + room
        terms = " + ".join(f"{a[i + 1]:g} * x{i}" for i in range(k) if a[i + 1])
        texts.append(f"{terms} {'==' if equality else '<='} {bound!r}")
        forms.append((a, "==" if equality else "<=", bound))
    return Space(parameters, texts), forms


def broken(space: Space, forms: list[tuple[np.ndarray, str, float]], v: np.ndarray) -> np.ndarray:
    """Which points break a form, by arithmetic that shares nothing with what is tested."""
    found = np.zeros(len(v), dtype=bool)
    for a, relation, bound in forms:
        gap = v @ a - bound
        size = np.maximum(np.abs(v) @ np.abs(a), abs(bound))
        found |= (np.abs(gap) if relation == "==" else gap) > 1.001e-9 * size
    return found


@settings(max_examples=10, deadline=None)
@given(constrained(), st.integers(0, 999))
def test_every_point_keeps_the_constraints(found, seed: int) -> None:
    space, forms = found
    rng = np.random.default_rng(seed)
    drawn = space.sample(rng.random((64, space.k)))
    moved = space.round(space.decode(rng.random((64, space.k))))
    near = cand.around(space, drawn[:8], 64, rng)
    beside = cand.neighbours(space, drawn[:4])
    inside = space.from_unit(rng.random((64, space.k)))
    for v in (drawn, moved, near, beside, inside):
        assert not broken(space, forms, v).any()
        np.testing.assert_array_equal(space.on_grid(v), v)
        np.testing.assert_array_equal(space.round(v), v)


KINDS: dict[str, dict[str, Any]] = {
    "mcei": {"ascents": 2, "trust_region_share": 0.5},
    "pi": {"ascents": 1},
    "lcb": {"ascents": 1},
    "thompson": {"trust_region_share": 0.5},
    "random": {},
    "sobol": {},
    "optuna": {"sampler": "tpe"},
}
FEW = {"uniform_candidates": 128, "local_candidates": 64, "shortlist": 64, "refinements": 1}


def chosen_by(kind: str) -> Any:
    few = {key: FEW[key] for key in FEW.keys() & AcquisitionSettings.classes[kind].model_fields}
    return AcquisitionSettings(kind=kind, **few, **KINDS[kind])


@pytest.mark.full
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=2, deadline=None)
@given(constrained())
def test_every_proposal_of_every_kind_keeps_the_constraints(kind: str, found) -> None:
    space, forms = found
    first = design(space, 12, rng=np.random.default_rng(0), exclude=np.empty((0, space.k)))
    assert len(first)
    assert not broken(space, forms, first).any()
    y = np.nan_to_num(space.unit(first) - 0.9).sum(axis=1) ** 2
    for outcomes in (y, np.full(len(y), np.nan)):
        if kind in ("random", "sobol", "optuna") and outcomes is not y:
            continue
        root = np.random.SeedSequence(0)
        batch = propose(space, first, outcomes, 6, settings=chosen_by(kind), root=root)
        assert not broken(space, forms, batch.v).any()
        if space.size == math.inf:
            assert len(batch.v) == 6
        keys = space.keys(np.concatenate([first, batch.v]))
        assert len(set(keys)) == len(keys)


def test_a_design_is_spread_over_the_feasible_part() -> None:
    """Farther apart than as many uniform points of it, and none of them far from a design point."""
    space = Space(floats(3), ["x1 + x2 + x3 == 1", "x1 <= 0.5"])
    many = space.sample(np.random.default_rng(9).random((2048, 3)))
    for size in (16, 64):
        v = design(space, size, rng=np.random.default_rng(0), exclude=np.empty((0, 3)))
        drawn = many[:size]
        nearest = [np.sort(cand.distances(w, w), axis=1)[:, 1].min() for w in (v, drawn)]
        hole = [cand.distances(many, w).min(axis=1).max() for w in (v, drawn)]
        assert nearest[0] > 2 * nearest[1]
        assert hole[0] < hole[1]


def counted(space: dict[str, Any], *constraints: str) -> float:
    document = {"study": "a", "objective": {"command": "x"}, "space": space}
    design = {"include_default": False}
    known = {"space_constraints": list(constraints), "design": design}
    return validate({**document, **known}).search_space.count()


def test_points_that_keep_the_constraints_are_counted() -> None:
    """3,003 mixtures of ten parts, and not 1.77 million."""
    parts = {f"x{i}": {"type": "int", "low": 0, "high": 10} for i in range(6)}
    assert counted(parts, " + ".join(parts) + " == 10") == 3003
    assert counted(parts) == 11**6
    few = {"a": {"type": "int", "values": [1, 4, 9]}, "b": {"type": "boolean"}}
    assert counted(few, "a < 5 or b") == 5
    # An inactive parameter makes no further point.
    n = {"type": "int", "low": 1, "high": 5, "active_if": {"b": True}}
    assert counted({**few, "n": n}) == 3 + 3 * 5
    assert counted({**few, "n": n}, "n <= 2") == 3 + 3 * 2
    assert math.isnan(counted({f"x{i}": {"type": "int", "low": 0, "high": 99} for i in range(9)}))
    assert math.isnan(counted({"x": {"type": "float", "low": 0, "high": 1}}))


def test_a_stage_cannot_pick_what_breaks_a_constraint() -> None:
    space = Space(floats(2), ["x1 <= x2"])
    v = design(space, 4, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    state = BatchState(
        model_of(space, v, v[:, 0]),
        space,
        History(v, v[:, 0], np.empty((0, 2))),
        1,
        NoKeys(),
        [],
        np.random.default_rng(0),
    )
    with pytest.raises(ValueError, match="stage mine picked a point that breaks"):
        state.take("mine", Pick(np.array([0.5, 0.4]), 0.0, "mine"))


# ---- A study of a mixture: its constraints are kept, recorded and fixed

OBJECTIVE = """
import json, sys
p = json.load(sys.stdin)
best = {"x1": 0.35, "x2": 0.25, "x3": 0.4, "x4": 0.0}
print(sum((p[n] - best[n]) ** 2 for n in best))
"""

CONFIG = """
study: toy
objective: {{command: "{{python}} objective.py"}}
space:
  x1: {{type: float, low: 0, high: 1, default: 0.25}}
  x2: {{type: float, low: 0, high: 1, default: {default}}}
  x3: {{type: float, low: 0, high: 1, default: 0.25}}
  x4: {{type: float, low: 0, high: 1, default: 0.25}}
space_constraints: {constraints}
design: {{size: 6}}
iterations: {iterations}
batch_size: 3
points_per_job: 3
surrogate: {{kind: gp, hyperparameter_samples: 2}}
"""
MIXTURE = ["x1 + x2 + x3 + x4 == 1", "x1 + x2 <= 0.6"]


def written(
    folder: Path, *, iterations: int = 1, default: float = 0.25, constraints: list[str] = MIXTURE
) -> Path:
    """The configuration of a study of a mixture of four."""
    (folder / "objective.py").write_text(OBJECTIVE)
    values = {"iterations": iterations, "default": default, "constraints": json.dumps(constraints)}
    path = folder / "config.yaml"
    path.write_text(CONFIG.format(**values) + f"acquisition: {json.dumps(LITTLE)}\n")
    return path


def test_a_mixture_is_studied_and_derived_again(tmp_path: Path, capsys) -> None:
    def study_of(**changes: Any) -> Study:
        return Study(load([written(tmp_path, **changes)], {"results": str(tmp_path / "results")}))

    study = study_of()
    for t in range(2):
        advance(study, t)
    table = read_table(study.archive)
    assert len(table) == 9
    assert verify(study.archive) == []
    np.testing.assert_allclose(table.v.sum(axis=1), 1.0, rtol=1e-9)
    assert (table.v[:, 0] + table.v[:, 1] <= 0.6 * (1 + 1e-9)).all()
    assert main(["replay", str(study.archive)]) == 0
    assert main(["audit", str(study.archive), "--proposal", "1-0"]) == 0
    assert "x1 + x2 <= 0.6          holds" in capsys.readouterr().out
    # They are a part of what the study is.
    for step in (Study.plan, lambda study: advance(study, 2)):
        with pytest.raises(UserError, match="space_constraints was"):
            step(study_of(iterations=2, constraints=MIXTURE[:1]))
    assert len(read_table(study.archive)) == 9
    # In another order they are the same.
    assert study_of(constraints=MIXTURE[::-1]).plan().iterations == ()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"default": 0.5}, "does not hold at the defaults (x1 = 0.25, x2 = 0.5, x3 = 0.25"),
        ({"constraints": ["x1 + y <= 1"]}, "'x1 + y <= 1', column 6: there is no parameter 'y'"),
    ],
)
def test_check_names_what_is_wrong(tmp_path: Path, capsys, change, message: str) -> None:
    path = written(tmp_path, **change)
    assert main(["check", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line and f"{path}:9: space_constraints.0: " in line


def test_check_says_how_much_of_the_space_is_left(tmp_path: Path, capsys) -> None:
    path = written(tmp_path, constraints=["x1 + x2 <= 1", "x3 <= x4"])
    assert main(["check", str(path)]) == 0
    assert "Known constraints: 2; about 0.25 of the space keeps them" in capsys.readouterr().out
    whole = "{type: int, low: 0, high: 10"
    text = path.read_text().replace("{type: float, low: 0, high: 1", whole).replace("0.25", "5")
    path.write_text(text.replace('<= 1"', '<= 10"'))
    assert main(["check", str(path)]) == 0
    assert "over 4 parameters (4,356 points)" in capsys.readouterr().out
