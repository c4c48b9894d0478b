"""The paths of a study, and the objects that read and write some of its files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from dngo.batch import Proposal
from dngo.evaluation.journal import Journal
from dngo.evaluation.run import Files
from dngo.evaluation.stopping import Flying
from dngo.storage.claim import Claim
from dngo.storage.logs import PointLogs
from dngo.waiting import Notes, Waiting


@dataclass(frozen=True)
class Paths:
    """folder: the study's, `results/STUDY`."""

    folder: Path

    @property
    def archive(self) -> Path:
        return self.folder / "archive.h5"

    @property
    def transfer(self) -> Path:
        """What the archive will take from earlier studies."""
        return self.folder / "transfer.h5"

    @property
    def note(self) -> Path:
        """The note of an end that was decided during a run."""
        return self.folder / "ended.json"

    def iteration(self, t: int) -> Path:
        """Outputs of iteration t, which Snakemake may delete."""
        return self.folder / "iterations" / str(t)

    def pending(self, t: int) -> Path:
        """The files of iteration t while it is in flight."""
        return self.folder / "pending" / str(t)

    def kept_batch(self, t: int) -> Path:
        return self.pending(t) / "proposals.json"

    def kept_surrogate(self, t: int) -> Path:
        return self.pending(t) / "surrogate.h5"

    def curves(self, t: int) -> Path:
        """A copy of the archive's curves for the jobs of iteration t, written when it was
        proposed."""
        return self.pending(t) / "curves.json"

    def flying(self, t: int) -> Flying:
        """Where the evaluations of iteration t leave files that other evaluations may read."""
        return Flying(t, self.pending(t) / "outcomes", self.folder / "work" / str(t))

    def model_claim(self, t: int) -> Path:
        """Held by the job that fits or proposes iteration t."""
        return self.pending(t) / "claims" / "model"

    def outcome_file(self, proposal: Proposal) -> Path:
        return self.pending(proposal.iteration) / "outcomes" / f"{proposal.slot}.json"

    def claim_file(self, proposal: Proposal) -> Path:
        """Held by the job that evaluates the point."""
        return self.pending(proposal.iteration) / "claims" / str(proposal.slot)

    def files(self, proposal: Proposal) -> Files:
        """Where the objective runs and prints at a point."""
        t, slot = proposal.iteration, proposal.slot
        return Files(
            workdir=self.folder / "work" / str(t) / str(slot),
            stdout=self.logs.path(t, slot, "stdout"),
            stderr=self.logs.path(t, slot, "stderr"),
            picture=self.picture(t, slot),
        )

    def picture(self, t: int, slot: int) -> Path:
        """Where the picture of a point is kept, without the ending."""
        return self.folder / "images" / str(t) / str(slot)

    def entered_picture(self, name: str) -> Path:
        """The same for an outcome that waits, by the name of its entry, until it is merged."""
        return self.entered_pictures / name

    @property
    def entered_pictures(self) -> Path:
        return self.folder / "images" / "entered"

    def earlier_receipt(self, t: int) -> Path:
        """Receipt of a merge into an archive that is gone."""
        return self.iteration(t) / "receipt.earlier.json"

    def iterations(self) -> list[int]:
        """Iterations that have a folder here, in order. Other files there are the user's."""
        found = set()
        for folder in (self.folder / "pending", self.folder / "iterations"):
            names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
            found |= {int(n) for n in names if re.fullmatch("0|[1-9][0-9]{0,8}", n)}
        return sorted(found)

    @property
    def logs(self) -> PointLogs:
        """What the objective printed."""
        return PointLogs(self.folder / "logs" / "points")

    @property
    def run_claim(self) -> Claim:
        """Held by the Snakemake that works on the study."""
        return Claim(self.folder / ".run.claim")

    @property
    def journal(self) -> Journal:
        """How the evaluations of the current run, or the last one, have ended."""
        return Journal(self.folder / "run.jsonl")

    @property
    def waiting(self) -> Waiting:
        """Points that wait for a batch to take them in."""
        return Waiting(self.folder / "waiting.json")

    @property
    def notes(self) -> Notes:
        """What people noted of points and of the study."""
        return Notes(self.folder / "notes.json")
