"""Figures of several objectives: the front, its trade-offs, and its growth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dngo.report.data import View
from dngo.report.figures import style
from dngo.report.front import common_reference, volume_of

MOST_LINES = 300  # of the parallel coordinates
MOST_BUDGETS = 100  # of a comparison


def trade_off(view: View) -> style.Figure | None:
    """Every ok outcome by each pair of objectives, with the front and the predictions of the last
    batch.
    """
    names = list(view.directions)
    if not view.has_several or not len(view.front.rows) or len(names) > 3:
        return None
    pairs = list(combinations(range(len(names)), 2))
    figure = style.subplots(1, len(pairs), height=440, horizontal_spacing=0.1)
    front, flat = view.front, len(names) == 2
    others = np.setdiff1d(np.flatnonzero(view.ok), front.rows)
    drawn = style.sample(view, others)
    values = front.own
    expected = _expected(view)
    for at, (i, j) in enumerate(pairs, start=1):
        place: dict[str, Any] = {"row": 1, "col": at, "showlegend": at == 1}
        # Of two objectives the front is the edge of what is dominated; of three it has no such edge.
        ordered = front.rows[np.argsort(front.points[:, i], kind="stable")]
        for rows, name, mode, marker in (
            (drawn, "ok", "markers", {"color": style.GREY, "size": 5, "opacity": 0.5}),
            (
                ordered,
                "front",
                "lines+markers" if flat else "markers",
                {"color": style.BLUE, "size": 8},
            ),
        ):
            figure.add_scatter(
                x=style.small(values[rows, i]), y=style.small(values[rows, j]), mode=mode, name=name,
                line={"shape": "hv", "color": style.BLUE, "width": 1}, marker=marker,
                customdata=rows, text=[view.id(row) for row in rows],
                hovertemplate="%{text}: %{x:.5g}, %{y:.5g}<extra></extra>", **place,
            )  # fmt: skip
        if front.knee is not None:
            row = front.rows[front.knee]
            figure.add_scatter(
                x=[values[row, i]], y=[values[row, j]], mode="markers", name="knee",
                marker={"symbol": "diamond-open", "size": 14, "color": style.BLACK, "line": {"width": 2}},
                customdata=[int(row)], hovertemplate="the knee: %{x:.5g}, %{y:.5g}<extra></extra>",
                **place,
            )  # fmt: skip
        if len(expected):
            figure.add_scatter(
                x=style.small(expected[:, i]), y=style.small(expected[:, j]), mode="markers",
                name="last batch, expected", hoverinfo="skip",
                marker={"symbol": "cross-thin-open", "size": 6, "color": style.ORANGE}, **place,
            )  # fmt: skip
        dotted: dict[str, Any] = {"line": {"dash": "dot", "color": style.GREY, "width": 1}}
        figure.add_vline(front.reference[names[i]], row=1, col=at, **dotted)
        figure.add_hline(front.reference[names[j]], row=1, col=at, **dotted)
        figure.update_xaxes(title=_title(view, names[i]), row=1, col=at)
        figure.update_yaxes(title=_title(view, names[j]), row=1, col=at)
    caption = (
        "Each ok evaluation by its objectives. No evaluation is better than a point of the "
        "front in all of them. At the knee, a small loss in one objective gains most in "
        "the others. Dotted lines are the reference that the hypervolume reaches to. "
        "Crosses are the surrogates' predictions of the last batch."
        + style.sampled(len(drawn), len(others))
    )
    return style.Figure("trade_off", "The front", caption, figure)


def parallel_front(view: View) -> style.Figure | None:
    """The front of more than three objectives as lines.

    Each objective is scaled to its range on the front.
    """
    if not view.has_several or len(view.directions) < 4 or not len(view.front.rows):
        return None
    points = view.front.own[view.front.rows]
    points = points[np.linspace(0, len(points) - 1, min(MOST_LINES, len(points))).astype(int)]
    dimensions = [
        {"label": _title(view, name), "values": style.small(points[:, j])}
        for j, name in enumerate(view.directions)
    ]
    figure = style.plot(440)
    figure.add_parcoords(line={"color": style.BLUE}, dimensions=dimensions)
    return style.Figure(
        "parallel_front",
        "The front",
        "A line for each point of the front. Where lines cross between two objectives, a gain in one "
        "costs some of the other. Drag along an axis to keep only some of the lines.",
        figure,
    )


def volume(view: View) -> style.Figure | None:
    """The hypervolume of the front, by iteration."""
    if not view.has_several or not len(view.front.rows):
        return None
    found = np.array(view.front.volumes)
    figure = style.plot(360)
    figure.add_scatter(
        x=np.arange(len(found)), y=style.small(found), mode="lines+markers", name="hypervolume",
        line={"color": style.BLACK}, hovertemplate="iteration %{x}: %{y:.5g}<extra></extra>",
    )  # fmt: skip
    figure.update_layout(
        xaxis=style.counting(len(found), "iteration"),
        yaxis={"title": "hypervolume"},
        showlegend=False,
    )
    reference = ", ".join(f"{name} {value:.5g}" for name, value in view.front.reference.items())
    return style.Figure(
        "volume",
        "Hypervolume",
        "The volume that all outcomes up to each iteration dominate, down to the reference "
        f"{style.escape(reference)}.",
        figure,
    )


def fronts_compared(views: Sequence[tuple[str, View]]) -> style.Figure:
    """The hypervolumes of several studies, by name, and with two objectives their fronts."""
    first, fronts = views[0][1], [view.front for _, view in views]
    names, reference = list(first.directions), common_reference(fronts)
    flat = len(names) == 2
    figure = style.subplots(1, 1 + flat, height=440, horizontal_spacing=0.1)
    for i, ((name, view), front) in enumerate(zip(views, fronts, strict=True)):
        line = style.line_of(i)
        own = {"name": style.escape(name), "legendgroup": name, "mode": "lines"}
        budgets = np.unique(np.linspace(1, len(view), min(len(view), MOST_BUDGETS)).astype(int))
        found = [volume_of(front.values[:n], reference) for n in budgets]
        figure.add_scatter(
            x=budgets, y=style.small(np.array(found)), line=line, row=1, col=1, **own,
            hovertemplate="%{x}: %{y:.5g}<extra>" + style.escape(name) + "</extra>",
        )  # fmt: skip
        if flat and len(front.rows):
            rows = front.rows[np.argsort(front.points[:, 0], kind="stable")]
            points = front.own[rows]
            figure.add_scatter(
                x=style.small(points[:, 0]), y=style.small(points[:, 1]), line={**line, "shape": "hv"},
                row=1, col=2, showlegend=False, **own,
                hovertemplate="%{x:.5g}, %{y:.5g}<extra>" + style.escape(name) + "</extra>",
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
    return style.Figure("fronts", "Fronts compared", caption + more * flat, figure)


def _expected(view: View) -> np.ndarray:
    """The predictions of the last batch: (q, m), without unknown ones."""
    found = np.column_stack([view.means[name][view.last] for name in view.directions])
    return np.asarray(found[np.isfinite(found).all(axis=1)])


def _title(view: View, name: str) -> str:
    return f"{style.escape(view.label(name))} ({view.directions[name]})"
