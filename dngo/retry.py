"""`dngo retry`: evaluates failed points again, as further rows. The old rows stay as they are.

They wait like points that people add (`dngo.waiting`), with their own source. Their origin names
the row that they repeat. The model then learns from the new row, and no longer from the repeated
one.
"""

from __future__ import annotations

from collections import Counter

from dngo import provenance
from dngo.batch import WORKED, Outcome, Proposal, last_line
from dngo.errors import UserError
from dngo.study import Study
from dngo.waiting import Entry

SOURCE = "retry"


def retry(study: Study, *, since: int = 0, message: str = "") -> list[Entry]:
    """Let failed points wait for the next batch, both archived ones and those in flight.

    since: the first iteration whose points are retried.
    message: a text that their messages must contain. A point is left out if its retry waits or has
    been proposed; the outcome of that retry counts.
    Raises UserError if there is no such point.
    """
    study.header()  # checks whose study it is
    with study.waiting.changing() as waiting:
        ends = list(study.evaluations())
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


def _failed(proposal: Proposal, outcome: Outcome) -> bool:
    """Whether an evaluation of this study ended without an objective."""
    return outcome.status not in (*WORKED, "withdrawn") and not proposal.told


def _nothing(failed: list[Outcome], message: str) -> str:
    """A text that says why there is nothing to retry."""
    if not failed:
        return "each point that failed there is already retried"
    counts = Counter(last_line(outcome.message) for outcome in failed)
    seen = "; ".join(f"{n} times {line!r}" for line, n in counts.most_common(3))
    return f"no message of the failed points contains {message!r}; the messages are {seen}"
