"""What is known about a study: its archive, and its points in flight. Nothing here writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive
from dngo.archive import Header, Table
from dngo.archive.identity import check_identity
from dngo.batch import Batch, Outcome, Proposal, find_outcome, read_outcomes
from dngo.config import Config
from dngo.errors import UserError
from dngo.evaluation.checkpoints import Checkpoints
from dngo.fronts import sign_of
from dngo.outcomes import clashes
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.storage.claim import Claim
from dngo.storage.digest import digest_parameters
from dngo.study.paths import Paths


@dataclass(eq=False)
class Records:
    """The content of a study's folder. Each call reads it again, and compares it with the configuration.

    beside: the folder from which relative paths in the configuration start.
    asked: who proposes, if not a run of Snakemake; the batch records it.
    flying: the most batches in flight of the run that is being planned, if one is.
    slots: the most jobs that evaluate at the same time in this run.
    needed: how many batches in flight keep these busy, and for which number of merged iterations.
    """

    config: Config
    beside: Path = Path()
    asked: dict[str, Any] | None = None
    flying: int | None = None
    slots: int = 1
    needed: tuple[int, int] = (1, -1)

    @cached_property
    def paths(self) -> Paths:
        return Paths(Path(self.config.results) / self.config.study)

    @property
    def folder(self) -> Path:
        return self.paths.folder

    @property
    def archive(self) -> Path:
        return self.paths.archive

    @property
    def run_claim(self) -> Claim:
        """Held by the Snakemake that works on the study."""
        return self.paths.run_claim

    @cached_property
    def space(self) -> Space:
        return self.config.search_space

    # ---- in the archive -------------------------------------------------------------------------

    def header(self) -> Header | None:
        """The archive's header, None before the first merge; raises UserError if it is not ours."""
        header = archive.read_header(self.archive, self.config.identity())
        # A study that has begun may go on, although its names clash: they cannot change.
        wrong = [] if header else clashes(*self.config.names)
        if wrong and not self.in_flight(0):
            raise UserError("\n".join(wrong))
        return header

    def merged(self) -> int:
        """The number of iterations in the archive."""
        header = self.header()
        return header.iterations if header else 0

    def table(self, iterations: int | None = None) -> Table:
        """The archive's rows up to an iteration, judged by the thresholds of the configuration."""
        thresholds = self.config.thresholds
        return archive.read_table(self.archive, iterations=iterations, thresholds=thresholds)

    def training_iterations(self, t: int) -> int:
        """The number of first iterations from which the surrogate of iteration t learns.

        With k batches in flight, iteration t starts once iteration t - k is merged. The design
        always counts. A plan has the least number. With `auto` a fit learns from all that is merged
        as it begins.
        """
        if t == 0:
            return 0
        asked = self.config.batches_in_flight
        number = self.flying if asked == "auto" else asked
        return max(1, t - number + 1 if number else min(t, self.merged()))

    def unchosen(self) -> int:
        """How many iterations after the first no model chose, in the archive and in flight.

        `iterations` does not count batches of people's points alone.
        """
        found = archive.read_unchosen(self.archive) if self.archive.exists() else 0
        flying = [batch for batch in self.in_flight(self.merged()) if batch.iteration]
        return found + sum(all(p.given or p.told for p in batch.proposals) for batch in flying)

    def last_iteration(self) -> int:
        """The last iteration that the configuration asks for."""
        return self.config.iterations + self.unchosen()

    def asks_for(self, t: int) -> bool:
        """Whether the configuration asks for an iteration t with points that a model chooses."""
        return t <= self.config.iterations or t <= self.last_iteration()

    # ---- in flight ------------------------------------------------------------------------------

    def batch_in_flight(self, t: int) -> Batch | None:
        """The batch of an iteration that has been proposed but is not archived yet, if any.

        The first batch fixes the study's identity. Raises UserError if the configuration now
        differs from it. So a forbidden edit is found before anything is planned, evaluated or
        merged.
        """
        for folder in (self.paths.pending(t), self.paths.iteration(t)):
            path = folder / "proposals.json"
            if path.exists():
                batch = Batch.read(path)
                if batch.ended:
                    continue
                check_identity(path, batch.identity, self.config.identity())
                return batch
        return None

    def in_flight(self, merged: int) -> list[Batch]:
        """The proposed batches, without the first `merged`, which are in the archive."""
        batches = [self.batch_in_flight(t) for t in self.paths.iterations() if t >= merged]
        return [batch for batch in batches if batch is not None]

    def is_kept(self, t: int) -> bool:
        """Whether a batch exists already. If so, it is evaluated, whatever gain it promises."""
        return self.paths.kept_batch(t).exists()

    # ---- in either ------------------------------------------------------------------------------

    def batch(self, t: int) -> Batch:
        """The batch of an iteration, in flight or archived; raises UserError if there is none."""
        batch = self.batch_in_flight(t)
        if batch is None and t < self.merged():
            batch = archive.read_batch(self.archive, t, self.space)
        if batch is None:
            raise UserError(f"{self.paths.folder}: iteration {t} has not been proposed")
        return batch

    def outcomes(self, batch: Batch) -> list[Outcome | None]:
        """The outcome of each proposal, from its own file or its chunk's file, None if missing."""
        told = {o.slot: o for o in batch.told}
        outcomes = [
            told.get(p.slot) or find_outcome(self.paths.outcome_file(p), p) for p in batch.proposals
        ]
        if None in outcomes:
            kept: dict[tuple[str, str], Outcome] = {}
            folder = self.paths.iteration(batch.iteration) / "outcomes"
            for path in sorted(folder.glob("*.json")):
                kept.update(((o.id, o.parameters_digest), o) for o in read_outcomes(path))
            outcomes = [
                o or kept.get((p.id, digest_parameters(p.parameters)))
                for o, p in zip(outcomes, batch.proposals, strict=True)
            ]
        return outcomes

    def evaluations(self, first: int = 0) -> Iterator[tuple[Proposal, Outcome | None]]:
        """Every proposal from an iteration on, archived or in flight, and its outcome if it has one."""
        merged = self.merged()
        with archive.reading(self.archive) if first < merged else contextlib.nullcontext():
            for t in range(first, merged):
                batch = archive.read_batch(self.archive, t, self.space)
                outcomes = archive.read_outcomes(self.archive, batch)
                yield from zip(batch.proposals, outcomes, strict=True)
        for batch in self.in_flight(merged):
            yield from zip(batch.proposals, self.outcomes(batch), strict=True)

    @property
    def checkpoints(self) -> Checkpoints:
        """The folders that follow points from fidelity to fidelity."""
        section, config = self.config.fidelity, self.config
        directions = config.directions if config.has_several else {"objective": config.direction}
        return Checkpoints(
            self.paths.folder / "checkpoints",
            fidelity=section.parameter if section else "",
            keep=self.config.checkpoints.keep,
            share=1 / section.factor if section else 1.0,
            signs={name: sign_of(one) for name, one in directions.items()},
        )


def silent(fraction: float, message: str) -> None:
    """The progress of a stage that nobody looks at."""


def refuse_secrets(records: Records) -> None:
    """Raise UserError, with a line for each, if a study would begin with what looks like a secret."""
    if records.config.exposed:
        raise UserError("\n".join(records.config.exposed))


def best_row(table: Table, direction: str, ladder: Ladder | None = None) -> int | None:
    """The index of the best ok row, the earliest of equals; None if no row is ok.

    ladder: for a study with a fidelity; its best row is the best at the highest level reached.
    """
    objective = np.where(table.counting(ladder), table.objective, np.nan)
    if np.isnan(objective).all():
        return None
    return int(np.nanargmin(objective) if direction == "minimize" else np.nanargmax(objective))
