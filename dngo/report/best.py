"""The best point of a study with one objective, for display."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dngo.elsewhere import BEST, Elsewhere
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.report.data import View

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


def may_differ(view: View) -> bool:
    """Whether the same point may have another outcome: a noise is reported, or repeats of a point
    were feasible and infeasible."""
    noises = [view.table.noise, *view.table.noises.values()]
    if any((noise > 0).any() for noise in noises):
        return True
    feasible, broken = (np.unique(view.point[rows]) for rows in (view.ok, view.infeasible))
    return bool(np.isin(feasible, broken).any())


def waver(view: View) -> bool:
    """Whether inputs waver (`acquisition: {kind: robust}`)."""
    return bool(view.config["acquisition"].get("within"))


def function_at(view: View, rows: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The model's mean and deviation of the objective at rows, each (n,); where inputs waver, of its
    mean over that. y: (n,) outcomes that the model has not seen, else NaN."""
    assert view.model is not None
    if not waver(view):
        return view.model.function(view.table.x[rows], y)
    from dngo.acquisition.wavering import Wavering

    wavering = Wavering.of(view.space, view.config["acquisition"]["within"])
    places = view.space.encode(wavering.around(view.table.v[rows]))
    mean, std = view.model.function(places, np.full(len(places), np.nan))
    return wavering.mean(mean), wavering.mean(std)


def left_out(view: View) -> list[str]:
    """Why the best outcome is not ranked by the model, as a line; empty if it is."""
    row = view.best
    if row is None or not view.has_model or view.expected[2][row] >= LIKELY:
        return []
    return [
        f"proposal {view.id(row)} with {view.table.objective[row]:.6g} is left out: outcomes are noisy, "
        f"and the surrogate thinks it feasible with a probability of {view.expected[2][row]:.2g} only"
    ]


def escape(value: Any) -> str:
    """A value as text for a page."""
    return html.escape(f"{value:.6g}" if isinstance(value, float) else str(value))
