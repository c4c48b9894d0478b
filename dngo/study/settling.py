"""Merge a batch when somebody asks or looks, once each of its points has an outcome.

`tell` only writes outcomes to files. So each look at a study settles it: from Python, by a command,
or in a browser. If a merge fails now, the next look tries again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from dngo.batch import Batch, find_outcome
from dngo.config import validate
from dngo.errors import UserError
from dngo.evaluation.journal import Halted
from dngo.study.beginning import adopt
from dngo.study.merging import merge
from dngo.study.paths import Paths
from dngo.study.records import Records

SPACE = 64 * 2**20  # bytes that must be free in addition to the archive's copy


@contextlib.contextmanager
def held(records: Records, wait: float) -> Iterator[None]:
    """Claim the study as a run of Snakemake does; raises TimeoutError that names the other holder."""
    paths = records.paths
    paths.folder.mkdir(parents=True, exist_ok=True)
    with paths.run_claim.held(wait=wait, what=f"the study in {paths.folder}"):
        adopt(records)
        yield


def is_complete(records: Records, batch: Batch) -> bool:
    """Whether each point of the batch has an outcome in flight. What lies in the outputs of an iteration
    has been merged: an archive that was moved away must not be made again."""
    outcomes = (find_outcome(records.paths.outcome_file(p), p) for p in batch.evaluated)
    return all(outcome is not None for outcome in outcomes)


def merge_complete(records: Records) -> None:
    """Merge the complete batches in flight, in order. The caller holds the study."""
    for batch in records.in_flight(records.merged()):
        if not is_complete(records, batch):
            return
        output = records.paths.iteration(batch.iteration) / "receipt.json"
        with contextlib.suppress(Halted):  # it is merged; the caller decides whether to go on
            merge(records, batch.iteration, output)


def unlearn(records: Records, name: str) -> None:
    """Have the next batch's model checked once more, as it may have learnt from a point that waits.

    name: the point's, which is being withdrawn.
    Raises UserError while another process holds the study: it may be proposing the batch.
    """
    merged, paths = records.merged(), records.paths
    begun = [t for t in paths.iterations() if t >= merged and records.batch_in_flight(t) is None]
    try:
        with held(records, wait=0.0) if begun else contextlib.nullcontext():
            for t in begun:  # the next run fits again, if what it learns from has changed
                (paths.iteration(t) / "surrogate.h5").unlink(missing_ok=True)
    except TimeoutError as error:
        raise UserError(
            f"{name}: {error}, which may propose a batch with it; end that first"
        ) from None


def settle(records: Records) -> None:
    """Merge complete batches, before somebody looks.

    It does nothing if another process holds the study, since that one merges. It does nothing if
    the folder cannot be written to, or if the disk is full: a command that only looks does not wait
    for room.
    """
    first = next(iter(records.in_flight(records.merged())), None)
    if first is None or not is_complete(records, first) or not _has_room(records):
        return
    with contextlib.suppress(OSError, TimeoutError), held(records, wait=0.0):
        merge_complete(records)


def settle_at(folder: Path) -> None:
    """Settle the study in this folder, if there is one. Its batches in flight hold the configuration."""
    paths = Paths(folder)
    kept = [path for path in map(paths.kept_batch, paths.iterations()) if path.exists()]
    if not kept or not os.access(folder, os.W_OK):
        return
    try:
        config = validate(Batch.read(kept[-1]).config, is_archived=True)
    except (UserError, OSError):
        return  # of another release, which will merge it
    if config.study == folder.absolute().name:
        results = os.path.relpath(folder.absolute().parent)
        settle(Records(config.model_copy(update={"results": results})))


def _has_room(records: Records) -> bool:
    """Whether a copy of the archive can be written."""
    paths = records.paths
    if not os.access(paths.folder, os.W_OK):
        return False
    size = paths.archive.stat().st_size if paths.archive.exists() else 0
    with contextlib.suppress(OSError):
        return shutil.disk_usage(paths.folder).free > size + SPACE
    return True
