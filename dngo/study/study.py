"""The interface of a study. Each method is one line, and calls the module that does the work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.batch import Batch, Outcome, Proposal
from dngo.config import Config, validate
from dngo.evaluation.chunk import Evaluator
from dngo.evaluation.journal import Journal
from dngo.evaluation.limits import Limits
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.slots import Slot
from dngo.evaluation.stopping import Judge
from dngo.space import Space
from dngo.storage.claim import Claim
from dngo.study import (
    batches,
    beginning,
    ending,
    entries,
    evaluating,
    fitting,
    merging,
    overlapping,
    planning,
    proposing,
    settling,
)
from dngo.study.note import Ending
from dngo.study.planning import Plan
from dngo.study.records import Records
from dngo.types import Progress
from dngo.waiting import Entry, Waiting


def _silent(fraction: float, message: str) -> None:
    pass


class Study:
    """A configured study and the folder it lives in.

    beside: the folder from which relative paths in the configuration start. asked: who proposes, if
    not a run of Snakemake; the batch records it.
    """

    def __init__(self, config: Config, beside: Path = Path(), asked: dict[str, Any] | None = None):
        self.config = config
        self.beside = beside
        self.records = Records(config, beside, asked)
        self.paths = self.records.paths
        self.folder = self.paths.folder
        self.archive = self.paths.archive

    # ---- where things are (paths) ---------------------------------------------------------------

    def iteration(self, t: int) -> Path:
        """Outputs of iteration t, which Snakemake may delete."""
        return self.paths.iteration(t)

    def pending(self, t: int) -> Path:
        """The files of iteration t while it is in flight."""
        return self.paths.pending(t)

    def outcome_file(self, proposal: Proposal) -> Path:
        return self.paths.outcome_file(proposal)

    def _claim_file(self, proposal: Proposal) -> Path:
        return self.paths.claim_file(proposal)

    def files(self, proposal: Proposal) -> Files:
        """Where the objective runs and prints at a point."""
        return self.paths.files(proposal)

    def earlier_receipt(self, t: int) -> Path:
        """Receipt of a merge into an archive that is gone."""
        return self.paths.earlier_receipt(t)

    @property
    def run_claim(self) -> Claim:
        """Held by the Snakemake that works on the study."""
        return self.paths.run_claim

    @property
    def journal(self) -> Journal:
        """How the evaluations of the current run, or the last one, have ended."""
        return self.paths.journal

    @property
    def waiting(self) -> Waiting:
        """Points that wait for a batch to take them in."""
        return self.paths.waiting

    # ---- what is known (records, entries) -------------------------------------------------------

    @property
    def space(self) -> Space:
        return self.records.space

    def header(self) -> archive.Header | None:
        """The archive's header, None before the first merge; raises UserError if it is not ours."""
        return self.records.header()

    def merged(self) -> int:
        """The number of iterations in the archive."""
        return self.records.merged()

    def table(self, iterations: int | None = None) -> archive.Table:
        """The archive's rows up to an iteration, judged by the thresholds of the configuration."""
        return self.records.table(iterations)

    def training_iterations(self, t: int) -> int:
        """The number of first iterations from which the surrogate of iteration t learns. It is fixed."""
        return self.records.training_iterations(t)

    def in_flight(self, merged: int) -> list[Batch]:
        """The proposed batches, without the first `merged`, which are in the archive."""
        return self.records.in_flight(merged)

    def batch(self, t: int) -> Batch:
        """The batch of an iteration, in flight or archived; raises UserError if there is none."""
        return self.records.batch(t)

    def outcomes(self, batch: Batch) -> list[Outcome | None]:
        """The outcome of each proposal, None if it has none."""
        return self.records.outcomes(batch)

    def entries(self) -> list[Entry]:
        """The points that people entered, without those already in a batch."""
        return entries.entries(self.records)

    def known(self) -> dict[bytes, tuple[str, str]]:
        """Every proposed point, by its key (`Space.keys`): its id, and its status or "pending"."""
        return entries.known(self.records)

    # ---- a run (beginning, planning, ending) ----------------------------------------------------

    def adopt(self) -> None:
        """Move files that lie in `iterations/` but are not archived back to `pending/`."""
        beginning.adopt(self.records)

    def check_new(self) -> None:
        """Raise UserError if a study that has not begun would replace other files."""
        beginning.check_new(self.records)

    def begin(self) -> str:
        """Begin a run.

        Returns how the objective differs from the one evaluated before, "" if it does not.
        """
        return beginning.begin(self.records)

    def changes(self) -> list[str]:
        """How the objective differs from before; raises UserError if `objective.strict` forbids that."""
        return beginning.changes(self.records)

    def transfer(self) -> Path | None:
        """Copy what a new archive takes from earlier studies; raises UserError if one cannot be read."""
        return beginning.copy_transfer(self.records)

    def plan(self) -> Plan:
        """The iterations that the configuration asks for, after those in the archive."""
        return planning.plan(self.records)

    def overlap(self, slots: int) -> int:
        """Decide how many batches are in flight in the run that is being planned, and return it.

        slots: the most jobs that evaluate at the same time.
        """
        number = overlapping.batches_in_flight(self.records, slots)
        self.records = replace(self.records, flying=number)
        return number

    def num_chunks(self, t: int) -> int:
        """The number of jobs that evaluate iteration t. An iteration in flight keeps its number."""
        return planning.num_chunks(self.records, t)

    @property
    def ending(self) -> Ending:
        """The note of an end that was decided during a run."""
        return ending.noted(self.records)

    def clear_end(self, t: int) -> None:
        """Remove the empty batch of iteration t, now that the study goes on."""
        ending.clear_end(self.records, t)

    # ---- stages (fitting, proposing, evaluating, merging) ---------------------------------------

    def fit(self, t: int, output: Path, progress: Progress = _silent) -> None:
        """Train the surrogate of iteration t and write it to `output` (`surrogate.h5`)."""
        fitting.fit(self.records, t, output, progress)

    def propose(
        self, t: int, surrogate: Path | None, output: Path, progress: Progress = _silent
    ) -> Batch:
        """Choose the batch of iteration t and write it to `output` (`proposals.json`)."""
        return proposing.propose(self.records, t, surrogate, output, progress)

    def record(self, t: int, stage: int, proposals: Sequence[Proposal]) -> Batch:
        """A batch of these proposals, made here and now by a stage (`derive.DESIGN` ...)."""
        return batches.record(self.records, t, stage, proposals)

    def receive(self, files: Iterable[str | Path]) -> None:
        """Receive batches and outcomes from Snakemake's storage, if jobs share no file system."""
        batches.receive(self.records, map(Path, files))

    def evaluate(
        self,
        t: int,
        chunk: int,
        output: Path,
        progress: Progress = _silent,
        limits: Limits = Limits(),
    ) -> None:
        """Evaluate one job's share of batch t, within the job's limits, into `output`."""
        evaluating.evaluate(self.records, t, chunk, output, progress, limits)

    def evaluate_here(
        self, t: int, evaluators: Sequence[Evaluator], progress: Progress = _silent
    ) -> None:
        """Evaluate the points of batch t that have no outcome yet, with the caller's evaluators."""
        evaluating.evaluate_here(self.records, t, evaluators, progress)

    def evaluate_point(self, proposal: Proposal, evaluator: Evaluator, run: str) -> Outcome:
        """The outcome of one point in flight, for the run of this name. It is on disk."""
        return evaluating.evaluate_point(self.records, proposal, evaluator, run)

    def take_in(self, proposal: Proposal, outcome: Outcome) -> Outcome:
        """Keep an outcome from a machine that does not see the study. Returns the one that counts."""
        return evaluating.take_in(self.records, proposal, outcome)

    def judge(self, batch: Batch) -> Judge | None:
        """The judge that stops evaluations of a batch early; None if none are stopped."""
        return evaluating.judge(self.records, batch)

    def runner(self, slot: Slot, judge: Judge | None = None) -> Runner:
        """The runner that evaluates points in one share of a job."""
        return evaluating.runner(self.records, slot, judge)

    def at_rest(self, proposal: Proposal) -> AbstractContextManager[None]:
        """Hold a point in flight that has no outcome and is not being evaluated; raises UserError
        otherwise.
        """
        return evaluating.at_rest(self.records, proposal)

    def merge(self, t: int, output: Path) -> None:
        """Append iteration t to the archive, once, and write the receipt to `output`.

        After that, raises Halted if the run must not go on.
        """
        merging.merge(self.records, t, output)

    # ---- reported outcomes (settling) -----------------------------------------------------------

    def held(self, wait: float) -> AbstractContextManager[None]:
        """Claim the study as a run of Snakemake does; raises TimeoutError if another process holds
        it.
        """
        return settling.held(self.records, wait)

    def told_for_design(self) -> int:
        """How many points of the initial design have outcomes from elsewhere."""
        return entries.told_for_design(self.records)

    def merge_complete(self) -> None:
        """Merge the complete batches in flight, in order. The caller holds the study."""
        settling.merge_complete(self.records)

    def unlearn(self, name: str) -> None:
        """Have no model learn from a point that waits and is withdrawn; raises UserError if one may."""
        settling.unlearn(self.records, name)

    def settle(self) -> None:
        """Merge complete batches before somebody looks, unless another process holds the study."""
        settling.settle(self.records)


def load_study(document: dict[str, Any]) -> Study:
    """The study of a resolved configuration, as Snakemake passes it to a script."""
    return Study(validate(document))
