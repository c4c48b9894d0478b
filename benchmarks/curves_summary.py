"""What fidelities and early stopping save, from measured tables.

    python benchmarks/curves_summary.py
    python benchmarks/curves_summary.py --plot docs/images/epochs.png

Reads benchmarks/results/curves.csv and epochs.csv. Printed are, for each number of evaluations at once: on
how many tables fidelities with a surrogate have the least area under the regret curve, and by which ratio
they are above the best other method at most. Then, for each method, after which share of the default's
epochs it was as low as the default is at its end: the median over the tables, and each. Areas are means of
the logarithm of the regret, so their ratio is one of geometric means. The figure shows regret by epochs.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import defaultdict
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"
OURS, DEFAULT = "dngo fidelity", "dngo"
BOUND = 1.2  # of the best one's area: how far above it a method may be
DRAWN = {
    DEFAULT: ("default", "black"),
    "median": ("stopped by median", "tab:orange"),
    "model": ("stopped by model", "tab:green"),
    "asha": ("stopped by asha", "tab:red"),
    OURS: ("fidelities", "tab:blue"),
}
FLOOR = 1e-4


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a table of benchmarks/results."""
    lines = (RESULTS / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def areas(rows: list[dict[str, str]]) -> list[str]:
    """On how many tables ours is first, and how far from the best it is, for each number at once."""
    groups: dict[str, dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for row in rows:
        groups[row["at once"]][row["task"]][row["method"]] = float(row["mean log10 regret"])
    found = []
    for at_once, tables in groups.items():
        ratios = {
            task: 10 ** (methods[OURS] - min(value for n, value in methods.items() if n != OURS))
            for task, methods in tables.items()
        }
        first = sum(ratio <= 1 for ratio in ratios.values())
        over = ", ".join(f"{task} ({ratio:.2f})" for task, ratio in ratios.items() if ratio > BOUND)
        found.append(
            f"{at_once} at once: first on {first} of {len(ratios)} tables; "
            f"at most {max(ratios.values()):.2f} x the best other; over {BOUND:g} x on {over or 'none'}"
        )
    return found


def courses(rows: list[dict[str, str]]) -> dict[str, dict[str, list[tuple[float, float]]]]:
    """Epochs and regret, falling, by task and method."""
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(dict)
    for row in rows:
        pairs = (point.split(":") for point in row["course"].split())
        found[row["task"]][row["method"]] = [(float(e), float(r)) for e, r in pairs]
    return found


def shares(tables: dict[str, dict[str, list[tuple[float, float]]]], budget: float) -> list[str]:
    """After which share of the default's epochs each method was as low as the default at its end."""
    found = []
    for method in dict.fromkeys(name for each in tables.values() for name in each):
        reached = []
        for each in tables.values():
            end = each[DEFAULT][-1][1]
            course = each.get(method, [])
            reached.append(next((e / budget for e, r in course if r <= end), float("inf")))
        listed = ", ".join(f"{share:.2f}" for share in reached)
        found.append(f"{method}: median {statistics.median(reached):.2f} ({listed})")
    return found


def plot(
    tables: dict[str, dict[str, list[tuple[float, float]]]], budget: float, path: Path
) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(tables), figsize=(3.6 * len(tables), 3.4), sharey=True)
    for panel, (task, methods) in zip(panels, tables.items(), strict=True):
        for name, (label, color) in DRAWN.items():
            course = [(e, max(r, FLOOR)) for e, r in methods.get(name, [])]
            if course:
                end = max(budget / 2, course[-1][0]) if name == OURS else budget
                epochs, regret = zip(*course, (end, course[-1][1]), strict=True)
                panel.step(epochs, regret, where="post", label=label, color=color)
        panel.set(title=f"task {task}", xlabel="epochs", yscale="log", xlim=(0, budget))
        panel.axhline(methods[DEFAULT][-1][1] or FLOOR, color="0.7", linewidth=0.8, zorder=0)
    panels[0].set_ylabel("regret")
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="lower center",
        ncols=len(DRAWN),
        frameon=False,
    )
    figure.tight_layout(rect=(0, 0.09, 1, 1))
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the summary, and draw the figure where asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--budget", type=float, default=2080, help="the default's epochs")
    parser.add_argument("--plot", type=Path, help="a file for the figure")
    arguments = parser.parse_args()
    tables = courses(rows_of("epochs.csv"))
    print(*areas(rows_of("curves.csv")), *shares(tables, arguments.budget), sep="\n")
    if arguments.plot:
        plot(tables, arguments.budget, arguments.plot)


if __name__ == "__main__":
    main()
