"""The curves of an archive's evaluations, by row."""

from __future__ import annotations

from pathlib import Path

from dngo.archive.progress import read
from dngo.archive.reading import reading
from dngo.stopping.curves import Curve


def read_curves(path: Path, iterations: int | None = None) -> list[Curve]:
    """The curve of each row of the first iterations (None: all).

    A row without reports has an empty one.
    """
    with reading(path) as file:
        known = int(file.attrs["iterations"])
        found: list[Curve] = []
        empty = Curve()  # one for all, since a large archive may have a million
        for t in range(known if iterations is None else min(iterations, known)):
            record = file[f"iterations/{t}"]
            curves, _ = read(record)
            found += [curves.get(i, empty) for i in range(int(record.attrs["rows"]))]
        return found
