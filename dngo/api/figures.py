"""The figures of a study from Python: those of its report, and those for a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo.errors import UserError
from dngo.report.data import View

if TYPE_CHECKING:
    import plotly.graph_objects as go

Output = str | Path | None
Labels = Mapping[str, str] | None
FOR_A_PAPER = ("course", "edf", "ranks")


class Figures:
    """`figures.slices()` is a figure of the report, `figures.course("course.pdf")` one for a paper.

    `dir(study.figures)` lists them.
    """

    def __init__(self, view: Callable[[], View]) -> None:
        self._view = view

    def course(
        self, output: Output = None, *, labels: Labels = None, width: float = 88.0
    ) -> go.Figure | Path:
        """The best value so far, as a figure to look at or as a new file for a paper.

        output: its name ends in .pdf, .svg or .png; None: the report's figure.
        labels: the labels of axes, by the name of a parameter or `objective`.
        width: of the figure in the file, in mm.
        Raises UserError.
        """
        if output is None:
            return self._drawn("volume" if self._view().has_several else "progress", None)
        return self._written("course", output, labels, width)

    def edf(
        self, output: Output = None, *, labels: Labels = None, width: float = 88.0
    ) -> go.Figure | Path:
        """The share of the evaluations that reached a value; see `course`."""
        return self._written("edf", output, labels, width)

    def ranks(
        self, output: Output = None, *, labels: Labels = None, width: float = 88.0
    ) -> go.Figure | Path:
        """Each parameter against the rank of the objective; see `course`."""
        return self._written("ranks", output, labels, width)

    def _written(self, kind: str, output: Output, labels: Labels, width: float) -> go.Figure | Path:
        if output is None:
            return self._compared(kind)
        from dngo.report.paper import write

        write(kind, [self._view()], Path(output), labels, width)
        return Path(output)

    def _compared(self, kind: str) -> go.Figure:
        """A figure of the page that compares studies, with this study alone."""
        from dngo.report.figures import all_compared

        view = of_objective(self._view(), None)
        for each in all_compared([(view.name, view)]):
            if each.key == kind:
                return each.plot
        raise UserError(f"{kind}: there is nothing to show yet")

    def _drawn(self, name: str, objective: str | None) -> go.Figure:
        view = self._view()
        fronts, known = _known(view)
        if name not in known:
            raise UserError(f"there is no figure {name!r}; they are {', '.join(known)}")
        found = known[name](view if name in fronts else of_objective(view, objective))
        if found is None:
            raise UserError(f"{name}: there is nothing to show yet")
        return found.plot

    def __getattr__(self, name: str) -> Callable[..., go.Figure]:
        if name.startswith("_"):
            raise AttributeError(name)

        def draw(objective: str | None = None) -> go.Figure:
            return self._drawn(name, objective)

        return draw

    def __dir__(self) -> list[str]:
        return [*FOR_A_PAPER, *_known(self._view())[1]]


def _known(view: View) -> tuple[dict[str, Any], dict[str, Any]]:
    """The functions that draw figures, by name: those for several objectives, and all functions."""
    from dngo.report.figures import FIGURES, OF_FRONTS

    fronts = {draw.__name__: draw for draw in OF_FRONTS} if view.has_several else {}
    return fronts, fronts | {draw.__name__: draw for draw in FIGURES}


def of_objective(view: View, objective: str | None) -> View:
    """The view of the only objective, or of the named one; raises UserError."""
    if not view.has_several and objective is None:
        return view
    if objective in view.directions:
        return view.of_objective(objective)
    known = ", ".join(view.directions) or "one, without a name"
    raise UserError(f"objective: say which one is meant; they are {known}")
