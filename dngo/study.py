"""A study on disk, and its four stages: fit, propose, evaluate, merge.

`results/STUDY/` holds

``archive.h5``       the system of record; only merge writes it
``iterations/T/``    what flows between the stages: the outputs that Snakemake knows and may delete
``pending/T/``       the batch and its outcomes while the iteration is in flight: what Snakemake must
                     not be able to delete, so it is not told; merge removes it once it is archived
``waiting.json``     points that people entered, until a batch takes them in (`dngo.waiting`)
``logs/ work/``      what people look at

Every stage hands back what exists instead of making it anew: a batch that was proposed stays the
batch of its iteration, a point that has an outcome is never run again, an iteration that was merged
is read from the archive. So a stage may be repeated at any time, with any of its outputs deleted.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive, provenance
from dngo.archive import transfer
from dngo.archive.identity import check_identity
from dngo.archive.transfer import Earlier
from dngo.batch import (
    UNTOLD,
    Batch,
    Beside,
    Outcome,
    Proposal,
    find_outcome,
    read_outcomes,
    write_outcomes,
)
from dngo.config import Config
from dngo.ending import Ending
from dngo.errors import UserError
from dngo.evaluation.chunk import Attempts, at_rest, evaluate
from dngo.evaluation.fingerprint import differences, fingerprint
from dngo.evaluation.journal import Journal, Watched
from dngo.evaluation.limits import Limits
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.slots import Slot, slots
from dngo.evaluation.starter import Starter
from dngo.space import Space
from dngo.storage import hdf5
from dngo.storage.claim import Claim, describe
from dngo.storage.digest import digest, digest_parameters
from dngo.storage.files import patiently, read_json, replacing, write_json
from dngo.storage.logs import PointLogs
from dngo.waiting import Entry, Waiting

Progress = Callable[[float, str], None]


def _silent(fraction: float, message: str) -> None:
    pass


@dataclass(frozen=True)
class Plan:
    """The iterations that one run of Snakemake takes on.

    iterations: their numbers, in order.  reason: why there are none, if there are none.  is_last:
    whether the study is at its end after them.
    """

    iterations: tuple[int, ...]
    reason: str = ""
    is_last: bool = True


class Study:
    """A configured study and the folder it lives in.

    beside: the folder that relative paths in the configuration are relative to.
    """

    def __init__(self, config: Config, beside: Path = Path()):
        self.config = config
        self.beside = beside
        self.asked: dict[str, Any] | None = None  # who proposes, if not a run of Snakemake
        self.folder = Path(config.results) / config.study
        self.archive = self.folder / "archive.h5"

    @cached_property
    def space(self) -> Space:
        return self.config.search_space

    # ---- where things are -----------------------------------------------------------------------

    def iteration(self, t: int) -> Path:
        return self.folder / "iterations" / str(t)

    def pending(self, t: int) -> Path:
        return self.folder / "pending" / str(t)

    def _kept_surrogate(self, t: int) -> Path:
        return self.pending(t) / "surrogate.h5"

    def outcome_file(self, proposal: Proposal) -> Path:
        return self.pending(proposal.iteration) / "outcomes" / f"{proposal.slot}.json"

    def files(self, proposal: Proposal) -> Files:
        t, slot = proposal.iteration, proposal.slot
        return Files(
            workdir=self.folder / "work" / str(t) / str(slot),
            stdout=self.logs.path(t, slot, "stdout"),
            stderr=self.logs.path(t, slot, "stderr"),
        )

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
    def ending(self) -> Ending:
        """The note of an end that came while a run was under way."""
        return Ending(self.folder / "ended.json", self.config)

    # ---- planning -------------------------------------------------------------------------------

    def header(self) -> archive.Header | None:
        """The archive's header, None before the first merge; raises UserError if it is not ours."""
        return archive.read_header(self.archive, self.config.identity())

    def merged(self) -> int:
        """Number of iterations in the archive."""
        header = self.header()
        return header.iterations if header else 0

    def table(self, iterations: int | None = None) -> archive.Table:
        """The archive's rows up to an iteration, judged by the thresholds of the configuration."""
        thresholds = self.config.thresholds
        return archive.read_table(self.archive, iterations=iterations, thresholds=thresholds)

    def training_iterations(self, t: int) -> int:
        """How many iterations the surrogate of iteration t learns from: a fixed prefix.

        With k batches in flight, iteration t starts once t - k is merged; the design always counts.
        """
        return max(1, t - self.config.batches_in_flight + 1) if t > 0 else 0

    def plan(self) -> Plan:
        """The iterations after those in the archive, as far as the configuration asks for them."""
        header = self.header()
        if header is None and self.config.transfer and not self._has_transfer():
            self._earlier()  # planning writes nothing
        merged = header.iterations if header else 0
        self.in_flight(merged)  # each is compared with the configuration
        last = self.config.iterations
        if merged > last:
            further = self._further(merged)
            return Plan(further, "" if further else f"all {merged} iterations are in the archive")
        reached = self._reached(header) or self.ending.reason(merged, merged)
        if reached:
            return Plan((), reached)
        if self.config.iterations_per_run:
            last = min(last, merged + self.config.iterations_per_run - 1)
        iterations = tuple(range(merged, last + 1))
        rows = header.rows if header else 0
        if self.config.stop.evaluations is not None:
            kept = []
            for t in iterations:
                if rows >= self.config.stop.evaluations:
                    break
                rows += self.config.batch_size_of(t)
                kept.append(t)
            iterations = tuple(kept)
        is_last = last == self.config.iterations or rows >= (
            self.config.stop.evaluations or math.inf
        )
        return Plan(iterations, is_last=is_last)

    def num_chunks(self, t: int) -> int:
        """Jobs that evaluate iteration t; one in flight keeps those it was proposed with."""
        batch = self._in_flight(t)
        if batch is not None:
            return batch.num_chunks
        return -(-self._size_of(t) // self.config.points_per_job)

    def _further(self, merged: int) -> tuple[int, ...]:
        """Iterations beyond those configured: of points that people have evaluated, and of no others."""
        flying = [b for b in self.in_flight(merged) if all(p.given for p in b.proposals)]
        first = max([merged, *(b.iteration + 1 for b in flying)])
        return tuple(range(merged, first - (-self._awaited() // self.config.batch_size)))

    def _size_of(self, t: int) -> int:
        """Points that iteration t proposes when it starts now."""
        size = self.config.batch_size_of(t)
        if t <= self.config.iterations:
            return size
        before = [s for s in range(self.merged(), t) if self._in_flight(s) is None]
        return min(size, max(1, self._awaited() - size * len(before)))

    def _awaited(self) -> int:
        """How many points wait to be evaluated."""
        return sum(entry.outcome is None for entry in self.entries())

    def _reached(self, header: archive.Header | None) -> str:
        stop = self.config.stop
        if header is None:
            return ""
        if stop.evaluations is not None and header.rows >= stop.evaluations:
            return f"{header.rows} evaluations are in the archive, and stop.evaluations is reached"
        if stop.target is not None:
            table = self.table()
            best = best_row(table, self.config.objective.direction)
            if best is not None:
                value, sign = table.objective[best], derive.sign(self.config)
                if sign * value <= sign * stop.target:
                    return f"the objective reached {value:.6g}, and stop.target is {stop.target:g}"
        return ""

    def transfer(self) -> Path | None:
        """What a new archive is told of earlier studies; raises UserError if one cannot be read.

        A copy that is made once, before the study begins: what becomes of their archives while the
        design is evaluated, or before a lost archive is written again, does not matter.
        """
        if not self.config.transfer:
            return None
        path = self.folder / "transfer.h5"
        if not self._has_transfer():
            earlier = self._earlier()
            path.parent.mkdir(parents=True, exist_ok=True)
            transfer.write(path, earlier)
        return path

    def _earlier(self) -> list[Earlier]:
        config = self.config
        return transfer.read(config.transfer, self.space, config.thresholds, beside=self.beside)

    def _has_transfer(self) -> bool:
        path = self.folder / "transfer.h5"
        return path.exists() and transfer.files(path) == self.config.transfer

    # ---- batches --------------------------------------------------------------------------------

    def _in_flight(self, t: int) -> Batch | None:
        """The batch of an iteration that is not archived yet, if it has been proposed.

        The first batch fixes what the study is: raises UserError if the configuration says otherwise
        now. So an edit is found before anything is planned, evaluated or merged under another name.
        """
        for folder in (self.pending(t), self.iteration(t)):
            path = folder / "proposals.json"
            if path.exists():
                batch = Batch.read(path)
                if batch.ended:
                    continue
                check_identity(path, batch.identity, self.config.identity())
                return batch
        return None

    def in_flight(self, merged: int) -> list[Batch]:
        """The batches that were proposed and are not among the first `merged` in the archive."""
        found = {*_numbered(self.folder / "pending"), *_numbered(self.folder / "iterations")}
        batches = [self._in_flight(t) for t in sorted(found) if t >= merged]
        return [batch for batch in batches if batch is not None]

    def batch(self, t: int) -> Batch:
        """The batch of an iteration, in flight or archived; raises UserError if there is none."""
        batch = self._in_flight(t)
        if batch is None and t < self.merged():
            batch = archive.read_batch(self.archive, t, self.space)
        if batch is None:
            raise UserError(f"{self.folder}: iteration {t} has not been proposed")
        return batch

    # ---- what people entered --------------------------------------------------------------------

    @property
    def waiting(self) -> Waiting:
        """Points that wait for a batch to take them in."""
        return Waiting(self.folder / "waiting.json")

    def entries(self) -> list[Entry]:
        """The points that wait, without those that a batch has taken in already."""
        waiting = self.waiting.read()
        if not waiting:
            return []
        taken = archive.read_entered(self.archive) if self.archive.exists() else set()
        for batch in self.in_flight(self.merged()):
            taken |= {p.origin["entry"] for p in batch.proposals if p.origin}
        return [entry for entry in waiting if entry.name not in taken]

    def known(self) -> dict[bytes, tuple[str, str]]:
        """Every point that was proposed, by its key (`Space.keys`): id, and status or "pending".

        Points of which nothing will be known are left out: they may be proposed once more.
        """
        found: dict[bytes, tuple[str, str]] = {}
        merged = self.merged()
        if merged:
            table = archive.read_table(self.archive, iterations=merged)
            for key, t, slot, status in zip(
                self.space.keys(table.v), table.iteration, table.slot, table.status, strict=True
            ):
                if status not in UNTOLD:
                    found[key] = (f"{t}-{slot}", str(status))
        for batch in self.in_flight(merged):
            keys = self.space.keys(
                self.space.from_parameters([p.parameters for p in batch.proposals])
            )
            for key, p, outcome in zip(keys, batch.proposals, self.outcomes(batch), strict=True):
                status = outcome.status if outcome else "pending"
                if status not in UNTOLD:
                    found[key] = (p.id, status)
        return found

    def _given(self, t: int) -> list[Proposal]:
        """The points that batch t begins with: those that wait, as many as it has room for.

        A point that was proposed since it was entered is not evaluated twice, unless that is asked for.
        """
        entries = [entry for entry in self.entries() if entry.outcome is None]
        known = self.known() if entries else {}
        given: list[Proposal] = []
        for entry in entries:
            key = self.space.keys(self.space.from_parameters([entry.parameters]))[0]
            if key in known and not entry.again:
                print(f"{entry.name}: its point is proposal {known[key][0]} already", flush=True)
                self.waiting.drop({entry.name})
            elif len(given) < self.config.batch_size_of(t):
                given.append(entry.proposal(t, len(given)))
        return given

    def _told(self, t: int, iterations: int) -> list[tuple[Proposal, Outcome]]:
        """Outcomes from elsewhere that are not in the first iterations of the archive, in order."""
        told = []
        for s in range(iterations, t):
            batch = self.batch(s) if s < self.merged() else self._in_flight(s)
            if batch is not None:
                told += [(batch.proposals[o.slot], o) for o in batch.told]
        entries = [entry for entry in self.entries() if entry.outcome is not None]
        return told + [entry.told(t, i) for i, entry in enumerate(entries)]

    # ---- stages ---------------------------------------------------------------------------------

    def fit(self, t: int, output: Path, progress: Progress = _silent) -> None:
        """Train the surrogate of iteration t and write it to `output` (`surrogate.h5`)."""
        if t < self.merged():
            return archive.copy_surrogate(self.archive, t, output)
        with self._alone(t, "fit"):
            kept = self._kept_surrogate(t)
            if self._ends(t):
                return _empty(output)
            beside = Beside(told=self._told(t, self.training_iterations(t)))
            if not self._stands(t, kept, beside):
                self._fit(t, kept, beside, progress)
            _copy(kept, output)
        return None

    def _fit(self, t: int, output: Path, beside: Beside, progress: Progress) -> None:
        import h5py

        iterations = self.training_iterations(t)
        environment = provenance.environment()
        model = derive.fit(
            self.archive, self.config, t, iterations, told=beside.told, progress=progress
        )
        with replacing(output) as temporary, h5py.File(temporary, "w") as file:
            file.attrs["iteration"] = t
            file.attrs["training_iterations"] = iterations
            file.attrs["training_digest"] = archive.prefix_digest(self.archive, iterations)
            file.attrs["seed"] = self.config.seed
            file.attrs["spawn_key"] = np.array(derive.spawn_key(t, derive.FIT))
            file.attrs["environment"] = json.dumps(environment)
            file.attrs["seconds"] = time.time() - environment["time"]
            file.attrs["versions"] = json.dumps(derive.versions(), sort_keys=True)
            file.attrs["settings"] = self.config.surrogate.model_dump_json()
            file.attrs["classifier"] = self.config.classifier.model_dump_json()
            file.attrs["acquisition"] = self.config.acquisition.model_dump_json()
            file.attrs["constraints"] = json.dumps(self.config.constraints, sort_keys=True)
            file.attrs["summary"] = json.dumps(model.summary(), sort_keys=True)
            file.attrs["told"] = digest(beside.dump_told())
            if beside.told:  # and so the rows of the archive that this model knew of
                file["told"] = beside.dump_told()
            model.save(file.create_group("model"))

    def _stands(self, t: int, surrogate: Path, beside: Beside) -> bool:
        """Whether a fit of iteration t is there: of its batch, or of the settings and rows as they are."""
        if not surrogate.exists() or self._in_flight(t) is not None:
            return surrogate.exists()
        now = {
            "settings": self.config.surrogate.model_dump_json(),
            "classifier": self.config.classifier.model_dump_json(),
            "acquisition": self.config.acquisition.model_dump_json(),
            "versions": json.dumps(derive.versions(), sort_keys=True),
            "constraints": json.dumps(self.config.constraints, sort_keys=True),
            "seed": self.config.seed,
            "training_digest": archive.prefix_digest(self.archive, self.training_iterations(t)),
            "told": digest(beside.dump_told()),
        }
        with hdf5.our_own(surrogate) as file:
            return all(file.attrs.get(key) == value for key, value in now.items())

    @contextlib.contextmanager
    def _alone(self, t: int, stage: str) -> Iterator[None]:
        """Hold the claim on the model of iteration t: an orphan of a killed run may be at work on it.

        Its surrogate and its batch are then found, for they are kept in `pending/`: each of the two
        jobs may have the outputs in `iterations/` deleted by its own Snakemake.
        """
        path = self.pending(t) / "claims" / "model"
        path.parent.mkdir(parents=True, exist_ok=True)
        claim = Claim(path)
        if not patiently(claim.acquire, what=f"claiming iteration {t}"):
            owner = describe(claim.owner())
            print(f"{stage} of iteration {t}: {owner} is at work on it; waiting", flush=True)
            claim.wait(math.inf, f"iteration {t}")
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                claim.release()

    def propose(
        self, t: int, surrogate: Path | None, output: Path, progress: Progress = _silent
    ) -> Batch:
        """Choose the batch of iteration t and write it to `output` (`proposals.json`)."""
        if t < self.merged():
            batch = archive.read_batch(self.archive, t, self.space)
            batch.write(output)
            return batch
        with self._alone(t, "propose"):
            if reason := self._ends(t):
                return self._write_end(t, reason, output)
            kept = self._kept_surrogate(t)
            if surrogate is not None and kept.exists():
                surrogate = kept
            batch = self._in_flight(t) or (
                self._design() if surrogate is None else self._propose(t, surrogate, progress)
            )
            if batch.evaluated and not batch.told and (reason := self._nothing_left(batch)):
                return self._write_end(t, reason, output, batch.outlook)
            self._set_pending(batch, surrogate)
            self.waiting.drop({p.origin["entry"] for p in batch.proposals if p.origin})
            batch.write(output)
        return batch

    def _ends(self, t: int) -> str:
        """Why iteration t is not to be, empty if it is; one that is in flight is."""
        if t == 0 or self._in_flight(t) is not None or self.entries():
            return ""  # what people have entered is evaluated all the same
        header = self.header()
        merged = header.iterations if header else 0
        if t < merged:
            return ""
        reason = self.ending.reason(t, merged)
        if not reason and (reason := self._reached(header)):
            self.ending.note(t, reason, {})
        return reason

    def _nothing_left(self, batch: Batch) -> str:
        """Why what a batch promises is not worth it; empty if it is, or if people wait for its points."""
        stop = self.config.stop
        if not batch.outlook or any(p.given for p in batch.proposals):
            return ""
        if self._kept(batch.iteration):
            return ""
        from dngo.acquisition.outlook import Outlook

        outlook = Outlook(**batch.outlook)
        if stop.expected_improvement is not None and outlook.further < stop.expected_improvement:
            return (
                f"five batches are expected to gain {outlook.further:.3g}, and "
                f"stop.expected_improvement is {stop.expected_improvement:g}"
            )
        if stop.distance is not None and outlook.within(stop.distance) >= stop.probability:
            return (
                f"the best value is within {stop.distance:g} of the best that the surrogate can "
                f"imagine with probability {outlook.within(stop.distance):.3g}, and stop.probability "
                f"is {stop.probability:g}"
            )
        return ""

    def _kept(self, t: int) -> bool:
        """Whether a batch is a fact already: it is evaluated, whatever it promises."""
        return (self.pending(t) / "proposals.json").exists()

    def _write_end(
        self, t: int, reason: str, output: Path, outlook: dict[str, Any] | None = None
    ) -> Batch:
        if outlook is not None:
            self.ending.note(t, reason, outlook)
        batch = replace(self.record(t, derive.PROPOSE, []), ended=reason, outlook=outlook or {})
        batch.write(output)
        return batch

    def clear_end(self, t: int) -> None:
        """Remove what the stages of an iteration that was none have left, now that it is one."""
        path = self.iteration(t) / "proposals.json"
        if path.exists() and Batch.read(path).ended:
            shutil.rmtree(self.iteration(t))

    def _set_pending(self, batch: Batch, surrogate: Path | None) -> None:
        """Keep the batch, and the surrogate it came from, where Snakemake cannot delete them."""
        folder = self.pending(batch.iteration)
        for name in ("outcomes", "claims"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        kept = self._kept_surrogate(batch.iteration)
        if surrogate is not None and not kept.exists():
            _copy(surrogate, kept)
        if not (folder / "proposals.json").exists():  # written last: it makes the batch a fact
            batch.write(folder / "proposals.json")

    def adopt(self) -> None:
        """Take what lies in `iterations/` but is not archived back into `pending/`.

        An archive that was deleted, or replaced by an older copy, is so written again from what was
        evaluated, before Snakemake makes room for outputs that it believes must be made anew.
        """
        merged = self.merged()
        for batch in self.in_flight(merged):
            if (self.pending(batch.iteration) / "proposals.json").exists():
                continue
            surrogate = self.iteration(batch.iteration) / "surrogate.h5"
            for proposal, outcome in zip(batch.proposals, self.outcomes(batch), strict=True):
                if outcome is not None:
                    write_outcomes(self.outcome_file(proposal), [outcome])
            self._set_pending(batch, surrogate if surrogate.exists() else None)

    def begin(self) -> str:
        """Begin a run: what lies in `iterations/` is adopted, and the journal is new.

        Says how the objective differs from what was evaluated before; "" if it does not.
        """
        self.adopt()
        changes = "; ".join(self.changes())
        ran = self.archive.exists() and derive.ran(archive.read_table(self.archive)).any()
        ends = (o for batch in self.in_flight(self.merged()) for o in self.outcomes(batch))
        self.journal.begin(
            ran=bool(ran) or any(o is not None and o.ran for o in ends),
            objective=fingerprint(self.config.objective),
        )
        return changes

    def changes(self) -> list[str]:
        """What of the objective is not as the last run, or else the last batch, has recorded it.

        Raises UserError if there is anything and `objective.strict` says so.
        """
        known = self.journal.objective
        merged = self.merged()
        for batch in reversed(self.in_flight(merged)):
            known = known or batch.environment.get("objective") or {}
        if not known and merged:
            attributes = archive.iteration_attributes(self.archive, merged - 1)
            known = json.loads(attributes["merged"]).get("objective") or {}
        found = differences(known, fingerprint(self.config.objective))
        if found and self.config.objective.strict:
            raise UserError(
                f"objective.strict: the objective is not what was evaluated before: {'; '.join(found)}. "
                "Put it back, or set objective.strict: false to go on with evaluations of both"
            )
        return found

    def _design(self) -> Batch:
        beside = Beside(given=self._given(0), told=self._told(0, 0))
        proposals = derive.design(self.config, beside)
        return self.record(0, derive.DESIGN, proposals, told=beside.told)

    def _propose(self, t: int, surrogate: Path, progress: Progress) -> Batch:
        from dngo.surrogates import Model

        with hdf5.our_own(surrogate) as file:
            iterations = int(file.attrs["training_iterations"])
            prefix = str(file.attrs["training_digest"])
            model = Model.load(file["model"])
            told = Beside.parse_told(file["told"].asstr()[()]) if "told" in file else []
        pending = list(range(iterations, t))
        beside = Beside(given=self._given(t), told=told)
        config = self.config
        if t > config.iterations:  # no point of the model's own
            config = config.model_copy(update={"batch_size": max(1, len(beside.given))})
        others = [p for s in pending for p in self.batch(s).proposals]
        beside = replace(beside, pending=beside.without_told(others))
        proposals = derive.propose(
            self.archive,
            config,
            t,
            iterations,
            model,
            beside=beside,
            progress=progress,
        )
        looked = derive.outlook(
            self.archive, self.config, t, iterations, model, proposals, beside=beside
        )
        # What a batch before this one has taken in since the fit is not taken in again.
        taken = {p.origin.get("entry") for p in others}
        own = [pair for pair in told if pair[0].iteration == t]
        batch = self.record(
            t,
            derive.PROPOSE,
            proposals,
            training=(iterations, prefix),
            pending=pending,
            config=config,
            told=[pair for pair in own if pair[0].origin["entry"] not in taken],
        )
        return replace(
            batch, outlook=looked, durations=derive.durations(self.config, model, proposals)
        )

    def record(
        self,
        t: int,
        stage: int,
        proposals: list[Proposal],
        *,
        training: tuple[int, str] = (0, ""),
        pending: Sequence[int] = (),
        config: Config | None = None,
        told: Sequence[tuple[Proposal, Outcome]] = (),
    ) -> Batch:
        """The batch of these proposals, made here and now by a stage (`derive.DESIGN` ...).

        training: number of iterations that the surrogate was trained on, and the archive's digest
        there.  pending: the iterations under evaluation meanwhile.  config: if not the study's own.
        told: what stands at the end of the batch, with its outcomes.
        """
        slots = range(len(proposals), len(proposals) + len(told))
        ends = [
            (replace(p, slot=i), replace(o, slot=i)) for i, (p, o) in zip(slots, told, strict=True)
        ]
        return Batch(
            iteration=t,
            config=json.loads((config or self.config).resolved()),
            points_per_job=self.config.points_per_job,
            seed=self.config.seed,
            spawn_key=derive.spawn_key(t, stage),
            training_iterations=training[0],
            training_digest=training[1],
            pending=list(pending),
            environment=self._environment(),
            proposals=[*proposals, *(p for p, _ in ends)],
            versions=derive.versions(),
            told=[o for _, o in ends],
        )

    def evaluate(
        self,
        t: int,
        chunk: int,
        output: Path,
        progress: Progress = _silent,
        limits: Limits = Limits(),
    ) -> None:
        """Evaluate one job's share of batch t, within the job's limits, into `output`."""
        if self._ends(t):
            return write_outcomes(output, [])
        batch = self.batch(t)
        proposals = batch.longest_first(batch.chunk(chunk))
        objective = self.config.objective
        if t >= self.merged():
            self._set_pending(batch, None)
        if objective.strict:
            self.changes()

        starter = Starter()

        def evaluator(slot: Slot) -> Watched:
            runner = replace(self.runner(slot), starter=starter)
            return Watched(runner, self.journal, self.config.stop.failures)

        threads = int(self.config.resources.evaluate.get("threads", 1))
        shares = slots(self.config.points_at_once, threads, limits)
        outcomes = evaluate(
            proposals,
            self.outcome_file,
            self._claim_file,
            [evaluator(slot) for slot in shares[: max(1, len(proposals))]],
            archived=self._archived(t),
            attempts=Attempts(
                run=str((self.run_claim.owner() or {}).get("token", "")),
                limit=1 + self.config.retries,
                escalates=self.config.escalation > 1,
            ),
            has_time=lambda longest: (
                time.monotonic() + (objective.time_limit or longest) < limits.deadline
            ),
            progress=progress,
        )
        outcomes.sort(key=lambda outcome: outcome.slot)
        patiently(lambda: write_outcomes(output, outcomes), what=f"writing {output}")

    def _claim_file(self, proposal: Proposal) -> Path:
        return self.pending(proposal.iteration) / "claims" / str(proposal.slot)

    def runner(self, slot: Slot) -> Runner:
        """What evaluates points in one share of a job."""
        objective = self.config.objective
        environment = {**slot.environment, **objective.environment}

        def seed_of(proposal: Proposal) -> int:
            place = proposal.iteration, derive.EVALUATE, proposal.slot
            return int(derive.seed_sequence(self.config, *place).generate_state(1)[0])

        return Runner(
            objective.model_copy(update={"environment": environment}),
            names=list(self.config.space),
            constraints=self.config.reported,
            files_of=self.files,
            seed_of=seed_of,
            limits=slot.limits,
            cpus=slot.cpus,
        )

    @contextlib.contextmanager
    def at_rest(self, proposal: Proposal) -> Iterator[None]:
        """Hold a point in flight that nobody evaluates, and that has no outcome; raises UserError."""
        if proposal.iteration < self.merged():
            raise UserError(f"{proposal.id}: is in the archive, and nothing there changes")
        self._set_pending(self.batch(proposal.iteration), None)
        claim, path = Claim(self._claim_file(proposal)), self.outcome_file(proposal)
        with at_rest(claim, proposal, path, self.runner(Slot(Limits()))):
            yield

    def _archived(self, t: int) -> Callable[[Proposal], Outcome | None]:
        """A look-up of outcomes in the archive: it costs one read, and only once t is merged."""
        known: dict[str, Outcome] = {}

        def look_up(proposal: Proposal) -> Outcome | None:
            if not known and t < self.merged():
                batch = archive.read_batch(self.archive, t, self.space)
                known.update((o.id, o) for o in archive.read_outcomes(self.archive, batch))
            outcome = known.get(proposal.id)
            return outcome

        return look_up

    def outcomes(self, batch: Batch) -> list[Outcome | None]:
        """The outcome of each proposal, from its own file or its chunk's, None if there is none."""
        told = {o.slot: o for o in batch.told}
        outcomes = [
            told.get(p.slot) or find_outcome(self.outcome_file(p), p) for p in batch.proposals
        ]
        if None in outcomes:
            kept: dict[tuple[str, str], Outcome] = {}
            for path in sorted((self.iteration(batch.iteration) / "outcomes").glob("*.json")):
                kept.update(((o.id, o.parameters_digest), o) for o in read_outcomes(path))
            outcomes = [
                o or kept.get((p.id, digest_parameters(p.parameters)))
                for o, p in zip(outcomes, batch.proposals, strict=True)
            ]
        return outcomes

    def earlier_receipt(self, t: int) -> Path:
        """Receipt of a merge into an archive that is gone."""
        return self.iteration(t) / "receipt.earlier.json"

    def _environment(self) -> dict[str, Any]:
        """Where and when a stage is done, and with which objective."""
        found = {**provenance.environment(), "objective": fingerprint(self.config.objective)}
        return {**found, "asked": self.asked} if self.asked else found

    def _merge_environment(self, t: int) -> dict[str, Any]:
        """Where and when this merge is done; an archive written again is the one that was lost."""
        try:
            return read_json(self.earlier_receipt(t))["merged"]
        except (OSError, ValueError, KeyError):
            return self._environment()

    def merge(self, t: int, output: Path) -> None:
        """Append iteration t to the archive, once, and write the receipt to `output`.

        Raises Halted, once that is done, if the run is to go no further.
        """
        if t < self.merged():
            write_json(output, archive.receipt(self.archive, t))
            self.logs.bundle(self.merged())
            return
        if reason := self._ends(t):
            write_json(output, {"iteration": t, "rows": 0, "ended": reason})
            return
        batch = self.batch(t)
        outcomes = self.outcomes(batch)
        missing = [p.id for p, o in zip(batch.proposals, outcomes, strict=True) if o is None]
        if missing:
            raise UserError(
                f"{self.folder}: {len(missing)} points of iteration {t} have no outcome yet "
                f"({', '.join(missing[:3])} ...); type the same command again"
            )
        surrogates = (d / "surrogate.h5" for d in (self.pending(t), self.iteration(t)))
        surrogate = next((s for s in surrogates if s.exists()), None)
        receipt = patiently(
            lambda: archive.append(
                self.archive,
                identity=self.config.identity(),
                batch=batch,
                outcomes=[o for o in outcomes if o is not None],
                surrogate=surrogate if t > 0 else None,
                transfer=self.transfer() if t == 0 else None,
                environment=self._merge_environment(t),
            ),
            what=f"merging iteration {t} into {self.archive}",
        )
        write_json(output, receipt)
        # Archived, flushed and renamed: what kept the iteration alive is not needed any more.
        shutil.rmtree(self.pending(t), ignore_errors=True)
        failures = self.config.stop.failures
        if t == 0:
            self.journal.heed_design([o for o in outcomes if o is not None], failures)
        if t < self.config.iterations:
            self.journal.heed(failures)
        self.logs.bundle(t + 1)  # where the run stops, its message names a log


def best_row(table: archive.Table, direction: str) -> int | None:
    """Index of the best ok row, the earliest of equals; None if there is none."""
    objective = np.where(table.status == "ok", table.objective, np.nan)
    if np.isnan(objective).all():
        return None
    return int(np.nanargmin(objective) if direction == "minimize" else np.nanargmax(objective))


def _numbered(folder: Path) -> list[int]:
    """The iterations that have a folder in `folder`; what else lies there is the user's."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [int(n) for n in names if re.fullmatch("0|[1-9][0-9]{0,8}", n)]


def _empty(output: Path) -> None:
    """The surrogate of an iteration that is none."""
    import h5py

    with replacing(output) as temporary, h5py.File(temporary, "w") as file:
        file.attrs["ended"] = True


def _copy(source: Path, target: Path) -> None:
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def load_study(document: dict[str, Any]) -> Study:
    """The study of a resolved configuration, as Snakemake hands it to a script."""
    from dngo.config import validate

    return Study(validate(document))
