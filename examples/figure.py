"""Draw the course of a study from the table that an example keeps.

    python examples/figure.py examples/captions/results.csv docs/images/captions.png --label BLEU-4
    python examples/figure.py examples/cnn/results.csv docs/images/cnn.png --label "error (%)" --minimize
    python examples/figure.py examples/self_tuning/results.csv docs/images/self-tuning.png
    python examples/figure.py examples/airfoil/front.csv docs/images/airfoil-front.png \\
        --front drag lift --maximize lift
    python examples/figure.py examples/digits/front.csv docs/images/digits-front.png \\
        --front multiply_adds error --log

A dot is an ok evaluation. A cross at the foot is an evaluation without an objective. The line is
the best value so far. Dashed lines separate batches. With `--front` and the names of two
objectives, a dot has both as coordinates. The lines are the front of the design and the front of
all points.
"""

import argparse
import csv
from collections import Counter
from itertools import accumulate
from pathlib import Path

import matplotlib
import numpy as np

from dngo.fronts import on_front

matplotlib.use("Agg")
from matplotlib import pyplot, ticker


def draw(rows: list[dict[str, str]], path: Path, label: str, minimize: bool) -> None:
    """rows: in the order of the evaluations, with `iteration`, `status` and `objective`."""
    figure, axes = pyplot.subplots(figsize=(7, 2.8), layout="constrained")
    ok = [(i, float(row["objective"])) for i, row in enumerate(rows, 1) if row["status"] == "ok"]
    values = [value for _, value in ok]
    best = list(accumulate(values, min if minimize else max))
    bad = [i for i, row in enumerate(rows, 1) if row["status"] != "ok"]
    axes.plot([i for i, _ in ok], values, ".", color="#56b4e9", label="evaluation")
    axes.step([i for i, _ in ok], best, where="post", color="black", label="best so far")
    axes.plot(
        bad, [0.03] * len(bad), "x", color="#d55e00", transform=axes.get_xaxis_transform(),
        markersize=4, label=f"no objective ({len(bad)})",
    )  # fmt: skip
    for i in range(1, len(rows)):
        if rows[i]["iteration"] != rows[i - 1]["iteration"]:
            axes.axvline(i + 0.5, color="0.8", linestyle="--", linewidth=0.8, zorder=0)
    axes.set(xlabel="evaluation", ylabel=label)
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def draw_front(
    rows: list[dict[str, str]], path: Path, names: list[str], maximized: list[str], log: bool
) -> None:
    """rows: as above, with `objective_NAME` for both names; the first is drawn from left to right."""
    figure, axes = pyplot.subplots(figsize=(7, 3.4), layout="constrained")
    ok = [row for row in rows if row["status"] == "ok"]
    values = np.array([[float(row[f"objective_{name}"]) for name in names] for row in ok])
    signs = np.array([-1.0 if name in maximized else 1.0 for name in names])
    batch = np.array([int(row["iteration"]) for row in ok])
    dots = axes.scatter(*values.T, c=batch, cmap="viridis_r", s=14)
    for until, style in ((0, "--"), (batch.max(), "-")):
        known = signs * values[batch <= until]
        steps = signs * known[on_front(known)]
        steps = steps[np.argsort(steps[:, 0])]
        where = "post" if signs[0] > 0 else "pre"
        label = "front of the design" if until == 0 else "front in the end"
        axes.step(*steps.T, style, where=where, color="black", linewidth=1, label=label)
    if log:
        axes.set_xscale("log")
        for each in (axes.xaxis.set_major_formatter, axes.xaxis.set_minor_formatter):
            each(ticker.StrMethodFormatter("{x:,.0f}"))
    front = values[on_front(signs * values)]
    for limit, column, mark in ((axes.set_xlim, 0, log), (axes.set_ylim, 1, False)):
        low, high = front[:, column].min(), front[:, column].max()
        room = 0.35 * (high - low)
        limit((low / 1.3, high * 1.3) if mark else (low - room, high + room))
    axes.set(xlabel=names[0].replace("_", " "), ylabel=names[1].replace("_", " "))
    bad = Counter(row["status"] for row in rows if row["status"] != "ok")
    axes.set_title(", ".join(f"{n} {status}" for status, n in bad.items()), fontsize=9, loc="left")
    axes.legend(frameon=False)
    figure.colorbar(dots, label="batch")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--label", default="objective")
    parser.add_argument("--minimize", action="store_true")
    parser.add_argument("--front", nargs=2, metavar="NAME", help="two objectives")
    parser.add_argument("--maximize", nargs="+", default=[], metavar="NAME", help="of these")
    parser.add_argument("--log", action="store_true", help="the first by its logarithm")
    given = parser.parse_args()
    with given.table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    if given.front:
        draw_front(rows, given.picture, given.front, given.maximize, given.log)
    else:
        draw(rows, given.picture, given.label, given.minimize)


if __name__ == "__main__":
    main()
