"""Search spaces that several tests use."""

from __future__ import annotations

from dngo.space import Space
from dngo.space.parameters import Boolean, Categorical, Fixed, Float, Int, Ordinal


def cube(k: int) -> Space:
    """k floats in the unit interval."""
    return Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(k)})


def mixed() -> Space:
    """A parameter of every kind, one of them conditional."""
    return Space(
        {
            "rate": Float(type="float", low=1e-5, high=1e-1, log=True),
            "units": Int(type="int", low=1, high=5),
            "kind": Categorical(type="categorical", choices=["a", "b", "c"]),
            "deep": Boolean(type="boolean"),
            "size": Ordinal(type="ordinal", values=["s", "m", "l"]),
            "step": Float(type="float", values=[0.1, 0.2, 0.4]),
            "coarse": Float(type="float", low=0, high=1, step=0.1),
            "gamma": Float(type="float", low=0, high=1, active_if={"kind": ["b", "c"]}),
            "one": Fixed(type="fixed", value=3),
        }
    )
