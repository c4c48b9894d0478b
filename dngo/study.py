"""A study on disk, and its four stages: fit, propose, evaluate, merge.

`results/STUDY/` holds

``archive.h5``       the system of record; only merge writes it
``iterations/T/``    what flows between the stages: the outputs that Snakemake knows and may delete
``pending/T/``       the batch and its outcomes while the iteration is in flight: what Snakemake must
                     not be able to delete, so it is not told; merge removes it once it is archived
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
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive, provenance
from dngo.archive import transfer
from dngo.archive.identity import check_identity
from dngo.batch import Batch, Outcome, Proposal, find_outcome, read_outcomes, write_outcomes
from dngo.config import Config
from dngo.errors import UserError
from dngo.evaluation.chunk import Attempts, evaluate
from dngo.evaluation.limits import Limits
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.slots import Slot, slots
from dngo.space import Space
from dngo.storage import hdf5
from dngo.storage.claim import Claim, describe
from dngo.storage.digest import digest_parameters
from dngo.storage.files import patiently, read_json, replacing, write_json

Progress = Callable[[float, str], None]


def _silent(fraction: float, message: str) -> None:
    pass


@dataclass(frozen=True)
class Plan:
    """The iterations that one run of Snakemake takes on.

    iterations: their numbers, in order.  reason: why there are none, if there are none.
    """

    iterations: tuple[int, ...]
    reason: str = ""


class Study:
    """A configured study and the folder it lives in."""

    def __init__(self, config: Config):
        self.config = config
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
        part = f"{proposal.iteration}/{proposal.slot}"
        logs = self.folder / "logs" / "points"
        return Files(
            workdir=self.folder / "work" / part,
            stdout=logs / f"{part}.out",
            stderr=logs / f"{part}.err",
        )

    @property
    def run_claim(self) -> Claim:
        """Held by the Snakemake that works on the study."""
        return Claim(self.folder / ".run.claim")

    # ---- planning -------------------------------------------------------------------------------

    def header(self) -> archive.Header | None:
        """The archive's header, None before the first merge; raises UserError if it is not ours."""
        return archive.read_header(self.archive, self.config.identity())

    def merged(self) -> int:
        """Number of iterations in the archive."""
        header = self.header()
        return header.iterations if header else 0

    def training_iterations(self, t: int) -> int:
        """How many iterations the surrogate of iteration t learns from: a fixed prefix.

        With k batches in flight, iteration t starts once t - k is merged; the design always counts.
        """
        return max(1, t - self.config.batches_in_flight + 1) if t > 0 else 0

    def plan(self) -> Plan:
        """The iterations after those in the archive, as far as the configuration asks for them."""
        header = self.header()
        if header is None and self.config.transfer and not self._has_transfer():
            transfer.read(self.config.transfer, self.space)  # planning writes nothing
        merged = header.iterations if header else 0
        self.in_flight(merged)  # each is compared with the configuration
        last = self.config.iterations
        if merged > last:
            return Plan((), f"all {merged} iterations are in the archive")
        reached = self._reached(header)
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
        return Plan(iterations)

    def num_chunks(self, t: int) -> int:
        """Jobs that evaluate iteration t; one in flight keeps those it was proposed with."""
        batch = self._in_flight(t)
        if batch is not None:
            return batch.num_chunks
        return -(-self.config.batch_size_of(t) // self.config.points_per_job)

    def _reached(self, header: archive.Header | None) -> str:
        stop = self.config.stop
        if header is None:
            return ""
        if stop.evaluations is not None and header.rows >= stop.evaluations:
            return f"{header.rows} evaluations are in the archive, and stop.evaluations is reached"
        if stop.target is not None:
            table = archive.read_table(self.archive)
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
            earlier = transfer.read(self.config.transfer, self.space)
            path.parent.mkdir(parents=True, exist_ok=True)
            transfer.write(path, earlier)
        return path

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

    # ---- stages ---------------------------------------------------------------------------------

    def fit(self, t: int, output: Path, progress: Progress = _silent) -> None:
        """Train the surrogate of iteration t and write it to `output` (`surrogate.h5`)."""
        if t < self.merged():
            return archive.copy_surrogate(self.archive, t, output)
        with self._alone(t, "fit"):
            kept = self._kept_surrogate(t)
            if not self._stands(t, kept):
                self._fit(t, kept, progress)
            _copy(kept, output)
        return None

    def _fit(self, t: int, output: Path, progress: Progress) -> None:
        import h5py

        iterations = self.training_iterations(t)
        environment = provenance.environment()
        model = derive.fit(self.archive, self.config, t, iterations, progress=progress)
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
            file.attrs["summary"] = json.dumps(model.summary(), sort_keys=True)
            model.save(file.create_group("model"))

    def _stands(self, t: int, surrogate: Path) -> bool:
        """Whether a fit of iteration t is there: of its batch, or of the settings and rows as they are."""
        if not surrogate.exists() or self._in_flight(t) is not None:
            return surrogate.exists()
        now = {
            "settings": self.config.surrogate.model_dump_json(),
            "classifier": self.config.classifier.model_dump_json(),
            "acquisition": self.config.acquisition.model_dump_json(),
            "versions": json.dumps(derive.versions(), sort_keys=True),
            "seed": self.config.seed,
            "training_digest": archive.prefix_digest(self.archive, self.training_iterations(t)),
        }
        with hdf5.our_own(surrogate) as file:
            return all(file.attrs[key] == value for key, value in now.items())

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
            kept = self._kept_surrogate(t)
            if surrogate is not None and kept.exists():
                surrogate = kept
            batch = self._in_flight(t) or (
                self._design() if surrogate is None else self._propose(t, surrogate, progress)
            )
            self._set_pending(batch, surrogate)
            batch.write(output)
        return batch

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
            for proposal, outcome in zip(batch.proposals, self._outcomes(batch), strict=True):
                if outcome is not None:
                    write_outcomes(self.outcome_file(proposal), [outcome])
            self._set_pending(batch, surrogate if surrogate.exists() else None)

    def _design(self) -> Batch:
        return self.record(0, derive.DESIGN, derive.design(self.config))

    def _propose(self, t: int, surrogate: Path, progress: Progress) -> Batch:
        from dngo.surrogates import Model

        with hdf5.our_own(surrogate) as file:
            iterations = int(file.attrs["training_iterations"])
            digest = str(file.attrs["training_digest"])
            model = Model.load(file["model"])
        pending = list(range(iterations, t))
        proposals = derive.propose(
            self.archive,
            self.config,
            t,
            iterations,
            model,
            pending=[p for s in pending for p in self.batch(s).proposals],
            progress=progress,
        )
        return self.record(
            t, derive.PROPOSE, proposals, training=(iterations, digest), pending=pending
        )

    def record(
        self,
        t: int,
        stage: int,
        proposals: list[Proposal],
        *,
        training: tuple[int, str] = (0, ""),
        pending: Sequence[int] = (),
    ) -> Batch:
        """The batch of these proposals, made here and now by a stage (`derive.DESIGN` ...).

        training: number of iterations that the surrogate was trained on, and the archive's digest
        there.  pending: the iterations under evaluation meanwhile.
        """
        return Batch(
            iteration=t,
            config=json.loads(self.config.resolved()),
            points_per_job=self.config.points_per_job,
            seed=self.config.seed,
            spawn_key=derive.spawn_key(t, stage),
            training_iterations=training[0],
            training_digest=training[1],
            pending=list(pending),
            environment=provenance.environment(),
            proposals=proposals,
            versions=derive.versions(),
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
        batch = self.batch(t)
        proposals = batch.chunk(chunk)
        objective = self.config.objective
        if t >= self.merged():
            self._set_pending(batch, None)

        def seed_of(proposal: Proposal) -> int:
            seed = derive.seed_sequence(self.config, t, derive.EVALUATE, proposal.slot)
            return int(seed.generate_state(1)[0])

        def evaluator(slot: Slot) -> Runner:
            environment = {**slot.environment, **objective.environment}
            return Runner(
                objective.model_copy(update={"environment": environment}),
                names=list(self.config.space),
                constraints=self.config.constraints,
                files_of=self.files,
                seed_of=seed_of,
                limits=slot.limits,
                cpus=slot.cpus,
            )

        threads = int(self.config.resources.evaluate.get("threads", 1))
        shares = slots(self.config.points_at_once, threads, limits)
        outcomes = evaluate(
            proposals,
            self.outcome_file,
            lambda p: self.pending(t) / "claims" / str(p.slot),
            [evaluator(slot) for slot in shares[: len(proposals)]],
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
        patiently(lambda: write_outcomes(output, outcomes), what=f"writing {output}")

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

    def _outcomes(self, batch: Batch) -> list[Outcome | None]:
        """The outcome of each proposal, from its own file or its chunk's, None if there is none."""
        outcomes = [find_outcome(self.outcome_file(p), p) for p in batch.proposals]
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

    def _merge_environment(self, t: int) -> dict[str, Any]:
        """Where and when this merge is done; an archive written again is the one that was lost."""
        try:
            return read_json(self.earlier_receipt(t))["merged"]
        except (OSError, ValueError, KeyError):
            return provenance.environment()

    def merge(self, t: int, output: Path) -> None:
        """Append iteration t to the archive, once, and write the receipt to `output`."""
        if t < self.merged():
            write_json(output, archive.receipt(self.archive, t))
            return
        batch = self.batch(t)
        outcomes = self._outcomes(batch)
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


def _copy(source: Path, target: Path) -> None:
    with replacing(target) as temporary:
        shutil.copyfile(source, temporary)


def load_study(document: dict[str, Any]) -> Study:
    """The study of a resolved configuration, as Snakemake hands it to a script."""
    from dngo.config import validate

    return Study(validate(document))
