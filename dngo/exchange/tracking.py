"""`dngo track`: each evaluation of a study as a run of an experiment tracker, also while the study runs.

A tracker is a class of a few lines (`dngo.exchange.mlflow`), and is found by its name. Another package
adds one with an entry point of the group `dngo.trackers`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Protocol

from dngo.batch import Outcome, Proposal
from dngo.errors import UserError
from dngo.plugins import Registry
from dngo.redaction import redacted
from dngo.stopping.curves import Curve
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters
from dngo.study import Study

# Each makes a tracker from the name of a study and a place, which may be empty.
TRACKERS = Registry("dngo.trackers")


@dataclass(frozen=True)
class Evaluation:
    """One evaluation, as a tracker takes it.

    id: 7-12.  key: the same for this evaluation alone, also among studies of one name.
    numbers: what was measured, by name: objectives, constraints that are numbers, noise, seconds.
    course: steps and the objective there, as the evaluation reported them; of several objectives those
    of each, by name.
    started, finished: seconds since 1970; NaN if unknown.  words: all that is text, by name.
    """

    id: str
    key: str
    status: str
    parameters: dict[str, Any]
    numbers: dict[str, float]
    course: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    started: float = math.nan
    finished: float = math.nan
    words: dict[str, str] = field(default_factory=dict)


class Tracker(Protocol):
    """An experiment tracker."""

    def known(self) -> set[str]:
        """The keys of the evaluations that it has already."""

    def log(self, evaluation: Evaluation) -> None:
        """Take one evaluation, whole or not at all; raises UserError."""


class Tracking:
    """A study whose evaluations go to a tracker, each of them once.

    Raises UserError if there is no such tracker, or if its package is missing.
    """

    def __init__(self, study: Study, to: str, at: str = ""):
        try:
            make = TRACKERS.find(to)
        except LookupError as error:
            raise UserError(f"--to: {error}") from None
        self.study, self._done = study, 0
        self.tracker: Tracker = make(study.config.study, at)

    def update(self) -> int:
        """Log the evaluations that the tracker lacks; returns how many these are.

        Raises UserError if another process does so now, or if the tracker does not answer.
        """
        study = self.study
        study.header()  # checks whose study it is
        study.folder.mkdir(parents=True, exist_ok=True)
        claim = Claim(study.folder / ".track.claim")
        try:
            with claim.held(wait=0.0, what=f"{study.folder}: the tracking"):
                merged, known, count = study.merged(), self.tracker.known(), 0
                for proposal, outcome in study.evaluations(self._done):
                    if outcome is None or outcome.status == "withdrawn":
                        continue
                    each = _evaluation(study, proposal, outcome)
                    if each.key not in known:
                        self.tracker.log(each)
                        count += 1
                self._done = merged  # what is archived never changes
                return count
        except TimeoutError as error:
            raise UserError(str(error)) from None


def _evaluation(study: Study, proposal: Proposal, outcome: Outcome) -> Evaluation:
    numbers = {"objective": outcome.objective, **outcome.objectives, **outcome.numbers}
    numbers |= {"noise": outcome.noise, "seconds": outcome.duration}
    flags = {n: str(bool(flag)).lower() for n, flag in outcome.constraints.items()}
    known = {name: value for name, value in numbers.items() if math.isfinite(value)}
    curve = Curve.of(outcome.curve)
    each = {n: curve.of_objective(j) for j, n in enumerate(study.config.directions)}
    if not study.config.has_several:
        each = {"": curve}
    words = {"source": proposal.source, "message": redacted(outcome.message), **flags}
    return Evaluation(
        id=proposal.id,
        key=f"{proposal.id}-{digest_parameters(proposal.parameters)[:16]}",
        status=outcome.status,
        parameters=dict(proposal.parameters),
        numbers=known,
        course={
            f"progress_{name}".rstrip("_"): [
                (p[0], p[1]) for p in one.points if math.isfinite(p[1])
            ]
            for name, one in each.items()
        },
        started=outcome.started,
        finished=outcome.finished,
        words={name: text for name, text in words.items() if text},
    )
