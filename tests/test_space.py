"""Laws of the search space, for every space that can be configured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dngo.space import Space
from dngo.space.types import AnyParameter

SPACE = TypeAdapter(dict[str, AnyParameter])


def space_of(**parameters: dict[str, Any]) -> Space:
    return Space(SPACE.validate_python(parameters))


finite = st.floats(-1e6, 1e6, allow_nan=False)
positive = st.floats(1e-6, 1e6)


@st.composite
def parameters(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["float", "int", "grid", "categorical", "ordinal", "boolean"]))
    log = draw(st.booleans())
    if kind == "float":
        low = draw(positive if log else finite)
        high = low + draw(st.floats(1e-3, 1e6))
        step = draw(st.none() | st.floats(0.01, 1.0).map(lambda f: f * (high - low)))
        return {"type": "float", "low": low, "high": high, "log": log, "step": step}
    if kind == "int":
        low = draw(st.integers(1, 1000) if log else st.integers(-1000, 1000))
        return {"type": "int", "low": low, "high": low + draw(st.integers(1, 5000)), "log": log}
    if kind == "grid":
        whole = st.lists(st.integers(1, 10**6), min_size=1, max_size=9, unique=True)
        values = [n / 64 if log else n / 64 - 5000 for n in draw(whole)]
        return {"type": "float", "values": values, "log": log}
    if kind == "boolean":
        return {"type": "boolean"}
    scalars = st.text(min_size=1, max_size=5) | st.integers(-5, 5) | st.booleans()
    choices = draw(
        st.lists(scalars, min_size=2, max_size=6, unique_by=lambda c: str(c).strip().lower())
    )
    return {"type": kind, ("choices" if kind == "categorical" else "values"): choices}


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    found = draw(st.lists(parameters(), min_size=1, max_size=4))
    named = {f"p{i}": p for i, p in enumerate(found)}
    named["switch"] = {"type": "categorical", "choices": ["a", "b", "c"]}
    for i, condition in enumerate(
        draw(st.lists(st.booleans(), min_size=len(found), max_size=len(found)))
    ):
        if condition:
            named[f"p{i}"]["active_if"] = {"switch": ["a", "b"] if i % 2 else "c"}
    named["constant"] = {"type": "fixed", "value": "k"}
    return space_of(**named)


@settings(max_examples=150, deadline=None)
@given(spaces(), st.integers(0, 2**32))
def test_laws(space: Space, seed: int) -> None:
    v = space.sample(np.random.default_rng(seed).random((40, space.k)))
    same = {"equal_nan": True}
    # What is sampled is on the user's grid, and rounding what is on the grid changes nothing.
    assert np.array_equal(space.round(v), v, **same)
    # Decoding what was encoded gives it back: for people, and for the model's coordinates.
    points = space.to_parameters(v)
    assert np.array_equal(space.from_parameters(points), v, **same)
    u = space.unit(v)
    assert ((u >= 0) & (u <= 1)).all()
    back = space.from_unit(u)
    assert np.array_equal(np.isnan(back), np.isnan(v))
    assert np.allclose(space.unit(back), u, atol=1e-9)
    for j, column in enumerate(space.columns):
        if column.levels is not None:
            assert np.array_equal(back[:, j], v[:, j], **same)
    # The model's inputs are finite, in the cube, and tell distinct points apart.
    x = space.encode(v)
    assert x.shape == (40, space.d)
    assert ((x >= 0) & (x <= 1)).all()
    # A parameter is given exactly where it is active, and fixed ones always.
    for row, point in enumerate(points):
        assert point["constant"] == "k"
        for j, column in enumerate(space.columns):
            assert (column.name in point) == bool(space.active(v)[row, j])
    keys = space.keys(v)
    assert len(set(keys)) == len({tuple(map(str, p.items())) for p in points})


def test_listed_values_are_equally_likely_and_integers_keep_their_ends() -> None:
    space = space_of(
        n={"type": "int", "low": 1, "high": 4},
        c={"type": "categorical", "choices": ["a", "b", "c"]},
        g={"type": "int", "values": [1, 10, 1000]},
    )
    v = space.sample(np.random.default_rng(0).random((12000, 3)))
    assert [c.name for c in space.columns] == ["c", "g", "n"]
    for j, levels in enumerate((3, 3, 4)):
        _, counts = np.unique(v[:, j], return_counts=True)
        assert len(counts) == levels
        assert counts.min() > 0.9 * 12000 / levels


def test_rounding_is_to_the_nearest_in_the_scale_of_the_parameter() -> None:
    space = space_of(
        lin={"type": "float", "values": [0, 1, 10]},
        log={"type": "float", "values": [1, 10, 100], "log": True},
        step={"type": "float", "low": 0, "high": 1, "step": 0.1},
    )
    v = space.round(np.array([[5.6, 31.0, 0.31], [5.4, 32.0, 0.29]]))
    assert v.tolist() == [[10, 10, 0.3], [1, 100, 0.3]]


def test_the_order_of_the_lines_does_not_matter() -> None:
    parameters = {
        "b": {"type": "float", "low": 0, "high": 1, "active_if": {"c": "p"}},
        "a": {"type": "int", "low": 1, "high": 4, "active_if": {"d": True}},
        "c": {"type": "categorical", "choices": ["p", "q"]},
        "d": {"type": "boolean"},
    }
    one, other = space_of(**parameters), space_of(**dict(reversed(parameters.items())))
    u = np.random.default_rng(0).random((9, 4))
    assert [c.name for c in one.columns] == [c.name for c in other.columns]
    assert np.array_equal(one.encode(one.sample(u)), other.encode(other.sample(u)))
    assert list(one.to_parameters(one.sample(u[:1]))[0]) == [
        n for n in parameters if n in other.to_parameters(other.sample(u[:1]))[0]
    ]


@pytest.mark.parametrize("value", [3.0, -1, "x", True, None])
def test_values_outside_the_space_are_refused(value: Any) -> None:
    space = space_of(x={"type": "float", "low": 0, "high": 1})
    with pytest.raises(ValueError, match="x"):
        space.from_parameters([{"x": value}])
