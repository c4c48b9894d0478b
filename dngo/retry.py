"""`dngo retry`: points that failed are evaluated once more, as further rows; the old ones stay as they are.

They wait like points that people add (`dngo.waiting`), with a source of their own, and their origin names
the row that they repeat. A repeated row no longer teaches the model; the new row does.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from dngo import archive, provenance
from dngo.batch import WORKED, Outcome, Proposal, last_line
from dngo.errors import UserError
from dngo.study import Study
from dngo.waiting import Entry

SOURCE = "retry"


def retry(study: Study, *, since: int = 0, message: str = "") -> list[Entry]:
    """Let the points that failed wait for the next batch, archived and in flight alike.

    since: the first iteration whose points are meant.  message: what their messages contain.
    A point whose retry waits, or has been proposed, is left out: its own outcome counts.
    Raises UserError if there is none.
    """
    study.header()  # whose study it is
    with study.waiting.changing() as waiting:
        ends = list(_ends(study))
        repeated = {p.origin.get("repeats") for p, _ in ends}
        repeated |= {entry.origin.get("repeats") for entry in waiting}
        failed = [
            (p, o)
            for p, o in ends
            if o is not None and _failed(p, o) and p.id not in repeated and p.iteration >= since
        ]
        meant = [(p, o) for p, o in failed if message.lower() in o.message.lower()]
        if not meant:
            raise UserError(f"{study.folder}: {_nothing([o for _, o in failed], message)}")
        who = provenance.who()
        entries = [Entry(p.parameters, SOURCE, {**who, "repeats": p.id}) for p, _ in meant]
        study.waiting.write([*waiting, *entries])
    return entries


def _ends(study: Study) -> Iterator[tuple[Proposal, Outcome | None]]:
    """Every proposal of a study with its outcome, None while it has none."""
    with contextlib.ExitStack() as stack:
        merged = 0
        if study.archive.exists():
            stack.enter_context(archive.reading(study.archive))
            merged = study.merged()
        for t in range(merged):
            batch = archive.read_batch(study.archive, t, study.space)
            yield from zip(
                batch.proposals, archive.read_outcomes(study.archive, batch), strict=True
            )
        for batch in study.in_flight(merged):
            yield from zip(batch.proposals, study.outcomes(batch), strict=True)


def _failed(proposal: Proposal, outcome: Outcome) -> bool:
    """Whether an evaluation of this study ended without an objective."""
    return outcome.status not in (*WORKED, "withdrawn") and not proposal.told


def _nothing(failed: list[Outcome], message: str) -> str:
    """Why there is nothing to retry, in words."""
    if not failed:
        return "no point has failed there that is not retried already"
    counts = Counter(last_line(outcome.message) for outcome in failed)
    seen = "; ".join(f"{n} times {line!r}" for line, n in counts.most_common(3))
    return f"no message of the points that failed has {message!r} in it; there are {seen}"
