"""Evaluations that somebody made before: how they become iteration 0 of a new study.

They replace the initial design. Their proposals have the source "imported". The record of the
iteration names where they come from, and each outcome its place there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dngo import archive, derive
from dngo.batch import Outcome, Proposal
from dngo.errors import UserError
from dngo.exchange.outcomes import SOURCE
from dngo.outcomes import with_origin
from dngo.storage.digest import digest_parameters
from dngo.study import Study
from dngo.waiting import Note, dump

Evaluation = tuple[Proposal, Outcome]
_KEPT = 20  # mistakes in the archive's record: HDF5 limits the size of an attribute


@dataclass(frozen=True)
class Imported:
    """The result: the number of outcomes by status, and why evaluations were left out.

    unknown: for each constraint, how many evaluations ran but did not report it.
    pictures: why pictures of a table were not kept, by row.
    said: how a file of another program was read.
    """

    outcomes: dict[str, int]
    skipped: dict[str, str]
    unknown: dict[str, int]
    pictures: dict[str, str]
    said: str


class Incoming:
    """Evaluations for a study that has not begun, some at a time to save memory.

    record: their origin, for the archive.
    skipped, pictures: why an evaluation, or its picture, was left out, by its place; complete after
    the last part.
    ids: of the points here, by those where they come from.
    """

    def __init__(self, study: Study, record: dict[str, Any]):
        self.study, self.record = study, record
        self.skipped: dict[str, str] = {}
        self.pictures: dict[str, str] = {}
        self.ids: dict[str, str] = {}
        self.number = 0

    def parts(self) -> Iterator[list[Evaluation]]:
        """The evaluations, which `taken` makes; raises UserError at the end if there are none."""
        raise NotImplementedError

    def notes(self) -> list[Note]:
        """The notes that come along, after the last part."""
        return []

    def taken(
        self, name: Any, repeats: Any, point: dict[str, Any], outcome: Outcome, place: str
    ) -> Evaluation:
        """One more evaluation, with the next slot: only those that are kept get one, without gaps.

        name: its id where it comes from. repeats: the id there of the evaluation that it repeats.
        place: what its outcome names as its origin.
        """
        # No fit learns from what was evaluated once more, in the new study neither.
        again = self.ids.get(str(repeats)) if repeats else None
        origin = {"repeats": again} if again else {}
        proposal = Proposal(0, self.number, point, SOURCE, origin=origin)
        self.ids[str(name)] = proposal.id
        self.number += 1
        return proposal, replace(
            outcome,
            iteration=0,
            slot=proposal.slot,
            parameters_digest=digest_parameters(point),
            metadata=with_origin(outcome.metadata, "imported_from", place),
        )

    def begin(self, said: str) -> Imported:
        """Make them iteration 0; raises UserError if the study has begun. said: see `Imported`."""
        study, merged = self.study, dict[str, Any]()
        statuses, unknown = Counter[str](), Counter[str]()

        def counted() -> Iterator[tuple[list[Proposal], list[Outcome]]]:
            for part in self.parts():
                for _, outcome in part:
                    statuses[outcome.status] += 1
                    names = study.config.constraints if outcome.ran else ()
                    unknown.update(n for n in names if n not in outcome.constraints)
                yield [p for p, _ in part], [o for _, o in part]
            first = list(self.skipped.items())[:_KEPT]
            self.record["skipped"] = len(self.skipped)
            self.record["skipped_first"] = [{"row": row, "why": why} for row, why in first]
            if notes := self.notes():
                merged["notes"] = dump(notes)

        check_new(study)
        batch = study.record(0, derive.DESIGN, [])
        batch = replace(batch, environment={**batch.environment, "import": self.record})
        made = not study.folder.exists()
        study.folder.mkdir(parents=True, exist_ok=True)
        try:
            with study.run_claim.held(wait=5.0, what=f"the study in {study.folder}"):
                check_new(study)
                archive.append(
                    study.archive,
                    identity=study.config.identity(),
                    batch=batch,
                    outcomes=counted(),
                    surrogate=None,
                    environment=merged,
                    transfer=study.transfer(),
                )
        except TimeoutError as error:
            raise UserError(f"{error}; a warm start is for a study that has not begun") from None
        finally:
            if made and not study.archive.exists():
                shutil.rmtree(study.folder / "images", ignore_errors=True)
                with contextlib.suppress(OSError):
                    study.folder.rmdir()
        return Imported(dict(statuses), self.skipped, dict(unknown), self.pictures, said)


def check_new(study: Study) -> None:
    """Raise UserError for a study that has begun."""
    if os.path.lexists(study.archive):
        raise UserError(
            f"{study.archive}: is there already, but a warm start begins a new study; give "
            "the study another name"
        )
    for folder in (study.paths.pending(0), study.iteration(0)):
        if (folder / "proposals.json").exists():
            raise UserError(
                f"{folder}: the study has already begun with a design; give the study another name"
            )
