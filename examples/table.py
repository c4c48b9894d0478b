"""Shorten the export of a study to the table that an example keeps, and print a summary.

    dngo export examples/captions/results/captions/archive.h5 --format csv --output captions.csv
    python examples/table.py captions.csv examples/captions/results.csv
    python examples/table.py cnn.csv examples/cnn/results.csv --minimize

For each iteration it prints the number of points, the share of infeasible ones, the causes, and the
best objective so far. Then it prints the duration of the study with a core for each point, when a
batch takes as long as its longest evaluation. The table has what `dngo import` reads: another study
can begin with these evaluations.
"""

import argparse
import csv
import json
from collections import Counter
from itertools import groupby
from pathlib import Path

CAUSES = {  # causes, by words of the status or the message
    "diverged": "diverged",
    "took more than": "over the time",
    "out_of_memory": "out of memory",
}
OF_EACH = ("parameter_", "objective_")
KEPT = ("id", "iteration", "status", "objective", "message")


def shortened(row: dict[str, str]) -> dict[str, str]:
    """A point's place, its outcome, and the CPU seconds that it reported, if any."""
    kept = {name: row[name] for name in row if name in KEPT or name.startswith(OF_EACH)}
    seconds = json.loads(row["metadata"] or "{}").get("cpu_seconds", "")
    return {**kept, "cpu_seconds": str(seconds)}


def cause(row: dict[str, str]) -> str:
    """The cause of an evaluation's failure; "" if it has not failed."""
    words = f"{row['status']} {row['message']}"
    return next((c for c in CAUSES if c in words), "") if row["status"] != "ok" else ""


def summary(rows: list[dict[str, str]], minimize: bool = False) -> str:
    """A line for each iteration, as a Markdown table; only causes that occur have a column."""
    causes = [c for c in CAUSES if any(cause(row) == c for row in rows)]
    heads = ["iteration", "points", "infeasible", *(CAUSES[c] for c in causes), "best"]
    lines = [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    better = min if minimize else max
    best: list[float] = []
    for iteration, group in groupby(rows, key=lambda row: row["iteration"]):
        points = list(group)
        fails = Counter(cause(row) for row in points if row["status"] != "ok")
        best += [
            float(row["objective"]) for row in points if row["status"] == "ok" and row["objective"]
        ]
        cells = [iteration, len(points), f"{fails.total() / len(points):.0%}"]
        cells += [fails[name] for name in causes]
        cells.append(f"{better(best):.1f}" if best else "")
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def side_by_side(rows: list[dict[str, str]]) -> float:
    """CPU seconds of a study whose batches have a core for each point: the longest of each."""
    batches = groupby(rows, key=lambda row: row["iteration"])
    return sum(max(float(row["cpu_seconds"] or 0) for row in group) for _, group in batches)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("export", type=Path, help="a study as `dngo export --format csv` has it")
    parser.add_argument("results", type=Path, help="where the table is to be kept")
    parser.add_argument("--minimize", action="store_true", help="the lowest objective is the best")
    arguments = parser.parse_args()
    with arguments.export.open(newline="") as stream:
        rows = [shortened(row) for row in csv.DictReader(stream)]
    with arguments.results.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(summary(rows, arguments.minimize))
    print(f"With a core for each point of a batch: {side_by_side(rows):.1f} s")


if __name__ == "__main__":
    main()
