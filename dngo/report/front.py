"""The front of a study with several objectives, for display."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dngo import archive, inward
from dngo.config import Config
from dngo.errors import UserError
from dngo.fronts import derived_reference, hypervolume, hypervolumes, knee, on_front, preferred
from dngo.space.ladder import Ladder
from dngo.storage.text import number_in
from dngo.types import Array, Rows
from dngo.units import Units, units_of


@dataclass(frozen=True)
class Front:
    """The ok outcomes that no other outcome dominates, in the order of the first objective. In a study
    with a fidelity those at the highest level reached count.

    units: of the objectives, by name in order. Hypervolumes are of values in the models' units.
    own: (n, m) of all outcomes, in the objectives' own units, NaN unless ok; of noisy ones the means
    (`without_noise`).
    batch: (n,) the iteration of each outcome.
    given: the user's references, in the models' units. lower: like `own`, of the levels of a fidelity that
    do not count; hypervolumes reach down to their first batch.
    """

    units: Mapping[str, Units]
    own: Array
    batch: Rows
    given: Sequence[float | None]
    by: Literal["observed", "model"] = "observed"
    lower: Array | None = None

    @classmethod
    def of(cls, path: Path, table: archive.Table, config: Config) -> Front:
        """The front of an archive's rows."""
        units, given = inward.each(config), inward.references(config)
        return cls.among(path, table, units, given, config.ladder)

    @classmethod
    def among(
        cls,
        path: Path,
        table: archive.Table,
        units: Mapping[str, Units],
        given: Sequence[float | None],
        ladder: Ladder | None,
    ) -> Front:
        """The front of rows. path: of the archive; ladder: of a fidelity."""
        own, lower = own_values(table, units, ladder), None
        if ladder is not None:
            lower = np.where(np.isfinite(own), np.nan, own_values(table, units))
        found = cls(units, own, table.iteration, given, lower=lower)
        return found.without_noise(path, table.noises, table.x)

    def without_noise(self, path: Path, noises: Mapping[str, Array], x: Array) -> Front:
        """The front of the latest model's means, if noise is reported and a model is there.

        A lucky outcome would be on the front for ever. The model has learnt from all outcomes near
        a point; an outcome that it has not learnt counts as well. Evaluations of one point have
        their average.
        path: of the archive. noises: (n,) by name. x: (n, d) encoded.
        """
        ok = np.isfinite(self.own).all(axis=1)
        header = archive.read_header(path) if inward.is_noisy(noises) and ok.any() else None
        model, iteration = (
            archive.latest_surrogate(path, header.iterations) if header else (None, 0)
        )
        if model is None or not model.knows_objective or not model.is_known:
            return self
        attributes = archive.iteration_attributes(path, iteration)
        units, own = units_of(json.loads(attributes["config"])), np.full_like(self.own, np.nan)
        new = (self.batch >= int(attributes["training_iterations"]))[ok]
        y = {
            name: np.where(new, one.inward(self.own[ok, j]), np.nan)
            for j, (name, one) in enumerate(units.items())
        }
        means = inward.means_of(model, x[ok], y)
        _, point = np.unique(x[ok], axis=0, return_inverse=True)
        for j, (name, one) in enumerate(units.items()):
            average = np.bincount(point, means[name]) / np.bincount(point)
            own[ok, j] = one.outward(average[point], np.zeros(len(point)))[0]
        return replace(self, own=own, by="model")

    @cached_property
    def values(self) -> Array:
        """(n, m) of all outcomes, minimised, NaN unless ok."""
        return self._inward(self.own)

    def _inward(self, own: Array) -> Array:
        each = enumerate(self.units.values())
        return np.column_stack([one.inward(own[:, j]) for j, one in each])

    @cached_property
    def rows(self) -> Rows:
        """The rows of the front: (p,). Of equal outcomes, the earliest counts."""
        known = np.flatnonzero(np.isfinite(self.values).all(axis=1))
        found = known[on_front(self.values[known])]
        _, first = np.unique(self.values[found], axis=0, return_index=True)
        return np.asarray(found[first])

    @cached_property
    def points(self) -> Array:
        """The outcomes of the front, minimised: (p, m)."""
        return self.values[self.rows]

    @cached_property
    def least(self) -> Array:
        """The worst values of interest, minimised: (m,). NaN as long as no outcome is ok."""
        found = derived_reference(self.values, self.batch, self.given)
        if self.lower is None or not len(self.rows):
            return found
        # The first points at the highest level are good ones, and no measure of what is bad.
        return np.fmax(found, derived_reference(self._inward(self.lower), self.batch, self.given))

    @property
    def reference(self) -> dict[str, float]:
        """The same in the objectives' units, by name."""
        return {
            name: float(one.outward(value, np.zeros(()))[0])
            for (name, one), value in zip(self.units.items(), self.least, strict=True)
        }

    @cached_property
    def hypervolume(self) -> float:
        """The volume that the front dominates, down to the reference.

        Its unit is the product of the units.
        """
        return hypervolume(self.points, self.least) if len(self.rows) else 0.0

    @cached_property
    def volumes(self) -> list[float]:
        """The hypervolume of all outcomes up to each iteration. It never falls."""
        return hypervolumes(self.values, self.batch, self.least)

    @property
    def beyond_reference(self) -> list[str]:
        """Objectives for which no ok outcome is better than the user's reference."""
        if not len(self.rows):
            return []
        best = np.nanmin(self.values, axis=0)
        pairs = zip(self.units, self.given, best, strict=True)
        return [name for name, given, found in pairs if given is not None and found >= given]

    @property
    def knee(self) -> int | None:
        """The index of the front's point farthest below the plane through its ends; None for fewer
        than 3 points.
        """
        return knee(self.points) if len(self.rows) > 2 else None

    def objectives(self, i: int) -> dict[str, float]:
        """The objectives of the front's point i, in their own units."""
        return dict(zip(self.units, self.own[self.rows[i]].tolist(), strict=True))

    def preferred(self, weights: Mapping[str, float]) -> int:
        """The best point of the front by weights of the objectives. A missing weight is 0."""
        return preferred(self.points, np.array([weights.get(n, 0.0) for n in self.units]))

    def document(
        self, ids: Sequence[str], parameters: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Plain data: points, knee (an id or null), hypervolume, reference.

        ids, parameters: of the points of the front.
        """
        points = [
            {"id": ids[i], "objectives": self.objectives(i), "parameters": dict(parameters[i])}
            for i in range(len(self.rows))
        ]
        return {
            "points": points,
            "knee": None if self.knee is None else ids[self.knee],
            "hypervolume": self.hypervolume,
            "reference": self.reference if len(self.rows) else None,
            **({"by": self.by} if self.by == "model" else {}),
        }


def own_values(table: archive.Table, names: Iterable[str], ladder: Ladder | None = None) -> Array:
    """Several objectives in their own units: (n, m), a column for each of `names`, NaN unless the row may
    be on the front."""
    values = np.column_stack([table.objectives[name] for name in names])
    return np.where(table.counting(ladder)[:, None], values, np.nan)


def volume_of(values: Array, reference: Array) -> float:
    """The hypervolume of outcomes (n, m), minimised, NaN unless ok, from a reference (m,)."""
    return hypervolume(values[np.isfinite(values).all(axis=1)], reference)


def common_reference(fronts: Sequence[Front]) -> Array:
    """The worst of the references of several fronts: (m,)."""
    return np.asarray(np.fmax.reduce([front.least for front in fronts]))


def weights_of(text: str, directions: Mapping[str, str]) -> dict[str, float]:
    """Weights of objectives from a text such as "error=2,flops=1"; raises UserError."""
    from dngo.config.messages import nearest

    found: dict[str, float] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        weight = number_in(value) if equals else 1.0
        if name not in directions:
            known = f"; the objectives are {', '.join(directions)}"
            raise UserError(
                f"--prefer: {name!r} is not an objective{nearest(name, directions) or known}"
            )
        if weight is None or not 0 <= weight < np.inf:
            raise UserError(
                f"--prefer: the weight of {name} must be a number of 0 or more, not {value!r}"
            )
        if name in found:
            raise UserError(f"--prefer: {name} is there twice")
        found[name] = float(weight)
    if not any(found.values()):
        raise UserError("--prefer: at least one weight must be above 0")
    return found
