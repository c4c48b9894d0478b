"""Notes, tags and pictures: of evaluations, from their metadata, and what people noted later."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive
from dngo.outcomes import is_time
from dngo.redaction import each_text, redacted
from dngo.storage import picture
from dngo.storage.picture import TYPES
from dngo.storage.text import visible
from dngo.study.paths import Paths

if TYPE_CHECKING:
    from dngo.report.data import View
    from dngo.waiting import Note

NOTE, TAGS = "note", "tags"
LONGEST = 500  # characters of a note in a table
MOST_BYTES = 8 << 20  # of all pictures of a page


def metadata_of(view: View, rows: np.ndarray) -> list[dict[str, Any]]:
    """The metadata of some rows, in ascending order, without secrets."""
    found = archive.read_metadata(view.path, rows=rows)
    return [each_text(one, redacted) for one in found]


def with_notes(
    metadata: Sequence[dict[str, Any]], ids: Sequence[str], notes: Sequence[Note]
) -> list[dict[str, Any]]:
    """The metadata of points of these ids, with people's notes and tags after their own."""
    found = list(metadata)
    row_of = {name: row for row, name in enumerate(ids)}
    for note in notes:
        row = row_of.get(note.point)
        if row is None:
            continue
        said = found[row]
        texts = [text for text in (note_of(said), note.text) if text]
        tags = [*([tags_of(said)] if said.get(TAGS) else []), *note.tags]
        found[row] = {**said, NOTE: "; ".join(texts), TAGS: list(dict.fromkeys(tags))}
    return found


def noted(notes: Sequence[Note]) -> list[str]:
    """Notes as lines: of what, its text and tags, who wrote it and when."""
    lines = []
    for note in notes:
        tags = f"[{', '.join(note.tags)}]" if note.tags else ""
        about = f"{note.point}:" if note.point else ""
        who, when = note.origin.get("by", "unknown"), note.origin.get("time")
        known = isinstance(when, int | float) and is_time(when)
        day = time.strftime("%Y-%m-%d", time.gmtime(when)) if known else "day unknown"
        words = " ".join(filter(None, (about, note.text, tags)))
        lines.append(visible(redacted(f"{words} ({who}, {day})")))
    return lines


def note_of(metadata: dict[str, Any]) -> str:
    """The note of an evaluation; empty if it has none."""
    found = metadata.get(NOTE)
    return "" if found is None else str(found)[:LONGEST]


def tags_of(metadata: dict[str, Any]) -> str:
    """The tags of an evaluation as one text; empty if it has none."""
    found = metadata.get(TAGS)
    several = isinstance(found, list)
    return ", ".join(map(str, found if several else [found]))[:LONGEST] if found else ""


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
        path = picture.kept_at(Paths(view.path.parent).picture(t, slot))
        try:
            if path is None or path.stat().st_size > left:
                continue
            data = picture.read(path)
        except (OSError, ValueError):
            continue
        left -= len(data)
        kind = TYPES[picture.kind_of(data)]
        found[row] = f"data:{kind};base64,{base64.b64encode(data).decode()}"
    return found
