"""Reading an archive: nothing here writes."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from dngo.archive import layout
from dngo.archive.digests import genesis_digest
from dngo.archive.identity import check_identity
from dngo.archive.progress import fields as reported
from dngo.archive.structure import check_archive, check_header, check_structure, space_of
from dngo.batch import INVALID, RAN, STATUSES, TOLD, Batch, Context, Outcome, Proposal
from dngo.errors import AlteredArchive, UserError
from dngo.redaction import each_text, redacted
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.storage import hdf5
from dngo.storage.digest import digest_parameters
from dngo.thresholds import Threshold
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.surrogates import Model


@dataclass(frozen=True)
class Header:
    """What an archive holds, read without touching its tables."""

    identity: dict[str, Any]
    rows: int
    iterations: int
    digest: str


_OUTCOME_NUMBERS = ("objective", "noise", "duration")


@dataclass(frozen=True)
class Table:
    """The rows of an archive up to some iteration, as arrays of equal length n.

    v: (n, k), x: (n, d); status: (n,) names;
    objective, noise, duration: (n,), NaN if unknown;
    constraints: name to (n,) of 1, 0 or NaN;
    iteration, slot: (n,) integers.
    numbers: name to (n,) of the reported numbers of constraints with a threshold, or NaN.
    told: (n,) bool, whether an outcome comes from elsewhere.
    objectives, noises: for each of several objectives, name to (n,) of its values and its noise, in
    its own units; `objective` is then NaN.
    stage: (n,) objects, names of the stages that picked the points, empty if unknown.
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
    told: np.ndarray
    stage: np.ndarray
    numbers: dict[str, np.ndarray] = field(default_factory=dict)
    objectives: dict[str, np.ndarray] = field(default_factory=dict)
    noises: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        space: Space,
        told: Sequence[tuple[Proposal, Outcome]],
        constraints: Iterable[str],
        numbers: Iterable[str],
        objectives: Iterable[str],
    ) -> Table:
        """Proposals and outcomes that no archive has, as rows; the rest are the names in a study."""
        proposals, outcomes = [p for p, _ in told], [o for _, o in told]
        v = space.from_parameters([p.parameters for p in proposals])

        def column(kind: str, name: str) -> np.ndarray:
            return np.array([getattr(o, kind).get(name, np.nan) for o in outcomes], dtype=float)

        return cls(
            iteration=np.array([p.iteration for p in proposals], dtype=int),
            slot=np.array([p.slot for p in proposals], dtype=int),
            v=v,
            x=space.encode(v),
            status=np.array([o.status for o in outcomes], dtype=str),
            **{n: np.array([getattr(o, n) for o in outcomes]) for n in _OUTCOME_NUMBERS},
            constraints={n: column("constraints", n) for n in constraints},
            numbers={n: column("numbers", n) for n in numbers},
            objectives={n: column("objectives", n) for n in objectives},
            noises={n: column("noises", n) for n in objectives},
            told=np.ones(len(told), dtype=bool),
            stage=np.array([p.stage for p in proposals], dtype=str),
        )

    @property
    def has_objective(self) -> np.ndarray:
        """Whether the objective, or each of several objectives, is known: (n,) bool."""
        known = [np.isfinite(values) for values in self.objectives.values()]
        return np.all(known, axis=0) if known else np.isfinite(self.objective)

    def counting(self, ladder: Ladder | None = None) -> np.ndarray:
        """Which rows may be the best, or on the front: (n,) bool.

        These are the ok rows. In a study with a fidelity they are those at the highest level reached.
        """
        ok = (self.status == "ok") & self.has_objective
        return ok if ladder is None else ladder.counts(self.v, ok)

    def of_objective(self, name: str) -> Table:
        """The same rows with one of several objectives as the only one."""
        return replace(
            self, objective=self.objectives[name], noise=self.noises[name], objectives={}, noises={}
        )

    def outcomes(self, units: Mapping[str, Units], rows: np.ndarray | None = None) -> np.ndarray:
        """Several objectives, inward: (n, m), a column for each of `units`, NaN unless ok.

        rows: (n,) bool, the rows that get values; by default those with status ok.
        """
        values = np.column_stack([u.inward(self.objectives[name]) for name, u in units.items()])
        kept = self.status == "ok" if rows is None else rows
        return np.where(kept[:, None], values, np.nan)

    def __len__(self) -> int:
        return len(self.iteration)

    def id(self, row: int) -> str:
        """The id of a row's proposal: iteration and slot."""
        return f"{self.iteration[row]}-{self.slot[row]}"

    def judged(self, thresholds: Mapping[str, Threshold]) -> Table:
        """The same rows, with flags and status judged anew by these thresholds.

        A threshold may change while a study goes on. The archive judged each row by the threshold
        at the time of its merge.
        """
        flags = dict(self.constraints)
        for name, number in self.numbers.items():
            if name in thresholds:
                kept = thresholds[name].keeps(number).astype(float)
                flags[name] = np.where(np.isnan(number), flags[name], kept)
        broken = np.any([flag == 0 for flag in flags.values()], axis=0)
        unknown = np.any([np.isnan(flag) for flag in flags.values()], axis=0)
        # A fork may begin with outcomes of a study that did not ask for each constraint. For these
        # it counts as kept. Any other outcome reported what it could.
        begun = self.told & (self.iteration == 0)
        lacks = unknown & (self.status != "ok") & ~begun
        held = np.where(self.has_objective & ~lacks, "ok", INVALID)
        ran = np.isin(self.status, RAN) | ((self.status == INVALID) & self.has_objective & ~begun)
        status = np.where(ran, np.where(broken, "infeasible", held), self.status)
        return replace(self, constraints=flags, status=status)

    def with_told(self, space: Space, told: Sequence[tuple[Proposal, Outcome]]) -> Table:
        """The same table with further rows for outcomes from elsewhere."""
        if not told:
            return self
        further = Table.of(space, told, self.constraints, self.numbers, self.objectives)

        def joined(before: Any, after: Any) -> Any:
            if isinstance(before, dict):
                return {n: joined(before[n], after[n]) for n in before}
            return np.concatenate([before, after])

        return Table(
            **{
                f.name: joined(getattr(self, f.name), getattr(further, f.name))
                for f in fields(self)
            }
        )


_open: ContextVar[Mapping[Path, h5py.File]] = ContextVar("archives that a block reads")
_tables: ContextVar[dict[Any, Table]] = ContextVar("what it has read of them")


@contextlib.contextmanager
def reading(path: Path, *, as_it_is: bool = False) -> Iterator[h5py.File]:
    """Check an archive, and open it for reading.

    Within such a block, all functions that read the same path read the same file, even if another
    one replaces it. They read a table only once. as_it_is: also if its values were altered.
    Raises UserError if the archive is missing, damaged, altered or too new.
    """
    held = _open.get({})
    if path in held:
        yield held[path]
        return
    with _opened(path, check_structure if as_it_is else check_archive) as file:
        token, tables = _open.set({**held, path: file}), _tables.set({})
        try:
            yield file
        finally:
            _open.reset(token)
            _tables.reset(tables)


def check(path: Path) -> None:
    """Raise UserError if there is an archive that is damaged, altered or too new.

    A process looks at each file once, until it changes.
    """
    if path.exists():
        with reading(path):
            pass


@contextlib.contextmanager
def _opened(path: Path, check: hdf5.Check) -> Iterator[h5py.File]:
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(hdf5.opened(path, check, whole=check_archive))
            _check_format(path, file)
        except FileNotFoundError:
            raise UserError(f"{path}: there is no such archive") from None
        except hdf5.Altered as error:
            raise AlteredArchive(path, str(error)) from None
        except (OSError, hdf5.Unsound) as error:
            raise UserError(
                f"{path}: cannot be read as an archive: it is truncated, damaged or another "
                f"kind of file ({hdf5.reason(error)}); nothing was changed; put a good copy "
                "in its place"
            ) from None
        yield file


def _check_format(path: Path, file: h5py.File) -> None:
    version = file.attrs.get("format_version")
    if version is None:
        raise UserError(f"{path}: is an HDF5 file but not a dngo archive; nothing was changed")
    if version > layout.FORMAT_VERSION:
        raise UserError(
            f"{path}: has format {version}, but this dngo reads formats up to "
            f"{layout.FORMAT_VERSION}; nothing was changed; update dngo"
        )


def read_header(path: Path, identity: dict[str, Any] | None = None) -> Header | None:
    """The header of the archive in `path`, or None if there is no file.

    identity: of the study that the archive must belong to (`Config.identity`).
    Raises UserError if it belongs to another one. Raises UserError also for a link that leads
    nowhere, for example to a disk that is not mounted: a new study must not begin there.
    """
    if not path.exists():
        if path.is_symlink():
            raise UserError(
                f"{path}: is a link to {path.readlink()}, which does not exist; restore "
                "that file, or remove the link"
            )
        return None
    # Within a block that reads the whole archive, take the block's. Otherwise read only the header.
    held = path in _open.get({})
    with reading(path) if held else _opened(path, check_header) as file:
        header = Header(
            identity=json.loads(file.attrs["identity"]),
            rows=int(file.attrs["rows"]),
            iterations=int(file.attrs["iterations"]),
            digest=str(file.attrs["digest"]),
        )
    if identity is not None:
        check_identity(path, header.identity, identity)
    return header


def read_space(path: Path) -> Space:
    """The search space in an archive. Reading it needs no configuration."""
    header = read_header(path)
    if header is None:
        raise UserError(f"{path}: there is no such archive")
    return space_of(header.identity)


def read_table(
    path: Path, *, iterations: int | None = None, thresholds: Mapping[str, Threshold] | None = None
) -> Table:
    """The rows of the first `iterations` iterations (all of them if None).

    thresholds: judge the numbers by these; None: keep the judgements of the merge.
    """
    with reading(path) as file:
        rows, kept = rows_of(file, iterations), _tables.get()
        key = path, rows, str(thresholds and sorted(map(str, thresholds.items())))
        if key not in kept:
            kept[key] = _read_table(file, rows, thresholds or {})
        return kept[key]


def _read_table(file: h5py.File, rows: int, thresholds: Mapping[str, Threshold]) -> Table:
    p, o = file["proposals"], file["outcomes"]
    flags = {n: o["constraints"][n][:rows].astype(float) for n in o["constraints"]}
    table = Table(
        iteration=p["iteration"][:rows],
        slot=p["slot"][:rows],
        v=p["v"][:rows],
        x=p["x"][:rows],
        status=np.array(STATUSES)[o["status"][:rows]],
        objective=o["objective"][:rows],
        noise=o["noise"][:rows],
        duration=o["duration"][:rows],
        constraints={n: np.where(f < 0, np.nan, f) for n, f in flags.items()},
        numbers={n: o["numbers"][n][:rows] for n in o.get("numbers", ())},
        objectives={n: o["objectives"][n][:rows] for n in o.get("objectives", ())},
        noises={n: o["noises"][n][:rows] for n in o.get("noises", ())},
        told=np.isin(layout.words(p["source"], rows), TOLD),
        stage=layout.words(p["stage"], rows) if "stage" in p else np.full(rows, "", dtype=object),
    )
    return table.judged(thresholds) if thresholds and len(table) else table


def iteration_attributes(path: Path, iteration: int) -> dict[str, Any]:
    """The attributes of one merged iteration: its configuration, digests and environment."""
    with reading(path) as file:
        return {k: layout.plain(v) for k, v in file[f"iterations/{iteration}"].attrs.items()}


def read_batch(path: Path, iteration: int, space: Space) -> Batch:
    """The batch of a merged iteration, as the stage proposed it."""
    attributes = iteration_attributes(path, iteration)
    first, rows = attributes["first_row"], attributes["rows"]
    part = slice(first, first + rows)
    with reading(path) as file:
        p = file["proposals"]
        columns = {n: layout.values_of(p[n], part) for n in layout.PROPOSAL_COLUMNS if n in p}
        if "origin" in columns:
            columns["origin"] = [json.loads(text) if text else {} for text in columns["origin"]]
        parameters = space.to_parameters(p["v"][part])
        several: dict[str, Any] = {g: layout.group_of(p, g, part) for g in layout.PROPOSAL_GROUPS}
    proposals = [
        Proposal(
            parameters=parameters[i],
            **{n: c[i] for n, c in columns.items()},
            **{g: found[i] for g, found in several.items() if found},
        )
        for i in range(rows)
    ]
    batch = Batch(
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
        versions=json.loads(attributes.get("versions", "{}")),
        outlook=json.loads(attributes.get("outlook", "{}")),
    )
    if not any(p.told for p in proposals):
        return batch
    return replace(batch, told=[o for o in read_outcomes(path, batch) if proposals[o.slot].told])


def read_told(path: Path, iteration: int) -> list[tuple[Proposal, Outcome]]:
    """Outcomes from elsewhere that a fit knew in addition to its training iterations."""
    with reading(path) as file:
        recorded = file.get(f"iterations/{iteration}/surrogate/told")
        return [] if recorded is None else Context.parse_told(recorded.asstr()[()])


def read_outcomes(path: Path, batch: Batch) -> list[Outcome]:
    """The outcomes of a merged batch, in the order of its proposals.

    Earlier releases may have stored secrets; this leaves out what looks like one.
    """
    attributes = iteration_attributes(path, batch.iteration)
    first, rows = attributes["first_row"], attributes["rows"]
    part = slice(first, first + rows)
    with reading(path) as file:
        o = file["outcomes"]
        columns = {n: layout.values_of(o[n], part) for n in layout.OUTCOME_COLUMNS}
        flags = {n: o["constraints"][n][part] for n in o["constraints"]}
        numbers = {n: o["numbers"][n][part] for n in o.get("numbers", ())}
        several: dict[str, Any] = {g: layout.group_of(o, g, part) for g in layout.OUTCOME_GROUPS}
        progress = reported(file[f"iterations/{batch.iteration}"])
    outcomes = []
    for i, proposal in enumerate(batch.proposals):
        fields = {n: c[i] for n, c in columns.items()}
        fields["metadata"] = each_text(json.loads(fields["metadata"]), redacted)
        fields["message"] = redacted(fields["message"])
        fields["status"] = STATUSES[fields["status"]]
        outcomes.append(
            Outcome(
                iteration=proposal.iteration,
                slot=proposal.slot,
                parameters_digest=digest_parameters(proposal.parameters),
                constraints={n: int(f[i]) for n, f in flags.items() if f[i] >= 0},
                numbers={n: float(z[i]) for n, z in numbers.items() if not np.isnan(z[i])},
                **fields,
                **{g: found[i] for g, found in several.items() if found},
                **progress.get(i, {}),
            )
        )
    return outcomes


def fit_summary(path: Path, iteration: int) -> dict[str, Any]:
    """Diagnostics of an iteration's fit, or None. They stay even if the archive drops the model."""
    with reading(path) as file:
        group = file.get(f"iterations/{iteration}/surrogate")
        found = json.loads(group.attrs.get("summary", "{}")) if group is not None else {}
    return found if isinstance(found, dict) else {}


def read_surrogate(path: Path, iteration: int) -> tuple[Model | None, dict[str, Any]]:
    """The surrogate that proposed a merged iteration, if the archive holds it, and its settings.

    If the archive dropped it for a later one, `dngo.replay.surrogate` fits it again.
    """
    from dngo.surrogates import Model

    with reading(path) as file:
        group = file[f"iterations/{iteration}"]
        if "surrogate" not in group:
            return None, {}
        group = group["surrogate"]
        try:
            model = Model.load(group["model"]) if "model" in group else None
            if model is not None:
                model.try_out(file["proposals/x"].shape[1])
            return model, json.loads(group.attrs["settings"])
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise UserError(
                f"{path}: the surrogate of iteration {iteration} cannot be read ({error})"
            ) from None


def latest_surrogate(path: Path, iterations: int) -> tuple[Model | None, int]:
    """The latest surrogate that the archive holds, and the iteration that it proposed; None, 0."""
    for t in reversed(range(iterations)):
        model, _ = read_surrogate(path, t)
        if model is not None:
            return model, t
    return None, 0


def copy_surrogate(path: Path, iteration: int, to: Path) -> None:
    """Write the surrogate that proposed a merged iteration to a file of its own.

    If a later model has replaced its model, the file has no model. It does not need one: the stage
    that proposes finds the batch in the archive.
    """
    with reading(path) as file:
        surrogate = file.get(f"iterations/{iteration}/surrogate")

        def fill(target: h5py.File) -> None:
            if surrogate is not None:
                target.attrs.update(surrogate.attrs)
                for name in surrogate:
                    surrogate.copy(name, target)

        hdf5.write(to, fill)


def receipt(path: Path, iteration: int) -> dict[str, Any]:
    """The receipt of a merge: iteration, its rows, and the archive's digests after it and before it."""
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
    """The digest of the archive at the time when it held `iterations` iterations."""
    with reading(path) as file:
        if iterations == 0:
            return genesis_digest(file)
        return str(file[f"iterations/{iterations - 1}"].attrs["digest"])


def rows_of(file: h5py.File, iterations: int | None) -> int:
    """The number of rows of the first iterations (None: all)."""
    if iterations is None or iterations >= int(file.attrs["iterations"]):
        return int(file.attrs["rows"])
    return int(file[f"iterations/{iterations}"].attrs["first_row"])
