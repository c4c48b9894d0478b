"""Figures of goals other than the optimum: a function, a level of it, a point whose inputs waver."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from dngo.acquisition.wavering import Wavering
from dngo.report.best import waver
from dngo.report.data import View
from dngo.report.figures import style
from dngo.report.figures.model import most_important, own_axis, star

PLACES = 2048  # of the whole space, for shares and means
SURE, SURE_TEXT = 0.95, "95 %"
MOST_BEST, PAIRS = 8, 64  # points whose neighbourhoods are shown, and pairs of places in each


def learnt(view: View) -> style.Figure | None:
    """How far each batch's outcomes were from what was stated before, and on which side of a level."""
    goal = view.config["acquisition"].get("kind")
    mean, std = view.numbers["mean"], view.numbers["std"]
    rows = np.flatnonzero(view.ok & np.isfinite(mean) & (std > 0))
    if goal not in ("learn", "level_set") or not len(rows):
        return None
    inner, spread = view.units.moments(mean[rows], std[rows])
    seen, iteration = view.units.inward(view.table.objective), view.table.iteration[rows]
    iterations = np.unique(iteration)
    has_level = goal == "level_set"
    figure = style.subplots(1, 1 + has_level, height=380, horizontal_spacing=0.14, panel=340)
    _by_batch(figure, iteration, ((seen[rows] - inner) ** 2, spread**2), root=True)
    if goal == "learn" and view.has_model and view.model is not None:
        _, deviation = view.model.predict(_everywhere(view))
        figure.add_scatter(
            x=[view.model_iteration], y=[np.sqrt(np.mean(deviation**2))], mode="markers",
            name="expected over the whole space", row=1, col=1,
            marker={"symbol": "diamond", "size": 12, "color": style.BLACK},
            hovertemplate="whole space: %{y:.4g}<extra></extra>",
        )  # fmt: skip
    constant = float(np.nanstd(seen[view.ok]))
    if constant > 0:
        figure.add_scatter(
            x=iterations[[0, -1]], y=[constant, constant], mode="lines", name="a constant's error",
            line={"color": style.GREY, "dash": "dot"}, row=1, col=1,
            hovertemplate="a constant: %{y:.4g}<extra></extra>",
        )  # fmt: skip
    if has_level:
        apart = inner - view.units.inward(np.array(view.config["acquisition"]["at"]))
        wrong = np.sign(seen[rows] - inner + apart) != np.sign(apart)
        _by_batch(figure, iteration, (wrong, ndtr(-np.abs(apart) / spread)), root=False)
        title = "share on the other side"
        figure.update_yaxes(rangemode="tozero", tickformat=".0%", title=title, row=1, col=2)
    of_log = " of the logarithm" if view.units.log else ""
    title = f"error{of_log}, {style.escape(view.label('objective'))}"
    figure.update_yaxes(type="log", title=title, row=1, col=1)
    figure.update_xaxes(style.counting(len(iterations), "iteration"))
    title = "How well the level is known" if has_level else "How well the function is known"
    return style.Figure("learnt", title, _of_learnt(view, has_level), figure)


def _of_learnt(view: View, has_level: bool) -> str:
    """The caption of `learnt`."""
    stated = "what the model stated before it knew them"
    whole = (
        "Picks are where the model is least sure, so its error over the whole space is lower: the diamond "
        f"is what the surrogate of iteration {view.model_iteration} expects there."
    )
    sides = (
        f"Right: how many outcomes were on the other side of {view.config['acquisition'].get('at'):.6g} "
        "than their predictions, and how many were expected to be. Picks are near the level, so it is "
        "better known elsewhere."
        if has_level
        else whole
    )
    return (
        f"{'Left, f' if has_level else 'F'}or each batch: how far its outcomes were from {stated}, and how "
        "far it expected them to be (root mean squares). Both should fall, and be alike. The dotted line "
        f"is the error of a constant, the deviation of all outcomes. {sides}"
    )


def _by_batch(
    figure: Any, iteration: np.ndarray, values: tuple[np.ndarray, np.ndarray], *, root: bool
) -> None:
    """Draw the means by batch of what came and of what was expected, two (n,): on the left their roots,
    else on the right."""
    iterations, where = np.unique(iteration, return_inverse=True)
    for each, name, colour, symbol, dash in (
        (values[0], "as it came", style.BLUE, "circle", "solid"),
        (values[1], "as expected", style.ORANGE, "square", "dash"),
    ):
        found = np.bincount(where, weights=each) / np.bincount(where)
        figure.add_scatter(
            x=iterations, y=style.small(np.sqrt(found) if root else found), name=name, row=1,
            col=1 if root else 2, mode="lines+markers", legendgroup=name, showlegend=root,
            marker={"symbol": symbol, "size": 7, "color": colour}, line={"color": colour, "dash": dash},
            hovertemplate="iteration %{x}: %{y:.4g}<extra>" + name + "</extra>",
        )  # fmt: skip


def level(view: View) -> style.Figure | None:
    """On which side of the level the model expects the objective, over two parameters or one."""
    at = view.config["acquisition"].get("at")
    if (
        view.config["acquisition"].get("kind") != "level_set"
        or not view.has_model
        or view.best is None
    ):
        return None
    active = [j for j, _ in view.columns if np.isfinite(view.table.v[view.best, j])]
    first = [j for j in most_important(view, 0, view.space.k) if j in active][:2]
    drawn = [j for j in active if j in first]
    if not drawn:
        return None
    values = [view.slice_values(j, 65 if len(drawn) == 2 else 513) for j in drawn]
    grid = np.meshgrid(*values)
    changes = {j: axis.ravel() for j, axis in zip(drawn, grid, strict=True)}
    allowed = view.allowed(view.best, changes)
    sides = [
        np.where(allowed, each, np.nan).reshape(grid[0].shape)
        for each in _side(view, view.through(view.best, changes), at)
    ]
    figure = style.plot(460, xaxis=own_axis(view, drawn[0]))
    if len(drawn) == 2:
        _outline(figure, view, drawn, values, *sides)
    else:
        figure.add_scatter(
            x=values[0], y=style.small(ndtr(sides[1])), name="P(below)", showlegend=False,
            line={"color": style.BLACK}, hovertemplate="%{y:.2f} at %{x:.5g}<extra></extra>",
        )  # fmt: skip
        figure.add_hline(y=0.5, line={"color": style.GREY, "dash": "dash"})
        figure.update_layout(yaxis={"title": f"P(below {at:.6g})", "range": [-0.03, 1.03]})
    if len(drawn) == len(active):
        _sides(figure, view, drawn, at)
    else:
        star(figure, view, tuple(view.table.v[view.best, drawn].tolist()), "best")
    return style.Figure("level", f"Where it is below {at:.6g}", _said(view, at, drawn), figure)


def _said(view: View, at: float, drawn: list[int]) -> str:
    """The caption of `level`, with the shares of the whole space."""
    score = _side(view, _everywhere(view), at)[1]
    unsure = np.mean(np.abs(score) < ndtri(SURE))
    shares = (
        f"By the surrogate of iteration {view.model_iteration}, {100 * np.mean(score > 0):.1f} % of the "
        f"whole space is more likely below {at:.6g} than above. For {100 * unsure:.1f} % of it the side is "
        f"less than {SURE_TEXT} sure. "
    )
    if len(drawn) == 1:
        return shares + "The level is where the line crosses one half."
    lines = f"The solid line is the level; between the dashed ones the side is less than {SURE_TEXT} sure."
    if view.space.k == 2:
        return shares + lines
    return f"{shares}{lines} All but the two most important parameters stay as in the best point, the star."


def _outline(
    figure: Any,
    view: View,
    drawn: list[int],
    values: list[np.ndarray],
    apart: np.ndarray,
    score: np.ndarray,
) -> None:
    """Draw P(below) over two columns, with lines where it is even and where it is sure.

    apart, score: see `_side`, (n, m) over the values.
    """
    figure.add_heatmap(
        x=values[0], y=values[1], z=style.small(ndtr(score)), zmin=0, zmax=1,
        colorscale=[[0, "#fff"], [1, "#7fb2d8"]], colorbar={"title": "P(below)"},
        hovertemplate="%{z:.2f} at %{x:.5g}, %{y:.5g}<extra>P(below)</extra>",
    )  # fmt: skip
    sure, choice = float(ndtri(SURE)), any(view.space.columns[j].choices for j in drawn)
    lines = [] if choice else [(apart, 0.0, "solid"), (score, -sure, "dash"), (score, sure, "dash")]
    for z, at, dash in lines:  # both are smooth, as probabilities are not
        figure.add_contour(
            x=values[0], y=values[1], z=style.small(np.clip(z, -1e6, 1e6)), showscale=False,
            showlegend=False, contours={"start": at, "end": at, "coloring": "none"}, hoverinfo="skip",
            line={"color": style.BLACK, "width": 2 if dash == "solid" else 1, "dash": dash},
        )  # fmt: skip
    figure.update_layout(yaxis=own_axis(view, drawn[1]))


def _sides(figure: Any, view: View, drawn: list[int], at: float) -> None:
    """Draw the outcomes of a space of one or two parameters, by the side of the level they are on."""
    for name, side, symbol in (
        ("below", view.table.objective <= at, "circle"),
        ("above", view.table.objective > at, "circle-open"),
    ):
        rows = style.sample(view, np.flatnonzero(view.ok & side))
        y = view.table.v[rows, drawn[1]] if len(drawn) == 2 else np.full(len(rows), name == "below")
        figure.add_scatter(
            x=style.small(view.table.v[rows, drawn[0]]), y=style.small(y), mode="markers", name=name,
            marker={"symbol": symbol, "size": 6, "color": style.BLACK}, customdata=rows,
            text=[view.id(row) for row in rows], hovertemplate="%{text}<extra></extra>",
        )  # fmt: skip


def _side(view: View, x: np.ndarray, at: float) -> tuple[np.ndarray, np.ndarray]:
    """How far the objective without noise is below a level at x (m, d), in the model's units, and how
    many deviations that is: two (m,), negative above it."""
    assert view.model is not None
    mean, std = view.model.function(x, np.full(len(x), np.nan))
    apart = view.sign * (view.units.inward(np.array(at)) - mean)
    return apart, apart / np.maximum(std, 1e-300)


def _everywhere(view: View) -> np.ndarray:
    """The model's inputs at points spread evenly over the space: (PLACES, d)."""
    u = qmc.Sobol(view.space.k, rng=np.random.default_rng(0)).random(PLACES)
    return view.space.encode(view.space.sample(u))


def wavering(view: View) -> style.Figure | None:
    """The best points by the model: the value at each, and over where its inputs may really be."""
    if not waver(view.config) or not view.has_model or view.model is None or view.best is None:
        return None
    ranked = view.ranking("model")[:MOST_BEST].tolist()
    if not ranked:
        return None
    rows = np.array(ranked if view.best in ranked else [*ranked, view.best])
    within = view.config["acquisition"]["within"]
    places = Wavering.of(view.space, within, PAIRS).around(view.table.v[rows])
    inputs = view.space.encode(places)
    found, _ = view.units.outward(*view.model.function(inputs, np.full(len(inputs), np.nan)))
    low, high = np.quantile(found.reshape(len(rows), -1), [0.0, 1.0], axis=1)
    mean, std, _ = (column[rows] for column in view.expected)
    names = [
        f"{view.id(row)}{' (lowest)' if view.sign > 0 else ' (highest)'}" * (row == view.best)
        or view.id(row)
        for row in rows.tolist()
    ]
    figure = style.plot(150 + 34 * len(rows))
    for i, name in enumerate(names):
        figure.add_scatter(
            x=style.small(np.array([low[i], high[i]])), y=[name, name], mode="lines",
            line={"color": "#9ecae1", "width": 12}, name="where inputs may be", legendgroup="range",
            showlegend=i == 0, hovertemplate="%{x:.5g}<extra>end of the range</extra>",
        )  # fmt: skip
    ends = view.units.interval(mean, std, 1.96)
    figure.add_scatter(
        x=style.small(mean), y=names, mode="markers", name="mean over that, 95 %", customdata=rows,
        error_x={
            "array": ends[1] - mean, "arrayminus": mean - ends[0], "symmetric": False,
            "color": style.BLACK,
        },
        marker={"symbol": "square", "size": 9, "color": style.BLACK},
        hovertemplate="%{y}: %{x:.5g}<extra>mean</extra>",
    )  # fmt: skip
    figure.add_scatter(
        x=style.small(view.table.objective[rows]), y=names, mode="markers", name="outcome at the point",
        marker={"symbol": "circle-open", "size": 9, "color": style.ORANGE, "line": {"width": 2}},
        customdata=rows, hovertemplate="%{y}: %{x:.5g}<extra>outcome</extra>",
    )  # fmt: skip
    margin = 0.04 * (np.max([high, ends[1]]) - np.min([low, ends[0]]))
    figure.update_layout(
        xaxis={
            "title": style.escape(view.label("objective")),
            "range": [np.min([low, ends[0]]) - margin, np.max([high, ends[1]]) + margin],
        },
        yaxis={"autorange": "reversed", "title": "proposal", "type": "category"},
    )
    off = ", ".join(f"{view.label(name)} ± {value:g}" for name, value in sorted(within.items()))
    return style.Figure(
        "wavering",
        "Where inputs waver",
        f"The best points by the model, the best on top, while inputs waver by {style.escape(off)}. "
        "The bar is from the lowest to the highest value that the surrogate of iteration "
        f"{view.model_iteration} expects within that, and the square is the mean over it. A ring far on "
        "the good side of its square is a point that looks better than it is in use.",
        figure,
    )
