"""Figures of the points: their places, their outcomes and their predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dngo.batch import STATUSES
from dngo.report.data import View
from dngo.report.figures import style
from dngo.report.models import LOCAL, NETWORKS, NONE, PROCESS, by_batch
from dngo.space import Column

INACTIVE = -0.15  # place of an inactive parameter, below the range of 0 to 1


def parallel(view: View) -> style.Figure | None:
    """Parallel coordinates: the evaluations as lines across the parameters."""
    rows = np.flatnonzero(view.ok)
    if len(rows) < 2:
        return None
    order = rows[np.argsort(view.sign * view.table.objective[rows], kind="stable")]
    best, rest = order[: style.MOST_LINES // 2], order[style.MOST_LINES // 2 :]
    spread = np.linspace(0, max(len(rest) - 1, 0), min(len(rest), style.MOST_LINES // 2)).astype(
        int
    )
    drawn = np.concatenate([best, rest[spread]])[::-1]  # draw the best on top
    axis = style.scale(view)
    shown = axis.clip(view.table.objective[drawn])
    colour = np.log10(shown) if axis.log else shown
    dimensions = []
    for j, column in view.columns:
        ticks, names = _ticks(view, j, column)
        values, inactive = view.unit[drawn, j], ~np.isfinite(view.table.v[drawn, j])
        if inactive.any():
            ticks, names = [INACTIVE, *ticks], ["inactive", *names]
            values = np.where(inactive, INACTIVE, values)
        dimensions.append(
            {
                "label": style.escape(view.label(column.name)), "values": style.small(values),
                "range": [INACTIVE if inactive.any() else 0, 1], "tickvals": ticks, "ticktext": names,
            }
        )  # fmt: skip
    ticks, places = style.nice(axis.low, axis.high, axis.log), np.array([axis.low, axis.high])
    dimensions.append(
        {
            "label": style.escape(view.label("objective")), "values": colour,
            "range": (np.log10(places) if axis.log else places).tolist(),
            "tickvals": (np.log10(ticks) if axis.log else np.array(ticks)).tolist(),
            "ticktext": [style.named(value) for value in ticks],
        }
    )  # fmt: skip
    figure = style.plot(440, margin={"l": 60, "r": 90, "t": 70, "b": 30})
    figure.update_layout(meta={"least": 90 * len(dimensions)})
    figure.add_parcoords(
        dimensions=dimensions,
        line={
            "color": colour, "colorscale": "Viridis", "reversescale": view.sign < 0,
            "showscale": False,
        },
    )  # fmt: skip
    part = "" if len(drawn) == len(rows) else f" {len(drawn):,} of {len(rows):,} are drawn."
    return style.Figure(
        "parallel",
        "Parallel coordinates",
        "Each line is an ok evaluation; darker is better. Drag along an axis to select a "
        "range, and click the axis to release it. Parameters that are not active are below "
        "their range." + part,
        figure,
    )


def _ticks(view: View, j: int, column: Column) -> tuple[list[float], list[str]]:
    """Some values of a parameter, with their places on the unit interval. They contain no markup."""
    values = view.slice_values(j, 200)
    if column.levels is None or (len(values) > 7 and column.choices is None):
        values = np.array(style.nice(column.low, column.high, column.log))
    elif len(values) > 7:
        values = values[np.linspace(0, len(values) - 1, 6).astype(int)]
    points = np.repeat(view.space.defaults(), len(values), axis=0)
    points[:, j] = values
    places = view.space.unit(points)[:, j].tolist()
    if column.choices is not None:
        return places, [style.choice_name(column, int(v)) for v in values]
    return places, [style.named(v) for v in values]


def feasibility(view: View) -> style.Figure | None:
    """How each iteration's evaluations ended, and the predicted share of feasible ones."""
    if view.ok.all():
        return None
    iterations, where = np.unique(view.table.iteration, return_inverse=True)
    size = np.bincount(where)
    figure = style.plot(380, barmode="stack", bargap=0.1)
    for status in STATUSES:
        share = np.bincount(where, weights=view.table.status == status) / size
        if share.any():
            figure.add_bar(
                x=iterations, y=style.small(share), name=status,
                marker={
                    "color": style.STATUS_COLOURS[status], "pattern": {"shape": style.PATTERNS[status]},
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
            x=iterations[some], y=style.small(total[some] / count[some]), name="feasible, as expected",
            mode="lines+markers", marker={"symbol": "square", "size": 6, "color": style.BLACK},
            line={"color": style.BLACK, "dash": "dash"},
            hovertemplate="expected feasible: %{y:.0%}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        xaxis=style.counting(len(iterations), "iteration"),
        yaxis={"title": "share", "range": [0, 1], "tickformat": ".0%"},
    )
    return style.Figure(
        "feasibility",
        "How evaluations ended",
        "The share of each outcome by iteration, and the feasible share that the model predicted "
        "when it proposed, for the bounds of that time. The feasible share should rise, and the "
        "prediction should agree with it.",
        figure,
    )


def calibration(view: View) -> style.Figure | None:
    """The prediction for each proposal against its outcome, out of sample."""
    mean, std = view.numbers["mean"], view.numbers["std"]
    known = view.ok & np.isfinite(mean) & (std > 0)
    if known.sum() < 2:
        return None
    rows = style.sample(view, np.flatnonzero(known))
    axis = style.scale(view)
    shown = view.table.objective[known]
    axis = replace(axis, below=int((shown < axis.low).sum()), above=int((shown > axis.high).sum()))
    centre, _ = view.units.interval(mean[rows], std[rows], 0.0)
    low, high = view.units.interval(mean[rows], std[rows], 1.96)
    figure = style.subplots(1, 2, height=420, horizontal_spacing=0.16, panel=340)
    marker = {
        "color": view.table.iteration[rows], "colorscale": "Viridis", "size": 6,
        "reversescale": True, **style.iterations_bar(view.table.iteration[rows], thickness=12),
    }  # fmt: skip
    observed, place = view.table.objective[rows], {"row": 1, "col": 1}
    bars = (low, high) if len(rows) <= 400 else None
    _predicted(
        figure, view, rows, (centre, observed), bars, marker=marker, name="proposal", **place
    )
    _equal(figure, [axis.low, axis.high], name="equal", **place)
    label = style.escape(view.label("objective"))
    figure.update_xaxes(axis.axis(title=f"predicted {label}"), row=1, col=1)
    figure.update_yaxes(axis.axis(title=f"observed {label}"), row=1, col=1)
    style.note(figure, axis.outside, y=0, yanchor="bottom")
    iterations, where = np.unique(view.table.iteration[known], return_inverse=True)
    inner, spread = view.units.moments(mean[known], std[known])
    z = (view.units.inward(view.table.objective[known]) - inner) / spread
    inside = np.bincount(where, weights=np.abs(z) < 1.96) / np.bincount(where)
    figure.add_scatter(
        x=iterations, y=style.small(inside), mode="lines+markers", name="of this batch", row=1, col=2,
        marker={"symbol": "circle", "color": style.BLUE}, line={"color": style.BLUE},
        hovertemplate="iteration %{x}: %{y:.0%}<extra></extra>",
    )  # fmt: skip
    figure.add_hline(y=0.95, line={"color": style.BLACK, "dash": "dot"}, row=1, col=2)
    figure.update_xaxes(**style.counting(len(iterations), "iteration"), row=1, col=2)
    title = "share inside the 95 % interval"
    figure.update_yaxes(range=[0, 1.03], tickformat=".0%", title=title, row=1, col=2)
    overall = float(np.mean(np.abs(z) < 1.96))
    return style.Figure(
        "calibration",
        "Predicted and observed",
        "For each proposal that ended ok: what the model predicted when it picked it, with a 95 % "
        f"interval, and what came of it. {overall:.0%} of {int(known.sum()):,} outcomes lie in their "
        "intervals; it should be near 95 %. Points of the design are left out, as no model predicted them."
        + style.sampled(len(rows), int(known.sum())),
        figure,
    )


def _predicted(
    figure: go.Figure,
    view: View,
    rows: np.ndarray,
    points: tuple[np.ndarray, np.ndarray],
    bars: tuple[np.ndarray, np.ndarray] | None,
    **more: Any,
) -> None:
    """Draw rows as points: predictions and outcomes. bars: the low and the high end of each."""
    error = None if bars is None else {
        "array": style.small(bars[1] - points[0]), "arrayminus": style.small(points[0] - bars[0]),
        "symmetric": False, "width": 0, "thickness": 0.7, "color": "rgba(0,0,0,.25)",
    }  # fmt: skip
    figure.add_scatter(
        x=style.small(points[0]), y=style.small(points[1]), mode="markers", error_x=error, customdata=rows,
        text=[view.id(int(row)) for row in rows], showlegend=False, **more,
        hovertemplate="%{text}: %{x:.5g} predicted, %{y:.5g} observed<extra></extra>",
    )  # fmt: skip


def _equal(figure: go.Figure, ends: list[float], **more: Any) -> None:
    """Draw the line on which predictions and outcomes are equal."""
    line = {"color": style.BLACK, "dash": "dash"}
    figure.add_scatter(x=ends, y=ends, mode="lines", line=line, hoverinfo="skip", **more)


def thresholds(view: View) -> style.Figure | None:
    """The number of each constraint with a threshold: predicted and observed."""
    shown = [
        (name, rows)
        for name, expected in view.expected_constraints.items()
        if name in view.thresholds and name in view.table.numbers
        if len(rows := np.flatnonzero(np.isfinite(expected.mean + view.table.numbers[name])))
    ]
    if not shown:
        return None
    wide = min(2, len(shown))
    tall = -(-len(shown) // wide)
    figure = style.subplots(
        tall,
        wide,
        height=60 + 340 * tall,
        horizontal_spacing=0.16,
        vertical_spacing=0.3 / tall,
        panel=340,
    )
    cut = False
    for i, (name, known) in enumerate(shown):
        place = {"row": i // wide + 1, "col": i % wide + 1}
        expected, rows = view.expected_constraints[name], style.sample(view, known)
        number, mean, std = view.table.numbers[name], expected.mean, expected.std
        low = mean - 1.96 * std
        if np.nanmin(number) >= 0:  # so the model's normal distribution reaches impossible values
            cut, low = cut or bool((low[rows] < 0).any()), np.maximum(low, np.minimum(mean, 0.0))
        bars = (low[rows], (mean + 1.96 * std)[rows])
        marker, points = {"color": style.BLUE, "size": 6}, (mean[rows], number[rows])
        _predicted(figure, view, rows, points, bars, marker=marker, **place)
        ends = [float(np.min(number[rows])), float(np.max(number[rows]))]
        _equal(figure, ends, showlegend=False, **place)
        bound = view.thresholds[name].bound
        figure.add_hline(
            y=bound, line={"color": style.ORANGE, "dash": "dot"}, **place,
            annotation={"text": style.escape(view.thresholds[name]), "font": {"color": style.ORANGE}},
            annotation_position="bottom left" if view.thresholds[name].sign > 0 else "top left",
        )  # fmt: skip
        label = style.escape(view.label(name))
        figure.update_xaxes(title=f"predicted {label}", **place)
        figure.update_yaxes(title=f"observed {label}", **place)
    return style.Figure(
        "thresholds",
        "Thresholds: predicted and observed",
        "Numbers with thresholds (the dotted lines): the surrogate's predictions for "
        "proposals of the latest iterations (with 95 %), and the reported values."
        + (
            " Where no number below 0 was reported, intervals end at 0, or at a prediction below 0."
            if cut
            else ""
        ),
        figure,
    )


def batch(view: View) -> style.Figure | None:
    """The last batch in the order of picking: value, stage, and distance to known points."""
    rows = view.last
    value = view.numbers["value"][rows]
    if not np.isfinite(value).any():
        return None
    figure = style.subplots(
        2, 1, height=480, shared_xaxes=True, vertical_spacing=0.06, row_heights=[0.5, 0.5]
    )
    symbols = ["circle", "square", "diamond-open", "cross", "triangle-up-open", "x", "star"]
    colours = [style.BLUE, style.ORANGE, style.BLACK, style.GREEN, style.GREY, "#CC79A7", "#E69F00"]
    # The stage that picked a point. Old archives know only the source of the point.
    stages = np.where(view.table.stage[rows] != "", view.table.stage[rows], view.source[rows])
    for i, stage in enumerate(sorted(set(stages))):
        part = np.flatnonzero(stages == stage)
        marker = {"symbol": symbols[i % 7], "color": colours[i % 7], "size": 9}
        for line, y in ((1, value[part]), (2, view.nearest[rows[part]])):
            figure.add_scatter(
                x=part + 1, y=y, mode="markers", name=style.escape(stage.replace("_", " ")),
                legendgroup=stage, showlegend=line == 1, marker=marker, customdata=rows[part],
                row=line, col=1,
                text=[view.id(row) for row in rows[part]],
                hovertemplate="%{text}: %{y:.4g}<extra>" + style.escape(stage) + "</extra>",
            )  # fmt: skip
    log = style.logarithmic(value[np.isfinite(value)])
    figure.update_yaxes(title="acquisition", type="log" if log else "linear", row=1, col=1)
    figure.update_yaxes(title="distance to nearest", rangemode="tozero", row=2, col=1)
    figure.update_xaxes(**style.counting(len(rows), "pick"), row=2, col=1)
    return style.Figure(
        "batch",
        f"The last batch, iteration {view.table.iteration[-1]}",
        "Its points in the order of picking. Above: what the model of the whole space expected of each "
        "pick. It chose the joint picks. Those of trust regions, boxes around good points, were chosen by "
        "a local model, so theirs may be near 0 although that model promised more. Below: the "
        "distance to the nearest point that was known or picked earlier, as a share of the parameters' "
        "ranges (root mean square). Near 0, almost the same point is evaluated twice.",
        figure,
    )


def models(view: View) -> style.Figure | None:
    """The share of each model in every batch."""
    iterations = range(1, int(view.table.iteration.max()) + 1)
    shares = by_batch(view.path, iterations)
    if not any(set(found) - {NONE} for found in shares):
        return None
    names = [LOCAL, PROCESS, NETWORKS]
    names += [*sorted({name for found in shares for name in found} - {*names, NONE}), NONE]
    colours = [style.BLUE, style.ORANGE, style.BLACK, style.GREEN, "#CC79A7", "#E69F00"]
    figure = style.plot(320, barmode="stack", bargap=0.1)
    for i, name in enumerate(names):
        each = [found.get(name, 0.0) for found in shares]
        if any(each):
            figure.add_bar(
                x=list(iterations), y=each, name=style.escape(name),
                marker_color=style.GREY if name == NONE else colours[i % len(colours)],
                hovertemplate="iteration %{x}: %{y:.0%}<extra>" + style.escape(name) + "</extra>",
            )  # fmt: skip
    figure.update_yaxes(title="share of the batch", tickformat=".0%", range=[0, 1])
    figure.update_xaxes(**style.counting(len(iterations), "iteration"))
    return style.Figure(
        "models",
        "What proposed each batch",
        "The share of each model in the points of a batch. Local models are Gaussian processes in boxes "
        "around good points; once one promises nothing, the next may lie far from the best point. The "
        "other parts are the whole space's Gaussian process and networks, by their weights in that fit. "
        "Points with no model are those that people entered, or come from steps that need no model.",
        figure,
    )
