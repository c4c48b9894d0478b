"""Replay: derive an archived batch again from the archive alone, and compare.

The verdict of an iteration is one of

``identical``         every number of the surrogate and of the proposals has the same bits. If a
                      later surrogate has replaced this one in the archive, its digest is compared;
``within tolerance``  the same points, and numbers that differ by at most a relative 1e-6 (with
                      another library, for example);
``within tolerance; another processor`` other bits, because numerical libraries choose other
                      kernels on this processor. At least `SAME` of the points lie within `NEAR` of
                      their recorded places; figures say how close;
``different; another processor``  fewer points lie so close. On this processor, nothing can be said
                      about the cause;
``different``         none of the above; the first number that differs is named;
``another version``   not derived again, because this release fits or proposes in another way. The
                      release that made the batch is named;
``imported``          the points came from a file.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h5py
import numpy as np

from dngo import archive, derive
from dngo.archive.layout import PROPOSAL_GROUPS
from dngo.batch import Batch, Context, Proposal
from dngo.config import Config, upgrade, validate
from dngo.errors import UserError
from dngo.provenance import another_processor
from dngo.space import Space
from dngo.storage import hdf5

if TYPE_CHECKING:
    from dngo.surrogates import Model

TOLERANCE = 1e-6
ELSEWHERE = "; another processor"
# How much other kernels may change a batch. 324 points were derived with OpenBLAS's kernels for
# Prescott and Haswell instead of SkylakeX, and with PyTorch's without AVX512. 2 points lay
# elsewhere, the others within 8e-4, and their predictions within 0.0034 deviations.
SAME, NEAR, SHIFT = 0.75, 0.01, 0.1
# The last release with each earlier version of what makes a batch (`dngo.derive.versions`).
RELEASES = {
    (name, 1 + i): one for i, one in enumerate(("0.1.0", "0.2.0")) for name in ("fit", "proposal")
}
_NUMBERS = ("value", "mean", "std", "feasibility", "num_pending", "runner_up")


@dataclass(frozen=True)
class Comparison:
    """What a replay found: iteration, verdict, and the first difference if there is one."""

    iteration: int
    verdict: str
    difference: str = ""

    def __str__(self) -> str:
        tail = f": {self.difference}" if self.difference else ""
        return f"iteration {self.iteration}: {self.verdict}{tail}"


def replay(
    path: Path, t: int, *, progress: Callable[[float, str], None] | None = None
) -> Comparison:
    """Refit and re-propose iteration t of an archive; raises UserError if it does not hold it."""
    with archive.reading(path):
        return _replay(path, t, progress)


def _replay(path: Path, t: int, progress: Callable[[float, str], None] | None) -> Comparison:
    header = archive.read_header(path)
    if header is None or not 0 <= t < header.iterations:
        held = f"0 to {header.iterations - 1}" if header else "none"
        raise UserError(f"{path}: has no iteration {t}; it holds {held}")
    space = archive.read_space(path)
    batch = archive.read_batch(path, t, space)
    told = sum(p.told for p in batch.proposals)
    if told == len(batch.proposals):
        return Comparison(t, "imported", f"{told} points came from a file, not from a model")
    config = configuration(path, t)
    context = Context(given=[p for p in batch.proposals if p.given])
    if t == 0:
        context = replace(context, told=[(batch.proposals[o.slot], o) for o in batch.told])
        design = derive.design(config, context)
        verdict = _compare(t, [], batch.evaluated, design, space)
        return _explained(verdict, path, batch, design, space)
    iterations = batch.training_iterations
    if archive.prefix_digest(path, iterations) != batch.training_digest:
        return Comparison(
            t, "different", "the training prefix has another digest than was recorded"
        )
    baseline = config.acquisition.is_baseline
    if not baseline and (elsewhere := _made_elsewhere(path, batch)):
        return Comparison(t, "another version", elsewhere)
    context = replace(context, told=archive.read_told(path, t))
    model = _fit_again(path, batch, progress)
    pending = [p for s in batch.pending for p in archive.read_batch(path, s, space).proposals]
    context = replace(context, pending=context.without_told(pending))
    basis = derive.Basis(path, config, t, iterations, context)
    proposals = basis.propose(model, progress)
    arrays, rounding = ([], "") if baseline else _surrogates(path, t, model)
    if batch.outlook:
        looked = basis.outlook(model, proposals)
        arrays += [
            (f"outlook {name}", _array(batch.outlook[name]), _array(looked.get(name)))
            for name in sorted(batch.outlook)
        ]
    verdict = _compare(t, arrays, batch.evaluated, proposals, space)
    if rounding and verdict.verdict == "identical":
        verdict = Comparison(t, "within tolerance", rounding)
    return _explained(verdict, path, batch, proposals, space)


def _explained(
    verdict: Comparison, path: Path, batch: Batch, replayed: list[Proposal], space: Space
) -> Comparison:
    """The verdict, if another version made the batch, or another processor may have changed the bits."""
    if verdict.verdict == "identical":
        return verdict
    # Most designs and baselines are alike in all versions, so they are compared first.
    if elsewhere := _made_elsewhere(path, batch):
        return Comparison(verdict.iteration, "another version", elsewhere)
    fitted = json.loads(_fit_attributes(path, batch.iteration).get("environment", "{}"))
    found = [another_processor(made) for made in (fitted, batch.environment) if made]
    figures, same = _apart(batch.evaluated, replayed, space)
    processor = "; ".join(dict.fromkeys(filter(None, found)))
    if processor:
        name = ("within tolerance" if same else "different") + ELSEWHERE
        return replace(verdict, verdict=name, difference=f"{figures}; {processor}")
    if verdict.verdict == "different" and None in found:
        unknown = (
            f"the processor that made it is not known, and another one gives other bits: {figures}"
        )
        return replace(verdict, difference=f"{verdict.difference}; {unknown}")
    return verdict


def _apart(recorded: list[Proposal], replayed: list[Proposal], space: Space) -> tuple[str, bool]:
    """How far two batches lie apart, in words, and whether other kernels explain it."""
    if len(recorded) != len(replayed):
        return f"{len(recorded)} points were recorded, {len(replayed)} replayed", False
    x, y = (
        space.encode(space.from_parameters([p.parameters for p in points]))
        for points in (recorded, replayed)
    )
    distance = np.sqrt(np.mean((x - y) ** 2, axis=1))
    near = distance <= NEAR
    said = f"{near.sum()} of {len(near)} points lie within {NEAR:g} of where they were in the unit cube"
    if near.any():
        said += f", at most {distance[near].max():.2g} away"
    pairs = [(a, b) for a, b, n in zip(recorded, replayed, near, strict=True) if n]
    shifts = [abs(a.mean - b.mean) / a.std for a, b in pairs if a.std > 0 and np.isfinite(b.mean)]
    if shifts:
        said += f"; their predictions differ by at most {max(shifts):.2g} deviations"
    return said, bool(near.mean() >= SAME) and max(shifts, default=0.0) <= SHIFT


def _fit_again(path: Path, batch: Batch, progress: Callable[[float, str], None] | None) -> Model:
    """The surrogate of a batch, trained as it was then."""
    t = batch.iteration
    config, context = configuration(path, t, stage="fit"), Context(told=archive.read_told(path, t))
    return derive.Basis(path, config, t, batch.training_iterations, context).fit(progress)


def surrogate(
    path: Path, t: int, *, progress: Callable[[float, str], None] | None = None
) -> Model | None:
    """The surrogate that proposed iteration t of an archive; None if it has none.

    It is read from the archive. If a later one has replaced it there (`archive.surrogates: last`),
    it is read from the stage's file. If that is gone, it is fitted again, which takes as long as
    the first fit. Warns if the new fit has other bits, as it may on another machine. Raises
    UserError if another release made the fit.
    """
    with archive.reading(path):
        model, _ = archive.read_surrogate(path, t)
        wanted = _fit_attributes(path, t).get("model_digest")
        if model is not None or wanted is None:
            return model
        if (
            model := _of_the_stage(path.parent / f"iterations/{t}/surrogate.h5", wanted)
        ) is not None:
            return model
        batch = archive.read_batch(path, t, archive.read_space(path))
        if archive.prefix_digest(path, batch.training_iterations) != batch.training_digest:
            raise UserError(f"{path}: iteration {t} was trained on rows with another digest")
        if elsewhere := _made_elsewhere(path, batch):
            raise UserError(f"{path}: the surrogate of iteration {t} was {elsewhere}")
        model = _fit_again(path, batch, progress)
        with _stored(model) as group:
            if archive.model_digest(group) != wanted:
                warnings.warn(
                    f"{path}: fitted again here, the surrogate of iteration {t} has other bits than "
                    "the one that proposed it",
                    stacklevel=2,
                )
        return model


def _of_the_stage(path: Path, wanted: str) -> Model | None:
    """The model in a stage's file, if it has the wanted digest."""
    from dngo.surrogates import Model

    with contextlib.suppress(UserError, FileNotFoundError), hdf5.our_own(path) as file:
        if "model" in file and archive.model_digest(file["model"]) == wanted:
            return Model.load(file["model"])
    return None


@contextlib.contextmanager
def _stored(model: Model) -> Iterator[h5py.Group]:
    """A model in its stored form, in memory."""
    with h5py.File("replay", "w", driver="core", backing_store=False) as memory:
        model.save(memory.create_group("model"))
        yield memory["model"]


def _made_elsewhere(path: Path, batch: Batch) -> str:
    """Names the release that can derive a batch again; empty if this release can."""
    made_by = {"proposal": batch.versions}
    if fit := _fit_attributes(path, batch.iteration):  # a design has none
        made_by = {"fit": json.loads(fit.get("versions", "{}")), **made_by}
    for name, made in made_by.items():
        version, mine = made.get(name, 1), derive.versions()[name]
        if version != mine:
            release = RELEASES.get((name, version), batch.environment.get("dngo", "unknown"))
            return (
                f"made by version {version} of the {name}, but this is version {mine}; "
                f"dngo {release} derives it again (it was made by commit {_commit(batch.environment)})"
            )
    return ""


def configuration(path: Path, t: int, *, stage: str = "propose") -> Config:
    """The configuration that derived iteration t, with the surrogate's settings of its fit.

    stage: "propose": with the batch's settings of the acquisition; "fit": with the settings that
    the fit knew. Both say whether costs are modelled, and they differ if the user edited them
    between the two stages.
    Raises UserError that names the release which reads it, if this one does not.
    """
    source = f"{path}: iteration {t}"
    attributes = archive.iteration_attributes(path, t)
    fitted = _fit_attributes(path, t)
    try:
        document = _upgraded(json.loads(attributes["config"]), attributes, source)
        if fitted:
            # The user may have changed a threshold before the batch was proposed.
            known = {"settings": "surrogate", "classifier": "classifier"}
            if stage == "fit":
                known["constraints"] = "constraints"
                known["acquisition"] = "acquisition"
            sections = {k: json.loads(fitted[name]) for name, k in known.items() if name in fitted}
            document |= _upgraded(sections, fitted, source)
        return validate(document, source=source, is_archived=True)
    except UserError as error:
        environment = json.loads(attributes["environment"])
        raise UserError(
            f"{str(error).splitlines()[0]}; it was derived by dngo {environment.get('dngo')}, "
            f"commit {_commit(environment)}: replay it with that version"
        ) from None


def _upgraded(document: dict[str, Any], made: dict[str, Any], source: str) -> dict[str, Any]:
    """Sections of a configuration, as this release writes them; made: the attributes beside them."""
    return upgrade(document, json.loads(made.get("versions", "{}")).get("config", 1), source)


def _fit_attributes(path: Path, t: int) -> dict[str, Any]:
    """What is recorded with the fit of iteration t; empty if it had no surrogate."""
    with archive.reading(path) as file:
        group = file[f"iterations/{t}"]
        return dict(group["surrogate"].attrs) if "surrogate" in group else {}


def _commit(environment: dict[str, Any]) -> str:
    return str((environment.get("commit") or {}).get("id", "unknown"))


def _surrogates(
    path: Path, t: int, model: Model
) -> tuple[list[tuple[str, np.ndarray, np.ndarray]], str]:
    """Pairs of the surrogate's arrays, recorded and replayed; and what else of it differs.

    If the archive no longer holds the surrogate: its digest, and, if that differs, its summary's
    numbers.
    """
    with archive.reading(path) as file, _stored(model) as group:
        record, replayed = file[f"iterations/{t}/surrogate"], archive.contents(group)
        if "model" in record:
            return _pairs("surrogate", archive.contents(record["model"]), replayed), ""
        if archive.model_digest(group) == record.attrs["model_digest"]:
            return [], ""
        summary = json.loads(record.attrs["summary"])
        difference = "the surrogate has another digest than was recorded"
        return _pairs("surrogate's", summary, model.summary()), difference


def _pairs(
    what: str, recorded: Mapping[str, Any], replayed: Mapping[str, Any]
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    nothing = np.array([])
    return [
        (f"{what} {n}", np.asarray(recorded.get(n, nothing)), np.asarray(replayed.get(n, nothing)))
        for n in sorted({*recorded, *replayed})
    ]


def _compare(
    t: int,
    arrays: list[tuple[str, np.ndarray, np.ndarray]],
    recorded: list[Proposal],
    replayed: list[Proposal],
    space: Space,
) -> Comparison:
    if len(recorded) != len(replayed):
        return Comparison(
            t, "different", f"{len(recorded)} proposals were recorded, {len(replayed)} replayed"
        )
    found = [
        (
            f"parameters of proposal {a.id}",
            space.from_parameters([a.parameters]),
            space.from_parameters([b.parameters]),
        )
        for a, b in zip(recorded, replayed, strict=True)
    ]
    for name in _NUMBERS:
        found.append(
            (
                f"{name} of the proposals",
                np.array([getattr(p, name) for p in recorded], dtype=float),
                np.array([getattr(p, name) for p in replayed], dtype=float),
            )
        )
    for group in PROPOSAL_GROUPS:
        names = sorted({name for p in (*recorded, *replayed) for name in getattr(p, group)})
        for name in names:
            was, now = (
                np.array([getattr(p, group).get(name, np.nan) for p in some])
                for some in (recorded, replayed)
            )
            found.append((f"{name} in {group} of the proposals", was, now))
    worst = ""
    for name, a, b in arrays + found:
        if a.shape == b.shape and a.dtype.kind == b.dtype.kind and a.tobytes() == b.tobytes():
            continue
        difference = _difference(name, a, b)
        if not difference:
            continue
        if a.shape != b.shape or a.dtype.kind not in "fiu" or b.dtype.kind not in "fiu":
            return Comparison(t, "different", difference)
        if not np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE, equal_nan=True):
            return Comparison(t, "different", difference)
        worst = worst or difference
    return Comparison(t, "within tolerance" if worst else "identical", worst)


def _array(value: Any) -> np.ndarray:
    """A number, several, or several by name."""
    return np.asarray(list(value.values()) if isinstance(value, dict) else value)


def _difference(name: str, a: np.ndarray, b: np.ndarray) -> str:
    """The first place where two arrays differ; empty if they do not (NaN equals NaN)."""
    if a.shape != b.shape:
        return f"{name} has shape {a.shape}, replayed {b.shape}"
    same = a == b
    if a.dtype.kind == "f" and b.dtype.kind == "f":
        same = same | (np.isnan(a) & np.isnan(b))
    if np.all(same):
        return ""
    index = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    x, y = np.atleast_1d(a)[index], np.atleast_1d(b)[index]
    return f"{name} {list(index)} is {x!r}, replayed {y!r}"
