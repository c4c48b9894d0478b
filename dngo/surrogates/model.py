"""The fitted model of a study: what is believed about its objective, constraints and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr

from dngo.surrogates.classifier import Classifier
from dngo.surrogates.component import Component
from dngo.surrogates.data import TargetScale
from dngo.surrogates.network import chunks
from dngo.surrogates.numerics import one_thread
from dngo.surrogates.storage import FORMAT, read, write
from dngo.thresholds import Threshold
from dngo.types import Array, Group

CHUNK = 1024  # points at which costs or numbers are predicted at once

# Nodes of Gauss-Hermite quadrature over a normal.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class Model:
    """What is believed about the objective and the constraints.

    objective: components whose mixture, by their weights, is the posterior; empty if no row was ok.
    scale: the map between the objective and the components' targets.
    classifiers: one for each constraint, by name, of its flag or its number; constraints count as
    independent. diagnostics: numbers that describe the fit. cost: of an evaluation, which counts as
    independent of the objective; None if it is not modelled.
    objectives: of several objectives, a model of each by name; `objective` is then empty.
    """

    objective: tuple[Component, ...]
    scale: TargetScale
    classifiers: Mapping[str, Classifier | Bounded]
    diagnostics: dict[str, float | int | str] = field(default_factory=dict)
    cost: Cost | None = None
    objectives: dict[str, Model] = field(default_factory=dict)

    @property
    def knows_objective(self) -> bool:
        """Whether there is a model of the objective, or of each of several objectives."""
        return bool(self.objective) or (
            bool(self.objectives) and all(m.objective for m in self.objectives.values())
        )

    @property
    def is_known(self) -> bool:
        """Whether this process has all code that predictions need."""
        parts = [*self.objective, *(c for m in self.objectives.values() for c in m.objective)]
        return all(part.is_known for part in parts)

    def of_objective(self, name: str) -> Model:
        """One of several objectives as the only one, with all constraints and the cost."""
        one = self.objectives[name]
        return replace(one, classifiers=self.classifiers, cost=self.cost)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of an outcome, in units of the objective: two (n,).

        x: (n, d) encoded. The mixture's moments on the model's scale, noise included, are mapped to the
        objective's: exactly where the scale is linear, by quadrature where it is bent. NaN without an
        objective model.
        """
        if not self.objective:
            return np.full(len(x), np.nan), np.full(len(x), np.nan)
        with one_thread():
            mean, deviation = self.normal(x)
        return self._to_objective(mean, deviation)

    def function(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Mean and deviation of the function at evaluated points, without noise: two (n,).

        x: (n, d) encoded. y: (n,) outcomes from which the model has not learnt, in units of the
        objective; each changes the prediction at its own point. NaN if the model has learnt from
        the outcome.
        """
        if not self.objective:
            return np.full(len(x), np.nan), np.full(len(x), np.nan)
        with one_thread():
            means, variances, weight = self._mixture(x)
            noise = self._noise(x)
        latent = np.maximum(variances - noise, 0.0)
        new = np.isfinite(y)[:, None]
        missed = np.where(new, self.scale.to_model(y)[:, None] - means, 0.0)
        gain = np.where(new, latent / variances, 0.0)
        log_weight = np.log(weight) - np.where(
            new, 0.5 * (missed**2 / variances + np.log(variances)), 0.0
        )
        share = np.exp(log_weight - logsumexp(log_weight, axis=1, keepdims=True))
        means, latent = means + gain * missed, latent * (1.0 - gain)
        mean = np.sum(share * means, axis=1)
        spread = np.sum(share * (latent + (means - mean[:, None]) ** 2), axis=1)
        return self._to_objective(mean, np.sqrt(spread))

    def _to_objective(self, mean: Array, deviation: Array) -> tuple[Array, Array]:
        """The moments of a normal on the model's scale, in units of the objective: two (n,)."""
        if not self.scale.is_bent:
            high, low = (self.scale.to_objective(mean + s * deviation) for s in (1, -1))
            return self.scale.to_objective(mean), 0.5 * (high - low)
        # The mixture counts as one normal, since a tail far beyond the data may map back to any
        # value.
        targets = mean[:, None] + deviation[:, None] * NODES
        values = np.clip(self.scale.to_objective(targets), self.scale.lowest, self.scale.highest)
        first = values @ NODE_WEIGHTS
        return first, np.sqrt((values - first[:, None]) ** 2 @ NODE_WEIGHTS)

    def normal(self, x: Array) -> tuple[Array, Array]:
        """Mean and deviation of the mixture on the model's scale, noise included: two (n,)."""
        means, variances, weight = self._mixture(x)
        mean = means @ weight
        return mean, np.sqrt((variances + (means - mean[:, None]) ** 2) @ weight)

    def try_out(self, width: int) -> None:
        """Ask everything at one point of `width` encoded inputs: arrays in a file may not fit each other.

        Raises TypeError, ValueError, LookupError, AttributeError or ArithmeticError if they do not.
        """
        x = np.full((1, width), 0.5)
        if self.objective and self.is_known:
            self.log_density(x, np.zeros(1))
        for one in self.objectives.values():
            one.try_out(width)
        for classifier in self.classifiers.values():
            classifier.probability(x)
        if self.cost is not None:
            self.cost.expected(x)

    def log_density(self, x: Array, y: Array) -> tuple[Array, Array]:
        """What the model thought of outcomes before they were known: two (n,).

        x: (n, d) encoded, y: (n,) objective. Returns the log predictive density in units of the objective,
        and the probability that the model gave to a lower value. This probability is uniform if the
        model is calibrated. It is below 0.025 or above 0.975 as often as the 95 % interval misses.
        """
        with one_thread():
            means, variances, weight = self._mixture(x)
        t = self.scale.to_model(y)[:, None]
        each = -0.5 * ((t - means) ** 2 / variances + np.log(2 * np.pi * variances))
        density = np.asarray(logsumexp(each, b=weight, axis=1))
        return density + self.scale.log_slope(y), ndtr((t - means) / np.sqrt(variances)) @ weight

    def _mixture(self, x: Array) -> tuple[Array, Array, Array]:
        """Means and variances of the posterior's normals, (n, m); weights (m,)."""
        parts = [c.predict(c.features(x)) for c in self.objective]
        weight = np.concatenate(
            [np.full(len(c.noise), c.weight / len(c.noise)) for c in self.objective]
        )
        return (
            np.concatenate([mean for mean, _ in parts], axis=1),
            np.concatenate([variance for _, variance in parts], axis=1),
            weight / weight.sum(),
        )

    def _noise(self, x: Array) -> Array:
        """The part of these variances that is noise: (n, m)."""
        each = [(c.noise_at(c.features(x)).T, len(c.noise)) for c in self.objective]
        return np.concatenate([np.broadcast_to(v, (len(x), h)) for v, h in each], axis=1)

    def feasibility(self, x: Array) -> Array:
        """P(every constraint holds): x (n, d) encoded -> (n,)."""
        with one_thread():
            p = np.ones(len(x))
            for name in sorted(self.classifiers):
                p = p * self.classifiers[name].probability(x)
        return p

    def log_progress(self, x: Array) -> Array:
        """The logarithm of `feasibility`, while no point is known to be feasible. A number far from its
        bound then counts with the probability that it comes nearer to it than the least infeasible
        point."""
        with one_thread():
            each = [self.classifiers[n].log_progress(x) for n in sorted(self.classifiers)]
        return np.sum(each, axis=0) if each else np.zeros(len(x))

    def inverse_cost(self, x: Array) -> Array:
        """The expected inverse cost: x (n, d) encoded -> (n,); ones if no cost is modelled."""
        return np.ones(len(x)) if self.cost is None else self.cost.expected(x)[1]

    @property
    def heeds_constraints(self) -> bool:
        """Whether any constraint has been seen both satisfied and violated."""
        return any(not c.is_constant for c in self.classifiers.values())

    def summary(self) -> dict[str, float | int | str]:
        """Diagnostics of the fit, for logs and reports."""
        return dict(self.diagnostics)

    def save(self, group: Group) -> None:
        """Everything as datasets and attributes of an empty group; `load` gives the same bits."""
        group.attrs["format"] = FORMAT
        self.scale.save(group)
        diagnostics = group.create_group("diagnostics")
        for key, value in self.diagnostics.items():
            diagnostics.attrs[key] = value
        group.attrs["components"] = len(self.objective)
        for i, component in enumerate(self.objective):
            write(component, group.create_group(f"objective/{i}"))
        constraints = group.create_group("constraints")
        for i, name in enumerate(sorted(self.classifiers)):
            part = constraints.create_group(str(i))
            part.attrs["name"] = name
            self.classifiers[name].save(part)
        if self.cost is not None:
            self.cost.save(group.create_group("cost"))
        for i, name in enumerate(sorted(self.objectives)):
            part = group.create_group(f"objectives/{i}")
            part.attrs["name"] = name
            self.objectives[name].save(part)

    @classmethod
    def load(cls, group: Group) -> Model:
        """The model that `save` wrote.

        Raises ValueError if the group holds no model, or a model of a newer format.
        """
        found = group.attrs.get("format")
        if found is None or int(found) > FORMAT:
            raise ValueError(f"not a model that this version reads (format {found}, not {FORMAT})")
        parts = [group[f"objective/{i}"] for i in range(int(group.attrs["components"]))]
        constraints = [group[f"constraints/{i}"] for i in range(len(group["constraints"]))]
        several = [group[f"objectives/{i}"] for i in range(len(group.get("objectives", ())))]
        diagnostics = {
            key: value.item() if isinstance(value, np.generic) else value
            for key, value in group["diagnostics"].attrs.items()
        }
        return cls(
            tuple(read(part, None if found > 2 else _type_in_format_2(part)) for part in parts),
            TargetScale.load(group),
            {
                str(part.attrs["name"]): (Bounded if "number" in part else Classifier).load(part)
                for part in constraints
            },
            diagnostics,
            Cost.load(group["cost"]) if "cost" in group else None,
            {str(part.attrs["name"]): cls.load(part) for part in several},
        )


def _type_in_format_2(part: Group) -> str:
    """The type of a component from formats up to 2, recognised by its contents."""
    if "kernel" in part.attrs:
        return "gaussian_process"
    return "finite_basis" if "rotation" in part else "sampled_basis"


@dataclass(frozen=True)
class Bounded:
    """Predicts a number, and so whether it keeps its threshold.

    number: a model whose objective is the number, or its negative if large ones are good.
    observations: how many it was fitted to. With n of them a variance has n - 1 degrees of freedom,
    so a bound far beyond all that was seen has the odds of Student's t, not of a normal. level:
    what counts as progress as long as no point is known to be feasible, in units of the number. It
    is the bound, or the number of the least infeasible point.
    """

    number: Model
    threshold: Threshold
    observations: float = math.inf
    level: float | None = None

    is_constant: ClassVar[bool] = False  # numbers differ even if all of them keep their bound

    def probability(self, x: Array) -> Array:
        """P(an outcome keeps the threshold), noise included: x (n, d) encoded -> (n,)."""
        return np.exp(self.log_within(x, self.threshold.bound))

    def log_progress(self, x: Array) -> Array:
        """Log P(an outcome keeps the level that counts as progress): x (n, d) encoded -> (n,)."""
        return self.log_within(x, self.threshold.bound if self.level is None else self.level)

    def log_within(self, x: Array, bound: float) -> Array:
        """Log P(an outcome keeps this bound), even where the probability is too small for a number.

        Each sample of the hyperparameters has a probability; these are averaged."""
        sign = self.threshold.sign
        target = self.number.scale.to_model(np.array([sign * bound]))
        found = np.empty(len(x))
        for rows in chunks(len(x), CHUNK):
            means, variances, weight = self.number._mixture(x[rows])
            z = (target - means) / np.sqrt(variances)
            each = log_ndtr(normal_quantile(z, self.observations - 1.0))
            found[rows] = logsumexp(each, b=weight, axis=1)
        return found

    def violation(self, x: Array) -> Array:
        """How far the mean lies beyond the bound, on the model's scale: x (n, d) encoded -> (n,)."""
        bound = self.number.scale.to_model(np.array([self.threshold.sign * self.threshold.bound]))
        with one_thread():
            return np.maximum(self.number.normal(x)[0] - bound, 0.0)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the number, in its own units: two (n,)."""
        mean, deviation = self.number.predict(x)
        return self.threshold.sign * mean, deviation

    def save(self, group: Group) -> None:
        group.attrs["threshold"] = str(self.threshold)
        group.attrs["observations"] = self.observations
        if self.level is not None:
            group.attrs["level"] = self.level
        self.number.save(group.create_group("number"))

    @classmethod
    def load(cls, group: Group) -> Bounded:
        level = group.attrs.get("level")
        return cls(
            Model.load(group["number"]),
            Threshold.parse(str(group.attrs["threshold"])),
            float(group.attrs.get("observations", math.inf)),
            None if level is None else float(level),
        )


def normal_quantile(t: Array, degrees: float) -> Array:
    """The quantile of a normal whose lower tail is as likely as Student's below t, elementwise.

    Wallace (1959), "Bounds on normal approximations to Student's and the chi-square distributions". It
    is right to three digits. Its logarithm is right even where both odds are too small for a
    number.
    """
    if not math.isfinite(degrees):
        return t
    v = max(degrees, 1.0)
    shrunk = np.sqrt(v * np.log1p(np.square(t) / v)) * ((8.0 * v + 1.0) / (8.0 * v + 3.0))
    return np.copysign(shrunk, t)


@dataclass(frozen=True)
class Cost:
    """The prediction of an evaluation's cost. log: a model whose objective is ln cost.

    Whatever the kind of surrogate, this is a Gaussian process, and a sparse one beyond a few
    hundred observations. It takes a second or two. A second ensemble of networks would double the
    cost of the fit.
    """

    log: Model

    def expected(self, x: Array) -> tuple[Array, Array]:
        """Expected cost and expected inverse cost (Snoek et al. 2012, section 3.2): two (n,).

        x: (n, d) encoded. Costs are cut off at the seen range, widened by its own spread on either
        side.
        """
        scale = self.log.scale
        parts = [self.log.normal(x[rows]) for rows in chunks(len(x), CHUNK)]
        mean, deviation = np.concatenate(parts, axis=1) if parts else np.empty((2, 0))
        logs = scale.to_objective(mean[:, None] + deviation[:, None] * NODES)
        costs = np.exp(np.clip(logs, scale.lowest, scale.highest))
        return costs @ NODE_WEIGHTS, (1.0 / costs) @ NODE_WEIGHTS

    def save(self, group: Group) -> None:
        self.log.save(group)

    @classmethod
    def load(cls, group: Group) -> Cost:
        return cls(Model.load(group))
