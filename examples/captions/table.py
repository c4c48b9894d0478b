"""Shorten the export of a study to the table that this example keeps, and print how it went.

    dngo export ../../results/captions/archive.h5 --format csv --output /tmp/captions.csv
    python table.py /tmp/captions.csv results.csv

Printed for each iteration are the points, the share of them that is infeasible, why, and the best BLEU so
far. The table has what `dngo import` reads: another study can begin with these evaluations.
"""

import csv
import json
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path

CAUSES = ("diverged", "took more than", "out_of_memory")
KEPT = ("id", "iteration", "status", "objective", "message")


def shortened(row: dict[str, str]) -> dict[str, str]:
    """Where a point stood, what came of it, and the CPU seconds that it reported, if it did."""
    kept = {name: row[name] for name in row if name in KEPT or name.startswith("parameter_")}
    seconds = json.loads(row["metadata"] or "{}").get("cpu_seconds", "")
    return {**kept, "cpu_seconds": str(seconds)}


def cause(row: dict[str, str]) -> str:
    """Which of the causes an evaluation has failed by; "" if it has not."""
    words = f"{row['status']} {row['message']}"
    return next((c for c in CAUSES if c in words), "") if row["status"] != "ok" else ""


def summary(rows: list[dict[str, str]]) -> str:
    """A line for each iteration, as a Markdown table."""
    lines = [
        "| iteration | points | infeasible | diverged | over the time | out of memory | best BLEU |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    best = 0.0
    for iteration, group in groupby(rows, key=lambda row: row["iteration"]):
        points = list(group)
        fails = Counter(cause(row) for row in points if row["status"] != "ok")
        best = max([best, *(float(row["objective"]) for row in points if row["status"] == "ok")])
        cells = [iteration, len(points), f"{fails.total() / len(points):.0%}"]
        cells += [fails[name] for name in CAUSES] + [f"{best:.1f}"]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("usage: python table.py EXPORT.csv RESULTS.csv")
    export, results = map(Path, sys.argv[1:])
    with export.open(newline="") as stream:
        rows = [shortened(row) for row in csv.DictReader(stream)]
    with results.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(summary(rows))


if __name__ == "__main__":
    main()
