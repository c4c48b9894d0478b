"""The values that evaluations reported while they ran."""

from __future__ import annotations

import numpy as np

from dngo import archive
from dngo.report.data import View
from dngo.report.figures.style import BLUE, GREY, ORANGE, Figure, escape, logarithmic, plot, small

MOST = 100  # curves in the figure


def curves(view: View) -> Figure | None:
    """The curves of the last batch with progress. Evaluations that were stopped early are marked."""
    names = sorted(view.config.get("objectives", {}))
    j = names.index(view.objective) if view.objective in names else 0
    known = [curve.of_objective(j) for curve in archive.read_curves(view.path)]
    reported = np.flatnonzero([bool(curve.points) for curve in known])
    if not len(reported):
        return None
    last = int(view.table.iteration[reported].max())
    rows = reported[view.table.iteration[reported] == last]
    drawn = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST)).astype(int)]
    figure = plot(420)
    seen: set[str] = set()
    for row in map(int, drawn):
        steps, values = np.array(known[row].points)[:, :2].T
        name = "stopped early" if view.stopped[row] else "ended by itself"
        colour = ORANGE if view.stopped[row] else BLUE
        figure.add_scatter(
            x=steps, y=small(values), mode="lines+markers" if len(steps) == 1 else "lines", name=name,
            legendgroup=name, showlegend=name not in seen, opacity=0.6, customdata=[row] * len(steps),
            line={"color": colour, "dash": "dot" if view.stopped[row] else "solid", "width": 1.5},
            hovertemplate=f"{view.id(row)} at step %{{x:.6g}}: %{{y:.6g}}<extra></extra>",
        )  # fmt: skip
        seen.add(name)
    ends = [row for row in map(int, drawn) if view.stopped[row]]
    if ends:
        figure.add_scatter(
            x=[known[row].last[0] for row in ends], y=[known[row].last[1] for row in ends],
            mode="markers", name="where it was stopped", customdata=ends,
            text=[view.id(row) for row in ends],
            marker={"symbol": "x", "size": 8, "color": GREY},
            hovertemplate="%{text} was stopped at step %{x:.6g}<extra></extra>",
        )  # fmt: skip
    shown = np.concatenate([np.array(known[row].points)[:, 1] for row in drawn])
    log = logarithmic(shown[np.isfinite(shown)], 20)
    figure.update_layout(
        xaxis_title="step",
        yaxis={"type": "log" if log else "linear", "title": escape(view.label("objective"))},
    )
    number = int(view.stopped[rows].sum())
    part = "" if len(drawn) == len(rows) else f" {len(drawn)} of {len(rows)} are drawn."
    stopped = (
        f" {number} of these {'was' if number == 1 else 'were'} stopped early, because others were "
        "better at the same step (`dngo audit` says how many)."
        if number
        else ""
    )
    return Figure(
        "curves",
        "As they ran",
        f"Values that evaluations of iteration {last} reported while they ran. {len(rows)} "
        f"of them reported some.{stopped}{part}",
        figure,
    )
