"""The data of a surrogate's fit, and the scale on which the surrogate sees the objective."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import ClassVar

import numpy as np
from scipy.special import boxcox1p, inv_boxcox1p

from dngo.fronts import on_front
from dngo.rules import current
from dngo.surrogates.numerics import bounded
from dngo.thresholds import Threshold
from dngo.types import Array, Group, Mask, Rows


@dataclass(frozen=True)
class EarlierTask:
    """Outcomes of a related study: x (n, d) encoded inputs, y (n,) objective, minimised, finite; or a
    constraint's number, in its own units. A value beyond `numerics.LARGEST` counts as that."""

    x: Array
    y: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", bounded(self.y))


@dataclass(frozen=True)
class TrainingData:
    """All outcomes from which a fit may learn, a row each.

    x: (n, d) encoded inputs in the unit cube.
    y: (n,) objective, minimised; NaN without one.
    feasible: (n,) bool, which outcomes are ok; None: those with an objective.
    constraints: name -> (n,) 1 satisfied, 0 violated, NaN unknown. "completed" is always one.
    noise: (n,) standard deviation of each value of y, as reported; NaN unknown. None: none reported.
    log_cost: (n,) ln of the cost of each evaluation, NaN unknown; None: costs are not modelled.
    batch: (n,) the iteration of each row, whole numbers, or None if unknown.
    groups: (d,) which inputs belong to one categorical parameter, as in `Space.groups`; None: none.
    earlier: related studies, each a task of its own that the objective may resemble.
    numbers: name -> (n,) of the constraints that have one, NaN unknown; thresholds: name -> its bound;
    earlier_numbers: name -> its values in related studies.
    objectives: name -> (n,) each of several, minimised, NaN without one; y is then NaN.
    noises: name -> (n,) standard deviation of each of its values, like noise; earlier_objectives: name ->
    its values in related studies.
    Values of y, noise and numbers beyond `numerics.LARGEST` count as that.
    """

    x: Array
    y: Array
    constraints: dict[str, Array] = field(default_factory=dict)
    noise: Array | None = None
    log_cost: Array | None = None
    batch: Array | None = None
    earlier: tuple[EarlierTask, ...] = ()
    groups: Rows | None = None
    feasible: Mask | None = None
    numbers: dict[str, Array] = field(default_factory=dict)
    thresholds: dict[str, Threshold] = field(default_factory=dict)
    earlier_numbers: dict[str, tuple[EarlierTask, ...]] = field(default_factory=dict)
    objectives: dict[str, Array] = field(default_factory=dict)
    noises: dict[str, Array] = field(default_factory=dict)
    earlier_objectives: dict[str, tuple[EarlierTask, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        n = len(self.x)
        if self.x.ndim != 2:
            raise ValueError(
                f"x must be a matrix of n rows and d columns, not of shape {self.x.shape}"
            )
        columns = {
            "y": self.y,
            "feasible": self.feasible,
            "noise": self.noise,
            "log_cost": self.log_cost,
            "batch": self.batch,
        }
        several = {**self.objectives, **{f"noise of {n}": v for n, v in self.noises.items()}}
        for name, column in {**columns, **self.constraints, **self.numbers, **several}.items():
            if column is not None and column.shape != (n,):
                raise ValueError(f"{name} must have shape ({n},), not {column.shape}")
        if self.groups is not None and self.groups.shape != (self.x.shape[1],):
            raise ValueError(
                f"groups must have shape ({self.x.shape[1]},), not {self.groups.shape}"
            )
        if not np.isfinite(self.x).all():
            raise ValueError("x must be finite")
        object.__setattr__(self, "y", bounded(self.y))
        object.__setattr__(self, "numbers", {k: bounded(v) for k, v in self.numbers.items()})
        if self.noise is not None:
            object.__setattr__(self, "noise", bounded(self.noise))

    def of_objective(self, name: str) -> TrainingData:
        """The data with one of several objectives as the only one."""
        return TrainingData(
            self.x,
            self.objectives[name],
            noise=self.noises.get(name),
            batch=self.batch,
            feasible=self.feasible,
            groups=self.groups,
            earlier=self.earlier_objectives.get(name, ()),
        )

    @property
    def ok(self) -> Mask:
        """Which outcomes are ok: (n,)."""
        if self.feasible is not None:
            return self.feasible
        return np.isfinite(next(iter(self.objectives.values()), self.y))

    def where_ok(self) -> TrainingData:
        """The same, with objectives only for ok outcomes."""
        ok, several = self.ok, self.objectives.items()
        objectives = {name: np.where(ok, y, np.nan) for name, y in several}
        return replace(self, y=np.where(ok, self.y, np.nan), objectives=objectives)

    def best(self) -> Array:
        """The inputs of the best outcomes: (m, d). With several objectives they are on the front. While
        no outcome is ok, it is the one that comes closest, if that is known."""
        rows = np.flatnonzero(self.ok)
        if not len(rows):
            least = self._closest()
            return self.x[:0] if least is None else self.x[[least]]
        if not self.objectives:
            return self.x[rows[[np.argmin(self.y[rows])]]]
        values = np.column_stack(list(self.objectives.values()))
        return self.x[rows[on_front(values[rows])]]

    def levels(self) -> dict[str, float]:
        """As long as no outcome is ok: for each number with a threshold, the level that counts as
        progress.

        One outcome comes closest to keeping all its bounds. The level is its number, or the bound
        itself if it keeps that. Empty once an outcome is ok, or if no outcome has all numbers.
        """
        least = None if self.ok.any() else self._closest()
        if least is None:
            return {}
        return {
            n: t.bound if t.keeps(self.numbers[n][least]) else float(self.numbers[n][least])
            for n, t in self._bounds.items()
        }

    @property
    def _bounds(self) -> dict[str, Threshold]:
        """The thresholds of numbers that are reported."""
        return {n: t for n, t in self.thresholds.items() if n in self.numbers}

    def _closest(self) -> int | None:
        """The row that comes closest to keeping all its bounds, None if none has all numbers.

        How far a bound is broken is counted in units of the number's spread, so that no number
        outweighs the others.
        """
        worse = []
        for name, threshold in self._bounds.items():
            beyond = threshold.sign * (self.numbers[name] - threshold.bound)
            low, high = (
                np.nanquantile(beyond, [0.25, 0.75]) if np.isfinite(beyond).any() else (0, 0)
            )
            worse.append(np.maximum(beyond, 0.0) / (high - low if high > low else 1.0))
        total = np.sum(worse, axis=0)
        return None if not worse or np.isnan(total).all() else int(np.nanargmin(total))

    def of_number(self, name: str) -> TrainingData | None:
        """The data with a constraint's number as the objective; None if no value is known.

        Also None if all values are the same: without a spread the model would be certain about the
        bound. Then the flag is modelled instead.
        """
        numbers, threshold = self.numbers.get(name), self.thresholds.get(name)
        if threshold is None or numbers is None or np.isnan(numbers).all():
            return None
        known = self.earlier_numbers.get(name, ())
        if np.nanmin(numbers) == np.nanmax(numbers) and not known:
            return None
        sign = threshold.sign
        earlier = tuple(EarlierTask(e.x, sign * e.y) for e in known if len(e.y))
        y = sign * numbers
        return TrainingData(self.x, y, batch=self.batch, earlier=earlier, groups=self.groups)


@dataclass(frozen=True)
class TargetScale:
    """A strictly increasing map (up to the cut-off) from the objective to the model's targets.

    The map has four steps. First is the height above the least value, logarithmic beyond `depth`.
    This is for objectives whose walls are thousands of times as high as the differences on the
    floor between them. With an infinite depth it changes nothing. Second is the distance from the
    median in robust standard deviations, logarithmic beyond a few of them, so that one value of
    1e12 does not flatten all the others. Third is a power transform (Yeo and Johnson 2000), for
    skewed objectives. A power below 1 `power` spreads the low values and draws the high ones
    together. The last step is standardisation. With a power of 1 and no depth, values within a few
    robust standard deviations are only standardised.

    tails: whether values far from the median count by their logarithm; otherwise the map only standardises.
    lowest, highest: the range of objective values that an expectation has to cover. It reaches up
    to the highest value seen. Downwards it reaches below the lowest value as far as that lies below
    the median, on the scale of the heights.
    """

    centre: float
    spread: float
    shift: float
    scale: float
    power: float = 1.0
    lowest: float = -np.inf
    highest: float = np.inf
    least: float = 0.0
    depth: float = np.inf
    tails: bool = True

    def save(self, group: Group) -> None:
        for one in fields(self):
            # A file without this entry has compressed tails, since there was no choice before.
            if one.name != "tails" or not self.tails:
                group.attrs[f"scale_{one.name}"] = getattr(self, one.name)

    @classmethod
    def load(cls, group: Group) -> TargetScale:
        names = [f"scale_{one.name}" for one in fields(cls) if one.name != "tails"]
        found = {n[6:]: float(group.attrs[n]) for n in names if n in group.attrs}
        return cls(**found, tails=bool(group.attrs.get("scale_tails", True)))

    @classmethod
    def fit(
        cls, y: Array, power: float = 1.0, floor: float | None = None, *, tails: bool = True
    ) -> TargetScale:
        """From the finite objective values y: (n,), n >= 1.

        floor: the share of the values that lie above the least value by at most the depth. There is
        no depth if floor is None, if this share of the values is equal, or if heights are too large
        for a number.
        """
        least, highest = float(np.min(y)), float(np.max(y))
        depth = np.inf
        if floor is not None and np.isfinite(highest - least):
            depth = float(np.quantile(y, floor)) - least
            depth = depth if depth > 1e-12 * abs(least) else np.inf
        y = _flatten(y, least, depth)
        centre = float(np.median(y))
        lower, upper = np.quantile(y, [0.25, 0.75])
        spread = float(upper / 1.349 - lower / 1.349)
        resolution = 1e-12 * max(abs(centre), float(np.finfo(float).tiny) * 1e12)
        # more than half of the values are equal, so use the mean deviation
        if spread <= resolution:
            spread = float(np.mean(np.abs(y - centre)))
        if not np.isfinite(spread) or spread <= resolution:
            spread = 1.0
        z = (y - centre) / spread
        z = _bend(_compress(z) if tails else z, power)
        scale = float(np.std(z))
        scale = scale if scale > 1e-9 else 1.0
        with np.errstate(over="ignore"):
            lowest = least - (centre - least)
        shift = float(np.mean(z))
        return cls(centre, spread, shift, scale, power, lowest, highest, least, depth, tails)

    def covering(self, y: Array) -> TargetScale:
        """The same map, with a range that also covers objective values y (n,)."""
        least, highest = float(np.min(y)), float(np.max(y))
        with np.errstate(over="ignore"):
            lowest = least - (self.centre - least)
        return replace(self, lowest=min(self.lowest, lowest), highest=max(self.highest, highest))

    @property
    def is_bent(self) -> bool:
        """Whether it does more than standardise, apart from outliers."""
        return self.power != 1.0 or bool(np.isfinite(self.depth))

    def to_model(self, y: Array) -> Array:
        """Objective values to model targets, elementwise."""
        y = _flatten(y, self.least, self.depth)
        with np.errstate(over="ignore"):
            z = (y - self.centre) / self.spread
            z = _bend(_compress(z) if self.tails else z, self.power)
        return (z - self.shift) / self.scale

    def to_objective(self, t: Array) -> Array:
        """Model targets to objective values, elementwise; inverse of `to_model` under the cut-off."""
        z = _unbend(t * self.scale + self.shift, self.power)
        z = _expand(z) if self.tails else z
        return _steepen(z * self.spread + self.centre, self.least, self.depth)

    def log_slope(self, y: Array) -> Array:
        """Log derivative of `to_model`, elementwise: it turns a density of targets into one of objectives.
        Past the cut-off the map is flat; there it is the derivative at the cut-off."""
        if not (self.tails or self.is_bent):
            return np.full_like(y, -np.log(self.spread) - np.log(self.scale))
        height = _height(y, self.least, self.depth)
        y = _flatten(y, self.least, self.depth)
        with np.errstate(over="ignore"):
            z = (y - self.centre) / self.spread
        rules = current().tails
        z = np.minimum(z, rules.upper_linear + np.expm1(rules.upper_limit - rules.upper_linear))
        beyond = np.maximum(np.maximum(z - rules.upper_linear, -z - rules.lower_linear), 0.0)
        c = _compress(z)
        bent = (self.power - 1.0) * np.sign(c) * np.log1p(np.abs(c))
        constant = np.log(self.spread) + np.log(self.scale)
        return np.asarray(bent - np.log1p(beyond) - constant - np.log1p(height))


@dataclass(frozen=True)
class LogScale(TargetScale):
    """The same for the logarithm of the objective's height above a floor. It is for outcomes that
    noise multiplies: their spread is proportional to the height, and so the same everywhere on this
    scale.

    floor: below the lowest value, by a share of `unit`. unit: the median's height above the lowest value.
    """

    floor: float = 0.0
    unit: float = 1.0

    # How far the floor lies below the lowest value. With 0.1 local processes rank points equally
    # well, with 1 less well (benchmarks/tried.md, noise).
    BELOW: ClassVar[float] = 0.3

    @classmethod
    def of(cls, y: Array) -> LogScale:
        lowest = float(np.min(y))
        unit = float(np.median(y)) - lowest
        unit = unit if unit > 1e-12 * abs(lowest) else max(1.0, abs(lowest))
        floor = lowest - cls.BELOW * unit
        inner = TargetScale.fit(np.log((y - floor) / unit))
        return cls(
            **{one.name: getattr(inner, one.name) for one in fields(inner)}, floor=floor, unit=unit
        )

    def to_model(self, y: Array) -> Array:
        return super().to_model(np.log(self._height(y)))

    def to_objective(self, t: Array) -> Array:
        # The bound keeps exp from overflowing; no observed height comes near it.
        return self.floor + self.unit * np.exp(np.minimum(super().to_objective(t), 600.0))

    def log_slope(self, y: Array) -> Array:
        height = self._height(y)
        return super().log_slope(np.log(height)) - np.log(height * self.unit)

    def _height(self, y: Array) -> Array:
        return np.maximum((y - self.floor) / self.unit, 1e-300)


def _height(y: Array, least: float, depth: float) -> Array:
    """The height above the least value, in units of the depth, cut off where its logarithm reaches
    the upper limit; 0 without a depth."""
    if np.isinf(depth):
        return np.zeros_like(y)
    with np.errstate(over="ignore"):
        return np.minimum(np.maximum(y - least, 0.0) / depth, np.expm1(current().tails.upper_limit))


def _flatten(y: Array, least: float, depth: float) -> Array:
    if np.isinf(depth):
        return y
    return np.where(y > least, least + depth * np.log1p(_height(y, least, depth)), y)


def _steepen(y: Array, least: float, depth: float) -> Array:
    """The inverse of `_flatten`."""
    if np.isinf(depth):
        return y
    # The bound keeps exp from overflowing; no observed height comes near it.
    height = np.expm1(np.clip((y - least) / depth, 0.0, 600.0))
    return np.where(y > least, least + depth * height, y)


def _bend(z: Array, power: float) -> Array:
    if power == 1.0:
        return z
    return np.where(z >= 0, boxcox1p(np.abs(z), power), -boxcox1p(np.abs(z), 2.0 - power))


def _unbend(b: Array, power: float) -> Array:
    if power == 1.0:
        return b
    size = np.abs(b)
    return np.where(b >= 0, _inverse_box_cox(size, power), -_inverse_box_cox(size, 2.0 - power))


def _inverse_box_cox(b: Array, power: float) -> Array:
    # Bounds against overflow, and of the values that a negative power can have. No observed value
    # reaches them.
    most = 300.0 if power == 0.0 else (1e-6 - 1.0) / power if power < 0.0 else np.inf
    return np.asarray(inv_boxcox1p(np.minimum(b, most), power))


def _compress(z: Array) -> Array:
    rules = current().tails
    high = rules.upper_linear + np.log1p(np.maximum(z - rules.upper_linear, 0.0))
    low = -rules.lower_linear - np.log1p(np.maximum(-z - rules.lower_linear, 0.0))
    tails = np.where(z > 0, np.minimum(high, rules.upper_limit), low)
    return np.where((z > rules.upper_linear) | (z < -rules.lower_linear), tails, z)


def _expand(c: Array) -> Array:
    rules = current().tails
    high = rules.upper_linear + np.expm1(np.clip(c - rules.upper_linear, 0.0, rules.upper_limit))
    low = -rules.lower_linear - np.expm1(np.clip(-c - rules.lower_linear, 0.0, 300.0))
    return np.where(c > rules.upper_linear, high, np.where(c < -rules.lower_linear, low, c))
