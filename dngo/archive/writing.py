"""Appending to an archive.

Only `append` writes. It copies the file, appends to the copy, and renames the copy over the
original. So a crash leaves either the old archive or the new one. The digest of each iteration
covers its rows, its attributes, its surrogate and the digest before it. This chain shows every
altered value.

If the attribute `kept` of a surrogate is "last", the chain covers the digest of its model instead
of the model. So the next model can replace it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo.archive import layout, predictions, progress
from dngo.archive.digests import genesis_digest, iteration_digest, model_digest
from dngo.archive.reading import Header, read_header, reading, receipt
from dngo.archive.structure import check_appended, check_archive, space_of
from dngo.batch import STATUSES, STOPPED, Batch, Outcome, Proposal
from dngo.errors import UserError
from dngo.space import Space
from dngo.storage.claim import Claim
from dngo.storage.files import replacing
from dngo.storage.hdf5 import Check, Unsound, opened, our_own, vouch
from dngo.storage.text import storable, storable_tree

PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
# Bytes of a surrogate's array; in a smaller one, a chunk costs more than it saves.
LEAST_PACKED = 8192
# HDF5 of 2016 and later can read this layout. An archive's many small objects take a seventh less
# room in it than in the oldest layout.
LAYOUT: dict[str, Any] = {"libver": ("v110", "v110"), "locking": False}
# The outcomes of a batch; or parts, each with some proposals and their outcomes.
Outcomes = list[Outcome] | Iterator[tuple[list[Proposal], list[Outcome]]]
DEPTH = 200  # of metadata; an evaluation stores far less


def append(
    path: Path,
    *,
    identity: dict[str, Any],
    batch: Batch,
    outcomes: Outcomes,
    surrogate: Path | None,
    environment: dict[str, Any] | None = None,
    transfer: Path | None = None,
    wait: float = 600.0,
) -> dict[str, Any]:
    """Append one iteration. Returns a receipt with the archive's digests before and after.

    identity: of the study (`Config.identity`), with its search space.
    outcomes: of the batch's proposals. To save memory, a batch without proposals may be given in
    parts, each with proposals and outcomes; the parts may add to the batch's environment.
    environment: where and when this runs (`dngo.provenance`), and notes; it is recorded as well.
    The parts may add to it.
    transfer: a file with the group of that name, for a new archive (`dngo.archive.transfer`).

    If the archive already holds the iteration, nothing changes, and the iteration's receipt is
    returned. There is one writer at a time; this waits up to `wait` seconds for another one. Raises
    UserError if the archive belongs to another study, or if an earlier iteration is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    space = space_of(identity)
    try:
        with Claim(path.with_name(f".{path.name}.claim")).held(wait=wait, what=f"{path}"):
            header = _checked_header(path, identity)
            merged = header.iterations if header else 0
            if batch.iteration < merged:
                return receipt(path, batch.iteration)
            if batch.iteration > merged:
                raise UserError(
                    f"{path}: holds {merged} iterations, so iteration {batch.iteration} cannot "
                    f"follow; type the same command again"
                )
            with replacing(path) as temporary:
                statuses = _statuses(outcomes) if isinstance(outcomes, list) else layout.ALL_STATUS
                same = header and _copy_archive(
                    path, temporary, header, surrogate is not None, statuses
                )
                with h5py.File(temporary, "r+" if header else "w", **LAYOUT) as file:
                    if not header:
                        _create(file, identity, space, transfer)
                    recorded = {} if environment is None else environment
                    _append(file, space, batch, outcomes, surrogate, recorded)
                written = _read_back(path, temporary, header if same else None)
            vouch(path, written, check_archive)
    except TimeoutError as error:
        raise UserError(f"{error}; a study has one writer at a time") from None
    return receipt(path, batch.iteration)


def _checked_header(path: Path, identity: dict[str, Any]) -> Header | None:
    """The header of an archive, once every part of it is checked for appending; None without an
    archive.
    """
    if not os.path.lexists(path):
        return None
    with reading(path):
        return read_header(path, identity)


def _copy_archive(path: Path, to: Path, header: Header, replaced: bool, statuses: Any) -> bool:
    """Copy an archive. At powers of two, leave out the model that the next one replaces.

    A replaced model leaves a gap, and each append adds a few per cent of a model to the gaps. A copy that
    closes them has to be checked as a whole.
    statuses: the type of a column that has the statuses to write.

    Returns whether it was a plain copy.
    """
    t = header.iterations
    with reading(path) as file:
        if replaced and t & (t - 1) == 0 and (outdated := _outdated(file, t)):
            with h5py.File(to, "w", **LAYOUT) as target:
                _copy_without(file, target, outdated)
            return False
        has_columns = all(name in file["proposals"] for name in layout.OPTIONAL_COLUMNS)
        of_today = has_columns and _knows(file["outcomes/status"], statuses)
    shutil.copyfile(path, to)
    return of_today


def _outdated(file: h5py.File, t: int) -> str:
    """The name of the model that is kept until iteration t has its own; empty if there is no such
    model.
    """
    for s in reversed(range(t)):
        group = file.get(f"iterations/{s}/surrogate")
        if group is not None:
            last = group.attrs.get("kept") == "last" and "model" in group
            return f"{group.name}/model" if last else ""
    return ""


def _copy_without(source: h5py.Group, target: h5py.Group, left_out: str) -> None:
    """Copy a group's content except for the object of this name."""
    for name, value in source.attrs.items():
        target.attrs[name] = value
    for name, item in source.items():
        if left_out.startswith(f"{item.name}/"):
            _copy_without(item, target.create_group(name), left_out)
        elif item.name != left_out:
            source.copy(name, target)


def _read_back(path: Path, written: Path, copied: Header | None) -> os.stat_result:
    """Raise UserError unless the new file is a valid archive. This runs before it replaces the old one.

    copied: the header of the sound archive that was copied; then only the appended part is checked.
    """
    check: Check = check_archive
    if copied:
        check = partial(check_appended, rows=copied.rows, iterations=copied.iterations)
    try:
        with opened(written, check):
            return written.stat()
    except Unsound as error:
        raise UserError(
            f"{path}: the new archive could not be read back ({error}); nothing was "
            "changed; type the same command again"
        ) from None


def _create(file: h5py.File, identity: dict[str, Any], space: Space, transfer: Path | None) -> None:
    file.attrs["format"] = "dngo archive"
    file.attrs["format_version"] = layout.FORMAT_VERSION
    file.attrs["identity"] = json.dumps(identity)
    file.attrs["rows"] = 0
    file.attrs["iterations"] = 0
    parameters = {c.name: "f8" if c.choices is None else layout.TEXT for c in space.columns}
    for place, columns in layout.tables(identity, parameters).items():
        group = file.create_group(place)
        for name, dtype in columns.items():
            _column(group, name, dtype)
    _column(file["proposals"], "v", "f8", space.k)
    _column(file["proposals"], "x", "f8", space.d)
    file.create_group("iterations")
    if transfer is not None:
        with our_own(transfer) as source:
            source.copy("transfer", file)
    file.attrs["digest"] = genesis_digest(file)


def _column(group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
    shape = () if width is None else (width,)
    rows = 1024 if width is None else max(1, 8192 // max(width, 1))
    group.create_dataset(
        name,
        (0, *shape),
        maxshape=(None, *shape),
        dtype=dtype,
        chunks=(rows, *(max(s, 1) for s in shape)),
        **PACKING,
    )


def _append(
    file: h5py.File,
    space: Space,
    batch: Batch,
    outcomes: Outcomes,
    surrogate: Path | None,
    environment: dict[str, Any],
) -> None:
    first = end = int(file.attrs["rows"])
    ran = []
    parts = iter([(batch.proposals, outcomes)]) if isinstance(outcomes, list) else outcomes
    for proposals, ended in parts:
        _append_rows(file, space, proposals, ended, end)
        ran.append(progress.of(ended, end - first))
        end += len(proposals)
    rows = end - first
    group = file.create_group(f"iterations/{batch.iteration}")
    group.attrs["config"] = json.dumps(batch.config)
    group.attrs["versions"] = json.dumps(batch.versions, sort_keys=True)
    if batch.outlook:
        group.attrs["outlook"] = json.dumps(batch.outlook, sort_keys=True)
    group.attrs["columns"] = " ".join(layout.OPTIONAL_COLUMNS)
    group.attrs["environment"] = json.dumps(batch.environment, sort_keys=True)
    group.attrs["merged"] = json.dumps(environment, sort_keys=True)
    group.attrs["seed"] = batch.seed
    group.attrs["spawn_key"] = np.array(batch.spawn_key, dtype="i8")
    group.attrs["points_per_job"] = batch.points_per_job
    group.attrs["training_iterations"] = batch.training_iterations
    group.attrs["training_digest"] = batch.training_digest
    group.attrs["pending"] = np.array(batch.pending, dtype="i8")
    group.attrs["first_row"] = first
    group.attrs["rows"] = rows
    group.attrs["previous"] = str(file.attrs["digest"])
    if surrogate is not None:
        with our_own(surrogate) as source:
            _append_surrogate(file, batch.iteration, source)
    progress.write(group, ran, PACKING)
    group.attrs["digest"] = iteration_digest(file, group)
    file.attrs["digest"] = group.attrs["digest"]
    file.attrs["iterations"] = batch.iteration + 1
    file.attrs["rows"] = first + rows


def _append_surrogate(file: h5py.File, t: int, source: h5py.File) -> None:
    """Append the results of iteration t's fit.

    Its rows exist already, so append its predictions of them too.
    """
    if outdated := _outdated(file, t):
        del file[outdated]  # HDF5 reuses the room for the next model while the file is open
    target = file.create_group(f"iterations/{t}/surrogate")
    _copy_packed(source, target)
    # The attribute is set only for a fit of this run: a copy from an archive may lack its model.
    if "kept" not in source.attrs or "model" not in source:
        return
    if source.attrs["kept"] == "last":
        target.attrs["model_digest"] = model_digest(source["model"])
    if predictions.NAME not in source and not _is_empty(source["model"]):
        from dngo.surrogates import Model

        found = predictions.of_iteration(file, Model.load(source["model"]), t)
        if found:
            predictions.write(target, found, **PACKING)


def _is_empty(model: h5py.Group) -> bool:
    """Whether a model is empty, like a baseline's. This avoids loading it."""
    return not int(model.attrs["components"]) and not len(model["constraints"])


def _copy_packed(source: h5py.Group, target: h5py.Group) -> None:
    """Copy a group's content; numbers are packed without loss.

    Networks train in single precision but are stored in double, so half of their bytes are zero.
    """
    for name, value in source.attrs.items():
        target.attrs[name] = value
    for name, item in source.items():
        if isinstance(item, h5py.Group):
            _copy_packed(item, target.create_group(name))
        elif item.dtype.kind == "O" or item.nbytes < LEAST_PACKED:
            source.copy(name, target)
        else:
            packed = target.create_dataset(name, data=item[()], **PACKING)
            for key, value in item.attrs.items():
                packed.attrs[key] = value


def _append_rows(
    file: h5py.File, space: Space, proposals: list[Proposal], outcomes: list[Outcome], first: int
) -> None:
    """Append proposals and their outcomes, from row `first` on."""
    v = space.from_parameters([p.parameters for p in proposals])
    p, o = file["proposals"], file["outcomes"]
    for name, before in layout.OPTIONAL_COLUMNS.items():
        if name not in p:
            _column(p, name, layout.PROPOSAL_COLUMNS[name])
            _extend(p[name], 0, [before] * first)
    needed = _statuses(outcomes)
    if not _knows(o["status"], needed):
        before = o["status"][:first]
        del o["status"]
        _column(o, "status", needed)
        _extend(o["status"], 0, before)
    for name in layout.PROPOSAL_COLUMNS:
        values = [getattr(q, name) for q in proposals]
        if name == "origin":
            values = [json.dumps(v, sort_keys=True) if v else "" for v in values]
        _extend(p[name], first, values)
    _extend(p["v"], first, v)
    _extend(p["x"], first, space.encode(v) if proposals else np.empty((0, space.d)))
    for column in space.columns:
        missing = np.nan if column.choices is None else ""
        values = [q.parameters.get(column.name, missing) for q in proposals]
        if column.choices is not None:
            values = [x if isinstance(x, str) else json.dumps(x) for x in values]
        _extend(p["parameters"][column.name], first, values)
    for name in layout.OUTCOME_COLUMNS:
        values = [getattr(q, name) for q in outcomes]
        if name == "status":
            values = [STATUSES.index(s) for s in values]
        elif name == "metadata":
            values = [json.dumps(storable_tree(m, DEPTH), sort_keys=True) for m in values]
        _extend(o[name], first, values)
    of_outcomes = ("constraints", "numbers", *layout.OUTCOME_GROUPS)
    groups: list[tuple[Any, Any, str]] = [(p, proposals, group) for group in layout.PROPOSAL_GROUPS]
    for table, records, group in [*groups, *((o, outcomes, group) for group in of_outcomes)]:
        unknown = -1 if group == "constraints" else np.nan
        for name in table.get(group, ()):
            values = [getattr(q, group).get(name, unknown) for q in records]
            _extend(table[group][name], first, values)


def _statuses(outcomes: list[Outcome]) -> Any:
    """The type of a column that can hold the statuses of these outcomes."""
    return layout.ALL_STATUS if any(q.status == STOPPED for q in outcomes) else layout.STATUS


def _knows(status: h5py.Dataset, needed: Any) -> bool:
    """Whether a column of statuses has all names of the needed type."""
    return len(h5py.check_enum_dtype(status.dtype)) >= len(h5py.check_enum_dtype(needed))


def _extend(dataset: h5py.Dataset, first: int, values: Any) -> None:
    if len(values) == 0:
        return
    dataset.resize(first + len(values), axis=0)
    if dataset.dtype.kind == "O":
        values = np.array([storable(value) for value in values], dtype=object)
    dataset[first:] = values
