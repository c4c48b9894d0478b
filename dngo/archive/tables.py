"""The archive: one HDF5 file per study, append-only, the system of record.

Layout (format 1), readable by plain h5py::

    /                      attributes: format_version, identity (JSON), rows, iterations, digest
    /proposals/            one row per proposal, in the order (iteration, slot)
        iteration slot source value mean std feasibility num_pending runner_up
        parameters/NAME    natural values; numbers are NaN, choices "" where inactive
        v  x               rows as matrices: natural values, and the model's inputs
    /outcomes/             the same rows
        status objective noise duration attempts host job started finished message metadata
        constraints/NAME   1 satisfied, 0 violated, -1 unknown
    /iterations/T/         attributes: config, environment, merged (environment of the merge), seed,
                           spawn_key, training_iterations, training_digest, pending, first_row,
                           rows, points_per_job, previous, digest;  surrogate/ the model
    /transfer/I/           evaluations of earlier studies (`dngo.archive.transfer`), if there are any

Only `append` writes: it copies the file, appends to the copy, and renames it over the original, so
that a crash leaves the old archive or the new one. Each iteration's digest covers its own rows, its
attributes, its surrogate and the digest before: a chain in which every altered value shows.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np
from pydantic import TypeAdapter

from dngo.batch import STATUSES, Batch, Outcome, Proposal
from dngo.errors import UserError
from dngo.space import Space
from dngo.space.parameters import AnyParameter
from dngo.storage.claim import Claim
from dngo.storage.digest import digest, digest_parameters
from dngo.storage.files import replacing

if TYPE_CHECKING:
    from dngo.surrogates import Model

FORMAT_VERSION = 1
_TEXT = h5py.string_dtype("utf-8")
_STATUS = h5py.enum_dtype({s: i for i, s in enumerate(STATUSES)}, basetype="u1")
_PROPOSAL_COLUMNS: dict[str, Any] = {
    "iteration": "i8",
    "slot": "i8",
    "source": _TEXT,
    "value": "f8",
    "mean": "f8",
    "std": "f8",
    "feasibility": "f8",
    "num_pending": "i8",
    "runner_up": "f8",
}
_OUTCOME_COLUMNS: dict[str, Any] = {
    "status": _STATUS,
    "objective": "f8",
    "noise": "f8",
    "duration": "f8",
    "attempts": "i8",
    "host": _TEXT,
    "job": _TEXT,
    "started": "f8",
    "finished": "f8",
    "message": _TEXT,
    "metadata": _TEXT,
}


@dataclass(frozen=True)
class Header:
    """What an archive holds, read without touching its tables."""

    identity: dict[str, Any]
    rows: int
    iterations: int
    digest: str


@dataclass(frozen=True)
class Table:
    """The rows of an archive up to some iteration, as arrays of equal length n.

    v: (n, k), x: (n, d); status: (n,) names; objective, noise, duration: (n,), NaN if unknown;
    constraints: name to (n,) of 1, 0 or NaN; iteration, slot: (n,) integers.
    """

    iteration: np.ndarray
    slot: np.ndarray
    v: np.ndarray
    x: np.ndarray
    status: np.ndarray
    objective: np.ndarray
    noise: np.ndarray
    duration: np.ndarray
    constraints: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.iteration)


@contextlib.contextmanager
def reading(path: Path) -> Iterator[h5py.File]:
    """An archive opened to be read; raises UserError if it is missing, damaged or too new."""
    # Readers take no lock: the writer replaces the file, and an open reader keeps the old one.
    try:
        with h5py.File(path, "r", locking=False) as file:
            _check_format(path, file)
            yield file
    except FileNotFoundError:
        raise UserError(f"{path}: there is no such archive") from None
    except (OSError, KeyError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise UserError(
            f"{path}: cannot be read as an archive, it is truncated, damaged or another kind of "
            f"file ({reason}); nothing was changed, put a good copy in its place"
        ) from None


def _check_format(path: Path, file: h5py.File) -> None:
    version = file.attrs.get("format_version")
    if version is None:
        raise UserError(f"{path}: is an HDF5 file but not a dngo archive; nothing was changed")
    if version > FORMAT_VERSION:
        raise UserError(
            f"{path}: has format {version}, and this dngo reads up to {FORMAT_VERSION}; "
            "update dngo; nothing was changed"
        )


def read_header(path: Path, identity: dict[str, Any] | None = None) -> Header | None:
    """The header of the archive in `path`, or None if there is no file.

    identity: what the archive must belong to (`Config.identity`); raises UserError otherwise.
    """
    if not path.exists():
        return None
    with reading(path) as file:
        header = Header(
            identity=json.loads(file.attrs["identity"]),
            rows=int(file.attrs["rows"]),
            iterations=int(file.attrs["iterations"]),
            digest=str(file.attrs["digest"]),
        )
    if identity is not None:
        _check_identity(path, header.identity, identity)
    return header


def _check_identity(path: Path, found: dict[str, Any], wanted: dict[str, Any]) -> None:
    words = {"study": "study", "direction": "direction", "constraints": "constraints"}
    for key, word in words.items():
        if found.get(key) != wanted[key]:
            raise UserError(
                f"{path}: belongs to a study with {word} {found.get(key)!r}, and the configuration "
                f"says {wanted[key]!r}; give the study another name, or put the old value back"
            )
    if found.get("transfer", []) != wanted.get("transfer", []):
        raise UserError(
            f"{path}: was made with transfer {found.get('transfer', [])}, and the configuration says "
            f"{wanted.get('transfer', [])}; it cannot change: put the old value back (the files "
            "themselves are not needed any more), or give the study another name"
        )
    if found.get("space") != wanted["space"]:
        names = sorted({*found["space"], *wanted["space"]})
        changed = [n for n in names if found["space"].get(n) != wanted["space"].get(n)]
        raise UserError(
            f"{path}: the search space of a study cannot change, and {', '.join(changed)[:200]} "
            "did; give the study another name, or put the old space back"
        )


def read_space(path: Path) -> Space:
    """The search space that an archive was made with: it needs no configuration to be read."""
    header = read_header(path)
    if header is None:
        raise UserError(f"{path}: there is no such archive")
    parameters = TypeAdapter(dict[str, AnyParameter]).validate_python(header.identity["space"])
    return Space(dict(parameters))


def read_table(path: Path, *, iterations: int | None = None) -> Table:
    """The rows of the first `iterations` iterations (all of them if None)."""
    with reading(path) as file:
        rows = int(file.attrs["rows"])
        if iterations is not None and iterations < int(file.attrs["iterations"]):
            rows = int(file[f"iterations/{iterations}"].attrs["first_row"])
        p, o = file["proposals"], file["outcomes"]
        flags = {n: o["constraints"][n][:rows].astype(float) for n in o["constraints"]}
        return Table(
            iteration=p["iteration"][:rows],
            slot=p["slot"][:rows],
            v=p["v"][:rows],
            x=p["x"][:rows],
            status=np.array(STATUSES)[o["status"][:rows]],
            objective=o["objective"][:rows],
            noise=o["noise"][:rows],
            duration=o["duration"][:rows],
            constraints={n: np.where(f < 0, np.nan, f) for n, f in flags.items()},
        )


def read_metadata(path: Path, *, iterations: int | None = None) -> list[dict[str, Any]]:
    """What the objective reported beside its value: a dict for each row of `read_table`."""
    with reading(path) as file:
        rows = int(file.attrs["rows"])
        if iterations is not None and iterations < int(file.attrs["iterations"]):
            rows = int(file[f"iterations/{iterations}"].attrs["first_row"])
        return [json.loads(text) for text in file["outcomes/metadata"].asstr()[:rows]]


def iteration_attributes(path: Path, iteration: int) -> dict[str, Any]:
    """The attributes of one merged iteration: its configuration, digests and environment."""
    with reading(path) as file:
        return {k: _plain(v) for k, v in file[f"iterations/{iteration}"].attrs.items()}


def read_batch(path: Path, iteration: int, space: Space) -> Batch:
    """The batch of a merged iteration, as it was proposed."""
    attributes = iteration_attributes(path, iteration)
    first, rows = attributes["first_row"], attributes["rows"]
    part = slice(first, first + rows)
    with reading(path) as file:
        p = file["proposals"]
        columns = {n: _values(p[n], part) for n in _PROPOSAL_COLUMNS}
        parameters = space.to_parameters(p["v"][part])
    proposals = [
        Proposal(parameters=parameters[i], **{n: c[i] for n, c in columns.items()})
        for i in range(rows)
    ]
    return Batch(
        iteration=iteration,
        config=json.loads(attributes["config"]),
        points_per_job=attributes["points_per_job"],
        seed=attributes["seed"],
        spawn_key=attributes["spawn_key"],
        training_iterations=attributes["training_iterations"],
        training_digest=attributes["training_digest"],
        pending=attributes["pending"],
        environment=json.loads(attributes["environment"]),
        proposals=proposals,
    )


def read_outcomes(path: Path, batch: Batch) -> list[Outcome]:
    """The outcomes of a merged batch, in the order of its proposals."""
    attributes = iteration_attributes(path, batch.iteration)
    first, rows = attributes["first_row"], attributes["rows"]
    part = slice(first, first + rows)
    with reading(path) as file:
        o = file["outcomes"]
        columns = {n: _values(o[n], part) for n in _OUTCOME_COLUMNS}
        flags = {n: o["constraints"][n][part] for n in o["constraints"]}
    outcomes = []
    for i, proposal in enumerate(batch.proposals):
        fields = {n: c[i] for n, c in columns.items()}
        fields["metadata"] = json.loads(fields["metadata"])
        fields["status"] = STATUSES[fields["status"]]
        outcomes.append(
            Outcome(
                iteration=proposal.iteration,
                slot=proposal.slot,
                parameters_digest=digest_parameters(proposal.parameters),
                constraints={n: int(f[i]) for n, f in flags.items() if f[i] >= 0},
                **fields,
            )
        )
    return outcomes


def read_surrogate(path: Path, iteration: int) -> tuple[Model | None, dict[str, Any]]:
    """The surrogate that a merged iteration was proposed with, if any, and its settings."""
    from dngo.surrogates import Model

    with reading(path) as file:
        group = file[f"iterations/{iteration}"]
        if "surrogate" not in group:
            return None, {}
        group = group["surrogate"]
        return Model.load(group["model"]), json.loads(group.attrs["settings"])


def copy_surrogate(path: Path, iteration: int, to: Path) -> None:
    """Write the surrogate that a merged iteration was proposed with as a file of its own."""
    with (
        reading(path) as file,
        replacing(to) as temporary,
        h5py.File(temporary, "w") as target,
    ):
        group = file[f"iterations/{iteration}"]
        if "surrogate" in group:
            for name, value in group["surrogate"].attrs.items():
                target.attrs[name] = value
            for name in group["surrogate"]:
                group["surrogate"].copy(name, target)


def append(
    path: Path,
    *,
    identity: dict[str, Any],
    space: Space,
    batch: Batch,
    outcomes: list[Outcome],
    surrogate: Path | None,
    environment: dict[str, Any] | None = None,
    transfer: Path | None = None,
    wait: float = 600.0,
) -> dict[str, Any]:
    """Append one iteration; the receipt says what the archive was and is.

    environment: where and when this is done (`dngo.provenance`), recorded with it.
    transfer: a file with the group of that name for a new archive (`dngo.archive.transfer`).
    Idempotent: an iteration that the archive holds already is left as it is, and its receipt
    returned. One writer at a time: waits up to `wait` seconds for another.
    Raises UserError if the archive belongs to another study or an iteration before is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with Claim(path.with_name(f".{path.name}.claim")).held(wait=wait, what=f"{path}"):
            header = read_header(path, identity)
            merged = header.iterations if header else 0
            if batch.iteration < merged:
                return receipt(path, batch.iteration)
            if batch.iteration > merged:
                raise UserError(
                    f"{path}: holds {merged} iterations, so iteration {batch.iteration} cannot "
                    f"follow; type the same command again"
                )
            with replacing(path) as temporary:
                if header:
                    shutil.copyfile(path, temporary)
                with h5py.File(temporary, "r+" if header else "w", locking=False) as file:
                    if not header:
                        _create(file, identity, space, transfer)
                    _append(file, space, batch, outcomes, surrogate, environment or {})
    except TimeoutError as error:
        raise UserError(f"{error}; a study has one writer at a time") from None
    return receipt(path, batch.iteration)


def receipt(path: Path, iteration: int) -> dict[str, Any]:
    """What merge declares: iteration, its rows, the archive's digest after it and before it."""
    attributes = iteration_attributes(path, iteration)
    return {
        "iteration": iteration,
        "first_row": attributes["first_row"],
        "rows": attributes["rows"],
        "digest": attributes["digest"],
        "previous": attributes["previous"],
        "merged": json.loads(attributes["merged"]),
    }


def prefix_digest(path: Path, iterations: int) -> str:
    """Digest of the archive when it held `iterations` iterations."""
    with reading(path) as file:
        if iterations == 0:
            return _genesis(file)
        return str(file[f"iterations/{iterations - 1}"].attrs["digest"])


def verify(path: Path) -> list[str]:
    """Check the chain of digests; one line for each thing that does not fit, none if all is well."""
    problems: list[str] = []
    with reading(path) as file:
        previous, row = _genesis(file), 0
        iterations = int(file.attrs["iterations"])
        for t in range(iterations):
            group = file.get(f"iterations/{t}")
            if group is None:
                problems.append(f"iteration {t}: its record is missing")
                break
            first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
            if first != row:
                problems.append(f"iteration {t}: starts at row {first}, and row {row} was expected")
            if str(group.attrs["previous"]) != previous:
                problems.append(f"iteration {t}: does not follow the digest of the one before")
            found = _iteration_digest(file, group)
            if found != str(group.attrs["digest"]):
                problems.append(
                    f"iteration {t} (rows {first} to {first + rows - 1}): its values do not have "
                    "the digest that was recorded"
                )
            previous, row = str(group.attrs["digest"]), first + rows
        if str(file.attrs["digest"]) != previous:
            problems.append("the archive's digest is not that of its last iteration")
        if int(file.attrs["rows"]) != row:
            problems.append(f"the archive counts {file.attrs['rows']} rows, and has {row}")
        if set(file["iterations"]) != {str(t) for t in range(iterations)}:
            problems.append(f"the archive counts {iterations} iterations, and has other ones")
        for name in ("proposals", "outcomes"):
            for column in _datasets(file[name]):
                if len(column) != row:
                    problems.append(
                        f"{column.name}: has {len(column)} rows, and {row} are expected"
                    )
    return problems


# ---- inside -------------------------------------------------------------------------------------


def _create(
    file: h5py.File,
    identity: dict[str, Any],
    space: Space,
    transfer: Path | None,
) -> None:
    file.attrs["format"] = "dngo archive"
    file.attrs["format_version"] = FORMAT_VERSION
    file.attrs["identity"] = json.dumps(identity)
    file.attrs["rows"] = 0
    file.attrs["iterations"] = 0
    proposals, outcomes = file.create_group("proposals"), file.create_group("outcomes")
    for name, dtype in _PROPOSAL_COLUMNS.items():
        _column(proposals, name, dtype)
    for name, dtype in _OUTCOME_COLUMNS.items():
        _column(outcomes, name, dtype)
    _column(proposals, "v", "f8", space.k)
    _column(proposals, "x", "f8", space.d)
    parameters = proposals.create_group("parameters")
    for column in space.columns:
        _column(parameters, column.name, "f8" if column.choices is None else _TEXT)
    flags = outcomes.create_group("constraints")
    for name in identity["constraints"]:
        _column(flags, name, "i1")
    file.create_group("iterations")
    if transfer is not None:
        with h5py.File(transfer, "r", locking=False) as source:
            source.copy("transfer", file)
    file.attrs["digest"] = _genesis(file)


def _column(group: h5py.Group, name: str, dtype: Any, width: int | None = None) -> None:
    shape = () if width is None else (width,)
    rows = 256 if width is None else max(1, 2048 // max(width, 1))
    group.create_dataset(
        name,
        (0, *shape),
        maxshape=(None, *shape),
        dtype=dtype,
        chunks=(rows, *(max(s, 1) for s in shape)),
    )


def _append(
    file: h5py.File,
    space: Space,
    batch: Batch,
    outcomes: list[Outcome],
    surrogate: Path | None,
    environment: dict[str, Any],
) -> None:
    first, rows = int(file.attrs["rows"]), len(batch.proposals)
    v = space.from_parameters([p.parameters for p in batch.proposals])
    p, o = file["proposals"], file["outcomes"]
    for name in _PROPOSAL_COLUMNS:
        _extend(p[name], first, [getattr(q, name) for q in batch.proposals])
    _extend(p["v"], first, v)
    _extend(p["x"], first, space.encode(v) if rows else np.empty((0, space.d)))
    for column in space.columns:
        missing = np.nan if column.choices is None else ""
        values = [q.parameters.get(column.name, missing) for q in batch.proposals]
        if column.choices is not None:
            values = [x if isinstance(x, str) else json.dumps(x) for x in values]
        _extend(p["parameters"][column.name], first, values)
    for name in _OUTCOME_COLUMNS:
        values = [getattr(q, name) for q in outcomes]
        if name == "status":
            values = [STATUSES.index(s) for s in values]
        elif name == "metadata":
            values = [json.dumps(m, sort_keys=True) for m in values]
        _extend(o[name], first, values)
    for name in o["constraints"]:
        _extend(o["constraints"][name], first, [q.constraints.get(name, -1) for q in outcomes])

    group = file.create_group(f"iterations/{batch.iteration}")
    group.attrs["config"] = json.dumps(batch.config)
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
        with h5py.File(surrogate, "r", locking=False) as source:
            target = group.create_group("surrogate")
            for name, value in source.attrs.items():
                target.attrs[name] = value
            for name in source:
                source.copy(name, target)
    group.attrs["digest"] = _iteration_digest(file, group)
    file.attrs["digest"] = group.attrs["digest"]
    file.attrs["iterations"] = batch.iteration + 1
    file.attrs["rows"] = first + rows


def _extend(dataset: h5py.Dataset, first: int, values: Any) -> None:
    if len(values) == 0:
        return
    dataset.resize(first + len(values), axis=0)
    if dataset.dtype.kind == "O":
        values = np.array(values, dtype=object)
    dataset[first:] = values


def _datasets(group: h5py.Group) -> list[h5py.Dataset]:
    found: list[h5py.Dataset] = []
    for name in sorted(group):
        item = group[name]
        found += [item] if isinstance(item, h5py.Dataset) else _datasets(item)
    return found


def _genesis(file: h5py.File) -> str:
    kept = ("format", "format_version", "identity")
    header = {k: _plain(file.attrs[k]) for k in kept}
    return digest(header, contents(file["transfer"])) if "transfer" in file else digest(header)


def _iteration_digest(file: h5py.File, group: h5py.Group) -> str:
    first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
    part = slice(first, first + rows)
    tables = {
        d.name: d.asstr()[part] if d.dtype.kind == "O" else d[part]
        for name in ("proposals", "outcomes")
        for d in _datasets(file[name])
    }
    attributes = {k: _plain(v) for k, v in group.attrs.items() if k != "digest"}
    model = contents(group["surrogate"]) if "surrogate" in group else {}
    return digest(tables, attributes, model)


def contents(item: h5py.Group | h5py.Dataset, name: str = "") -> dict[str, Any]:
    """Every dataset ("/a/b") and attribute ("/a/b@c") below a group, by name."""
    found = {f"{name}@{key}": _plain(value) for key, value in item.attrs.items()}
    if isinstance(item, h5py.Dataset):
        found[name] = item.asstr()[()] if item.dtype.kind == "O" else item[()]
    else:
        for key in item:
            found |= contents(item[key], f"{name}/{key}")
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def _values(dataset: h5py.Dataset, part: slice) -> list[Any]:
    values = dataset.asstr()[part] if dataset.dtype.kind == "O" else dataset[part]
    return values.tolist()
