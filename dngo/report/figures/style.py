"""Shared parts of the figures: marks, axes, samples.

Every figure is readable in greyscale: status has a symbol as well as a colour, lines differ in
their dashes, and colour scales grow darker.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dngo.report.data import View
from dngo.space import Column

MOST_POINTS = 3000  # markers in one plot; of more, the plot shows a sample and says so
PANEL = 240  # least width in pixels of a panel next to others
SHARPEST = 1e-4  # share of an axis that no screen shows
LOG_TICKS = 5  # at most; with more, digits would overlap
MOST_LINES = 1000  # of the parallel coordinates
BLUE, ORANGE, GREY, BLACK, GREEN = "#0072B2", "#D55E00", "#767676", "#000000", "#009E73"
COLUMNS = 3  # panels side by side
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
LINES = (BLACK, BLUE, ORANGE, GREEN, GREY)  # of studies side by side
MARKERS = ("circle", "square", "diamond", "cross", "triangle-up")
SYMBOLS = {
    "ok": "circle",
    "infeasible": "diamond-open",
    "failed": "x-thin-open",
    "stopped": "line-ns-open",
}
COLOURS = {"ok": BLUE, "infeasible": ORANGE, "failed": BLACK, "stopped": GREY}
PATTERNS = {
    "ok": "", "infeasible": "/", "failed": "x", "invalid": "+",
    "timeout": "-", "out_of_memory": "|", "lost": ".", "withdrawn": "-", "stopped": "",
}  # fmt: skip
STATUS_COLOURS = {
    "ok": BLUE, "infeasible": ORANGE, "failed": "#404040", "invalid": "#CC79A7",
    "timeout": "#E69F00", "out_of_memory": "#56B4E9", "lost": "#BBBBBB",
    "withdrawn": "#DDDDDD", "stopped": "#8DB9DB",
}  # fmt: skip
AXIS = {
    "showline": True, "ticks": "outside", "gridcolor": "#eee", "zeroline": False,
    "exponentformat": "power", "minexponent": 6, "separatethousands": True,
}  # fmt: skip
TEMPLATE = go.layout.Template(
    layout={
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": "#222"},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hovermode": "closest",
        "showlegend": True,
        # Above the legend there is room for the buttons.
        "margin": {"l": 70, "r": 30, "t": 64, "b": 60},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "xaxis": AXIS,
        # The title stands beside the numbers, however long they are.
        "yaxis": {**AXIS, "automargin": True, "title": {"standoff": 8}},
        "colorway": [BLUE, ORANGE, BLACK, GREEN, GREY],
    }
)


@dataclass(frozen=True)
class Figure:
    """A plot with its place in the report.

    key: its anchor. caption: says what is shown, how it was reduced, and what it means.
    """

    key: str
    title: str
    caption: str
    plot: go.Figure

    def of(self, objective: str) -> Figure:
        """The same for one of several objectives."""
        return replace(self, key=f"{self.key}-{objective}", title=f"{objective}: {self.title}")

    def __post_init__(self) -> None:
        for axis in (
            *self.plot.select_xaxes({"type": "log"}),
            *self.plot.select_yaxes({"type": "log"}),
        ):
            axis.update(tickangle=0)
            if axis.tickvals is None and (ends := _reach(self.plot, axis)):
                ticks = _decades(*ends)
                axis.update(tickvals=ticks, ticktext=[_decade(tick) for tick in ticks])


def _reach(figure: go.Figure, axis: Any) -> tuple[float, float] | None:
    """The ends of a logarithmic axis: those that it has, or those of its data; None without any."""
    if axis.range is not None and None not in axis.range:
        return float(10.0 ** axis.range[0]), float(10.0 ** axis.range[1])
    which, name = axis.plotly_name[0], axis.plotly_name.replace("axis", "")
    traces = (t for t in figure.data if (getattr(t, f"{which}axis", None) or which) == name)
    parts = [np.asarray(t[which], dtype=float).ravel() for t in traces if t[which] is not None]
    values = np.concatenate([*parts, np.empty(0)])
    values = values[np.isfinite(values) & (values > 0)]
    return (float(values.min()), float(values.max())) if len(values) else None


def _decades(low: float, high: float) -> list[float]:
    """At most `LOG_TICKS` whole decades; of a range with fewer than two, a few round numbers."""
    first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
    if last <= first:
        return nice(low, high, log=True)
    return [10.0**e for e in range(first, last + 1, -(-(last - first + 1) // LOG_TICKS))]


def _decade(value: float) -> str:
    """A tick of a logarithmic axis. Powers of ten are written as such where digits would be many."""
    if 1e-3 <= value < 1e5:
        return named(value)
    power = int(np.floor(np.log10(value) + 1e-9))
    first = round(value / 10.0**power)
    return f"{'' if first == 1 else f'{first}·'}10<sup>{power}</sup>"


def escape(text: object) -> str:
    """A user's text for a plot. Plotly would read tags in it as markup."""
    return html.escape(str(text), quote=False)


def plot(height: int = 420, **layout: Any) -> go.Figure:
    return go.Figure(layout={"template": TEMPLATE, "height": height, **layout})


def subplots(rows: int, cols: int, *, height: int, panel: int = PANEL, **options: Any) -> go.Figure:
    """Panels. Panels next to each other have a least width in pixels."""
    figure = make_subplots(rows=rows, cols=cols, **options)
    # On a narrow page the panels keep their width, and the figure scrolls.
    meta = {"least": panel * cols} if cols > 1 else None
    figure.update_layout(template=TEMPLATE, height=height, meta=meta)
    if "subplot_titles" in options:  # the legend stands above them
        top = 108
        figure.update_layout(margin_t=top, legend_y=1 + 32 / max(height - top - 60, 1))
    return figure


def rows_of(columns: Sequence[Column], wide: int) -> dict[str, Any]:
    """Height and spacing of panels for parameters, `columns` in a row. Names of choices may be vertical."""
    tall = -(-len(columns) // wide)
    upright = any(len(str(choice)) > 3 for c in columns for choice in c.choices or ())
    apart = 115 if upright else 80
    inner = 200 * tall + apart * (tall - 1)
    return {
        "height": inner + 164 + (apart - 80),
        "vertical_spacing": apart / inner if tall > 1 else 0.0,
    }


def line_of(i: int, **more: Any) -> dict[str, Any]:
    """The line of the study i among several."""
    return {"dash": DASHES[i % len(DASHES)], "color": LINES[i % len(LINES)], "width": 2, **more}


def small(values: np.ndarray) -> np.ndarray:
    """Values in single precision, half the bytes, if a screen shows them at the same places.

    It does not if they are nearly alike beside their size, such as energies, or if they are too large or
    too small for it.
    """
    limits, values = np.finfo(np.float32), np.asarray(values, dtype=float)
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    if not len(size):
        return values.astype(np.float32)
    if size.min() < limits.tiny or size.max() > limits.max:
        return values
    apart = np.ptp(values[np.isfinite(values)])
    return values.astype(np.float32) if limits.eps * size.max() < SHARPEST * apart else values


def logarithmic(values: np.ndarray, factor: float = 10) -> bool:
    """Whether an axis of these values should be logarithmic: they are positive and span more than a
    factor.
    """
    return bool(len(values) and values.min() > 0 and values.max() > factor * values.min())


def sample(view: View, rows: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """A limited number of the rows: every improvement and the best, and others evenly spaced."""
    if len(rows) <= most:
        return rows
    kept = np.intersect1d(view.improvements, rows)[-most // 2 :]
    spread = rows[np.linspace(0, len(rows) - 1, most - len(kept)).astype(int)]
    return np.union1d(kept, spread)


def samples(
    view: View, among: np.ndarray | None = None, most: int = MOST_POINTS
) -> dict[str, np.ndarray]:
    """Rows to draw, with outcomes in the proportions of the study, but at least some of each.

    among: (n,) bool, the rows to draw from; None: all.
    """
    found = {}
    for name, group in groups(view).items():
        rows = np.flatnonzero(group if among is None else group & among)
        share = len(rows) / max(len(view) if among is None else int(among.sum()), 1)
        found[name] = sample(view, rows, max(int(most * share), most // 10))
    return found


def sampled(shown: int, of: int) -> str:
    """A sentence with the number of drawn evaluations; empty if all are drawn."""
    return "" if shown == of else f" {shown:,} of {of:,} evaluations are drawn, evenly spaced."


def groups(view: View) -> dict[str, np.ndarray]:
    found = {"ok": view.ok, "infeasible": view.infeasible, "failed": view.failed}
    return {**found, "stopped": view.stopped} if view.stopped.any() else found


def marks(name: str, size: int = 7) -> dict[str, Any]:
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

    low, high: the ends of the axis.
    log: logarithmic.
    above, below: how many values lie outside.
    walled: whether these lie far outside, like penalties: an axis with them would hide the
    differences between all other values.
    """

    low: float
    high: float
    log: bool
    below: int
    above: int
    walled: bool = False

    def axis(self, **more: Any) -> dict[str, Any]:
        """The settings of a Plotly axis."""
        ends = np.log10([self.low, self.high]) if self.log else np.array([self.low, self.high])
        return {"type": "log" if self.log else "linear", "range": ends.tolist(), **more}

    @property
    def outside(self) -> str:
        """A sentence that counts what lies outside the axis; empty if nothing does."""
        parts = [(self.above, "above it"), (self.below, "below it")]
        counted = [f"{n:,} {where}" for n, where in parts if n]
        return f"Values outside the axis: {' and '.join(counted)}." if counted else ""

    @property
    def foot(self) -> float:
        """The place on the axis for evaluations without a value: its low end, inside it in spite of
        rounding.
        """
        if self.log:
            return float(self.low * (self.high / self.low) ** SHARPEST)
        return float((1.0 - SHARPEST) * self.low + SHARPEST * self.high)

    def clip(self, values: np.ndarray) -> np.ndarray:
        return np.clip(values, self.low, self.high)


def scale(view: View) -> Scale:
    """A logarithmic axis if values differ by an order of magnitude.

    Otherwise one without the worst tenth and without walls.
    """
    values = view.table.objective[view.ok | view.infeasible]
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return Scale(0.0, 1.0, False, 0, 0)
    good = view.table.objective[view.ok] if view.ok.any() else values
    low, high = float(np.min(good)), float(np.max(good))
    worst, walled = _worst(view, view.sign * good)
    log = low > 0 and (view.units.log or high > 10 * low)
    if walled and log:  # a logarithmic axis shows at most a dozen decades
        walled = high > 1e12 * low
    if walled or not log:
        low, high = (low, worst) if view.sign > 0 else (-worst, high)
        log = low > 0 and (view.units.log or high > 10 * low)
    if log:
        margin = (high / low) ** 0.06
        low, high = low / margin, high * margin
    else:
        margin = 0.08 * (high - low) or 0.1 * abs(high) or 1.0
        low, high = low - margin, high + margin
    below, above = int(np.sum(values < low)), int(np.sum(values > high))
    return Scale(low, high, log, below, above, walled)


def _worst(view: View, good: np.ndarray) -> tuple[float, bool]:
    """The worst of the minimised values (n,) that the axis shows, and whether walls limit the axis."""
    best = float(np.min(good))
    worst = float(np.quantile(good, 0.9)) if len(good) > 10 else float(np.max(good))
    first = view.sign * view.table.objective[view.ok & (view.table.iteration == 0)]
    low = float(np.quantile(first, 0.25)) - best if len(first) else 0.0
    walled = 0.0 < 100.0 * low < worst - best
    return (best + 4.0 * low if walled else worst), walled


def at_the_foot(view: View, rows: np.ndarray, axis: Scale) -> np.ndarray:
    """The objectives of some rows, (m,), and the foot of the axis for those without one.

    A broken constraint may come without an objective, and a failure with one.
    """
    y = view.table.objective[rows]
    return np.where(np.isfinite(y), y, axis.foot)


def iterations_bar(iterations: np.ndarray, **more: Any) -> dict[str, Any]:
    """A colour bar of whole numbers, and the ends of the colours."""
    first, last = int(np.min(iterations)), int(np.max(iterations))
    step = max(1, -(-(last - first) // 6))
    later = np.arange(last, first, -step)
    ticks = np.union1d([first], later[later - first >= step])
    bar = {"title": "iteration", "tickvals": ticks.tolist(), "tickformat": "d", **more}
    return {"cmin": first, "cmax": max(last, first + 1), "colorbar": bar}


def counting(count: int, title: str) -> dict[str, Any]:
    """An axis of whole numbers."""
    return {"title": title, "dtick": 1 if count <= 16 else None}


def note(figure: go.Figure, text: str, **where: Any) -> None:
    """A remark inside the axes, by default at the top right."""
    if text:
        place = {"x": 1, "y": 1, "xref": "x domain", "yref": "y domain", "yanchor": "top", **where}
        figure.add_annotation(
            text=escape(text), showarrow=False, xanchor="right",
            font={"size": 11, "color": "#555"}, bgcolor="rgba(255,255,255,.8)", **place,
        )  # fmt: skip


def choice_name(column: Column, index: int) -> str:
    assert column.choices is not None
    text = str(column.choices[index])
    return text if len(text) <= 12 else f"{text[:11]}…"


def axis_of(column: Column, **more: Any) -> dict[str, Any]:
    """The axis of a parameter: its bounds with a small margin, its scale and its choices."""
    if column.choices is not None:
        names = [escape(choice_name(column, i)) for i in range(len(column.choices))]
        return {
            "tickvals": list(range(len(names))), "ticktext": names,
            "range": [-0.5, len(names) - 0.5], "autotickangles": [0, 90], **more,
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


def nice(low: float, high: float, log: bool = False) -> list[float]:
    """A few round numbers of a range.

    On a logarithmic axis, powers of ten, or 1, 2 and 5 times these.
    """
    if log:
        first, last = int(np.ceil(np.log10(low) - 1e-9)), int(np.floor(np.log10(high) + 1e-9))
        if last - first >= 2:
            return [10.0**e for e in range(first, last + 1, 1 + (last - first) // 6)]
        found = [d * 10.0**e for e in range(first - 1, last + 1) for d in (1, 2, 5)]
        found = [v for v in found if low * (1 - 1e-9) <= v <= high * (1 + 1e-9)]
        if len(found) >= 2:
            return found
    rough = (high - low) / 5
    if not rough > 0:
        return [low]
    size = 10.0 ** np.floor(np.log10(rough))
    step = size * next(d for d in (1, 2, 5, 10) if d * size >= rough * (1 - 1e-9))
    count = np.arange(np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9) + 1)
    return [float(v) + 0.0 for v in count * step]


def named(value: float) -> str:
    """A number at a tick.

    Whole numbers are written in full; powers are used only if a few digits are not enough.
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e7 else f"{value + 0.0:.4g}"
