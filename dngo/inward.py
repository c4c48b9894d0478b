"""An archive's rows as models see them: minimised, logarithms where the scale is logarithmic.

The data of fits, and what an acquisition and a front know of the outcomes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dngo import archive
from dngo.archive import transfer
from dngo.batch import INVALID, RAN, STOPPED, UNINFORMATIVE
from dngo.config import COMPLETED, Config
from dngo.errors import UserError
from dngo.stopping.curves import Curve
from dngo.stopping.ends import predicted
from dngo.units import Units, finite, units_of

if TYPE_CHECKING:
    from dngo.surrogates import EarlierTask, Model, TrainingData


def sign(config: Config) -> float:
    """1, or -1 if large values are good, since every objective is minimised internally."""
    return units(config).sign


def units(config: Config) -> Units:
    """The units in which models see the objective; those of a rank if there are several."""
    if config.has_several:
        return Units(1.0)
    return Units.of(config.model_dump(include={"objective", "objectives"}), config.direction)


def each(config: Config) -> dict[str, Units]:
    """The units of each of several objectives, by name in order; empty for only one."""
    return units_of(config.model_dump(include={"objectives"})) if config.has_several else {}


def outward(config: Config, means: np.ndarray, stds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations of several objectives, (n, m), in their own units. Both may be (n, 0)."""
    own = [
        units.outward(means[:, j], stds[:, j])
        for j, units in enumerate(each(config).values())
        if means.shape[1]
    ]
    if not own:
        return means, stds
    return np.column_stack([m for m, _ in own]), np.column_stack([s for _, s in own])


def minimised(
    table: archive.Table, config: Config, rows: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Each of several objectives, in the models' units: (n,) by name in order; empty for only one.

    rows: (n,) bool, the rows that have values; None: the ok ones.
    """
    if not config.has_several:
        return {}
    return dict(zip(config.directions, table.outcomes(each(config), rows).T, strict=True))


def noises(table: archive.Table, config: Config) -> dict[str, np.ndarray]:
    """The reported noise of each of several objectives, in the models' units: like `minimised`."""
    return {
        name: seen.inward_noise(table.objectives[name], table.noises[name])
        for name, seen in each(config).items()
        if name in table.noises
    }


def is_noisy(noises: Mapping[str, np.ndarray]) -> bool:
    """Whether some evaluation reported a noise above 0. noises: (n,) by name of the objective."""
    return any(bool((noise > 0).any()) for noise in noises.values())


def means_of(
    model: Model, x: np.ndarray, y: Mapping[str, np.ndarray] = {}
) -> dict[str, np.ndarray]:
    """The mean of each of several objectives at points x (n, d), without noise: (n,) by name.

    y: (n,) by name, outcomes that the model has not learnt, NaN for others. Empty without a model.
    """
    nothing = np.full(len(x), np.nan)
    if not (model.objectives and model.knows_objective):
        return {}
    return {n: m.function(x, y.get(n, nothing))[0] for n, m in sorted(model.objectives.items())}


def ran(table: archive.Table, *others: str) -> np.ndarray:
    """Whether each row ran to its end, and so has objectives and a cost: (n,) bool.

    others: statuses that count too, such as `INVALID`, which may have some of the objectives.
    """
    return np.isin(table.status, (*RAN, *others))


def training_data(
    table: archive.Table,
    config: Config,
    cost: np.ndarray | None = None,
    earlier: Sequence[transfer.Earlier] = (),
    stopped: Mapping[str, np.ndarray] = {},
) -> TrainingData:
    """The training data from an archive's rows. Rows with an objective teach the objective. All
    rows with a known outcome teach the constraints.

    cost: (n,) the cost of each evaluation, NaN if unknown; it is learnt if the objective ran.
    earlier: evaluations of earlier studies, already with the sign that is minimised.
    stopped: as from `ends`.
    """
    from dngo.surrogates import EarlierTask, TrainingData

    # A lost evaluation says nothing about its point, and a withdrawn point has no evaluation. It is
    # unknown how a stopped evaluation would have ended.
    silent = np.isin(table.status, (*UNINFORMATIVE, STOPPED))
    completed = np.where(silent, np.nan, ran(table).astype(float))
    seen, several = units(config), minimised(table, config, ran(table, INVALID))
    y = np.where(ran(table, INVALID), seen.inward(table.objective), np.nan)
    if "objective" in stopped:
        y = _with_ends(y, stopped["objective"], seen)
    known = {
        n: _with_ends(v, stopped[n], each(config)[n]) if n in stopped else v
        for n, v in several.items()
    }
    return TrainingData(
        x=table.x,
        y=y,
        # A logarithm may be unknown where an outcome was ok on a linear scale.
        feasible=np.all([table.status == "ok", *map(np.isfinite, several.values())], axis=0),
        constraints={COMPLETED: completed, **table.constraints},
        numbers=finite(table.numbers, config.thresholds),
        thresholds=config.thresholds,
        noise=seen.inward_noise(table.objective, table.noise),
        log_cost=None if cost is None else np.log(np.where(ran(table) & (cost > 0), cost, np.nan)),
        batch=table.iteration,
        groups=config.search_space.groups,
        earlier=() if config.has_several else _earlier([(e.x, e.y) for e in earlier], seen),
        earlier_numbers={
            name: tuple(EarlierTask(*e.numbers[name]) for e in earlier if name in e.numbers)
            for name in table.numbers
        },
        objectives=known,
        noises=noises(table, config),
        earlier_objectives={
            name: _earlier(
                [(e.x, e.objectives[name]) for e in earlier if name in e.objectives], one
            )
            for name, one in each(config).items()
        },
    )


def _with_ends(y: np.ndarray, ends: np.ndarray, seen: Units) -> np.ndarray:
    return np.where(np.isnan(ends), y, seen.inward(seen.sign * ends))


def _earlier(
    earlier: Sequence[tuple[np.ndarray, np.ndarray]], seen: Units
) -> tuple[EarlierTask, ...]:
    """What earlier studies know about an objective, in the models' units."""
    from dngo.surrogates import EarlierTask

    found = [(x, seen.inward(seen.sign * y)) for x, y in earlier]
    return tuple(EarlierTask(x[np.isfinite(y)], y[np.isfinite(y)]) for x, y in found)


def ends(
    path: Path, table: archive.Table, config: Config, iterations: int
) -> dict[str, np.ndarray]:
    """The predicted final values of evaluations that were stopped early, minimised: (n,), NaN for all
    others, by the objective's name, `objective` for the only one. Empty if none was stopped."""
    stopped = table.status == STOPPED
    if not stopped.any():
        return {}
    curves = archive.read_curves(path, iterations)
    curves += [Curve()] * (len(table) - len(curves))  # of outcomes from elsewhere
    level = np.zeros(len(table)) if config.ladder is None else config.ladder.level(table.v)
    aims = {n: (one.sign, table.objectives[n]) for n, one in each(config).items()}
    found = {}
    for j, (name, (sense, values)) in enumerate(
        (aims or {"objective": (sign(config), table.objective)}).items()
    ):
        y, own = np.where(ran(table), sense * values, np.nan), [c.of_objective(j) for c in curves]
        found[name] = np.full(len(table), np.nan)
        # Final values can be compared only between evaluations that run to the same level.
        for one in np.unique(level[stopped]):
            there = level == one
            at = predicted(own, np.where(there, y, np.nan), stopped & there, sense)
            found[name] = np.where(there, at, found[name])
    return found


def costs(
    path: Path,
    table: archive.Table,
    per: str | None,
    iterations: int | None = None,
    told: Sequence[dict[str, Any]] = (),
) -> np.ndarray | None:
    """The cost of each row, (n,), for the name of a cost; NaN if unknown. None without a name.

    told: the metadata of the table's last rows, if these are not in the archive.
    Raises UserError if evaluations of this study ran, but none reported a number with that name.
    """
    if per is None or per == "duration":
        return None if per is None else np.maximum(table.duration, 1e-6)
    documents = [*archive.read_metadata(path, iterations=iterations), *told]
    values = np.array([_number(document.get(per)) for document in documents])
    if np.any(ran(table) & ~table.told) and np.isnan(values).all():
        known = sorted({name for document in documents for name in document})
        raise UserError(
            f"acquisition.per: no evaluation has a number {per!r} in its metadata; "
            f"known: {', '.join(['duration', *known])[:200]}"
        )
    return values


def _number(value: Any) -> float:
    """A reported number; NaN for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if known else float("nan")


def references(config: Config) -> list[float | None]:
    """The user's references, in the models' units, in the order of the names."""
    return [
        None
        if (given := config.objectives[name].reference) is None
        else float(one.inward(np.array(given)))
        for name, one in each(config).items()
    ]
