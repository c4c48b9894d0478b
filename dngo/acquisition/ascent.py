"""From a good candidate to the top of its hill, along the parameters that are continuous."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dngo.acquisition.spacing import distances
from dngo.rules import current
from dngo.space import Space
from dngo.types import Array

# Step of central differences, in units of a parameter's range. Truncation and rounding err alike at about
# the cube root of an acquisition value's precision.
DIFFERENCE = 1e-5


def climb(
    space: Space, v: Array, scores: Array, count: int, value: Callable[[Array], Array]
) -> Array:
    """Where L-BFGS-B leads from the `count` best candidates that lie apart: (m, k), m <= count.

    v: (n, k) candidates, scores: (n,) the acquisition there. value: points (., k) -> acquisition (.,).
    The logarithm of the value is climbed, by central differences whose points are evaluated together.
    Listed and inactive parameters do not change.
    """
    tops: list[Array] = []
    u = space.unit(v)
    left = scores > 0  # a logarithm's domain
    for _ in range(count):
        if not left.any():
            break
        best = int(np.argmax(np.where(left, scores, -np.inf)))
        left &= distances(u, u[[best]])[:, 0] > current().ascent.same_hill
        free = np.array([c.levels is None for c in space.columns]) & ~np.isnan(v[best])
        steps = min(
            current().ascent.most_steps, current().ascent.most_points // (2 * free.sum() + 1)
        )
        if not free.any() or steps < 2:
            continue
        found = minimize(
            _descent(space, v[best], u[best], free, value),
            u[best][free],
            jac=True,
            bounds=[(0.0, 1.0)] * int(free.sum()),
            method="L-BFGS-B",
            options={"maxiter": int(steps)},
        )
        tops.append(_moved(space, v[best], u[best], free, found.x[None])[0])
    return np.array(tops).reshape(-1, space.k)


def _moved(space: Space, v: Array, u: Array, free: NDArray[np.bool_], coordinates: Array) -> Array:
    """Copies of v (k,), at coordinates u, whose free parameters are at coordinates (n, f): (n, k)."""
    everything = np.tile(u, (len(coordinates), 1))
    everything[:, free] = coordinates
    moved = np.tile(v, (len(coordinates), 1))
    moved[:, free] = space.at(everything)[:, free]
    return space.round(moved)


def _descent(
    space: Space,
    v: Array,
    u: Array,
    free: NDArray[np.bool_],
    value: Callable[[Array], Array],
) -> Callable[[Array], tuple[float, Array]]:
    """Minus the logarithm of the value, and its gradient, at free coordinates (f,)."""

    def at(here: Array) -> tuple[float, Array]:
        steps = DIFFERENCE * np.eye(len(here))
        beside = np.clip(np.concatenate([here[None], here + steps, here - steps]), 0.0, 1.0)
        height = np.log(np.maximum(value(_moved(space, v, u, free, beside)), 1e-300))
        up, down = np.split(height[1:], 2)
        width = np.diagonal(np.subtract(*np.split(beside[1:], 2)))
        return -float(height[0]), -(up - down) / width

    return at
