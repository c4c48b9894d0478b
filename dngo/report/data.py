"""The content of a report as plain arrays. The archive is read once; the rest follows from it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dngo import archive, inward
from dngo.archive import Table
from dngo.batch import STOPPED
from dngo.config import thresholds_of
from dngo.errors import UserError
from dngo.redaction import redacted
from dngo.report.best import LIKELY, around, function_at, may_differ, waver
from dngo.report.front import Front
from dngo.report.live import stage_seconds
from dngo.scores import Expected, expected_constraints
from dngo.space import Column, Space
from dngo.space.ladder import Ladder, ladder_of
from dngo.study import Study, best_row
from dngo.thresholds import Threshold
from dngo.units import Units, units_of

if TYPE_CHECKING:
    from dngo.surrogates import Model

# The number of last iterations whose points are compared with all earlier ones, by a tree for each.
RECENT = 20
MOST_EXPECTED = 10_000  # rows for which the model predicts the objective without noise
MOST_PAIRS = 2000  # points of a batch to compare with each other
NUMBERS = ("value", "mean", "std", "feasibility", "runner_up", "num_pending")
TIMES = ("started", "finished")


@dataclass(frozen=True)
class View:
    """A study for its report. All arrays have a row for each evaluation, in order.

    config: the resolved configuration.
    numbers: (n,) by the names of the archive's columns.
    source, message: (n,) text.
    model, model_iteration: the latest surrogate, if any, and the iteration that it proposed.
    objective: its name, if this is the view of one of several.
    directions: of several objectives, by name in order; empty for one.
    means, stds: of several objectives, by name, (n,); for one, `numbers` has them.
    """

    path: Path
    name: str
    direction: str
    space: Space
    config: dict[str, Any]
    table: Table
    numbers: dict[str, np.ndarray]
    source: np.ndarray
    message: np.ndarray
    model: Model | None
    model_iteration: int
    objective: str = "objective"
    directions: dict[str, str] = field(default_factory=dict)
    means: dict[str, np.ndarray] = field(default_factory=dict)
    stds: dict[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, path: Path, config: dict[str, Any] | None = None) -> View:
        """The study in an archive. Without a configuration, take the last recorded one.

        Raises UserError if the archive does not exist, or cannot be read.
        """
        header = archive.read_header(path)
        if header is None or header.iterations == 0:
            raise UserError(f"{path}: there is no archive yet: no batch has ended")
        with archive.reading(path) as file:
            rows = header.rows
            proposals, outcomes = file["proposals"], file["outcomes"]
            numbers = {name: proposals[name][:rows].astype(float) for name in NUMBERS}
            numbers |= {name: outcomes[name][:rows] for name in TIMES}
            source = archive.words(proposals["source"], rows)
            means, stds = (
                {name: column[:rows] for name, column in proposals.get(group, {}).items()}
                for group in ("means", "stds")
            )
            message = archive.words(outcomes["message"], rows)
            clean = {text: redacted(text) for text in set(message)}
            message[:] = [clean[text] for text in message]
        if config is None:
            last = archive.iteration_attributes(path, header.iterations - 1)
            config = json.loads(last["config"])
        model, iteration = archive.latest_surrogate(path, header.iterations)
        several = dict(sorted(header.identity.get("objectives", {}).items()))
        return cls(
            path=path,
            name=str(header.identity["study"]),
            direction=str(header.identity["direction"]),
            space=archive.read_space(path),
            config=config,
            table=archive.read_table(
                path, iterations=header.iterations, thresholds=thresholds_of(config)
            ),
            numbers=numbers,
            source=source,
            message=message,
            model=model,
            model_iteration=iteration,
            directions=several if len(several) > 1 else {},
            means=means,
            stds=stds,
        )

    @classmethod
    def now(cls, study: Study) -> View:
        """A study by its current configuration."""
        return cls.of(study.archive, json.loads(study.config.resolved()))

    @property
    def has_several(self) -> bool:
        """Whether there are several objectives."""
        return bool(self.directions)

    def of_objective(self, name: str) -> View:
        """The study with one of several objectives as if it were the only one."""
        table, model = self.table.of_objective(name), self.model
        if model is not None:
            model = model.of_objective(name) if name in model.objectives else None
        numbers = {**self.numbers, "mean": self.means[name], "std": self.stds[name]}
        return replace(
            self,
            direction=self.directions[name],
            table=table,
            numbers=numbers,
            model=model,
            objective=name,
            directions={},
        )

    @cached_property
    def front(self) -> Front:
        """The front of a study with several objectives."""
        named, units = self.config["objectives"], units_of(self.config)
        given = [
            None if (r := named[n].get("reference")) is None else float(one.inward(np.array(r)))
            for n, one in units.items()
        ]
        return Front.among(self.path, self.table, units, given, self.ladder)

    def __len__(self) -> int:
        return len(self.table)

    # ---- which rows -----------------------------------------------------------------------------

    @cached_property
    def ok(self) -> np.ndarray:
        """(n,) bool: the evaluation ran, and every constraint holds."""
        return self.table.status == "ok"

    @cached_property
    def infeasible(self) -> np.ndarray:
        """(n,) bool: the evaluation ran, and broke a constraint."""
        return self.table.status == "infeasible"

    @cached_property
    def failed(self) -> np.ndarray:
        """(n,) bool: the evaluation ended without an objective."""
        others = self.stopped | (self.table.status == "withdrawn")
        return ~(self.ok | self.infeasible | others)

    @cached_property
    def stopped(self) -> np.ndarray:
        """(n,) bool: the evaluation was stopped early because of its progress."""
        return self.table.status == STOPPED

    @cached_property
    def best(self) -> int | None:
        """The row of the best ok evaluation; None with several objectives."""
        return None if self.has_several else best_row(self.table, self.direction, self.ladder)

    @cached_property
    def ladder(self) -> Ladder | None:
        """The levels of the fidelity, if there is one."""
        return ladder_of(self.space, self.config.get("fidelity"))

    @cached_property
    def counts(self) -> np.ndarray:
        """(n,) bool: the ok rows; with a fidelity, only those at the highest level reached."""
        return self.table.counting(self.ladder)

    @cached_property
    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The objective without noise at each row's point: mean, deviation, P(feasible), three (n,).

        The latest surrogate predicts them, with the row's own outcome if it has not learnt that
        yet; near the best point a process of the points there. NaN without a surrogate, and for all
        but the best `MOST_EXPECTED` outcomes. An ok point is feasible unless outcomes are noisy.
        """
        mean, std, feasibility = np.full((3, len(self)), np.nan)
        if self.model is None or not self.has_model:
            return mean, std, feasibility
        for rows, *found in (self._by_the_surrogate, self._around_the_best):
            mean[rows], std[rows] = found
        rows = self._to_be_expected
        feasibility[rows] = self.model.feasibility(self.table.x[rows])
        if not may_differ(self.table, self.point):
            feasibility[self.ok] = 1.0
        return *self.units.outward(mean, std), feasibility

    @cached_property
    def _by_the_surrogate(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The rows of `_to_be_expected`, and the surrogate's mean and deviation there, minimised."""
        assert self.model is not None
        found = archive.iteration_attributes(self.path, self.model_iteration)
        new = self.ok & (self.table.iteration >= int(found["training_iterations"]))
        y = np.where(new, self.units.inward(self.table.objective), np.nan)
        rows, table = self._to_be_expected, self.table
        known = self.model, self.space, self.config
        return rows, *function_at(*known, table.x[rows], table.v[rows], y[rows])

    @cached_property
    def _to_be_expected(self) -> np.ndarray:
        """The rows for the model to predict: all, or only the best ones if there are many."""
        if len(self) <= MOST_EXPECTED:
            return np.arange(len(self))
        value = np.where(self.counts, self.sign * self.table.objective, np.inf)
        best = np.argsort(value, kind="stable")[:MOST_EXPECTED]
        return np.sort(best) if waver(self.config) else np.union1d(best, self._around_the_best[0])

    @cached_property
    def _around_the_best(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows near the best one, and the mean and deviation of their objective, minimised."""
        table, value = self.table, np.full(len(self), np.nan)
        y = self.units.inward(table.objective)
        ok = np.flatnonzero(self.counts & np.isfinite(y))
        if waver(self.config) and self.has_model:  # then the best point is not the lowest
            rows, mean, std = self._by_the_surrogate
            value[rows] = mean + std
        u, noise = self.space.unit(table.v), self.units.inward_noise(table.objective, table.noise)
        known = u[ok], table.x[ok], y[ok], noise[ok]
        rows, mean, std = around(self.space, self.config, known, table.v[ok], value[ok])
        return ok[rows], mean, std

    @cached_property
    def point(self) -> np.ndarray:
        """(n,) the number of each row's point. Evaluations of the same point have the same number."""
        if not self.space.k:
            return np.zeros(len(self), dtype=np.intp)
        keys = self.space.bits(self.table.v).view(f"V{8 * self.space.k}")[:, 0]
        return np.asarray(np.unique(keys, return_inverse=True)[1], dtype=np.intp)

    def ranking(self, by: Literal["model", "observed"]) -> np.ndarray:
        """Rows of the ok evaluations, the best first: by outcome, or by the model's prediction.

        Of a point's rows only the one with the best outcome counts. The lowest of many means is
        partly luck, so the model ranks a row by its mean, made worse by one deviation. It ranks rows
        that are likely to be feasible (`LIKELY`). Rows near the best one come first, since the model
        is sharpest there.
        """
        rows = np.flatnonzero(self.counts)
        rows = rows[np.argsort(self.sign * self.table.objective[rows], kind="stable")]
        _, first = np.unique(self.point[rows], return_index=True)
        rows = rows[np.sort(first)]
        if by == "observed":
            return rows
        mean, std, feasibility = self.expected
        rows = rows[(feasibility[rows] >= LIKELY) & np.isfinite(mean[rows])]
        far = ~np.isin(rows, self._around_the_best[0])
        return rows[np.lexsort((self.sign * mean[rows] + std[rows], far))]

    def outcomes(self, row: int) -> np.ndarray:
        """The objectives of all ok evaluations of a row's point, including that row."""
        return self.table.objective[self.ok & (self.point == self.point[row])]

    @cached_property
    def sign(self) -> float:
        """1 if the objective is minimised, -1 if it is maximised."""
        return 1.0 if self.direction == "minimize" else -1.0

    @cached_property
    def best_so_far(self) -> np.ndarray:
        """(n,) objective of the best ok evaluation up to each row; NaN before the first."""
        values = self.sign * np.where(self.counts, self.table.objective, np.nan)
        return self.sign * np.fmin.accumulate(values)

    @cached_property
    def improvements(self) -> np.ndarray:
        """Rows that improved the best value so far."""
        best = self.best_so_far
        return np.flatnonzero(np.isfinite(best) & (np.diff(best, prepend=np.nan) != 0))

    @cached_property
    def last(self) -> np.ndarray:
        """Rows of the last batch, in the order of picking."""
        return np.flatnonzero(self.table.iteration == self.table.iteration[-1])

    def label(self, name: str) -> str:
        """The text at the axis of a parameter, a constraint or the objective: a label, or a name."""
        if name == "objective":
            name = self.objective
        return str(self.config.get("labels", {}).get(name, name))

    def id(self, row: int) -> str:
        """The id of a row's proposal: iteration and slot."""
        return self.table.id(row)

    # ---- the space ------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> list[tuple[int, Column]]:
        """The parameters that vary, in the order of the configuration, with their columns of v."""
        position = {column.name: j for j, column in enumerate(self.space.columns)}
        names = [name for name in self.space.parameters if name in position]
        return [(position[name], self.space.columns[position[name]]) for name in names]

    @cached_property
    def unit(self) -> np.ndarray:
        """(n, k) coordinates of the points in the unit cube."""
        return self.space.unit(self.table.v)

    @cached_property
    def nearest(self) -> np.ndarray:
        """(n,) distance to the nearest point that was known or picked earlier, NaN for older iterations.

        The root mean square over the parameters, in the unit cube.
        """
        # A merge does not need these two.
        from scipy.spatial import KDTree
        from scipy.spatial.distance import cdist

        found = np.full(len(self), np.nan)
        iteration = self.table.iteration
        recent = np.unique(iteration)[-RECENT:]
        first = recent[0]  # one tree of all older points
        old = KDTree(self.unit[iteration < first]) if (iteration < first).any() else None
        for t in recent:
            rows = np.flatnonzero(iteration == t)
            for tree, part in (
                (old, iteration < first),
                (None, (first <= iteration) & (iteration < t)),
            ):
                if part.any():
                    tree = tree or KDTree(self.unit[part])
                    found[rows] = np.fmin(found[rows], tree.query(self.unit[rows])[0])
            if 1 < len(rows) <= MOST_PAIRS:
                apart = cdist(self.unit[rows], self.unit[rows])
                apart[np.triu_indices(len(rows))] = np.inf  # a pick knew only the picks before it
                closest = apart.min(axis=1)
                found[rows] = np.fmin(found[rows], np.where(closest < np.inf, closest, np.nan))
        return found / np.sqrt(max(self.space.k, 1))

    def on_bound(self, row: int) -> list[str]:
        """Numeric parameters of a row within a thousandth of their range from one of its ends."""
        found = []
        for j, column in self.columns:
            if column.choices is not None or (column.levels or 100) < 4:
                continue
            if not np.isfinite(self.table.v[row, j]):
                continue
            ends = np.repeat(self.table.v[row : row + 1], 2, axis=0)
            ends[:, j] = column.low, column.high
            if np.min(np.abs(self.space.unit(ends)[:, j] - self.unit[row, j])) < 0.001:
                found.append(column.name)
        return found

    @cached_property
    def box(self) -> Space:
        """The space without its known constraints. A slice through a point would break them."""
        return Space(self.space.parameters)

    def slice_values(self, j: int, most: int = 65) -> np.ndarray:
        """Values of column j of v from bound to bound; all values if they are few."""
        column = self.space.columns[j]
        steps = 4 * column.levels + 1 if column.levels and column.levels <= most else most
        u = np.repeat(self.space.unit(self.space.defaults()), steps, axis=0)
        u[:, j] = np.linspace(0.0, 1.0, steps)
        # Values are rounded whether or not their parameter is active.
        for parent, wanted in column.conditions:
            v = self.space.defaults()
            v[0, parent] = wanted[0]
            u[:, parent] = self.space.unit(v)[0, parent]
        values = self.box.from_unit(u)[:, j]
        return np.unique(values[np.isfinite(values)])

    def through(self, row: int, changes: dict[int, np.ndarray]) -> np.ndarray:
        """Copies of a row's point with some columns of v changed: (m, d), the model's inputs."""
        return self.box.encode(self._changed(row, changes))

    def allowed(self, row: int, changes: dict[int, np.ndarray]) -> np.ndarray:
        """Whether each point of `through` keeps the known constraints: (m,) bool."""
        return self.space.holds(self._changed(row, changes))

    def _changed(self, row: int, changes: dict[int, np.ndarray]) -> np.ndarray:
        size = len(next(iter(changes.values())))
        v = np.repeat(self.table.v[row : row + 1], size, axis=0)
        for j, values in changes.items():
            v[:, j] = values
        return self.box.round(v)

    def at_edge(self, row: int) -> list[str]:
        """Texts of the known constraints that a step of 1 % of a parameter's range would break.

        Equalities are left out: every point keeps them.
        """
        u = np.repeat(self.unit[row : row + 1], 2 * self.space.k, axis=0)
        for j in range(self.space.k):
            u[2 * j : 2 * j + 2, j] += (-0.01, 0.01)
        u = u[np.isfinite(u).all(axis=1)]
        near = self.box.from_unit(np.clip(u, 0.0, 1.0))
        broken = [c for c in self.space.conditions if c.gap is None and not c.holds(near).all()]
        return list(dict.fromkeys(c.text for c in broken))

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean and deviation of the objective, and P(feasible), at x (m, d): three (m,)."""
        assert self.model is not None
        return *self.units.outward(*self.model.predict(x)), self.model.feasibility(x)

    @cached_property
    def units(self) -> Units:
        """How the model sees the objective."""
        known = json.loads(archive.iteration_attributes(self.path, self.model_iteration)["config"])
        if self.objective != "objective":
            return units_of(known)[self.objective]
        return Units.of(known, self.direction)

    @cached_property
    def has_model(self) -> bool:
        """Whether a surrogate that can be asked here has learnt the objective; baselines have none."""
        return self.model is not None and self.model.knows_objective and self.model.is_known

    @cached_property
    def importance(self) -> dict[str, np.ndarray]:
        """Sobol indices of the surrogate over the whole space: arrays (2, k) by name.

        first, total: of the predicted objective and of the probability to be feasible, in the order
        of the columns of v; NaN where the prediction is constant. Estimated on points of Sobol
        sequences (Saltelli et al. 2010, as in `scipy.stats.sobol_indices`).
        """
        from scipy.stats import sobol_indices, uniform

        k = self.space.k

        def response(u: np.ndarray) -> np.ndarray:
            mean, std, feasible = self.predict(self.box.encode(self.box.sample(u.T)))
            return np.stack([self.units.moments(mean, std)[0], feasible])

        n, rng = 2 ** int(np.clip(np.log2(8192 / (k + 2)), 6, 10)), np.random.default_rng(0)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = sobol_indices(func=response, n=n, dists=[uniform()] * k, rng=rng)
        total = np.clip(found.total_order, 0.0, None).reshape(2, k)  # SciPy drops a k of 1
        varies = np.where(total.max(axis=1, keepdims=True) > 0, 1.0, np.nan)
        return {
            "first": np.clip(found.first_order, 0.0, 1.0).reshape(2, k) * varies,
            "total": total * varies,
        }

    @cached_property
    def thresholds(self) -> dict[str, Threshold]:
        """The thresholds of constraints, by name."""
        return thresholds_of(self.config)

    @cached_property
    def expected_constraints(self) -> dict[str, Expected]:
        """The predictions of each constraint in the latest iterations, by name."""
        return expected_constraints(self.path, self.table)

    # ---- time -----------------------------------------------------------------------------------

    @cached_property
    def cost(self) -> tuple[str, np.ndarray]:
        """The cost of each evaluation, (n,), as the acquisition measures it; the measure's name."""
        per = self.config.get("acquisition", {}).get("per")
        if per in (None, "duration"):
            return "seconds of evaluation", np.nan_to_num(self.table.duration)
        found = inward.costs(self.path, self.table, per)
        return str(per), np.nan_to_num(np.zeros(len(self)) if found is None else found)

    @cached_property
    def timed(self) -> np.ndarray:
        """(n,) bool: the start and the end of the evaluation are known."""
        started, finished = (self.numbers[name] for name in TIMES)
        return np.isfinite(started) & np.isfinite(finished) & (finished >= started)

    def busy(self, edges: np.ndarray) -> np.ndarray:
        """The mean number of evaluations at once between times: edges (m + 1,) to (m,)."""
        started, finished = (self.numbers[name][self.timed] for name in TIMES)
        times = np.concatenate([started, finished])
        change = np.concatenate([np.ones(len(started)), -np.ones(len(finished))])
        order = np.argsort(times, kind="stable")
        times, level = times[order], np.cumsum(change[order])
        used = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(times))])
        return np.diff(np.interp(edges, times, used)) / np.diff(edges)

    @cached_property
    def stage_seconds(self) -> dict[str, dict[int, float]]:
        """Wall seconds of each stage by iteration, if their records are kept."""
        return stage_seconds(self.path.parent, self.table)
