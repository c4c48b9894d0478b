"""Figures of several objectives: the front, its trade-offs, and its growth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dngo.report.data import View
from dngo.report.figures.style import (
    BLACK,
    BLUE,
    DASHES,
    GREY,
    LINES,
    ORANGE,
    Figure,
    counting,
    escape,
    plot,
    sample,
    sampled,
    small,
    subplots,
)
from dngo.report.front import common_reference, volume_of

MOST_LINES = 300  # of the parallel coordinates
MOST_BUDGETS = 100  # of a comparison


def trade_off(view: View) -> Figure | None:
    """Every ok outcome by each pair of objectives, with the front and the predictions of the last
    batch.
    """
    names = list(view.directions)
    if not view.has_several or not len(view.front.rows) or len(names) > 3:
        return None
    pairs = list(combinations(range(len(names)), 2))
    figure = subplots(1, len(pairs), height=440, horizontal_spacing=0.1)
    front, flat = view.front, len(names) == 2
    others = np.setdiff1d(np.flatnonzero(view.ok), front.rows)
    drawn = sample(view, others)
    values = front.own
    expected = _expected(view)
    for at, (i, j) in enumerate(pairs, start=1):
        place: dict[str, Any] = {"row": 1, "col": at, "showlegend": at == 1}
        # Of two objectives the front is the edge of what is dominated; of three it has no such edge.
        ordered = front.rows[np.argsort(front.points[:, i], kind="stable")]
        for rows, name, mode, marker in (
            (drawn, "ok", "markers", {"color": GREY, "size": 5, "opacity": 0.5}),
            (ordered, "front", "lines+markers" if flat else "markers", {"color": BLUE, "size": 8}),
        ):
            figure.add_scatter(
                x=small(values[rows, i]), y=small(values[rows, j]), mode=mode, name=name,
                line={"shape": "hv", "color": BLUE, "width": 1}, marker=marker,
                customdata=rows, text=[view.id(row) for row in rows],
                hovertemplate="%{text}: %{x:.5g}, %{y:.5g}<extra></extra>", **place,
            )  # fmt: skip
        if front.knee is not None:
            row = front.rows[front.knee]
            figure.add_scatter(
                x=[values[row, i]], y=[values[row, j]], mode="markers", name="knee",
                marker={"symbol": "diamond-open", "size": 14, "color": BLACK, "line": {"width": 2}},
                customdata=[int(row)], hovertemplate="the knee: %{x:.5g}, %{y:.5g}<extra></extra>",
                **place,
            )  # fmt: skip
        if len(expected):
            figure.add_scatter(
                x=small(expected[:, i]), y=small(expected[:, j]), mode="markers",
                name="last batch, expected", hoverinfo="skip",
                marker={"symbol": "cross-thin-open", "size": 6, "color": ORANGE}, **place,
            )  # fmt: skip
        dotted: dict[str, Any] = {"line": {"dash": "dot", "color": GREY, "width": 1}}
        figure.add_vline(front.reference[names[i]], row=1, col=at, **dotted)
        figure.add_hline(front.reference[names[j]], row=1, col=at, **dotted)
        figure.update_xaxes(title=_title(view, names[i]), row=1, col=at)
        figure.update_yaxes(title=_title(view, names[j]), row=1, col=at)
    caption = (
        "Each ok evaluation by its objectives. No evaluation is better than a point of the "
        "front in all of them. At the knee, a small loss in one objective gains most in "
        "the others. Dotted lines are the reference that the hypervolume reaches to. "
        "Crosses are the surrogates' predictions of the last batch."
        + sampled(len(drawn), len(others))
    )
    return Figure("trade_off", "The front", caption, figure)


def parallel_front(view: View) -> Figure | None:
    """The front of more than three objectives as lines.

    Each objective is scaled to its range on the front.
    """
    if not view.has_several or len(view.directions) < 4 or not len(view.front.rows):
        return None
    points = view.front.own[view.front.rows]
    points = points[np.linspace(0, len(points) - 1, min(MOST_LINES, len(points))).astype(int)]
    dimensions = [
        {"label": _title(view, name), "values": small(points[:, j])}
        for j, name in enumerate(view.directions)
    ]
    figure = plot(440)
    figure.add_parcoords(line={"color": BLUE}, dimensions=dimensions)
    return Figure(
        "parallel_front",
        "The front",
        "A line for each point of the front. Where lines cross between two objectives, a gain in one "
        "costs some of the other. Drag along an axis to keep only some of the lines.",
        figure,
    )


def volume(view: View) -> Figure | None:
    """The hypervolume of the front, by iteration."""
    if not view.has_several or not len(view.front.rows):
        return None
    found = np.array(view.front.volumes)
    figure = plot(360)
    figure.add_scatter(
        x=np.arange(len(found)), y=small(found), mode="lines+markers", name="hypervolume",
        line={"color": BLACK}, hovertemplate="iteration %{x}: %{y:.5g}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis=counting(len(found), "iteration"), yaxis={"title": "hypervolume"}, showlegend=False
    )
    reference = ", ".join(f"{name} {value:.5g}" for name, value in view.front.reference.items())
    return Figure(
        "volume",
        "Hypervolume",
        "The volume that all outcomes up to each iteration dominate, down to the reference "
        f"{escape(reference)}.",
        figure,
    )


def fronts_compared(views: Sequence[tuple[str, View]]) -> Figure:
    """The hypervolumes of several studies, by name, and with two objectives their fronts."""
    first, fronts = views[0][1], [view.front for _, view in views]
    names, reference = list(first.directions), common_reference([view for _, view in views])
    flat = len(names) == 2
    figure = subplots(1, 1 + flat, height=440, horizontal_spacing=0.1)
    for i, ((name, view), front) in enumerate(zip(views, fronts, strict=True)):
        line = {"dash": DASHES[i % len(DASHES)], "color": LINES[i % len(LINES)], "width": 2}
        own = {"name": escape(name), "legendgroup": name, "mode": "lines"}
        budgets = np.unique(np.linspace(1, len(view), min(len(view), MOST_BUDGETS)).astype(int))
        found = [volume_of(front.values[:n], reference) for n in budgets]
        figure.add_scatter(
            x=budgets, y=small(np.array(found)), line=line, row=1, col=1, **own,
            hovertemplate="%{x}: %{y:.5g}<extra>" + escape(name) + "</extra>",
        )  # fmt: skip
        if flat and len(front.rows):
            rows = front.rows[np.argsort(front.points[:, 0], kind="stable")]
            points = front.own[rows]
            figure.add_scatter(
                x=small(points[:, 0]), y=small(points[:, 1]), line={**line, "shape": "hv"},
                row=1, col=2, showlegend=False, **own,
                hovertemplate="%{x:.5g}, %{y:.5g}<extra>" + escape(name) + "</extra>",
            )  # fmt: skip
    figure.update_xaxes(title="evaluation", row=1, col=1)
    figure.update_yaxes(title="hypervolume", row=1, col=1)
    if flat:
        figure.update_xaxes(title=_title(first, names[0]), row=1, col=2)
        figure.update_yaxes(title=_title(first, names[1]), row=1, col=2)
    caption = (
        "The hypervolume of each study's front after each evaluation, with the same "
        "reference for all."
    )
    more = (
        " Next to it, the front of each study: no evaluation lies on the better side of its line."
    )
    return Figure("fronts", "Fronts compared", caption + more * flat, figure)


def _expected(view: View) -> np.ndarray:
    """The predictions of the last batch: (q, m), without unknown ones."""
    found = np.column_stack([view.means[name][view.last] for name in view.directions])
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def _title(view: View, name: str) -> str:
    return f"{escape(view.label(name))} ({view.directions[name]})"
