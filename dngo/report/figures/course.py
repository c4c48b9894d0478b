"""The course of a study: its best values by time and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dngo.report.data import View
from dngo.report.figures import style
from dngo.storage.text import value_text


def progress(view: View) -> style.Figure:
    """Every evaluation in order, and the best so far."""
    figure, axis = style.plot(), style.scale(view)
    total = of = 0
    for name, rows in style.samples(view).items():
        counted = int(style.groups(view)[name].sum())
        total, of = total + len(rows), of + counted
        if len(rows) == 0:
            continue
        text = [
            f"{view.id(row)}: {value_text(value)}"
            if np.isfinite(value)
            else f"{view.id(row)}: no objective"
            for row, value in zip(rows, view.table.objective[rows], strict=True)
        ]
        y = style.at_the_foot(view, rows, axis)
        figure.add_scatter(
            x=rows + 1, y=style.small(y), mode="markers", name=f"{name} ({counted:,})",
            marker=style.marks(name), customdata=rows, text=text,
            cliponaxis=not (y == axis.foot).any(), hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip
    best_line(figure, view, np.arange(1, len(view) + 1))
    figure.update_layout(
        xaxis_title="evaluation", yaxis=axis.axis(title=style.escape(view.label("objective")))
    )
    style.note(figure, axis.outside)
    caption = (
        "Each evaluation in the order of proposal, and the best ok value so far. Those at the "
        "foot have no objective." + style.sampled(total, of)
    )
    return style.Figure("progress", "Best so far", caption, figure)


def corners(view: View) -> np.ndarray:
    """Rows that improve the best so far, and the last row; empty if no row is ok."""
    found = view.improvements
    return np.append(found, len(view) - 1) if len(found) else found


def best_line(figure: go.Figure, view: View, x: np.ndarray, **more: Any) -> None:
    """The best so far as a line with a corner at each improvement."""
    rows = corners(view)
    if len(rows):
        figure.add_scatter(
            x=x[rows], y=view.best_so_far[rows], mode="lines", name="best so far", customdata=rows,
            line={"shape": "hv", "color": style.BLACK, "width": 2},
            hovertemplate="best %{y:.10~g}<extra></extra>", **more,
        )  # fmt: skip


def spent(view: View) -> style.Figure | None:
    """The best so far, by elapsed time and by the cost of the evaluations."""
    if not view.timed.any() or view.best is None:
        return None
    name, cost = view.cost
    finished = np.where(view.timed, view.numbers["finished"], np.nan)
    start = np.nanmin(view.numbers["started"][view.timed])
    # In the order in which evaluations ended, since their values were known only then.
    order = np.argsort(np.where(np.isfinite(finished), finished, np.inf), kind="stable")
    values = view.sign * np.where(view.counts, view.table.objective, np.nan)[order]
    best = view.sign * np.fmin.accumulate(values)
    corners = np.flatnonzero(np.isfinite(best) & (np.diff(best, prepend=np.nan) != 0))
    known = np.flatnonzero(np.isfinite(finished[order]))
    rows = np.union1d(corners[np.isfinite(finished[order][corners])], known[-1:])
    elapsed, unit = _elapsed(finished[order] - start)
    used = np.cumsum(cost[order])
    figure = style.subplots(1, 2, height=360, shared_yaxes=True, horizontal_spacing=0.06)
    for i, (x, title) in enumerate([(elapsed, f"{unit} since the start"), (used, name)], start=1):
        figure.add_scatter(
            x=x[rows], y=best[rows], mode="lines+markers", name="best so far", row=1, col=i,
            line={"shape": "hv", "color": style.BLACK}, marker={"size": 5, "symbol": "circle"},
            customdata=order[rows], hovertemplate="%{x:.4g}: %{y:.10~g}<extra></extra>",
            showlegend=False,
        )  # fmt: skip
        figure.update_xaxes(title=style.escape(title), row=1, col=i)
    figure.update_yaxes(type="log" if style.logarithmic(best[rows]) else "linear")
    figure.update_yaxes(title=style.escape(view.label("objective")), row=1, col=1)
    return style.Figure(
        "spent",
        "Best by time and cost",
        "The best value so far. Left: by the clock, pauses included. Right: by the "
        f"{name} that all evaluations had taken until then, added up.",
        figure,
    )


def _elapsed(seconds: np.ndarray) -> tuple[np.ndarray, str]:
    """Times in the unit that is easiest to read."""
    longest = float(np.nanmax(seconds)) if np.isfinite(seconds).any() else 0.0
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if longest > 2 * size:
            return seconds / size, name
    return seconds, "seconds"


def planar(view: View) -> style.Figure:
    """The whole course of the study as a histogram of time and outcome (Snoek et al. 2015, figure 4)."""
    axis = style.scale(view)
    n = len(view)
    bins = int(np.clip(n // 5, 10, 80))
    edges = np.linspace(0.5, n + 0.5, bins + 1)
    levels = np.linspace(axis.low, axis.high, 41)
    if axis.log:
        levels = np.geomspace(axis.low, axis.high, 41)
    ran = np.isfinite(view.table.objective)
    counts, _, _ = np.histogram2d(
        np.flatnonzero(ran) + 1, axis.clip(view.table.objective[ran]), bins=(edges, levels)
    )
    without = ~ran & (view.table.status != "withdrawn")
    lost, _ = np.histogram(np.flatnonzero(without) + 1, bins=edges)
    figure = style.subplots(
        2, 1, height=460, shared_xaxes=True, row_heights=[0.9, 0.1], vertical_spacing=0.03
    )
    most = float(max(counts.max(), lost.max(), 1))
    shades = {"colorscale": "Greys", "zmin": 0, "zmax": most}
    figure.add_heatmap(
        x=edges, y=levels, z=counts.T.astype(np.int32), row=1, col=1, name="count",
        colorbar={"title": "count", "tickformat": "d", "dtick": max(1, int(most) // 5)},
        hovertemplate="%{z} around %{x:.0f}, %{y:.5g}<extra></extra>",
        **shades,
    )  # fmt: skip
    figure.add_heatmap(
        x=edges, y=["no value"], z=lost[None].astype(np.int32), row=2, col=1, showscale=False,
        hovertemplate="%{z} without an objective around %{x:.0f}<extra></extra>", **shades,
    )  # fmt: skip
    for colour, width in (("white", 6), (style.BLACK, 2)):  # black on black would be invisible
        best_line(figure, view, np.arange(1, n + 1), row=1, col=1)
        if view.best is not None:
            figure.data[-1].line.update(color=colour, width=width)
            figure.data[-1].showlegend = colour == style.BLACK
    figure.update_yaxes(axis.axis(title=style.escape(view.label("objective"))), row=1, col=1)
    figure.update_xaxes(title="evaluation", row=2, col=1)
    return style.Figure(
        "planar",
        "The whole course",
        "How many evaluations had which value, from the first to the last: the darker a field, the more. "
        "The line is the best so far; infeasible points are counted, but not in it. The strip below counts "
        "evaluations without an objective. Dark fields near the line: many values almost as "
        "good; fields far from it: tries elsewhere. " + _clipped(axis),
        figure,
    )


def _clipped(axis: style.Scale) -> str:
    return f"{axis.outside} The outermost bins count them." if axis.outside else ""


def timeline(view: View) -> style.Figure | None:
    """The number of running evaluations over time, and the time of each iteration by stage."""
    stages = {s: found for s, found in view.stage_seconds.items() if found}
    panels: list[Callable[[go.Figure, int], None]] = []
    if view.timed.sum() > 1:
        panels.append(lambda figure, row: _busy(figure, view, row))
    if stages:
        panels.append(lambda figure, row: _stages(figure, stages, row))
    if not panels:
        return None
    figure = style.subplots(len(panels), 1, height=60 + 260 * len(panels), vertical_spacing=0.18)
    for i, draw in enumerate(panels, start=1):
        draw(figure, i)
    figure.update_layout(barmode="stack")
    return style.Figure(
        "timeline",
        "Where the time went",
        "How many evaluations ran at once, on average in each of 400 equal intervals since the first "
        "began. Gaps are fits, proposals, queues and pauses. Below: the seconds of each stage by "
        "iteration; each evaluation counts, also if several ran side by side. A study in Python has no "
        "times of fits and proposals: they are the gaps above.",
        figure,
    )


def _busy(figure: go.Figure, view: View, row: int) -> None:
    start = float(np.min(view.numbers["started"][view.timed]))
    end = float(np.max(view.numbers["finished"][view.timed]))
    edges = np.linspace(start, max(end, start + 1e-3), 401)
    elapsed, unit = _elapsed(edges[1:] - start)
    figure.add_scatter(
        x=style.small(elapsed), y=style.small(view.busy(edges)), mode="lines", fill="tozeroy",
        name="evaluations under way", line={"shape": "vh", "color": style.BLUE, "width": 1},
        row=row, col=1, hovertemplate="%{y:.1f} at %{x:.3g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title=f"{unit} since the start", row=row, col=1)
    figure.update_yaxes(title="evaluations at once", rangemode="tozero", row=row, col=1)


def _stages(figure: go.Figure, stages: dict[str, dict[int, float]], row: int) -> None:
    styles: Iterable[tuple[str, str, str]] = (
        ("fit", style.ORANGE, "/"), ("propose", style.GREEN, "x"),
        ("evaluate", style.BLUE, ""), ("merge", style.BLACK, "."),
    )  # fmt: skip
    for name, colour, pattern in styles:
        found = stages.get(name, {})
        if found:
            iterations = np.array(sorted(found))
            figure.add_bar(
                x=iterations, y=style.small(np.array([found[t] for t in iterations])), name=name,
                marker={"color": colour, "pattern": {"shape": pattern}}, row=row, col=1,
                hovertemplate="iteration %{x}: %{y:.3g} s<extra>" + name + "</extra>",
            )  # fmt: skip
    most = max(len(found) for found in stages.values())
    figure.update_xaxes(**style.counting(most, "iteration"), row=row, col=1)
    figure.update_yaxes(title="seconds", row=row, col=1)
