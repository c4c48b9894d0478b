"""Notes, tags and pictures of evaluations, from their metadata."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive
from dngo.redaction import each_text, redacted
from dngo.storage.files import reading_regular
from dngo.storage.picture import ENDINGS, LARGEST, TYPES, kind_of

if TYPE_CHECKING:
    from dngo.report.data import View

NOTE, TAGS, IMAGE = "note", "tags", "image"
LONGEST = 500  # characters of a note in a table
MOST_BYTES = 8 << 20  # of all pictures of a page


def metadata_of(view: View) -> list[dict[str, Any]]:
    """The metadata of each row, without secrets."""
    return [each_text(found, redacted) for found in archive.read_metadata(view.path)][: len(view)]


def note_of(metadata: dict[str, Any]) -> str:
    """The note of an evaluation; empty if it has none."""
    found = metadata.get(NOTE)
    return "" if found is None else str(found)[:LONGEST]


def tags_of(metadata: dict[str, Any]) -> str:
    """The tags of an evaluation as one text; empty if it has none."""
    found = metadata.get(TAGS)
    several = isinstance(found, list)
    return ", ".join(map(str, found if several else [found]))[:LONGEST] if found else ""


def has_picture(metadata: dict[str, Any]) -> bool:
    """Whether an evaluation named a picture."""
    found = metadata.get(IMAGE)
    return isinstance(found, str) and Path(found).suffix.lower() in ENDINGS


def picture_file(folder: Path, iteration: int, slot: int) -> Path | None:
    """The file of a point's picture below a study's folder, if it exists."""
    stem = folder / "images" / str(iteration) / str(slot)
    paths = (stem.with_name(f"{stem.name}.{ending}") for ending in TYPES)
    return next((path for path in paths if path.is_file() and not path.is_symlink()), None)


def pictures(view: View, named: Sequence[bool], first: Iterable[int]) -> dict[int, str]:
    """Pictures as data addresses, by row, up to the size of a page.

    named: whether each row named a picture.
    first: rows whose pictures come first; then the newest ones.
    """
    wanted = [int(row) for row in first if named[row]]
    found: dict[int, str] = {}
    left = MOST_BYTES
    for row in dict.fromkeys([*wanted, *np.flatnonzero(named)[::-1].tolist()]):
        t, slot = int(view.table.iteration[row]), int(view.table.slot[row])
        path = picture_file(view.path.parent, t, slot)
        try:
            if path is None or path.stat().st_size > left:
                continue
            with reading_regular(path) as stream:
                data = stream.read(LARGEST + 1)
            kind = kind_of(data)
        except (OSError, ValueError):
            continue
        left -= len(data)
        found[row] = f"data:{TYPES[kind]};base64,{base64.b64encode(data).decode()}"
    return found
