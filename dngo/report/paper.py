"""Figures for a paper: PDF, SVG or PNG in the width of a column, from archives alone.

They are readable in greyscale and for colour-blind people, and their text stays text. The same
archive gives the same file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dngo.errors import UserError
from dngo.report.compare import names
from dngo.report.data import View
from dngo.report.figures.style import BLACK, BLUE, GREEN, GREY, ORANGE
from dngo.report.ranks import ranks, reached, shared
from dngo.space import Column
from dngo.storage.files import handing_out
from dngo.storage.text import visible

FORMATS = (".pdf", ".svg", ".png")
INCH = 25.4  # millimetres
COLUMN = 88.0  # millimetres
LONGEST = 12  # characters of a choice
STYLE: Any = {
    "font.size": 8,
    "axes.labelsize": 8,
    "legend.fontsize": 7,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # keeps text that journals can edit
    "svg.fonttype": "none",
    "svg.hashsalt": "dngo",
    "savefig.dpi": 300,
}
LINES = [(BLUE, "-"), (ORANGE, "--"), (BLACK, "-."), (GREEN, ":"), (GREY, (0, (5, 1)))]
MARKS = ("o", "s", "D", "^", "v")
Label = Callable[[str], str]


def write(
    kind: str,
    views: Sequence[View],
    output: Path,
    labels: Mapping[str, str] | None = None,
    width: float = COLUMN,
) -> None:
    """Draw one of `KINDS` for some studies into a new file. Its name says the format.

    labels: texts for the axes of parameters, or of `objective`, instead of the study's.
    width: in millimetres.
    Raises UserError if the figure cannot be drawn, or if another file is in the way.
    """
    if output.suffix not in FORMATS:
        raise UserError(f"{output}: the name must end in {', '.join(FORMATS)}")
    labels = labels or {}
    _check(kind, views, labels)
    if not 20 <= width <= 1000:
        raise UserError(f"--width: {width:g} mm is not between 20 and 1000")
    with handing_out(output) as temporary:
        import matplotlib  # a second; most commands draw nothing
        from matplotlib.figure import Figure

        with matplotlib.rc_context(STYLE):
            figure = Figure(layout="constrained")
            KINDS[kind](figure, views, lambda n: labels.get(n, views[0].label(n)), width / INCH)
            none = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}
            form = output.suffix[1:]
            figure.savefig(temporary, format=form, metadata=none[form])


def _check(kind: str, views: Sequence[View], labels: Mapping[str, str]) -> None:
    if kind == "ranks" and not shared(views):
        raise UserError("ranks: these studies have no parameter in common")
    known = {"objective", *(name for view in views for name in view.space.parameters)}
    for name in labels:
        if name not in known:
            raise UserError(f"--label {name}: is neither a parameter nor objective")
    for view in views:
        if view.has_several:
            raise UserError(f"{view.path}: has several objectives, but {kind} shows only one")
        if not view.ok.any():
            raise UserError(f"{view.path}: no evaluation is ok yet, so there is nothing to draw")


def _course(figure: Any, views: Sequence[View], label: Label, width: float) -> None:
    """The best value so far. For a single study, also the evaluations themselves."""
    figure.set_size_inches(width, 0.68 * width)
    axes = figure.subplots()
    if len(views) == 1:
        (view,) = views
        rows = np.flatnonzero(view.ok)
        dots = {"s": 5, "color": BLUE, "alpha": 0.35, "linewidths": 0, "label": "evaluation"}
        axes.scatter(rows + 1, view.table.objective[rows], **dots)
    for view, name, (colour, dash) in _lines(views):
        x = np.arange(1, len(view) + 1)
        shown = {
            "color": colour,
            "linestyle": dash,
            "label": name if len(views) > 1 else "best so far",
        }
        axes.step(x, view.best_so_far, where="post", **shown)
    _scale(axes, "y", np.concatenate([view.table.objective[view.ok] for view in views]))
    axes.set(xlabel="evaluation", ylabel=label("objective"))
    axes.legend()


def _edf(figure: Any, views: Sequence[View], label: Label, width: float) -> None:
    """The share of all evaluations that reached a value. Failed ones never reach it."""
    figure.set_size_inches(width, 0.68 * width)
    axes = figure.subplots()
    for view, name, (colour, dash) in _lines(views):
        axes.step(*reached(view), where="post", color=colour, linestyle=dash, label=name)
    _scale(axes, "x", np.concatenate([view.table.objective[view.ok] for view in views]))
    if views[0].direction == "maximize":
        axes.invert_xaxis()
    better = "or less" if views[0].direction == "minimize" else "or more"
    axes.set(xlabel=f"{label('objective')}, {better}", ylabel="share of evaluations", ylim=(0, 1))
    if len(views) > 1:
        axes.legend()


def _ranks(figure: Any, views: Sequence[View], label: Label, width: float) -> None:
    """Each parameter against the rank of the objective, 1 the best, among the evaluations of all studies.

    For one study, later evaluations are darker. Several studies have different marks.
    """
    columns, found = shared(views), ranks(views)
    across = min(3, len(columns))
    down = -(-len(columns) // across)
    figure.set_size_inches(width, 0.48 * width * down)
    grid = figure.subplots(down, across, squeeze=False, sharey=True)
    for axes in grid.flat[len(columns) :]:
        axes.remove()
    dots = None
    for axes, (column, places) in zip(grid.flat, columns, strict=False):
        for i, (view, name, (colour, _)) in enumerate(_lines(views)):
            x = view.table.v[:, places[i]]
            rows = np.flatnonzero(np.isfinite(x) & np.isfinite(found[i]))
            one = len(views) == 1
            shown = (
                {"c": rows + 1, "cmap": "viridis_r"} if one else {"color": colour, "label": name}
            )
            dots = axes.scatter(
                x[rows], found[i][rows], s=6, linewidths=0, marker=MARKS[i % len(MARKS)], **shown
            )
        _parameter_axis(axes, column, label)
    for axes in grid[:, 0]:
        axes.set(ylabel="rank")
    grid[0, 0].set_ylim(sum(int(np.isfinite(rank).sum()) for rank in found) + 1, 0)
    if len(views) == 1:
        figure.colorbar(dots, ax=list(grid.flat[: len(columns)]), label="evaluation")
    else:
        handles, words = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, words, loc="outside upper left", ncols=across)


def _parameter_axis(axes: Any, column: Column, label: Label) -> None:
    axes.set(xlabel=label(column.name))
    if column.choices is not None:
        words = [visible(str(c))[:LONGEST].replace("$", r"\$") for c in column.choices]
        upright = 90 if max(map(len, words)) > 4 else 0
        axes.set_xticks(range(len(words)), words, rotation=upright)
        axes.set_xlim(-0.5, len(words) - 0.5)
    elif column.log:
        axes.set_xscale("log")
    elif column.integer:
        axes.xaxis.get_major_locator().set_params(integer=True)


def _lines(views: Sequence[View]) -> Iterator[tuple[View, str, Any]]:
    for i, (view, name) in enumerate(zip(views, names(views), strict=True)):
        yield view, name, LINES[i % len(LINES)]


def _scale(axes: Any, which: str, values: np.ndarray) -> None:
    """A logarithmic axis for positive values over two decades or more."""
    if values.min() > 0 and values.max() / values.min() >= 100:
        getattr(axes, f"set_{which}scale")("log")


KINDS: dict[str, Callable[[Any, Sequence[View], Label, float], None]] = {
    "course": _course,
    "edf": _edf,
    "ranks": _ranks,
}
