"""The record of a batch. It is kept with its surrogate where Snakemake cannot delete them."""

from __future__ import annotations

import contextlib
import functools
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo import derive, provenance
from dngo.batch import Batch, Outcome, Proposal, read_outcomes, read_pictures, write_outcomes
from dngo.config import Config
from dngo.errors import UserError
from dngo.evaluation.fingerprint import data_of, fingerprint, without
from dngo.evaluation.pictures import unpacked
from dngo.storage.claim import Claim, describe
from dngo.storage.files import reading_regular, replacing
from dngo.storage.hdf5 import our_own
from dngo.storage.patience import has_no_disk, patiently
from dngo.study.records import Records, refuse_secrets


def environment(records: Records) -> dict[str, Any]:
    """Where and when a stage runs, with which objective, and who asked for it."""
    objective, needs = records.config.objective, records.config.needs
    now, before = fingerprint(objective, needs), records.paths.journal.objective.get("files")
    if before is not None:  # files that this run wrote are not a part of the objective
        changed = (n for n in data_of(objective, needs) if before.get(n) != now["files"].get(n))
        now = without(now, changed)
    found = {**provenance.environment(), "objective": now}
    return {**found, "asked": records.asked} if records.asked else found


def record(
    records: Records,
    t: int,
    stage: int,
    proposals: Sequence[Proposal],
    *,
    training: tuple[int, str] = (0, ""),
    pending: Sequence[int] = (),
    config: Config | None = None,
    told: Sequence[tuple[Proposal, Outcome]] = (),
) -> Batch:
    """A batch of these proposals, made here and now by a stage (`derive.DESIGN` ...).

    training: number of iterations from which the surrogate learnt, and the archive's digest after
    them.
    pending: the iterations in flight.
    config: if not the study's own.
    told: points at the end of the batch whose outcomes are already known.
    Raises UserError for a first batch if the configuration seems to contain a secret.
    """
    if t == 0:
        refuse_secrets(records)
    slots = range(len(proposals), len(proposals) + len(told))
    ends = [(replace(p, slot=i), replace(o, slot=i)) for i, (p, o) in zip(slots, told, strict=True)]
    return Batch(
        iteration=t,
        config=(config or records.config).stored(),
        points_per_job=records.config.points_per_job,
        seed=records.config.seed,
        spawn_key=derive.spawn_key(t, stage),
        training_iterations=training[0],
        training_digest=training[1],
        pending=list(pending),
        environment=environment(records),
        proposals=[*proposals, *(p for p, _ in ends)],
        versions=derive.versions(),
        told=[o for _, o in ends],
    )


def keep(records: Records, batch: Batch, surrogate: Path | None = None) -> None:
    """Keep the batch and its surrogate where Snakemake cannot delete them."""
    folder = records.paths.pending(batch.iteration)
    for name in ("outcomes", "claims"):
        make_folder(folder / name)
    kept = records.paths.kept_surrogate(batch.iteration)
    if surrogate is not None and not kept.exists():
        copy(surrogate, kept)
    if not records.is_kept(batch.iteration):  # written last, since the batch exists from then on
        batch.write(records.paths.kept_batch(batch.iteration))


def has_model(surrogate: Path) -> bool:
    """Whether a surrogate's file has a model; it is empty for an iteration that needs none."""
    with our_own(surrogate) as file:
        return "model" in file


def receive(records: Records, files: Iterable[str | Path]) -> None:
    """Copy batches and outcomes to their usual places, if they lie elsewhere."""
    for path in map(Path, files):
        found = re.search(
            r"iterations/(\d+)/(proposals\.json|outcomes/\d+\.json)$", path.as_posix()
        )
        if found is None:
            continue
        target = records.paths.iteration(int(found[1])) / found[2]
        if target.resolve() == path.resolve():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if found[2] == "proposals.json":
            copy(path, target)
        else:
            _receive_outcomes(records, path, target)


def _receive_outcomes(records: Records, path: Path, target: Path) -> None:
    """Write outcomes of another machine at their usual place, and the pictures that came with them."""
    known, texts, found = target.exists(), read_pictures(path), []
    for outcome in read_outcomes(path):
        if text := texts.get(outcome.id):
            place = records.paths.picture(outcome.iteration, outcome.slot)
            outcome = unpacked(outcome, text, place)
        found.append(outcome)
    write_outcomes(target, found)
    for outcome in found if not known else []:
        records.paths.journal.note(outcome)  # no job could write it here


def copy(source: Path, target: Path) -> None:
    """Copy a file. `target` is never there in part. Raises UserError if the source is a pipe."""

    def once() -> None:
        with (
            reading_regular(source) as stream,
            replacing(target) as temporary,
            temporary.open("wb") as copied,
        ):
            shutil.copyfileobj(stream, copied)

    try:
        patiently(once, what=f"writing {target}", refusal=has_no_disk)
    except ValueError as error:
        raise UserError(f"{source}: {error}; remove it, and it is made again") from None


def make_folder(path: Path) -> None:
    """Make a folder, if it is missing. Wait while the disk is full."""
    make = functools.partial(path.mkdir, parents=True, exist_ok=True)
    patiently(make, what=f"making {path}", refusal=has_no_disk)


@contextlib.contextmanager
def alone(records: Records, t: int, stage: str) -> Iterator[None]:
    """Hold the claim on the model of iteration t, since a job of a killed run may still work on it.

    The later job finds the surrogate and the batch in `pending/`. Its own Snakemake may have
    deleted the outputs in `iterations/`.
    """
    path = records.paths.model_claim(t)
    make_folder(path.parent)
    claim = Claim(path)
    if not patiently(claim.acquire, what=f"claiming iteration {t}"):
        owner = describe(claim.owner())
        print(f"{stage} of iteration {t}: {owner} is working on it; waiting", flush=True)
        claim.wait(math.inf, f"iteration {t}")
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            claim.release()
