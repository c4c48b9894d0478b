"""What a study can do: each method is a line, and calls the module that does it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
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

    beside: the folder that relative paths in the configuration are relative to.  asked: who proposes,
    if not a run of Snakemake; it is noted in the batch.
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
        """What Snakemake knows of iteration t, and may delete."""
        return self.paths.iteration(t)

    def pending(self, t: int) -> Path:
        """What is kept of iteration t while it is in flight."""
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
        """Number of iterations in the archive."""
        return self.records.merged()

    def table(self, iterations: int | None = None) -> archive.Table:
        """The archive's rows up to an iteration, judged by the thresholds of the configuration."""
        return self.records.table(iterations)

    def training_iterations(self, t: int) -> int:
        """How many iterations the surrogate of iteration t learns from: a fixed prefix."""
        return self.records.training_iterations(t)

    def in_flight(self, merged: int) -> list[Batch]:
        """The batches that were proposed and are not among the first `merged` in the archive."""
        return self.records.in_flight(merged)

    def batch(self, t: int) -> Batch:
        """The batch of an iteration, in flight or archived; raises UserError if there is none."""
        return self.records.batch(t)

    def outcomes(self, batch: Batch) -> list[Outcome | None]:
        """The outcome of each proposal, None if there is none."""
        return self.records.outcomes(batch)

    def entries(self) -> list[Entry]:
        """The points that people entered, without those that a batch has taken in already."""
        return entries.entries(self.records)

    def known(self) -> dict[bytes, tuple[str, str]]:
        """Every point that was proposed, by its key (`Space.keys`): id, and status or "pending"."""
        return entries.known(self.records)

    # ---- a run (beginning, planning, ending) ----------------------------------------------------

    def adopt(self) -> None:
        """Take what lies in `iterations/` but is not archived back into `pending/`."""
        beginning.adopt(self.records)

    def check_new(self) -> None:
        """Raise UserError where a study that has not begun would replace files of somebody else."""
        beginning.check_new(self.records)

    def begin(self) -> str:
        """Begin a run; says how the objective differs from what was evaluated before, "" if not."""
        return beginning.begin(self.records)

    def changes(self) -> list[str]:
        """How the objective differs from before; raises UserError if `objective.strict` forbids that."""
        return beginning.changes(self.records)

    def transfer(self) -> Path | None:
        """What a new archive takes from earlier studies; raises UserError if one cannot be read."""
        return beginning.copy_transfer(self.records)

    def plan(self) -> Plan:
        """The iterations after those in the archive, as far as the configuration asks for them."""
        return planning.plan(self.records)

    def num_chunks(self, t: int) -> int:
        """Jobs that evaluate iteration t; one in flight keeps those it was proposed with."""
        return planning.num_chunks(self.records, t)

    @property
    def ending(self) -> Ending:
        """The note of an end that came while a run was under way."""
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
        """The batch of these proposals, made here and now by a stage (`derive.DESIGN` ...)."""
        return batches.record(self.records, t, stage, proposals)

    def receive(self, files: Iterable[str | Path]) -> None:
        """Take in batches and outcomes that came through a storage, where jobs share no file system."""
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
        """Evaluate what has no outcome yet of batch t, in flight, by evaluators of the caller's own."""
        evaluating.evaluate_here(self.records, t, evaluators, progress)

    def judge(self, batch: Batch) -> Judge | None:
        """What stops evaluations of a batch early; None where nothing does."""
        return evaluating.judge(self.records, batch)

    def runner(self, slot: Slot, judge: Judge | None = None) -> Runner:
        """What evaluates points in one share of a job."""
        return evaluating.runner(self.records, slot, judge)

    def at_rest(self, proposal: Proposal) -> AbstractContextManager[None]:
        """Hold a point in flight that nobody evaluates, and that has no outcome; raises UserError."""
        return evaluating.at_rest(self.records, proposal)

    def merge(self, t: int, output: Path) -> None:
        """Append iteration t to the archive, once, and write the receipt to `output`.

        Raises Halted, once that is done, if the run is to go no further.
        """
        merging.merge(self.records, t, output)

    # ---- reported outcomes (settling) -----------------------------------------------------------

    def held(self, wait: float) -> AbstractContextManager[None]:
        """Hold the study as a run of Snakemake does; raises TimeoutError if somebody else does."""
        return settling.held(self.records, wait)

    def merge_complete(self) -> None:
        """Merge the batches in flight whose outcomes are all there, in order; the study is held."""
        settling.merge_complete(self.records)

    def settle(self) -> None:
        """Merge what is complete, before somebody looks, unless somebody else holds the study."""
        settling.settle(self.records)


def load_study(document: dict[str, Any]) -> Study:
    """The study of a resolved configuration, as Snakemake hands it to a script."""
    return Study(validate(document))
