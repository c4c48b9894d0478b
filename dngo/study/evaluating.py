"""The stage that runs the objective: one job's share of a batch, each point to one outcome."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from dngo import archive, derive, inward
from dngo.batch import Batch, Outcome, Proposal, find_outcome, write_outcomes
from dngo.config.placeholders import used
from dngo.errors import UserError
from dngo.evaluation import chunk as chunks
from dngo.evaluation.checkpoints import Following
from dngo.evaluation.journal import Watched
from dngo.evaluation.limits import Limits
from dngo.evaluation.pictures import packed
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.slots import Slot, slots
from dngo.evaluation.starter import Starter
from dngo.evaluation.stopping import Judge, read_snapshot
from dngo.storage.claim import Claim
from dngo.storage.patience import patiently
from dngo.study.batches import keep, make_folder
from dngo.study.beginning import changes
from dngo.study.ending import ends
from dngo.study.records import Records, silent
from dngo.types import Progress


def evaluate(
    records: Records,
    t: int,
    chunk: int,
    output: Path,
    progress: Progress = silent,
    limits: Limits = Limits(),
) -> None:
    """Evaluate one job's share of batch t, within the job's limits, into `output`."""
    if ends(records, t):
        return write_outcomes(output, [])
    batch = records.batch(t)
    proposals = batch.longest_first(batch.chunk(chunk))
    config = records.config
    if t >= records.merged():
        keep(records, batch)
    if config.objective.strict:
        changes(records, running=True)
    run = records.paths.run_claim.owner() or {}
    outcomes = chunks.evaluate(
        proposals,
        records.paths.outcome_file,
        records.paths.claim_file,
        _following(records, _evaluators(records, batch, len(proposals), limits)),
        archived=_archived(records, t),
        attempts=chunks.Attempts(
            run=str(run.get("token", "")), limit=1 + config.retries, escalates=config.escalation > 1
        ),
        has_time=lambda longest: (
            time.monotonic() + (config.objective.time_limit or longest) < limits.deadline
        ),
        progress=progress,
    )
    outcomes.sort(key=lambda outcome: outcome.slot)
    texts: dict[str, str] = {}
    if output.resolve() != (records.paths.iteration(t) / "outcomes" / output.name).resolve():
        # They travel to a machine that cannot read this one's files.
        outcomes, texts = packed(outcomes, lambda o: records.paths.picture(o.iteration, o.slot))
    patiently(lambda: write_outcomes(output, outcomes, pictures=texts), what=f"writing {output}")


def evaluate_here(
    records: Records, t: int, evaluators: Sequence[chunks.Evaluator], progress: Progress = silent
) -> None:
    """Evaluate the points of batch t that have no outcome yet, with the caller's evaluators."""
    batch = records.batch(t)
    keep(records, batch)
    run = records.paths.run_claim.owner() or {}
    chunks.evaluate(
        batch.longest_first(batch.evaluated),
        records.paths.outcome_file,
        records.paths.claim_file,
        _following(records, evaluators),
        archived=_archived(records, t),
        attempts=chunks.Attempts(str(run.get("token", "")), 1 + records.config.retries),
        progress=progress,
    )


def evaluate_point(
    records: Records, proposal: Proposal, evaluator: chunks.Evaluator, run: str
) -> Outcome:
    """The outcome of one point in flight, for the run of this name. It is on disk."""
    for path in (records.paths.outcome_file(proposal), records.paths.claim_file(proposal)):
        make_folder(path.parent)
    (outcome,) = chunks.evaluate(
        [proposal],
        records.paths.outcome_file,
        records.paths.claim_file,
        _following(records, [evaluator]),
        archived=_archived(records, proposal.iteration),
        attempts=chunks.Attempts(run, 1 + records.config.retries),
    )
    return outcome


def take_in(records: Records, proposal: Proposal, outcome: Outcome) -> Outcome:
    """Keep an outcome from a machine that does not see the study. Returns the one that counts."""
    path, claim = records.paths.outcome_file(proposal), Claim(records.paths.claim_file(proposal))
    claim.wait(math.inf, proposal.id)
    try:
        if known := find_outcome(path, proposal):
            return known
        patiently(lambda: write_outcomes(path, [outcome]), what=f"writing {path}")
        records.paths.journal.note(outcome)
        return outcome
    finally:
        with contextlib.suppress(OSError):
            claim.release()


def _evaluators(records: Records, batch: Batch, points: int, limits: Limits) -> list[Watched]:
    """The evaluators of a job: one for each point that it evaluates at a time, at most one for each
    point.
    """
    config, starter, stops = records.config, Starter(), judge(records, batch)
    threads = int(config.resources.evaluate.get("threads", 1))
    shares = slots(config.points_at_once, threads, limits)[: max(1, points)]
    return [
        Watched(
            replace(runner(records, share, stops), starter=starter),
            records.paths.journal,
            config.stop.failures,
        )
        for share in shares
    ]


def _following(
    records: Records, evaluators: Sequence[chunks.Evaluator]
) -> Sequence[chunks.Evaluator]:
    """The evaluators, with the checkpoints of their points if the objective may ask for them."""
    if not _asks_for_checkpoints(records):
        return evaluators
    return [Following(each, records.checkpoints) for each in evaluators]


def _asks_for_checkpoints(records: Records) -> bool:
    objective = records.config.objective
    return bool(objective.callable) or "checkpoint" in used(objective.command or [])


def judge(records: Records, batch: Batch) -> Judge | None:
    """The judge that stops evaluations of a batch early; None if none are stopped."""
    rule, paths = records.config.early_stopping, records.paths
    if rule is None:
        return None
    flying = [paths.flying(t) for t in sorted({*batch.pending, batch.iteration})]
    earlier = read_snapshot(paths.curves(batch.iteration))
    config = records.config
    signs = tuple(one.sign for one in inward.each(config).values()) or inward.sign(config)
    return Judge(rule, earlier, flying, signs, _levels(records), config.reported)


def _levels(records: Records) -> Callable[[str], int] | None:
    """A function: name (ITERATION-SLOT) to the level of an evaluation in flight.

    None without a fidelity.
    """
    ladder, space = records.config.ladder, records.config.search_space
    if ladder is None:
        return None

    @cache
    def of_batch(t: int) -> dict[int, int]:
        batch = records.batch_in_flight(t)
        if batch is None or not batch.proposals:
            return {}
        levels = ladder.level(space.from_parameters([p.parameters for p in batch.proposals]))
        return {p.slot: int(at) for p, at in zip(batch.proposals, levels, strict=True)}

    def level_of(name: str) -> int:
        t, slot = map(int, name.split("-"))
        return of_batch(t).get(slot, 0)

    return level_of


def runner(records: Records, slot: Slot, judge: Judge | None = None) -> Runner:
    """The runner that evaluates points in one share of a job."""
    config = records.config
    environment = {**slot.environment, **config.objective.environment}
    # The folder is made only if the command names it. Otherwise the program must not get its path.
    checkpoints = records.checkpoints if _asks_for_checkpoints(records) else None

    def files_of(proposal: Proposal) -> Files:
        found = records.paths.files(proposal)
        return replace(found, checkpoint=checkpoints.of(proposal)) if checkpoints else found

    def seed_of(proposal: Proposal) -> int:
        place = proposal.iteration, derive.EVALUATE, proposal.slot
        return int(derive.seed_sequence(config, *place).generate_state(1)[0])

    return Runner(
        config.objective.model_copy(update={"environment": environment}),
        names=list(config.space),
        constraints=config.reported,
        files_of=files_of,
        seed_of=seed_of,
        limits=slot.limits,
        cpus=slot.cpus,
        judge=judge,
    )


@contextlib.contextmanager
def at_rest(records: Records, proposal: Proposal) -> Iterator[None]:
    """Hold a point in flight that has no outcome and is not being evaluated; raises UserError
    otherwise.
    """
    if proposal.iteration < records.merged():
        raise UserError(f"{proposal.id}: is in the archive, which never changes")
    keep(records, records.batch(proposal.iteration))
    claim, path = Claim(records.paths.claim_file(proposal)), records.paths.outcome_file(proposal)
    with chunks.at_rest(claim, proposal, path, runner(records, Slot(Limits()))):
        yield


def _archived(records: Records, t: int) -> Callable[[Proposal], Outcome | None]:
    """A function that looks up outcomes in the archive. Once t is merged, it reads the archive a
    single time."""
    known: dict[str, Outcome] = {}

    def look_up(proposal: Proposal) -> Outcome | None:
        if not known and t < records.merged():
            batch = archive.read_batch(records.archive, t, records.space)
            known.update((o.id, o) for o in archive.read_outcomes(records.archive, batch))
        return known.get(proposal.id)

    return look_up
