"""The interface of a study: its records, and the functions that do the work on them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dngo.config import validate
from dngo.evaluation.journal import Journal
from dngo.study import (
    batches,
    beginning,
    ending,
    evaluating,
    fitting,
    merging,
    overlapping,
    planning,
    proposing,
    settling,
)
from dngo.study import entries as entered
from dngo.study.note import Ending
from dngo.study.records import Records
from dngo.waiting import Waiting


@dataclass(eq=False)
class Study(Records):
    """A configured study and the folder it lives in. Its methods are functions of the modules here."""

    def iteration(self, t: int) -> Path:
        """Outputs of iteration t, which Snakemake may delete."""
        return self.paths.iteration(t)

    @property
    def journal(self) -> Journal:
        """How the evaluations of the current run, or the last one, have ended."""
        return self.paths.journal

    @property
    def waiting(self) -> Waiting:
        """Points that wait for a batch to take them in."""
        return self.paths.waiting

    entries = entered.entries
    known = entered.known
    told_for_design = entered.told_for_design

    # ---- a run ----------------------------------------------------------------------------------

    adopt = beginning.adopt
    check_new = beginning.check_new
    begin = beginning.begin
    changes = beginning.changes
    transfer = beginning.copy_transfer
    plan = planning.plan
    num_chunks = planning.num_chunks
    clear_end = ending.clear_end

    overlap = overlapping.overlap
    has_turn = overlapping.has_turn

    @property
    def ending(self) -> Ending:
        """The note of an end that was decided during a run."""
        return ending.noted(self)

    # ---- stages ---------------------------------------------------------------------------------

    fit = fitting.fit
    propose = proposing.propose
    record = batches.record
    receive = batches.receive
    evaluate = evaluating.evaluate
    evaluate_here = evaluating.evaluate_here
    evaluate_point = evaluating.evaluate_point
    take_in = evaluating.take_in
    judge = evaluating.judge
    runner = evaluating.runner
    at_rest = evaluating.at_rest
    merge = merging.merge

    # ---- reported outcomes ----------------------------------------------------------------------

    held = settling.held
    merge_complete = settling.merge_complete
    unlearn = settling.unlearn
    settle = settling.settle


def load_study(document: dict[str, Any]) -> Study:
    """The study of a resolved configuration, as Snakemake passes it to a script."""
    return Study(validate(document))
