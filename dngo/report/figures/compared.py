"""Figures of several studies: courses, shares that reached a value, ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dngo.report.data import View
from dngo.report.figures import style
from dngo.report.figures.course import corners
from dngo.report.figures.front import fronts_compared
from dngo.report.figures.model import spread
from dngo.report.ranks import ranks, reached, shared

MOST_STEPS = 1000  # of a line
MOST_DOTS = 3000  # of a panel
Named = Sequence[tuple[str, View]]


def all_compared(views: Named) -> list[style.Figure]:
    """The figures of a page that compares studies."""
    first = views[0][1]
    if not first.has_several:
        return _of_each(views)
    found = [fronts_compared(views)]
    for name in first.directions:
        each = _of_each([(own, view.of_objective(name)) for own, view in views])
        found += [figure.of(name) for figure in each]
    return found


def _of_each(views: Named) -> list[style.Figure]:
    """The figures of one objective."""
    found = [comparison(views), edf(views), rank_plot(views)]
    return [figure for figure in found if figure is not None]


def comparison(views: Named) -> style.Figure:
    """The best so far of several studies, by name, after each evaluation and by their cost."""
    figure = style.subplots(1, 2, height=440, shared_yaxes=True, horizontal_spacing=0.06)
    lows = []
    for i, (name, view) in enumerate(views):
        measure, cost = view.cost
        for col, x in ((1, np.arange(1, len(view) + 1)), (2, np.cumsum(cost))):
            rows = corners(view)
            lows += view.best_so_far[rows].tolist()
            figure.add_scatter(
                x=x[rows], y=view.best_so_far[rows], mode="lines", name=style.escape(name),
                line=style.line_of(i, shape="hv"), legendgroup=name, showlegend=col == 1, row=1, col=col,
                hovertemplate="%{x:.5g}: %{y:.10~g}<extra>" + style.escape(name) + "</extra>",
            )  # fmt: skip
        figure.update_xaxes(title=style.escape(measure), row=1, col=2)
    figure.update_xaxes(title="evaluation", row=1, col=1)
    label = views[0][1].label("objective")
    figure.update_yaxes(title=f"best so far: {style.escape(label)}", row=1, col=1)
    if style.logarithmic(np.array(lows)):
        figure.update_yaxes(type="log")
    caption = "The best ok value of each study, by the number of evaluations and by their cost."
    return style.Figure("comparison", "Best so far", caption, figure)


def edf(views: Named) -> style.Figure | None:
    """The share of each study's evaluations that reached a value. Failed ones never reach it."""
    figure = style.plot(420)
    every = [np.empty(0)]
    for i, (name, view) in enumerate(views):
        values, share = reached(view)
        every.append(values)
        if not len(values):
            continue
        rows = np.flatnonzero(np.append(np.diff(values) != 0, True))
        kept = rows[np.unique(np.linspace(0, len(rows) - 1, MOST_STEPS).astype(int))]
        figure.add_scatter(
            x=values[kept], y=style.small(share[kept]), mode="lines", name=style.escape(name),
            line=style.line_of(i, shape="hv"),
            hovertemplate="%{y:.1%} reached %{x:.10~g}<extra>" + style.escape(name) + "</extra>",
        )  # fmt: skip
    values, first = np.concatenate(every), views[0][1]
    if not len(values):
        return None
    better = "or less" if first.sign > 0 else "or more"
    figure.update_layout(
        xaxis={
            "title": f"{style.escape(first.label('objective'))}, {better}",
            "type": "log" if style.logarithmic(values) else "linear",
            "autorange": True if first.sign > 0 else "reversed",
        },
        yaxis={"title": "share of evaluations", "range": [0, 1.02], "tickformat": ".0%"},
    )
    return style.Figure(
        "edf",
        "How many evaluations reached a value",
        "The share of all evaluations that were as good or better, the best at the left (the empirical "
        "distribution function). Failed ones never reach a value: a line ends at the share of ok ones.",
        figure,
    )


def rank_plot(views: Named) -> style.Figure | None:
    """Each parameter that all studies have, against the rank among all their evaluations."""
    columns = shared([view for _, view in views])
    found = ranks([view for _, view in views])
    if not columns or not any(np.isfinite(rank).any() for rank in found):
        return None
    wide = min(style.COLUMNS, len(columns))
    tall = -(-len(columns) // wide)
    figure = style.subplots(
        tall, wide, shared_yaxes=True, horizontal_spacing=0.04,
        **style.rows_of([column for column, _ in columns], wide),
    )  # fmt: skip
    for at, (column, places) in enumerate(columns):
        place: dict[str, Any] = {"row": at // wide + 1, "col": at % wide + 1}
        for i, ((name, view), rank) in enumerate(zip(views, found, strict=True)):
            known = np.isfinite(rank) & np.isfinite(view.table.v[:, places[i]])
            rows = style.sample(view, np.flatnonzero(known), MOST_DOTS // len(views))
            figure.add_scatter(
                x=style.small(spread(view, rows, places[i])), y=style.small(rank[rows]), mode="markers",
                name=style.escape(name), legendgroup=name, showlegend=at == 0 and len(views) > 1,
                marker={
                    "symbol": style.MARKERS[i % len(style.MARKERS)], "size": 5, "opacity": 0.6,
                    "color": style.LINES[i % len(style.LINES)],
                },
                text=[view.id(int(row)) for row in rows],
                hovertemplate="%{text}: rank %{y:,.0f}<extra>" + style.escape(name) + "</extra>", **place,
            )  # fmt: skip
        axis = style.axis_of(column, title=style.escape(views[0][1].label(column.name)))
        if column.choices is None:  # the studies may have different ranges
            axis.pop("range")
        figure.update_xaxes(axis, **place)
    figure.update_yaxes(autorange="reversed")
    figure.update_yaxes(title="rank", col=1)
    return style.Figure(
        "ranks",
        "Ranks",
        "Each parameter against the rank of the objective among the ok evaluations"
        + (" of all studies" if len(views) > 1 else "")
        + ", 1 the best and at the top. A parameter matters if good ranks occur only at some "
        "of its values.",
        figure,
    )
