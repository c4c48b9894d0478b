"""The figures of a report, each one function of the study to a Plotly figure.

Drawing is Plotly's; what is decided here is what is shown. Every figure can be read in greyscale:
status is a symbol as well as a colour, lines differ in their dashes, colour scales grow darker.
"""

from __future__ import annotations

import html
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dngo.batch import STATUSES
from dngo.report.data import View
from dngo.space.space import Column

MOST_POINTS = 3000  # markers in one plot; beyond, a sample that the plot names as one
MOST_LINES = 1000  # of the parallel coordinates
BLUE, ORANGE, GREY, BLACK, GREEN = "#0072B2", "#D55E00", "#767676", "#000000", "#009E73"
SYMBOLS = {"ok": "circle", "infeasible": "diamond-open", "failed": "x-thin-open"}
COLOURS = {"ok": BLUE, "infeasible": ORANGE, "failed": BLACK}
PATTERNS = {
    "ok": "", "infeasible": "/", "failed": "x", "invalid": "+",
    "timeout": "-", "out_of_memory": "|", "lost": ".",
}  # fmt: skip
STATUS_COLOURS = {
    "ok": BLUE, "infeasible": ORANGE, "failed": "#404040", "invalid": "#CC79A7",
    "timeout": "#E69F00", "out_of_memory": "#56B4E9", "lost": "#BBBBBB",
}  # fmt: skip
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "closest",
        "margin": {"l": 70, "r": 30, "t": 40, "b": 60},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": {"showline": True, "ticks": "outside", "gridcolor": "#eee", "zeroline": False},
        "yaxis": {"showline": True, "ticks": "outside", "gridcolor": "#eee", "zeroline": False},
        "colorway": [BLUE, ORANGE, BLACK, GREEN, GREY],
    }
)


@dataclass(frozen=True)
class Figure:
    """A plot with its place in the report.

    key: its anchor.  caption: what is seen, how it was reduced, and what it says.
    """

    key: str
    title: str
    caption: str
    plot: go.Figure


def all_figures(view: View) -> list[Figure]:
    """Every figure that the study has something to show for, in the order of the report.

    One that cannot be drawn says so in its place, with its traceback on standard error: the others
    are still worth seeing.
    """
    found: list[Figure | None] = []
    for draw in FIGURES:
        try:
            found.append(draw(view))
        except Exception as error:
            traceback.print_exc()
            sorry = f"This figure could not be drawn: {type(error).__name__}: {error}"
            found.append(Figure(draw.__name__, draw.__name__.capitalize(), sorry, _plot(60)))
    return [figure for figure in found if figure is not None]


# ---- what the figures share ---------------------------------------------------------------------


def escape(text: object) -> str:
    """Text of a user for a plot: Plotly takes tags in it for markup."""
    return html.escape(str(text), quote=False)


def _plot(height: int = 420, **layout: Any) -> go.Figure:
    return go.Figure(layout={"template": TEMPLATE, "height": height, **layout})


def _grid(rows: int, cols: int, *, height: int, **options: Any) -> go.Figure:
    figure = make_subplots(rows=rows, cols=cols, **options)
    figure.update_layout(template=TEMPLATE, height=height)
    if "subplot_titles" in options:  # the legend stands above them
        top = 84
        figure.update_layout(margin_t=top, legend_y=1 + 32 / max(height - top - 60, 1))
    return figure


def _small(values: np.ndarray) -> np.ndarray:
    """Single precision shows all that a screen can, in half the bytes."""
    return np.asarray(values, dtype=np.float32)


def _sample(view: View, rows: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """At most so many of the rows: every improvement and the best, the others evenly spaced."""
    if len(rows) <= most:
        return rows
    new = np.flatnonzero(np.diff(view.best_so_far, prepend=np.nan) != 0)
    kept = np.intersect1d(new[np.isfinite(view.best_so_far[new])], rows)[-most // 2 :]
    spread = rows[np.linspace(0, len(rows) - 1, most - len(kept)).astype(int)]
    return np.union1d(kept, spread)


def _sampled(shown: int, of: int) -> str:
    return "" if shown == of else f" {shown:,} of {of:,} evaluations are drawn, evenly spaced."


def _groups(view: View) -> dict[str, np.ndarray]:
    return {"ok": view.ok, "infeasible": view.infeasible, "failed": view.failed}


def _marks(name: str, size: int = 7) -> dict[str, Any]:
    return {
        "symbol": SYMBOLS[name],
        "color": COLOURS[name],
        "size": size,
        "opacity": 0.7 if name == "ok" else 1.0,
        "line": {"width": 1.2 if name != "ok" else 0, "color": COLOURS[name]},
    }


@dataclass(frozen=True)
class Scale:
    """An axis for the objective that shows the good end in full.

    low, high: what is shown.  log: logarithmic.  above, below: how many values lie outside.
    """

    low: float
    high: float
    log: bool
    below: int
    above: int

    def axis(self, **more: Any) -> dict[str, Any]:
        """The settings of a Plotly axis."""
        ends = np.log10([self.low, self.high]) if self.log else np.array([self.low, self.high])
        return {"type": "log" if self.log else "linear", "range": ends.tolist(), **more}

    @property
    def outside(self) -> str:
        """A sentence that counts what lies outside the axis; empty if nothing does."""
        parts = [(self.above, "above"), (self.below, "below")]
        counted = [f"{n:,} {where}" for n, where in parts if n]
        return f"Outside the axis: {' and '.join(counted)}." if counted else ""

    def clip(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, self.low, self.high)


def scale(view: View) -> Scale:
    """Logarithmic where values differ by an order of magnitude, else without the worst tenth."""
    values = view.table.objective[view.ok | view.infeasible]
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Scale(0.0, 1.0, False, 0, 0)
    good = view.table.objective[view.ok] if view.ok.any() else values
    low, high = float(np.min(good)), float(np.max(good))
    log = low > 0 and high > 10 * low
    if log:
        margin = (high / low) ** 0.06
        low, high = low / margin, high * margin
    else:
        if view.sign > 0:
            high = float(np.quantile(good, 0.9)) if len(good) > 10 else high
        else:
            low = float(np.quantile(good, 0.1)) if len(good) > 10 else low
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - margin, high + margin
    return Scale(low, high, log, int(np.sum(values < low)), int(np.sum(values > high)))


def _note(figure: go.Figure, text: str, **where: Any) -> None:
    """A remark inside the axes, top right."""
    if text:
        place = {"x": 1, "y": 1, "xref": "x domain", "yref": "y domain", **where}
        figure.add_annotation(
            text=escape(text), showarrow=False, xanchor="right", yanchor="top",
            font={"size": 11, "color": "#555"}, bgcolor="rgba(255,255,255,.8)", **place,
        )  # fmt: skip


def _number(value: float) -> str:
    return f"{value:.5g}"


# ---- the course of the study --------------------------------------------------------------------


def progress(view: View) -> Figure:
    """Every evaluation in order, and the best so far."""
    figure, axis = _plot(), scale(view)
    total = 0
    for name, group in _groups(view).items():
        rows = _sample(view, np.flatnonzero(group))
        total += len(rows)
        if len(rows) == 0:
            continue
        # What has no objective stands at the foot of the plot.
        y = np.full(len(rows), axis.low) if name == "failed" else view.table.objective[rows]
        figure.add_scatter(
            x=rows + 1, y=_small(y), mode="markers", name=f"{name} ({int(group.sum()):,})",
            marker=_marks(name), customdata=rows, cliponaxis=name != "failed",
            text=[view.id(row) for row in rows],
            hovertemplate="%{text}: %{y:.6g}<extra></extra>"
            if name != "failed" else "%{text}: no objective<extra></extra>",
        )  # fmt: skip
    _best_line(figure, view, np.arange(1, len(view) + 1))
    figure.update_layout(xaxis_title="evaluation", yaxis=axis.axis(title="objective"))
    _note(figure, axis.outside)
    caption = (
        "Each evaluation in the order of proposal, and the best ok value so far. Those without an "
        "objective stand at the foot." + _sampled(total, len(view))
    )
    return Figure("progress", "Best so far", caption, figure)


def _corners(view: View) -> np.ndarray:
    """Rows at which the best so far improves, and the last one; empty where there is none."""
    best = view.best_so_far
    found = np.flatnonzero(np.isfinite(best) & (np.diff(best, prepend=np.nan) != 0))
    return np.append(found, len(view) - 1) if len(found) else found


def _best_line(figure: go.Figure, view: View, x: np.ndarray, **more: Any) -> None:
    """The best so far as a line with a corner at each improvement."""
    rows = _corners(view)
    if len(rows):
        figure.add_scatter(
            x=x[rows], y=view.best_so_far[rows], mode="lines", name="best so far", customdata=rows,
            line={"shape": "hv", "color": BLACK, "width": 2},
            hovertemplate="best %{y:.6g}<extra></extra>", **more,
        )  # fmt: skip


def spent(view: View) -> Figure | None:
    """The best so far by the time that passed and by what the evaluations cost."""
    if not view.timed.any() or view.best is None:
        return None
    name, cost = view.cost
    finished = np.where(view.timed, view.numbers["finished"], np.nan)
    start = np.nanmin(view.numbers["started"][view.timed])
    # In the order in which they ended: only then was the value known.
    order = np.argsort(np.where(np.isfinite(finished), finished, np.inf), kind="stable")
    values = view.sign * np.where(view.ok, view.table.objective, np.nan)[order]
    best = view.sign * np.fmin.accumulate(values)
    corners = np.flatnonzero(np.isfinite(best) & (np.diff(best, prepend=np.nan) != 0))
    known = np.flatnonzero(np.isfinite(finished[order]))
    rows = np.union1d(corners[np.isfinite(finished[order][corners])], known[-1:])
    elapsed, unit = _elapsed(finished[order] - start)
    used = np.cumsum(cost[order])
    figure = _grid(1, 2, height=360, shared_yaxes=True, horizontal_spacing=0.06)
    for i, (x, title) in enumerate([(elapsed, f"{unit} since the start"), (used, name)], start=1):
        figure.add_scatter(
            x=x[rows], y=best[rows], mode="lines+markers", name="best so far", row=1, col=i,
            line={"shape": "hv", "color": BLACK}, marker={"size": 5, "symbol": "circle"},
            customdata=order[rows], hovertemplate="%{x:.4g}: %{y:.6g}<extra></extra>",
            showlegend=False,
        )  # fmt: skip
        figure.update_xaxes(title=escape(title), row=1, col=i)
    logarithmic = best[rows].min() > 0 and best[rows].max() > 10 * best[rows].min()
    figure.update_yaxes(type="log" if logarithmic else "linear")
    figure.update_yaxes(title="objective", row=1, col=1)
    return Figure(
        "spent",
        "Best by time and cost",
        f"Left: by the clock, pauses included. Right: by the sum of {name} of everything that had "
        "ended by then.",
        figure,
    )


def _elapsed(seconds: np.ndarray) -> tuple[np.ndarray, str]:
    """Times in the unit in which they are read most easily."""
    longest = float(np.nanmax(seconds)) if np.isfinite(seconds).any() else 0.0
    for size, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if longest > 2 * size:
            return seconds / size, name
    return seconds, "seconds"


def planar(view: View) -> Figure:
    """The study's whole course as a histogram of time and outcome (Snoek et al. 2015, figure 4)."""
    axis = scale(view)
    n = len(view)
    bins = int(np.clip(n // 5, 10, 80))
    edges = np.linspace(0.5, n + 0.5, bins + 1)
    levels = np.linspace(axis.low, axis.high, 41)
    if axis.log:
        levels = np.geomspace(axis.low, axis.high, 41)
    ran = view.ok | view.infeasible
    counts, _, _ = np.histogram2d(
        np.flatnonzero(ran) + 1, axis.clip(view.table.objective[ran]), bins=(edges, levels)
    )
    lost, _ = np.histogram(np.flatnonzero(view.failed) + 1, bins=edges)
    figure = _grid(
        2, 1, height=460, shared_xaxes=True, row_heights=[0.9, 0.1], vertical_spacing=0.03
    )
    shades = {"colorscale": "Greys", "zmin": 0, "zmax": float(max(counts.max(), lost.max(), 1))}
    figure.add_heatmap(
        x=edges, y=levels, z=counts.T.astype(np.int32), row=1, col=1, name="count",
        colorbar={"title": "count"}, hovertemplate="%{z} around %{x:.0f}, %{y:.5g}<extra></extra>",
        **shades,
    )  # fmt: skip
    figure.add_heatmap(
        x=edges, y=["no value"], z=lost[None].astype(np.int32), row=2, col=1, showscale=False,
        hovertemplate="%{z} without an objective around %{x:.0f}<extra></extra>", **shades,
    )  # fmt: skip
    for colour, width in (("white", 6), (BLACK, 2)):  # black on black would not be seen
        _best_line(figure, view, np.arange(1, n + 1), row=1, col=1)
        if view.best is not None:
            figure.data[-1].line.update(color=colour, width=width)
            figure.data[-1].showlegend = colour == BLACK
    figure.update_yaxes(axis.axis(title="objective"), row=1, col=1)
    figure.update_xaxes(title="evaluation", row=2, col=1)
    return Figure(
        "planar",
        "The whole course",
        "A planar histogram: the darker a bin, the more evaluations ended in it; the line is the "
        "best so far, the strip below counts those without an objective. Dark near the line is "
        "exploitation, grey away from it exploration. " + _clipped(axis),
        figure,
    )


def _clipped(axis: Scale) -> str:
    return f"{axis.outside} They are counted in the outermost bins." if axis.outside else ""


# ---- the model ----------------------------------------------------------------------------------


def slices(view: View) -> Figure | None:
    """The surrogate along each parameter, through the best point."""
    if not view.has_model or view.best is None:
        return None
    best = view.best
    chosen = [(j, c) for j, c in view.columns if np.isfinite(view.table.v[best, j])]
    if not chosen:
        return None
    wide = min(3, len(chosen))
    tall = -(-len(chosen) // wide)
    axis = scale(view)
    figure = _grid(
        tall, wide, height=90 + 270 * tall, shared_yaxes=True, horizontal_spacing=0.04,
        vertical_spacing=min(0.14, 0.6 / tall), subplot_titles=[escape(c.name) for _, c in chosen],
    )  # fmt: skip
    for i, (j, column) in enumerate(chosen):
        place = {"row": i // wide + 1, "col": i % wide + 1}
        _slice(figure, view, j, column, axis, place, first=i == 0)
    figure.update_yaxes(axis.axis())
    figure.update_yaxes(title="objective", col=1)
    inactive = [c.name for j, c in view.columns if (j, c) not in chosen]
    caption = (
        f"What the surrogate of iteration {view.model_iteration} expects as one parameter changes "
        f"and the others stay as in the best point, {view.id(best)}: mean, and the interval that "
        "should hold 95 % of outcomes. The darker the background, the less likely the point is "
        "feasible. Dots are evaluations, most of them far from this line. Vertical lines are the "
        "bounds, the star is the best point."
    )
    if inactive:
        caption += f" Not active there: {', '.join(inactive)}."
    return Figure("slices", "The model through the best point", caption, figure)


def on_bound(view: View, row: int) -> list[str]:
    """Numeric parameters of a row within a hundredth of an end of their range."""
    found = []
    for j, column in view.columns:
        if column.choices is not None or (column.levels or 100) < 4:
            continue
        if not np.isfinite(view.table.v[row, j]):
            continue
        ends = np.repeat(view.table.v[row : row + 1], 2, axis=0)
        ends[:, j] = column.low, column.high
        if np.min(np.abs(view.space.unit(ends)[:, j] - view.unit[row, j])) < 0.01:
            found.append(column.name)
    return found


def _choice(column: Column, index: int) -> str:
    assert column.choices is not None
    text = str(column.choices[index])
    return escape(text if len(text) <= 24 else f"{text[:21]}...")


def _axis_of(column: Column, **more: Any) -> dict[str, Any]:
    """The axis of a parameter: its bounds and a little beyond, its scale, its choices."""
    if column.choices is not None:
        names = [_choice(column, i) for i in range(len(column.choices))]
        return {
            "tickvals": list(range(len(names))), "ticktext": names,
            "range": [-0.5, len(names) - 0.5], **more,
        }  # fmt: skip
    low, high = column.low, column.high
    if column.levels is not None and column.levels <= 8 and not column.log:
        more["nticks"] = column.levels
        more["tickvals"] = (
            np.linspace(low, high, column.levels).tolist()
            if column.values is None
            else column.values.tolist()
        )
    if column.log:
        ends = np.log10([low, high])
        margin = 0.04 * (ends[1] - ends[0])
        return {"type": "log", "range": [ends[0] - margin, ends[1] + margin], **more}
    margin = 0.04 * (high - low)
    return {"type": "linear", "range": [low - margin, high + margin], **more}


def _slice(
    figure: go.Figure,
    view: View,
    j: int,
    column: Column,
    axis: Scale,
    place: dict[str, int],
    *,
    first: bool,
) -> None:
    assert view.best is not None
    values = view.slice_values(j)
    mean, std, feasible = view.predict(view.through(view.best, {j: values}))
    legend = {"showlegend": first}
    figure.add_heatmap(
        x=values, y=[axis.low, axis.high], z=np.repeat(_small(feasible)[None], 2, axis=0),
        colorscale=[[0, "#999"], [1, "#fff"]], zmin=0, zmax=1, showscale=first,
        colorbar={"title": "P(feasible)", "len": 0.6}, hoverinfo="skip", **place,
    )  # fmt: skip
    for name, group in _groups(view).items():
        rows = _sample(view, np.flatnonzero(group & np.isfinite(view.table.v[:, j])), 300)
        if len(rows):
            y = np.full(len(rows), axis.low) if name == "failed" else view.table.objective[rows]
            figure.add_scatter(
                x=_small(view.table.v[rows, j]), y=_small(y), mode="markers", name=name,
                marker={**_marks(name, 4), "opacity": 0.45}, customdata=rows, legendgroup=name,
                text=[view.id(row) for row in rows], hovertemplate="%{text}<extra></extra>",
                **legend, **place,
            )  # fmt: skip
    discrete = column.levels is not None and column.levels <= 12
    upper, lower = mean + 1.96 * std, mean - 1.96 * std
    if axis.log:
        lower = np.maximum(lower, axis.low / 10)
    if discrete:
        figure.add_scatter(
            x=values, y=mean, mode="markers", name="expected, 95 %", legendgroup="mean",
            error_y={"array": upper - mean, "arrayminus": mean - lower, "color": BLACK},
            marker={"symbol": "square", "size": 8, "color": BLACK}, **legend, **place,
            hovertemplate="%{y:.5g}<extra>expected</extra>",
        )  # fmt: skip
    else:
        figure.add_scatter(
            x=np.concatenate([values, values[::-1]]), y=np.concatenate([upper, lower[::-1]]),
            fill="toself", fillcolor="rgba(0,114,178,.25)", line={"width": 0}, hoverinfo="skip",
            name="95 %", legendgroup="band", mode="lines", **legend, **place,
        )  # fmt: skip
        figure.add_scatter(
            x=values, y=mean, mode="lines", name="expected", legendgroup="mean",
            line={"color": BLACK, "width": 2}, **legend, **place,
            hovertemplate="%{y:.5g} at %{x:.5g}<extra>expected</extra>",
        )  # fmt: skip
    figure.add_scatter(
        x=[view.table.v[view.best, j]], y=[view.table.objective[view.best]], mode="markers",
        name="best", legendgroup="best", customdata=[view.best],
        marker={"symbol": "star", "size": 14, "color": ORANGE, "line": {"width": 1}},
        **legend, **place, hovertemplate="best: %{y:.6g} at %{x:.6g}<extra></extra>",
    )  # fmt: skip
    if column.choices is None:
        for bound in (column.low, column.high):
            figure.add_vline(x=bound, line={"color": BLACK, "width": 1, "dash": "dot"}, **place)
    figure.update_xaxes(_axis_of(column), **place)
    if column.name in on_bound(view, view.best):
        figure.add_annotation(
            text="<b>the best lies on the bound</b>", x=0.5, y=0.97, showarrow=False,
            xref="x domain", yref="y domain", font={"size": 12}, bgcolor="#fff", **place,
        )  # fmt: skip


def importance(view: View) -> Figure | None:
    """Sobol indices of every parameter."""
    if not view.has_model:
        return None
    first, total = view.importance["first"], view.importance["total"]
    if not np.isfinite(total).any():
        return None
    names = [escape(c.name) for _, c in view.columns]
    order = [j for j, _ in view.columns]
    titles = ["of the expected objective", "of the probability to be feasible"]
    known = [i for i in range(2) if np.isfinite(total[i]).any()]
    figure = _grid(
        1, len(known), height=140 + 26 * len(names), shared_yaxes=True, horizontal_spacing=0.04,
        subplot_titles=[titles[i] for i in known],
    )  # fmt: skip
    for col, i in enumerate(known, start=1):
        for values, name, colour, pattern in (
            (total, "total: with all interactions", "#9ecae1", ""),
            (first, "first order: alone", BLUE, "/"),
        ):
            figure.add_bar(
                y=names, x=_small(values[i][order]), name=name, orientation="h", row=1, col=col,
                marker={"color": colour, "pattern": {"shape": pattern}}, legendgroup=name,
                showlegend=col == 1, hovertemplate="%{y}: %{x:.3f}<extra></extra>",
            )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="share of the variance", rangemode="tozero")
    figure.update_layout(margin_l=140)
    return Figure(
        "importance",
        "What matters",
        f"Sobol indices (functional analysis of variance) of the surrogate of iteration "
        f"{view.model_iteration} over the whole space: the share of the variance that goes when a "
        "parameter is known, alone and with all its interactions. Estimates of a model, not of "
        "the objective.",
        figure,
    )


def _most_important(view: View, of: int, count: int) -> list[int]:
    """Columns of v that matter most, to the objective (of: 0) or to feasibility (1)."""
    total = np.nan_to_num(view.importance["total"][of], nan=-1.0)
    return [int(j) for j in np.argsort(-total, kind="stable")[:count]]


def surfaces(view: View) -> Figure | None:
    """What the surrogate expects over pairs of the parameters that matter most."""
    if not view.has_model or view.best is None or view.space.k < 2:
        return None
    active = np.isfinite(view.table.v[view.best])
    ranked = [j for j in _most_important(view, 0, view.space.k) if active[j]][:3]
    pairs = [(a, b) for i, a in enumerate(ranked) for b in ranked[i + 1 :]]
    if not pairs:
        return None
    grids = [_pair(view, a, b) for a, b in pairs]
    log = scale(view).log and all(np.all(g[2] > 0) for g in grids)
    shown = [np.log10(g[2]) if log else g[2] for g in grids]
    low, high = np.quantile(np.concatenate([z.ravel() for z in shown]), [0, 0.95])
    if view.sign < 0:
        low, high = np.quantile(np.concatenate([z.ravel() for z in shown]), [0.05, 1])
    figure = _grid(1, len(pairs), height=400, horizontal_spacing=0.1)
    for i, ((a, b), (x, y, mean, feasible), z) in enumerate(
        zip(pairs, grids, shown, strict=True), start=1
    ):
        place = {"row": 1, "col": i}
        figure.add_heatmap(
            x=x, y=y, z=_small(z), zmin=low, zmax=high, colorscale="Viridis",
            reversescale=view.sign > 0, showscale=i == 1, customdata=_small(mean),
            colorbar={"title": "log₁₀ of expected" if log else "expected"}, **place,
            hovertemplate="%{customdata:.5g} at %{x:.5g}, %{y:.5g}<extra></extra>",
        )  # fmt: skip
        if np.ptp(feasible) > 1e-3:
            dark, clear = "rgba(0,0,0,.55)", "rgba(0,0,0,0)"
            figure.add_heatmap(
                x=x, y=y, z=_small(feasible), zmin=0, zmax=1, showscale=False, hoverinfo="skip",
                colorscale=[[0, dark], [0.5, dark], [0.5, clear], [1, clear]], **place,
            )  # fmt: skip
        figure.add_scatter(
            x=[view.table.v[view.best, a]], y=[view.table.v[view.best, b]], mode="markers",
            marker={"symbol": "star", "size": 14, "color": ORANGE, "line": {"width": 1}},
            name="best", legendgroup="best", showlegend=i == 1, customdata=[view.best], **place,
            hovertemplate="best<extra></extra>",
        )  # fmt: skip
        column_x, column_y = view.space.columns[a], view.space.columns[b]
        figure.update_xaxes(_axis_of(column_x, title=escape(column_x.name)), **place)
        figure.update_yaxes(_axis_of(column_y, title=escape(column_y.name)), **place)
    return Figure(
        "surfaces",
        "Two parameters at a time",
        "What the surrogate expects of the objective over pairs of the parameters that matter "
        "most, the others as in the best point. Lighter is better"
        + (" (smaller)" if view.sign > 0 else " (larger)")
        + "; darkened, a point is more likely infeasible than not.",
        figure,
    )


def _pair(view: View, a: int, b: int) -> tuple[np.ndarray, ...]:
    """Values of two columns, and the predicted mean and feasibility on their grid (nb, na)."""
    assert view.best is not None
    x, y = view.slice_values(a, 33), view.slice_values(b, 33)
    grid_x, grid_y = np.meshgrid(x, y)
    points = view.through(view.best, {a: grid_x.ravel(), b: grid_y.ravel()})
    mean, _, feasible = view.predict(points)
    return x, y, mean.reshape(grid_x.shape), feasible.reshape(grid_x.shape)


# ---- the points ---------------------------------------------------------------------------------


def parallel(view: View) -> Figure | None:
    """Parallel coordinates: the evaluations as lines across the parameters."""
    rows = np.flatnonzero(view.ok)
    if len(rows) < 2:
        return None
    order = rows[np.argsort(view.sign * view.table.objective[rows], kind="stable")]
    best, rest = order[: MOST_LINES // 2], order[MOST_LINES // 2 :]
    spread = np.linspace(0, max(len(rest) - 1, 0), min(len(rest), MOST_LINES // 2)).astype(int)
    drawn = np.concatenate([best, rest[spread]])[::-1]  # the best on top
    axis = scale(view)
    shown = axis.clip(view.table.objective[drawn])
    colour = np.log10(shown) if axis.log else shown
    dimensions = []
    for j, column in view.columns:
        ticks, names = _ticks(view, j, column)
        dimensions.append(
            {
                "label": escape(column.name), "values": _small(view.unit[drawn, j]),
                "range": [0, 1], "tickvals": ticks, "ticktext": names,
            }
        )  # fmt: skip
    dimensions.append({"label": "log₁₀ objective" if axis.log else "objective", "values": colour})
    figure = _plot(440, margin={"l": 60, "r": 90, "t": 70, "b": 30})
    figure.add_parcoords(
        dimensions=dimensions,
        line={
            "color": colour, "colorscale": "Viridis", "reversescale": view.sign < 0,
            "showscale": False,
        },
    )  # fmt: skip
    part = "" if len(drawn) == len(rows) else f" {len(drawn):,} of {len(rows):,} are drawn."
    return Figure(
        "parallel",
        "Parallel coordinates",
        "Each line is an ok evaluation, the darker the better. Drag along an axis to pick a range, "
        "click the axis to let it go. Parameters that are not active stand at their default."
        + part,
        figure,
    )


def _ticks(view: View, j: int, column: Column) -> tuple[list[float], list[str]]:
    """Some values of a parameter with their place on the unit interval."""
    values = view.slice_values(j, 200)
    if len(values) > 7:
        values = values[np.linspace(0, len(values) - 1, 6).astype(int)]
    points = np.repeat(view.space.defaults(), len(values), axis=0)
    points[:, j] = values
    places = view.space.unit(points)[:, j].tolist()
    if column.choices is not None:
        return places, [_choice(column, int(v)) for v in values]
    return places, [f"{v:.3g}" for v in values]


def feasibility(view: View) -> Figure | None:
    """How each iteration's evaluations ended, and what share was expected to be feasible."""
    if view.ok.all():
        return None
    iterations, where = np.unique(view.table.iteration, return_inverse=True)
    size = np.bincount(where)
    figure = _plot(380, barmode="stack", bargap=0.1)
    for status in STATUSES:
        share = np.bincount(where, weights=view.table.status == status) / size
        if share.any():
            figure.add_bar(
                x=iterations, y=_small(share), name=status,
                marker={
                    "color": STATUS_COLOURS[status], "pattern": {"shape": PATTERNS[status]},
                    "line": {"width": 0.5, "color": "white"},
                },
                hovertemplate="iteration %{x}: %{y:.0%}<extra>" + status + "</extra>",
            )  # fmt: skip
    known = np.isfinite(view.numbers["feasibility"])
    if known.any():
        count = np.bincount(where, weights=known)
        total = np.bincount(where, weights=np.where(known, view.numbers["feasibility"], 0.0))
        some = count > 0
        figure.add_scatter(
            x=iterations[some], y=_small(total[some] / count[some]), name="feasible, as expected",
            mode="lines+markers", marker={"symbol": "square", "size": 6, "color": BLACK},
            line={"color": BLACK, "dash": "dash"},
            hovertemplate="expected feasible: %{y:.0%}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis_title="iteration", yaxis={"title": "share", "range": [0, 1], "tickformat": ".0%"}
    )
    return Figure(
        "feasibility",
        "How evaluations ended",
        "The share of each outcome by iteration, and the share that the model expected to be "
        "feasible when it proposed them. Both should rise, and agree.",
        figure,
    )


def feasible_map(view: View) -> Figure | None:
    """P(feasible) over the two parameters that it depends on most, with every outcome."""
    if not view.has_model or view.space.k < 2 or view.ok.all() or view.best is None:
        return None
    if not np.isfinite(view.importance["total"][1]).any():
        return None
    active = np.isfinite(view.table.v[view.best])
    ranked = [j for j in _most_important(view, 1, view.space.k) if active[j]][:2]
    if len(ranked) < 2:
        return None
    a, b = ranked
    x, y, _, feasible = _pair(view, a, b)
    figure = _plot(460)
    figure.add_heatmap(
        x=x, y=y, z=_small(feasible), zmin=0, zmax=1, colorscale=[[0, "#888"], [1, "#fff"]],
        colorbar={"title": "P(feasible)"}, hovertemplate="%{z:.2f}<extra>P(feasible)</extra>",
    )  # fmt: skip
    total = 0
    for name, group in _groups(view).items():
        rows = _sample(view, np.flatnonzero(group & np.isfinite(view.table.v[:, [a, b]]).all(1)))
        total += len(rows)
        if len(rows):
            figure.add_scatter(
                x=_small(view.table.v[rows, a]), y=_small(view.table.v[rows, b]), mode="markers",
                name=name, marker=_marks(name, 6), customdata=rows,
                text=[view.id(row) for row in rows], hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip
    column_x, column_y = view.space.columns[a], view.space.columns[b]
    figure.update_layout(
        xaxis=_axis_of(column_x, title=escape(column_x.name)),
        yaxis=_axis_of(column_y, title=escape(column_y.name)),
    )
    return Figure(
        "feasible-map",
        "Where evaluations end well",
        "The probability to be feasible over the two parameters that it depends on most, the "
        "others as in the best point, and every outcome, wherever its other parameters lie."
        + _sampled(total, len(view)),
        figure,
    )


# ---- how good the proposals were ----------------------------------------------------------------


def calibration(view: View) -> Figure | None:
    """What was predicted of each proposal against what came of it, out of sample."""
    mean, std = view.numbers["mean"], view.numbers["std"]
    known = view.ok & np.isfinite(mean) & (std > 0)
    if known.sum() < 2:
        return None
    rows = _sample(view, np.flatnonzero(known))
    axis = scale(view)
    figure = _grid(
        1, 2, height=420, horizontal_spacing=0.12,
        subplot_titles=["predicted and observed", "share inside the 95 % interval"],
    )  # fmt: skip
    figure.add_scatter(
        x=_small(mean[rows]), y=_small(view.table.objective[rows]), mode="markers", name="proposal",
        error_x={
            "array": _small(1.96 * std[rows]), "width": 0, "thickness": 0.7,
            "color": "rgba(0,0,0,.25)",
        } if len(rows) <= 400 else None,
        marker={
            "color": view.table.iteration[rows], "colorscale": "Viridis", "size": 6,
            "reversescale": True, "colorbar": {"title": "iteration", "x": 0.44, "thickness": 12},
        },
        customdata=rows, text=[view.id(row) for row in rows], row=1, col=1, showlegend=False,
        hovertemplate="%{text}: %{x:.5g} predicted, %{y:.5g} observed<extra></extra>",
    )  # fmt: skip
    ends = [axis.low, axis.high]
    figure.add_scatter(
        x=ends, y=ends, mode="lines", line={"color": BLACK, "dash": "dash"}, name="equal",
        row=1, col=1, hoverinfo="skip",
    )  # fmt: skip
    figure.update_xaxes(axis.axis(title="predicted (with 95 %)"), row=1, col=1)
    figure.update_yaxes(axis.axis(title="observed"), row=1, col=1)
    _note(figure, axis.outside)
    iterations, where = np.unique(view.table.iteration[known], return_inverse=True)
    z = (view.table.objective[known] - mean[known]) / std[known]
    inside = np.bincount(where, weights=np.abs(z) < 1.96) / np.bincount(where)
    figure.add_scatter(
        x=iterations, y=_small(inside), mode="lines+markers", name="of this batch", row=1, col=2,
        marker={"symbol": "circle", "color": BLUE}, line={"color": BLUE},
        hovertemplate="iteration %{x}: %{y:.0%}<extra></extra>",
    )  # fmt: skip
    figure.add_hline(y=0.95, line={"color": BLACK, "dash": "dot"}, row=1, col=2)
    figure.update_xaxes(title="iteration", row=1, col=2)
    figure.update_yaxes(range=[0, 1.03], tickformat=".0%", row=1, col=2)
    overall = float(np.mean(np.abs(z) < 1.96))
    return Figure(
        "calibration",
        "Predicted and observed",
        "What was expected of each proposal when it was picked, and what came of it: the model had "
        f"not seen it. Inside their 95 % interval: {overall:.0%} of {int(known.sum()):,} outcomes. "
        "Proposals are picked where the model promises much, so this is a hard test."
        + _sampled(len(rows), int(known.sum())),
        figure,
    )


def batch(view: View) -> Figure | None:
    """The last batch in the order of picking: value, stage, and distance to what was known."""
    rows = view.last
    value = view.numbers["value"][rows]
    if not np.isfinite(value).any():
        return None
    figure = _grid(
        2, 1, height=480, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.5, 0.5]
    )
    symbols = ["circle", "square", "diamond-open", "cross", "triangle-up-open", "x", "star"]
    colours = [BLUE, ORANGE, BLACK, GREEN, GREY, "#CC79A7", "#E69F00"]
    for i, source in enumerate(sorted(set(view.source[rows]))):
        part = np.flatnonzero(view.source[rows] == source)
        marker = {"symbol": symbols[i % 7], "color": colours[i % 7], "size": 9}
        for line, y in ((1, value[part]), (2, view.nearest[rows[part]])):
            figure.add_scatter(
                x=part + 1, y=y, mode="markers", name=escape(source), legendgroup=source,
                showlegend=line == 1, marker=marker, customdata=rows[part], row=line, col=1,
                text=[view.id(row) for row in rows[part]],
                hovertemplate="%{text}: %{y:.4g}<extra>" + escape(source) + "</extra>",
            )  # fmt: skip
    positive = value[np.isfinite(value)]
    log = positive.min() > 0 and positive.max() > 10 * positive.min()
    figure.update_yaxes(
        title="acquisition value", type="log" if log else "linear", exponentformat="power",
        row=1, col=1,
    )  # fmt: skip
    figure.update_yaxes(title="distance to the nearest", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(title="pick", row=2, col=1)
    return Figure(
        "batch",
        f"The last batch, iteration {view.table.iteration[-1]}",
        "Its points in the order of picking: the acquisition value, by the stage of the search that "
        "found each, and the distance to the nearest point known or picked before (root mean square "
        "over the parameters, unit cube). A distance near 0 is an evaluation spent twice. Stages do "
        "not value points on the same scale.",
        figure,
    )


# ---- time ---------------------------------------------------------------------------------------


def timeline(view: View) -> Figure | None:
    """Evaluations under way over time, and where the time of each iteration went."""
    stages = {s: found for s, found in view.stage_seconds.items() if found}
    panels: list[Callable[[go.Figure, int], None]] = []
    if view.timed.sum() > 1:
        panels.append(lambda figure, row: _busy(figure, view, row))
    if stages:
        panels.append(lambda figure, row: _stages(figure, stages, row))
    if not panels:
        return None
    figure = _grid(len(panels), 1, height=60 + 260 * len(panels), vertical_spacing=0.18)
    for i, draw in enumerate(panels, start=1):
        draw(figure, i)
    figure.update_layout(barmode="stack")
    return Figure(
        "timeline",
        "Where the time went",
        "Evaluations that ran at once, over the time since the first began; gaps are fits, "
        "proposals, queues and pauses. Below, the seconds of the jobs of each stage by iteration, "
        "evaluations side by side counted one by one.",
        figure,
    )


def _busy(figure: go.Figure, view: View, row: int) -> None:
    start = float(np.min(view.numbers["started"][view.timed]))
    end = float(np.max(view.numbers["finished"][view.timed]))
    edges = np.linspace(start, max(end, start + 1e-3), 401)
    elapsed, unit = _elapsed(edges[1:] - start)
    figure.add_scatter(
        x=_small(elapsed), y=_small(view.busy(edges)), mode="lines", fill="tozeroy",
        name="evaluations under way", line={"shape": "vh", "color": BLUE, "width": 1},
        row=row, col=1, hovertemplate="%{y:.1f} at %{x:.3g}<extra></extra>",
    )  # fmt: skip
    figure.update_xaxes(title=f"{unit} since the start", row=row, col=1)
    figure.update_yaxes(title="slots busy", rangemode="tozero", row=row, col=1)


def _stages(figure: go.Figure, stages: dict[str, dict[int, float]], row: int) -> None:
    styles: Iterable[tuple[str, str, str]] = (
        ("fit", ORANGE, "/"), ("propose", GREEN, "x"), ("evaluate", BLUE, ""), ("merge", BLACK, "."),
    )  # fmt: skip
    for name, colour, pattern in styles:
        found = stages.get(name, {})
        if found:
            iterations = np.array(sorted(found))
            figure.add_bar(
                x=iterations, y=_small(np.array([found[t] for t in iterations])), name=name,
                marker={"color": colour, "pattern": {"shape": pattern}}, row=row, col=1,
                hovertemplate="iteration %{x}: %{y:.3g} s<extra>" + name + "</extra>",
            )  # fmt: skip
    figure.update_xaxes(title="iteration", row=row, col=1)
    figure.update_yaxes(title="seconds", row=row, col=1)


def comparison(views: Sequence[tuple[str, View]]) -> Figure:
    """The best so far of several studies, by name, after each evaluation and by their cost."""
    figure = _grid(1, 2, height=440, shared_yaxes=True, horizontal_spacing=0.06)
    dashes = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
    colours = (BLACK, BLUE, ORANGE, GREEN, GREY)
    lows = []
    for i, (name, view) in enumerate(views):
        line = {"dash": dashes[i % 6], "color": colours[i % 5], "width": 2, "shape": "hv"}
        measure, cost = view.cost
        for col, x in ((1, np.arange(1, len(view) + 1)), (2, np.cumsum(cost))):
            rows = _corners(view)
            lows += view.best_so_far[rows].tolist()
            figure.add_scatter(
                x=x[rows], y=view.best_so_far[rows], mode="lines", name=escape(name), line=line,
                legendgroup=name, showlegend=col == 1, row=1, col=col,
                hovertemplate="%{x:.5g}: %{y:.6g}<extra>" + escape(name) + "</extra>",
            )  # fmt: skip
        figure.update_xaxes(title=escape(measure), row=1, col=2)
    figure.update_xaxes(title="evaluation", row=1, col=1)
    figure.update_yaxes(title="best so far", row=1, col=1)
    if lows and min(lows) > 0 and max(lows) > 10 * min(lows):
        figure.update_yaxes(type="log")
    caption = "The best ok value of each study after each evaluation, and by what they had cost."
    return Figure("comparison", "Best so far", caption, figure)


FIGURES: tuple[Callable[[View], Figure | None], ...] = (
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
    batch,
    timeline,
)
