"""Draw the course of a study from the table that an example keeps.

    python examples/figure.py examples/captions/results.csv docs/images/captions.png --label BLEU-4
    python examples/figure.py examples/cnn/results.csv docs/images/cnn.png --label "error (%)" --minimize
    python examples/figure.py examples/self_tuning/results.csv docs/images/self-tuning.png

A dot is an ok evaluation, a cross at the foot one without an objective, the line the best so far. A dashed
line parts two batches.
"""

import argparse
import csv
from itertools import accumulate
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--label", default="objective")
    parser.add_argument("--minimize", action="store_true")
    given = parser.parse_args()
    with given.table.open(newline="") as file:
        draw(list(csv.DictReader(file)), given.picture, given.label, given.minimize)


if __name__ == "__main__":
    main()
