"""The figures of a report, each one function of the study to a Plotly figure.

Plotly draws. These functions decide what to show.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from dngo.plugins import Registry
from dngo.report.data import View
from dngo.report.figures.compared import all_compared
from dngo.report.figures.course import planar, progress, spent, timeline
from dngo.report.figures.curves import curves
from dngo.report.figures.front import parallel_front, trade_off, volume
from dngo.report.figures.goals import learnt, level, wavering
from dngo.report.figures.model import feasible_map, importance, slices, surfaces
from dngo.report.figures.points import batch, calibration, feasibility, models, parallel, thresholds
from dngo.report.figures.style import Figure, plot

Draw = Callable[[View], Figure | None]
OTHERS = Registry("dngo.figures")

FIGURES: tuple[Draw, ...] = (
    learnt,
    level,
    wavering,
    progress,
    spent,
    planar,
    slices,
    surfaces,
    importance,
    parallel,
    feasibility,
    feasible_map,
    calibration,
    thresholds,
    models,
    batch,
    curves,
    timeline,
)


# First the figures of several objectives, then those for each objective, then the others.
OF_FRONTS = (trade_off, parallel_front, volume)
OF_EACH = (progress, slices, surfaces, importance, calibration, curves)
OF_ALL = (feasibility, thresholds, models, timeline)


def all_figures(view: View) -> list[Figure]:
    """Every figure for which the study has data, in the order of the report.

    If one cannot be drawn, its place says so, and standard error has the traceback. The others are
    still drawn.
    """
    others = [_of_others(name) for name in OTHERS.names()]
    if not view.has_several:
        return _drawn([*FIGURES, *others], view)
    found = _drawn(OF_FRONTS, view)
    for name in view.directions:
        found += [each.of(name) for each in _drawn(OF_EACH, view.of_objective(name))]
    return found + _drawn([*OF_ALL, *others], view.of_objective(next(iter(view.directions))))


def _of_others(name: str) -> Draw:
    """A figure of another package. The package is imported when the figure is drawn."""

    def draw(view: View) -> Figure | None:
        found: Figure | None = OTHERS.find(name)(view)
        return found

    draw.__name__ = name
    return draw


def _drawn(figures: Sequence[Draw], view: View) -> list[Figure]:
    found: list[Figure | None] = []
    for draw in figures:
        try:
            found.append(draw(view))
        except Exception as error:
            traceback.print_exc()
            sorry = f"This figure could not be drawn: {type(error).__name__}: {error}"
            found.append(Figure(draw.__name__, draw.__name__.capitalize(), sorry, plot(60)))
    return [figure for figure in found if figure is not None]
