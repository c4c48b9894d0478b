"""What people entered (`dngo.waiting`): points for the next batch, and notes for the next merge.

Each point, each outcome and each note counts once.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from dngo import archive
from dngo.batch import UNINFORMATIVE, Context, Outcome, Proposal
from dngo.study.paths import Paths
from dngo.study.records import Records
from dngo.waiting import Entry, Note, Notes


def entries(records: Records) -> list[Entry]:
    """The points that wait, without those already in a batch."""
    waiting = records.paths.waiting.read()
    if not waiting:
        return []
    taken = archive.read_entered(records.archive) if records.archive.exists() else set()
    for batch in records.in_flight(records.merged()):
        taken |= {p.origin["entry"] for p in batch.proposals if p.origin}
    return [entry for entry in waiting if entry.name not in taken]


def awaited(records: Records) -> int:
    """How many points wait to be evaluated."""
    return sum(entry.outcome is None for entry in entries(records))


def known(records: Records) -> dict[bytes, tuple[str, str]]:
    """Every proposed point, by its key (`Space.keys`): its id, and its status or "pending".

    Points whose outcome will never be known are left out, since they may be proposed again.
    """
    found: dict[bytes, tuple[str, str]] = {}
    space, merged = records.space, records.merged()
    if merged:
        table = archive.read_table(records.archive, iterations=merged)
        for key, t, slot, status in zip(
            space.keys(table.v), table.iteration, table.slot, table.status, strict=True
        ):
            if status not in UNINFORMATIVE:
                found[key] = (f"{t}-{slot}", str(status))
    for batch in records.in_flight(merged):
        keys = space.keys(space.from_parameters([p.parameters for p in batch.proposals]))
        for key, p, outcome in zip(keys, batch.proposals, records.outcomes(batch), strict=True):
            status = outcome.status if outcome else "pending"
            if status not in UNINFORMATIVE:
                found[key] = (p.id, status)
    return found


def given(records: Records, t: int) -> list[Proposal]:
    """The first points of batch t: those that wait, up to the batch's size.

    If a point was proposed after it was entered, it is not evaluated twice, unless the user asked
    for that.
    """
    space = records.space
    waiting = [entry for entry in entries(records) if entry.outcome is None]
    proposed = known(records) if waiting else {}
    found: list[Proposal] = []
    for entry in waiting:
        key = space.keys(space.from_parameters([entry.parameters]))[0]
        if key in proposed and not entry.again:
            print(f"{entry.name}: its point is already proposal {proposed[key][0]}", flush=True)
            records.paths.waiting.drop({entry.name})
        elif len(found) < records.config.batch_size_of(t):
            found.append(entry.proposal(t, len(found)))
    return found


def told(records: Records, t: int, iterations: int) -> list[tuple[Proposal, Outcome]]:
    """Outcomes from elsewhere, in order, without those in the archive's first iterations."""
    found = []
    for s in range(iterations, t):
        batch = records.batch(s) if s < records.merged() else records.batch_in_flight(s)
        if batch is not None:
            found += [(batch.proposals[o.slot], o) for o in batch.told]
    waiting = [entry for entry in entries(records) if entry.outcome is not None]
    return found + [entry.told(t, i) for i, entry in enumerate(waiting)]


def told_for_design(records: Records) -> int:
    """How many points of the initial design have outcomes from elsewhere."""
    return Context(told=told(records, 0, 0)).known


def drop_pictures(records: Records, waiting: Sequence[Entry]) -> None:
    """Remove pictures of outcomes that were never entered, as a kill came between the two.

    waiting: the points that wait. The caller holds the claim on them.
    """
    names = {entry.name for entry in waiting}
    lone = [p for p in records.paths.entered_pictures.glob("*.*") if _entry(p) not in names]
    if lone:
        flying = records.in_flight(records.merged())
        names = {p.origin["entry"] for batch in flying for p in batch.proposals if p.told}
    for path in lone:
        if _entry(path) not in names:
            # A network file system keeps a file that is open elsewhere. Nobody's outcome waits for that.
            with contextlib.suppress(OSError):
                path.unlink()


def _entry(path: Path) -> str:
    """The name of the entry whose picture, or a part of it, is at a path."""
    return path.name.lstrip(".").partition(".")[0]


# ---- notes --------------------------------------------------------------------------------------


def notes(path: Path) -> list[Note]:
    """The notes of an archive, and those beside it that no merge has taken yet, the oldest first.

    Raises UserError if the file beside it is damaged.
    """
    found = _archived(path) if path.exists() else {}
    for note in Paths(path.parent).notes.read():
        found.setdefault(note.name, note)
    return list(found.values())


def new_notes(path: Path, folder: Path | None = None) -> list[Note]:
    """The notes of a study's folder that its archive does not hold yet.

    folder: where its archive lies, if `path` is a copy.
    """
    written = Paths(folder or path.parent).notes.read()
    known = _archived(path) if written and path.exists() else {}
    return [note for note in written if note.name not in known]


def _archived(path: Path) -> dict[str, Note]:
    """The notes in an archive, by their names."""
    found: dict[str, Note] = {}
    with archive.reading(path) as file:
        for t in range(int(file.attrs["iterations"])):
            merged = json.loads(file[f"iterations/{t}"].attrs["merged"])
            try:
                found |= {n.name: n for n in Notes.kind.validate_python(merged.get("notes", []))}
            except ValidationError:  # of a later release
                continue
    return found
