"""Scores each surrogate on unseen data: the outcomes of the batch that it proposed.

Such a forward score is honest. It is also hard: the surrogate chose these points itself, because it
expected much there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dngo import archive
from dngo.config import Config
from dngo.fronts import sign_of
from dngo.inward import sign

# Number of latest iterations whose constraints are judged; they show how good the models are now.
RECENT = 20


@dataclass(frozen=True)
class Score:
    """The surrogate of one iteration, judged by the ok outcomes of its batch.

    part: "all", or one kind of a mixture: "gp", "adaptive_basis"; with several objectives the name,
    or name/gp and so on.
    outcomes: their number.
    log_density: mean log predictive density, objective units.
    constant: the same for a normal with the mean and deviation of the training data, NaN if these
    were all transferred.
    coverage: share of the outcomes inside the central 95 % interval.
    levels: (outcomes,) predicted probability of a lower value.
    """

    iteration: int
    part: str
    outcomes: int
    log_density: float
    constant: float
    coverage: float
    levels: np.ndarray


@dataclass(frozen=True)
class Expected:
    """The predictions of a constraint for each row of an archive, before its outcome was known.

    probability: (n,) that it holds; mean, std: (n,) of its number. NaN without a prediction.
    held: (n,) 1, 0 or NaN, by the bound of its batch, which the probability is of.
    """

    probability: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    held: np.ndarray

    @property
    def brier(self) -> float:
        """Mean squared error of the probabilities; NaN without an outcome."""
        squares = (self.probability - self.held) ** 2
        return float(np.nanmean(squares)) if np.isfinite(squares).any() else np.nan


def expected_constraints(
    path: Path, table: archive.Table, *, iterations: int = RECENT
) -> dict[str, Expected]:
    """For each constraint, the predictions of the latest surrogates for their batches.

    table: the rows of the archive. Constraints without any prediction are left out.
    """
    found: dict[str, Expected] = {}
    with archive.reading(path) as file:  # the table's flags may follow a bound of later
        flags = {n: f[: len(table)] for n, f in file["outcomes/constraints"].items()}
    for t in np.unique(table.iteration)[-iterations:]:
        foreseen = archive.foreseen(path, int(t)) or {}
        rows = np.flatnonzero(table.iteration == t)
        for name in sorted(table.constraints):
            if ("probability", name) not in foreseen:
                continue
            held, nothing = flags[name], np.full((3, len(table)), np.nan)
            held = np.where(held >= 0, held, np.nan)
            one = found.setdefault(name, Expected(nothing[0], nothing[1], nothing[2], held))
            one.probability[rows] = foreseen["probability", name]
            if ("mean", name) in foreseen:
                one.mean[rows], one.std[rows] = foreseen["mean", name], foreseen["std", name]
    return found


def forward_scores(path: Path, config: Config) -> list[Score]:
    """Scores of every surrogate in an archive, in order; iterations without ok outcomes are left out."""
    table = archive.read_table(path, thresholds=config.thresholds)
    if not config.has_several:
        return scores_of(path, table, sign(config))
    return [
        score
        for name, direction in config.directions.items()
        for score in scores_of(path, table.of_objective(name), sign_of(direction), name)
    ]


def scores_of(path: Path, table: archive.Table, direction: float, name: str = "") -> list[Score]:
    """The same for given rows of an archive. direction: 1 if the objective is minimised, otherwise -1.

    name: of one of several objectives; the names of the parts begin with it.
    """
    from dngo.surrogates.numerics import bounded

    ok = table.status == "ok"
    y = bounded(direction * table.objective)
    scores: list[Score] = []
    with archive.reading(path) as file:
        iterations, first = np.unique(table.iteration, return_index=True)
        ends = [*first[1:], len(table)]
        before = _Running()
        for t, own in zip(iterations, map(slice, first, ends), strict=True):
            group = file[f"iterations/{t}"]
            rows = ok[own] & ~table.told[own]  # without those that it knew
            if "surrogate" not in group or not rows.any():
                continue
            foreseen = archive.foreseen(path, int(t)) or {}
            if ("density", name or "all") not in foreseen:
                continue
            learnt = group["surrogate"].attrs["training_iterations"]
            known = int(np.searchsorted(table.iteration, learnt))
            if known < before.rows:  # more batches were in flight
                before = _Running()
            seen = slice(before.rows, known)
            before.add(y[seen][ok[seen]], known)
            constant = np.nan  # if all its training data were transferred
            if before.count:
                deviation = max(before.deviation, 1e-12 * (1.0 + abs(before.mean)))
                z = (y[own][rows] - before.mean) / deviation
                constant = float(np.mean(-0.5 * z**2 - np.log(deviation * np.sqrt(2 * np.pi))))
            for kind in ("all", "gp", "adaptive_basis"):
                part = kind if not name else name if kind == "all" else f"{name}/{kind}"
                if ("density", part) not in foreseen:
                    continue
                density = foreseen["density", part][rows]
                level = foreseen["level", part][rows]
                scores.append(
                    Score(
                        iteration=int(t),
                        part=part,
                        outcomes=int(rows.sum()),
                        log_density=float(np.mean(density)),
                        constant=constant,
                        coverage=float(np.mean((level > 0.025) & (level < 0.975))),
                        levels=level,
                    )
                )
    return scores


@dataclass
class _Running:
    """Mean and deviation of a growing set of values (Chan, Golub and LeVeque 1983).

    rows: the rows of the table that have the values.
    """

    rows: int = 0
    count: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: np.ndarray, rows: int) -> None:
        """Add further values, from rows up to a number."""
        self.rows = rows
        if not len(values):
            return
        mean = float(np.mean(values))
        total, apart = self.count + len(values), mean - self.mean
        self.squares += float(np.sum((values - mean) ** 2))
        self.squares += apart**2 * self.count * len(values) / total
        self.mean += apart * len(values) / total
        self.count = total

    @property
    def deviation(self) -> float:
        return float(np.sqrt(self.squares / self.count))
