"""The search space as Optuna describes it, for its samplers and for its files.

The package is an argument: it is optional, and slow to import.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dngo.space.columns import Column
from dngo.space.parameters import Parameter, choices, text
from dngo.space.space import Space

FINE = 10**6  # steps


def distributions(optuna: Any, space: Space) -> dict[str, Any]:
    """The search space in Optuna's terms: a distribution for each parameter, fixed ones included."""
    columns = {c.name: c for c in space.columns}
    return {
        name: _distribution(optuna.distributions, parameter, columns.get(name))
        for name, parameter in space.parameters.items()
    }


def _distribution(kinds: Any, parameter: Parameter, column: Column | None) -> Any:
    if column is None or column.choices is not None:
        values = choices(parameter)
        # To Optuna 1, 1.0 and true are the same, so such choices become text.
        distinct = len(set(values)) == len(values)
        return kinds.CategoricalDistribution(values if distinct else [text(v) for v in values])
    if column.values is not None:
        numbers = [int(x) if column.integer else float(x) for x in column.values]
        return kinds.CategoricalDistribution(numbers)
    step, high, grid = column.step, column.high, column.grid
    if grid is not None:
        high = float(grid.values(np.array([grid.levels - 1.0]))[0])
    # Optuna has no logarithmic grid. The grid is dropped; known points keep their values.
    if column.integer:
        return kinds.IntDistribution(
            int(column.low), int(high), log=column.log, step=1 if column.log else int(step or 1)
        )
    # Optuna also cannot tell which values are on a very fine grid, or on one of thirds.
    if grid is None or column.log or grid.levels > FINE or not grid.keeps(step):
        step = None
    return kinds.FloatDistribution(column.low, high, log=column.log, step=step)


def as_told(distribution: Any, value: Any) -> Any:
    """A value in the form that its distribution uses."""
    words = getattr(distribution, "choices", ())
    return text(value) if words and all(isinstance(w, str) for w in words) else value
