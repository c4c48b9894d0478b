"""Figures of the surrogate: slices, surfaces, importance, feasibility."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dngo.report.data import View
from dngo.report.figures import style
from dngo.space import Column

BLANK = " Blank areas are ruled out by a known constraint."


def slices(view: View, only: Collection[str] = ()) -> style.Figure | None:
    """The surrogate along each parameter, or along some by name, through the best point."""
    if not view.has_model or view.best is None:
        return None
    best = view.best
    active = [(j, c) for j, c in view.columns if np.isfinite(view.table.v[best, j])]
    chosen = [(j, c) for j, c in active if not only or c.name in only]
    if not chosen:
        return None
    wide = min(3, len(chosen))
    tall = -(-len(chosen) // wide)
    axis = style.scale(view)
    figure = style.subplots(
        tall, wide, shared_yaxes=True, horizontal_spacing=0.04,
        **style.rows_of([c for _, c in chosen], wide),
        subplot_titles=[style.escape(view.label(c.name)) for _, c in chosen],
    )  # fmt: skip
    for i, (j, column) in enumerate(chosen):
        place = {"row": i // wide + 1, "col": i % wide + 1}
        _slice(figure, view, j, column, axis, place, first=i == 0)
    figure.update_yaxes(axis.axis())
    figure.update_yaxes(title=style.escape(view.label("objective")), col=1)
    inactive = [c.name for j, c in view.columns if (j, c) not in active]
    caption = (
        f"Predictions of the surrogate of iteration {view.model_iteration}. One parameter "
        f"changes; the others stay as in the best point, {view.id(best)}. The line is the "
        "mean, and the band should hold 95 % of outcomes. The darker the background, the "
        "less likely the point is feasible. Dots are evaluations: most differ from the best point in "
        "other parameters too, so they need not lie near the line; those at the foot have no objective. "
        "Squares with bars are the mean and 95 % of a choice. Vertical lines are the bounds, and "
        "the star is the best point."
    )
    caption += f" {axis.outside}" if axis.outside else ""
    if bound := view.on_bound(best):
        caption += f" It lies on a bound of {', '.join(bound)}."
    if view.space.conditions:
        caption += " Hatched areas are ruled out by a known constraint."
    if inactive:
        caption += f" Not active there: {', '.join(inactive)}."
    return style.Figure("slices", "The model through the best point", caption, figure)


def _slice(
    figure: go.Figure,
    view: View,
    j: int,
    column: Column,
    axis: style.Scale,
    place: dict[str, int],
    *,
    first: bool,
) -> None:
    assert view.best is not None
    values = view.slice_values(j)
    mean, std, feasible = view.predict(view.through(view.best, {j: values}))
    legend = {"showlegend": first}
    figure.add_heatmap(
        x=values, y=[axis.low, axis.high], z=np.repeat(style.small(feasible)[None], 2, axis=0),
        colorscale=[[0, "#999"], [1, "#fff"]], zmin=0, zmax=1, showscale=first,
        colorbar={"title": "P(feasible)", "len": 0.6}, hoverinfo="skip", **place,
    )  # fmt: skip
    for name, rows in style.samples(view, np.isfinite(view.table.v[:, j]), 600).items():
        if len(rows):
            y = style.at_the_foot(view, rows, axis)
            figure.add_scatter(
                x=style.small(view.table.v[rows, j]), y=style.small(y), mode="markers", name=name,
                marker={**style.marks(name, 4), "opacity": 0.45}, customdata=rows, legendgroup=name,
                text=[view.id(row) for row in rows], hovertemplate="%{text}<extra></extra>",
                **legend, **place,
            )  # fmt: skip
    ends = view.units.interval(mean, std, 1.96)
    _band(figure, column, axis, (values, mean, *ends), first, place)
    ruled_out(figure, values, ~view.allowed(view.best, {j: values}), axis, place)
    at = view.table.v[view.best, j], view.table.objective[view.best]
    star(figure, view, at, "best: %{y:.10~g} at %{x:.6g}", showlegend=first, **place)
    if column.choices is None:
        for bound in (column.low, column.high):
            figure.add_vline(
                x=bound, line={"color": style.BLACK, "width": 1, "dash": "dot"}, **place
            )
    figure.update_xaxes(style.axis_of(column), **place)


def _band(
    figure: go.Figure,
    column: Column,
    axis: style.Scale,
    curve: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray],
    first: bool,
    place: dict[str, int],
) -> None:
    """Draw the mean along a parameter, and its 95 % interval: curve (values, mean, low, high)."""
    values, mean, lower, upper = curve
    legend = {"showlegend": first}
    discrete = column.levels is not None and column.levels <= 12
    if axis.log:
        lower = np.maximum(lower, axis.low / 10)
    if discrete:
        figure.add_scatter(
            x=values, y=mean, mode="markers", name="expected, 95 %", legendgroup="mean",
            error_y={"array": upper - mean, "arrayminus": mean - lower, "color": style.BLACK},
            marker={"symbol": "square", "size": 8, "color": style.BLACK}, **legend, **place,
            hovertemplate="%{y:.5g}<extra>expected</extra>",
        )  # fmt: skip
    else:
        figure.add_scatter(
            x=np.concatenate([values, values[::-1]]), y=np.concatenate([upper, lower[::-1]]),
            fill="toself", fillcolor="rgba(0,114,178,.25)", hoverinfo="skip",
            line={"width": 1, "color": style.BLUE, "dash": "dash"},  # its edge shows it in grey
            name="95 %", legendgroup="band", mode="lines", **legend, **place,
        )  # fmt: skip
        figure.add_scatter(
            x=values, y=mean, mode="lines", name="expected", legendgroup="mean",
            line={"color": style.BLACK, "width": 2}, **legend, **place,
            hovertemplate="%{y:.5g} at %{x:.5g}<extra>expected</extra>",
        )  # fmt: skip


def star(figure: go.Figure, view: View, at: tuple[float, float], said: str, **more: Any) -> None:
    """Draw the best point as a star. said: when the mouse is on it."""
    figure.add_scatter(
        x=[at[0]], y=[at[1]], mode="markers", name="best", legendgroup="best", customdata=[view.best],
        marker={"symbol": "star", "size": 14, "color": style.ORANGE, "line": {"width": 1}},
        hovertemplate=f"{said}<extra></extra>", **more,
    )  # fmt: skip


def own_axis(view: View, j: int) -> dict[str, Any]:
    """The axis of column j of v, with its label."""
    column = view.space.columns[j]
    return style.axis_of(column, title=style.escape(view.label(column.name)))


def ruled_out(
    figure: go.Figure,
    values: np.ndarray,
    broken: np.ndarray,
    axis: style.Scale,
    place: dict[str, int],
) -> None:
    """Hatch the parts of a slice that break a known constraint: values, broken (m,)."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], broken.astype(int), [0]])))
    middle = (values[1:] + values[:-1]) / 2
    borders = np.concatenate([values[:1], middle, values[-1:]])
    for start, end in edges.reshape(-1, 2):
        left, right = borders[start], borders[end]
        figure.add_scatter(
            x=[left, right, right, left], y=np.repeat([axis.low, axis.high], 2), mode="lines",
            line={"width": 0}, fill="toself", hoverinfo="skip", showlegend=False,
            fillpattern={"shape": "x", "fgcolor": "#333", "bgcolor": "rgba(255,255,255,.6)"},
            **place,
        )  # fmt: skip


def importance(view: View) -> style.Figure | None:
    """Sobol indices of every parameter."""
    if not view.has_model:
        return None
    first, total = view.importance["first"], view.importance["total"]
    if not np.isfinite(total).any():
        return None
    names = [style.escape(view.label(c.name)) for _, c in view.columns]
    order = [j for j, _ in view.columns]
    titles = ["of the objective", "of P(feasible)"]
    known = [i for i in range(2) if np.isfinite(total[i]).any()]
    figure = style.subplots(
        1, len(known), height=160 + 26 * len(names), shared_yaxes=True, horizontal_spacing=0.06, panel=300,
        subplot_titles=[titles[i] for i in known],
    )  # fmt: skip
    for col, i in enumerate(known, start=1):
        for values, name, colour, pattern in (
            (total, "with interactions", "#9ecae1", ""),
            (first, "alone", style.BLUE, "/"),
        ):
            figure.add_bar(
                y=names, x=style.small(values[i][order]), name=name, orientation="h", row=1, col=col,
                marker={"color": colour, "pattern": {"shape": pattern}}, legendgroup=name,
                showlegend=col == 1, hovertemplate="%{y}: %{x:.3f}<extra></extra>",
            )  # fmt: skip
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(title="share of the variance", rangemode="tozero")
    figure.update_layout(margin_l=140)
    return style.Figure(
        "importance",
        "What matters",
        "The share of the variance over the whole space, infeasible parts included, that each parameter "
        f"causes alone and together with others (Sobol indices). The surrogate of iteration "
        f"{view.model_iteration} says so; near the best point another parameter may matter more.",
        figure,
    )


def most_important(view: View, of: int, count: int) -> list[int]:
    """The columns of v that matter most for the objective (of: 0) or for feasibility (1)."""
    total = np.nan_to_num(view.importance["total"][of], nan=-1.0)
    return [int(j) for j in np.argsort(-total, kind="stable")[:count]]


def surfaces(view: View) -> style.Figure | None:
    """The surrogate's predictions over pairs of the most important parameters."""
    if not view.has_model or view.best is None or view.space.k < 2:
        return None
    active = np.isfinite(view.table.v[view.best])
    ranked = [j for j in most_important(view, 0, view.space.k) if active[j]][:3]
    pairs = [(a, b) for i, a in enumerate(ranked) for b in ranked[i + 1 :]]
    if not pairs:
        return None
    grids = [pair(view, a, b) for a, b in pairs]
    axis = style.scale(view)
    log = axis.log and all(np.nanmin(g[2]) > 0 for g in grids)
    shown = [np.log10(g[2]) if log else g[2] for g in grids]
    ends = [0, 0.95] if view.sign > 0 else [0.05, 1]
    low, high = np.nanquantile(np.concatenate([z.ravel() for z in shown]), ends)
    if axis.walled:
        low, high = axis.clip(np.array([low, high]))
    figure = style.subplots(1, len(pairs), height=400, horizontal_spacing=0.14, panel=245)
    for i, ((a, b), (x, y, mean, feasible), z) in enumerate(
        zip(pairs, grids, shown, strict=True), start=1
    ):
        place = {"row": 1, "col": i}
        figure.add_heatmap(
            x=x, y=y, z=style.small(z), zmin=low, zmax=high, colorscale="Viridis",
            reversescale=view.sign > 0, showscale=i == 1, customdata=style.small(mean),
            colorbar={"title": {"text": _bar_title(view, log), "side": "right"}}, **place,
            hovertemplate="%{customdata:.5g} at %{x:.5g}, %{y:.5g}<extra></extra>",
        )  # fmt: skip
        if np.nanmax(feasible) - np.nanmin(feasible) > 1e-3:
            dark, clear = "rgba(0,0,0,.55)", "rgba(0,0,0,0)"
            figure.add_heatmap(
                x=x, y=y, z=style.small(feasible), zmin=0, zmax=1, showscale=False, hoverinfo="skip",
                colorscale=[[0, dark], [0.5, dark], [0.5, clear], [1, clear]], **place,
            )  # fmt: skip
            if not any(view.space.columns[j].choices for j in (a, b)):  # no level between these
                figure.add_contour(  # in grey, a dark area may also be a poor value
                    x=x, y=y, z=style.small(feasible), showscale=False, showlegend=False,
                    contours={"start": 0.5, "end": 0.5, "coloring": "none"}, hoverinfo="skip",
                    line={"color": "#fff", "width": 2, "dash": "dash"}, **place,
                )  # fmt: skip
        at = view.table.v[view.best, a], view.table.v[view.best, b]
        star(figure, view, at, "best", showlegend=i == 1, **place)
        figure.update_xaxes(own_axis(view, a), **place)
        figure.update_yaxes(own_axis(view, b), **place)
    return style.Figure(
        "surfaces",
        "Two parameters at a time",
        "The surrogate's predictions of the objective over pairs of the most important "
        "parameters. The others stay as in the best point. Lighter is better"
        + (" (smaller)" if view.sign > 0 else " (larger)")
        + "; darkened, behind the dashed line, a point is more likely infeasible than not."
        + (BLANK if view.space.conditions else ""),
        figure,
    )


def _bar_title(view: View, log: bool) -> str:
    return f"{style.escape(view.label('objective'))}, expected{' (log₁₀)' if log else ''}"


def pair(view: View, a: int, b: int) -> tuple[np.ndarray, ...]:
    """Values of two columns, and the predicted mean and feasibility on their grid (nb, na).

    Both are NaN where a known constraint is broken.
    """
    assert view.best is not None
    x, y = view.slice_values(a, 33), view.slice_values(b, 33)
    grid_x, grid_y = np.meshgrid(x, y)
    changes = {a: grid_x.ravel(), b: grid_y.ravel()}
    mean, _, feasible = view.predict(view.through(view.best, changes))
    allowed = view.allowed(view.best, changes)
    if not allowed.any():  # two parameters of a mixture cannot change alone
        allowed[:] = True
    shape = grid_x.shape
    return (
        x,
        y,
        np.where(allowed, mean, np.nan).reshape(shape),
        np.where(allowed, feasible, np.nan).reshape(shape),
    )


def spread(view: View, rows: np.ndarray, j: int) -> np.ndarray:
    """Values of a parameter at rows.

    Those of a choice are spread over its cell, each time in the same way.
    """
    values = view.table.v[rows, j]
    if view.space.columns[j].choices is None:
        return np.asarray(values)
    place = (
        rows * (0.618034 if j % 2 else 0.754878)
    ) % 1.0  # evenly spread, and not a line in two dimensions
    return np.asarray(values + 0.6 * (place - 0.5))


def feasible_map(view: View) -> style.Figure | None:
    """P(feasible) over the two parameters that matter most for it, with every outcome."""
    if not view.has_model or view.space.k < 2 or view.ok.all() or view.best is None:
        return None
    if not np.isfinite(view.importance["total"][1]).any():
        return None
    active = np.isfinite(view.table.v[view.best])
    ranked = [j for j in most_important(view, 1, view.space.k) if active[j]][:2]
    if len(ranked) < 2:
        return None
    a, b = ranked
    x, y, _, feasible = pair(view, a, b)
    figure = style.plot(460)
    figure.add_heatmap(
        x=x, y=y, z=style.small(feasible), zmin=0, zmax=1, colorscale=[[0, "#888"], [1, "#fff"]],
        colorbar={"title": "P(feasible)"}, hovertemplate="%{z:.2f}<extra>P(feasible)</extra>",
    )  # fmt: skip
    total = 0
    for name, rows in style.samples(view, np.isfinite(view.table.v[:, [a, b]]).all(axis=1)).items():
        total += len(rows)
        if len(rows):
            figure.add_scatter(
                x=style.small(spread(view, rows, a)), y=style.small(spread(view, rows, b)), mode="markers",
                name=name, marker=style.marks(name, 6), customdata=rows,
                text=[view.id(row) for row in rows], hovertemplate="%{text}<extra></extra>",
            )  # fmt: skip
    figure.update_layout(xaxis=own_axis(view, a), yaxis=own_axis(view, b))
    return style.Figure(
        "feasible-map",
        "Where evaluations end well",
        "The probability to be feasible over the two parameters that matter most for it. "
        "The others stay as in the best point. Every outcome is shown, whatever its other "
        "parameters are."
        + (BLANK if view.space.conditions else "")
        + style.sampled(total, len(view)),
        figure,
    )
