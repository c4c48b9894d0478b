"""A first point that keeps the linear conditions of a space, by a mixed-integer linear programme."""

from __future__ import annotations

import numpy as np

from dngo.errors import UserError
from dngo.space.conditions import RELATIVE
from dngo.space.unconstrained import Unconstrained
from dngo.types import Array


def by_programme(space: Unconstrained) -> Array:
    """A point (1, k) far from the bounds of the linear conditions, by HiGHS. It is not on a grid
    yet. None if there is none.

    Raises UserError if the linear conditions provably have no common point.
    """
    forms = [
        c
        for c in space.conditions
        if c.linear and not any(space.columns[j].conditions for j in c.columns)
    ]
    if not forms:
        return np.empty((0, space.k))
    # The unknowns are values in units of each column's range, or numbers of steps. The last one is
    # the distance from the bounds.
    low = np.array([c.low for c in space.columns])
    unit = np.array([c.step or (c.high - c.low) or 1.0 for c in space.columns])
    whole = np.array([c.step is not None and c.kind in ("int", "float") for c in space.columns])
    top = [
        c.levels - 1.0 if w and c.levels else 1.0 for c, w in zip(space.columns, whole, strict=True)
    ]
    rows, least, most = [], [], []
    for c in forms:
        assert c.linear is not None
        a = c.linear.coefficients * unit
        bound = c.linear.bound - c.linear.coefficients @ low
        size = RELATIVE * max(abs(c.linear.bound), float(np.abs(c.linear.coefficients) @ low), 1)
        rows.append([*a, 0.0 if c.linear.equality else float(np.linalg.norm(a))])
        most.append(bound + (0.0 if c.linear.equality else size))
        least.append(bound if c.linear.equality else -np.inf)
    # Jobs that evaluate import this module, but must not import SciPy.
    from scipy.optimize import Bounds, LinearConstraint, milp

    found = milp(
        c=[*np.zeros(len(low)), -1.0],
        constraints=LinearConstraint(np.array(rows), least, most),
        bounds=Bounds(np.zeros(len(low) + 1), [*top, 1.0]),
        integrality=[*whole.astype(int), 0],
        options={"node_limit": 1000},
    )
    if found.status == 2:
        named = ", ".join(repr(t) for t in dict.fromkeys(c.text for c in forms))
        raise UserError(f"space_constraints: no point of the space keeps all of {named}"[:500])
    if found.x is None:
        return np.empty((0, space.k))
    return low + unit * found.x[None, :-1]
