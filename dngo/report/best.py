"""The best point of a study with one objective, for display."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dngo.archive import Table
from dngo.elsewhere import BEST, Elsewhere
from dngo.space import Space
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.surrogates import Model

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
    places = space.encode(wavering.around(v))
    mean, std = (wavering.mean(one) for one in model.function(places, np.full(len(places), np.nan)))
    # What an outcome teaches about its own point holds for the places near it as well.
    before, after = model.function(x, np.full(len(x), np.nan)), model.function(x, y)
    narrower = np.divide(after[1], before[1], out=np.ones(len(x)), where=before[1] > 0)
    return mean + after[0] - before[0], std * narrower


def escape(value: Any) -> str:
    """A value as text for a page."""
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))
