"""CSV of experiments, as Weights & Biases imports it: a line for each evaluation that has ended."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from dngo.archive import flat_columns
from dngo.space.parameters import text
from dngo.storage.files import handing_out
from dngo.study import entries

# What its page on CSV calls the name of an experiment, its notes and its tags.
HEAD = ("Experiment", "Notes", "Tags")


def write(archive: Path, output: Path) -> None:
    """Write a table. Columns of parameters begin with `parameter_`, as in the other tables."""
    notes = [n for n in entries.notes(archive) if n.point]
    said = {
        n.point: "; ".join(o.text for o in notes if o.point == n.point and o.text) for n in notes
    }
    tags = {n.point: [t for o in notes if o.point == n.point for t in o.tags] for n in notes}
    with (
        handing_out(output) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.writer(stream)
        for i, columns in enumerate(flat_columns(archive)):
            if i == 0:
                writer.writerow([*HEAD, *(name for name in columns if name != "id")])
            ids = columns.pop("id")
            for id_, *cells in zip(ids, *columns.values(), strict=True):
                head = [id_, said.get(id_, ""), json.dumps(tags.get(id_, []))]
                writer.writerow([*head, *("" if c is None or c != c else text(c) for c in cells)])
