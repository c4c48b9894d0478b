"""The best point of a study with one objective, for display."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dngo.archive import Table
from dngo.elsewhere import BEST, Elsewhere
from dngo.rules import current
from dngo.space import Space
from dngo.storage.text import value_text
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.surrogates import Model
    from dngo.surrogates.nearby import Nearby

# This many points nearest to the best one decide which point is the best. On thirty noisy functions
# of the tuning families, 100, 200 and 400 are about equally good. On bbob-noisy 400 is better than
# both.
DECIDING = 400
LIKELY = 0.5  # least probability that a point that the model ranks is feasible


@dataclass(frozen=True)
class Best(Elsewhere):
    """The best point: its proposal, its outcome, and its value by the latest model.

    objective: the best one, if the point was evaluated several times.
    evaluations: the number of its ok evaluations;
    average: of their outcomes.
    mean, std: predicted without noise, from its own outcomes as well.
    mean, std, feasibility: NaN without a model.
    log: whether the model sees the logarithm of the objective.
    """

    _elsewhere = BEST

    id: str
    parameters: dict[str, Any]
    objective: float
    mean: float
    std: float
    feasibility: float
    evaluations: int
    average: float
    by: Literal["model", "observed"]
    log: bool = False

    @property
    def interval(self) -> tuple[float, float]:
        """The interval that holds the objective without noise, with 95 %: low and high."""
        units = Units(1.0, self.log)
        low, high = units.interval(np.array(self.mean), np.array(self.std), 1.959964)
        return float(low), float(high)

    def _repr_html_(self) -> str:
        rows = {**self.parameters, "objective": self.objective, "mean": self.mean, "std": self.std}
        cells = "".join(
            f"<tr><th>{escape(k)}</th><td>{escape(v)}</td></tr>" for k, v in rows.items()
        )
        return f"<table><caption>{self.id}, best by {self.by}</caption>{cells}</table>"


def may_differ(table: Table, point: np.ndarray) -> bool:
    """Whether the same point may have another outcome: a noise is reported, or repeats of a point
    were feasible and infeasible. point: the number of each row's point."""
    if any((noise > 0).any() for noise in (table.noise, *table.noises.values())):
        return True
    feasible, broken = (np.unique(point[table.status == s]) for s in ("ok", "infeasible"))
    return bool(np.isin(feasible, broken).any())


def waver(config: Mapping[str, Any]) -> bool:
    """Whether inputs waver (`acquisition: {kind: robust}`) in a resolved configuration."""
    return bool(config["acquisition"].get("within"))


def function_at(
    model: Model,
    space: Space,
    config: Mapping[str, Any],
    x: np.ndarray,
    v: np.ndarray,
    y: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The model's mean and deviation of the objective at some points, each (n,); where inputs waver,
    of its mean over that.

    x: (n, d) the model's inputs. v: (n, k) natural values. y: (n,) outcomes that the model has not
    seen, else NaN.
    """
    if not waver(config):
        return model.function(x, y)
    from dngo.acquisition.wavering import Wavering

    wavering = Wavering.of(space, config["acquisition"]["within"])
    mean, std = wavering.expected(lambda at: model.function(at, np.full(len(at), np.nan)), v)
    # What an outcome teaches about its own point holds for the places near it as well.
    before, after = model.function(x, np.full(len(x), np.nan)), model.function(x, y)
    narrower = np.divide(after[1], before[1], out=np.ones(len(x)), where=before[1] > 0)
    return mean + after[0] - before[0], std * narrower


def around(
    space: Space,
    config: Mapping[str, Any],
    known: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    v: np.ndarray,
    value: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows near the best one, and the mean and deviation of the objective by a process of the points
    there; where inputs waver, of its mean over that.

    known: the outcomes as in `around_the_best`. v: (n, k) natural values. value:
    (n,) where inputs waver, low at what the surrogate thinks best; all NaN without a surrogate.
    """
    if not waver(config):
        return around_the_best(*known)
    from dngo.acquisition.wavering import Wavering

    if not np.isfinite(value).any():
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    wavering, start = Wavering.of(space, config["acquisition"]["within"]), int(np.nanargmin(value))
    return around_the_best(
        *known, start, lambda near, rows: wavering.expected(near.function, v[rows])
    )


def around_the_best(
    u: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    noise: np.ndarray,
    start: int | None = None,
    ask: Callable[[Nearby, np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points near the best one, and the function's mean and deviation there: rows and two (m,).

    u: (n, k) in the unit cube, for distances; x: (n, d) the same points, encoded. y: (n,) finite;
    noise: (n,). First the points near the lowest value, or near the row `start`, are fitted, and then
    the points near the lowest mean of that fit. No rows if there are too few. The same points always
    give the same bits. ask: what is wanted of a fit at some rows, such as a mean over the places
    around each; None: its function there.
    """
    from scipy.spatial.distance import cdist

    from dngo.surrogates.nearby import Nearby
    from dngo.surrogates.numerics import bounded, one_thread

    if len(y) < current().nearby.least or u.shape[1] == 0:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    y, centre, before = bounded(y), int(np.argmin(y)) if start is None else start, -1
    with one_thread():
        while True:
            rows = np.argsort(cdist(u[[centre]], u)[0], kind="stable")[:DECIDING]
            rng = np.random.default_rng(0)
            near = Nearby.fit(x[rows], y[rows], noise[rows], rng=rng)
            mean, deviation = ask(near, rows) if ask else near.function(x[rows])
            best = int(rows[np.argmin(mean + deviation)])
            if before >= 0 or best == centre:
                break
            centre, before = best, centre
    return rows, mean, deviation


def escape(value: Any) -> str:
    """A value as text for a page."""
    return html.escape(value_text(value))
