"""A local model of a few hundred points in one region. There it sees more than the surrogate of the
whole space.

Trust regions and the choice of a study's best point use it. Among points that differ little, a
model of the whole space smooths the differences away, and the best outcome may be luck
(benchmarks/tried.md, noise).

The axes of the points' likeliest quadratic replace the inputs, if the outcomes are then likelier.
Along them a turned sum becomes a plain sum, and a turned valley has one length along it and one
across. The low points of a steep function lie in a thin slab, which becomes as thick as it is long.

A few outcomes may be far off for reasons that the inputs do not show, such as a run that did not
converge, or noise with heavy tails. Under noise, each such outcome gets a noise of its own, if the
others are then much likelier.

Outcomes that noise multiplies are modelled by their logarithms, if they are then likelier and much
of them is noise. Modelled directly, values that are low by luck would look certain, and high ones
would teach nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import log_ndtr

from dngo.rules import current
from dngo.surrogates.data import LogScale, TargetScale
from dngo.surrogates.local_process import LocalProcess, Quadratic, likeliest_quadratic
from dngo.surrogates.problem import ReportedNoise
from dngo.surrogates.selection import is_likelier, is_of_no_use, predicts_better
from dngo.types import Array, Rows

NORMAL = 2.198  # a normal's variance is this many times the square of its median deviation
EDGE = 1.5  # bound of a process's inputs: beyond it nothing changes
MOST = 800  # points that the process of a region or a front is conditioned on, at a cubic cost
# Rounds of the search for outliers, each at the cost of a Cholesky factor. Every third one fits the
# hyperparameters anew.
ROUNDS, REFINED_EVERY = 12, 3


@dataclass(frozen=True)
class Frame:
    """Points along axes of their own: t @ axes - middle. axes: (d, d), in columns; middle: (d,).

    axes None: the points stay as they are. With choices of thousands of columns, a product with an
    identity matrix would take a third of the time.
    """

    axes: Array | None = None
    middle: Array | float = 0.0

    @classmethod
    def along(cls, axes: Array, t: Array) -> Frame:
        """The frame in which points t (n, d) are in [-1, 1] along each axis."""
        seen = t @ axes
        reach = 0.5 * np.ptp(seen, axis=0)
        # 0 if all points have the same value of an input
        reach = np.where(reach > 1e-9, reach, 1.0)
        return cls(axes / reach, 0.5 * (seen.max(axis=0) + seen.min(axis=0)) / reach)

    def of(self, t: Array) -> Array:
        """Points t (n, d) in this frame: (n, d)."""
        return t if self.axes is None else t @ self.axes - self.middle

    def back(self, slopes: Array) -> Array:
        """Converts gradients in this frame, (n, d), to gradients by the points: (n, d)."""
        return slopes if self.axes is None else slopes @ self.axes.T

    def rows(self, inputs: list[int]) -> Array:
        """How a point moves along the axes if these inputs change: (f, d)."""
        if self.axes is not None:
            return self.axes[inputs]
        return np.eye(len(inputs))  # the others stay at 0


@dataclass(frozen=True)
class Nearby:
    """A process fitted to points of one region.

    x, y, noise: as in `fit`. middle, reach: (d,) of the encoded inputs, which they map to [-1, 1]. frame:
    the map from these to the inputs of the process. scale: of the objective. outliers: rows whose
    outcomes count as outliers.
    """

    x: Array
    y: Array
    noise: Array
    middle: Array
    reach: Array
    frame: Frame
    scale: TargetScale
    model: LocalProcess
    outliers: Rows

    @classmethod
    def fit(
        cls,
        x: Array,
        y: Array,
        noise: Array,
        *,
        turn: bool = True,
        floor: float | None = None,
        rng: np.random.Generator,
    ) -> Nearby:
        """x: (n, d) encoded; y: (n,) objective, minimised; noise: (n,) as reported, NaN unknown.

        turn: whether turned axes are looked for, which costs one more fit. floor: share of the
        outcomes within the depth of the scale (`TargetScale.fit`); with a floor, apparent noise
        counts as real.
        """
        middle, reach = 0.5 * (x.max(axis=0) + x.min(axis=0)), 0.5 * np.ptp(x, axis=0)
        reach = np.maximum(reach, 1e-6)
        points = _Points((x - middle) / reach, y, noise, np.ones(len(y)))
        (rng,) = rng.spawn(1)
        scale, frame = TargetScale.fit(y, floor=floor), Frame()
        first = points.sketch(scale, rng).refined(rng)
        quadratic = likeliest_quadratic(points.t, first.targets) if turn else None
        is_plain = quadratic is not None and quadratic.log_evidence > first.log_evidence
        is_even = first.noise_of_rows(0).mean() <= current().nearby.noisy or is_plain
        if floor is None and not is_even:
            points, scale, first = points.as_noise_is(scale, first, rng)
        # Under noise, axes never gained anything (37 fits to runs on the noisy functions of
        # families.py).
        if quadratic is not None and (is_plain or first.noise[0] <= current().nearby.noisy):
            frame, first = points.along_axes(scale, first, quadratic, rng)
        if floor is None and not len(points.outliers) and not isinstance(scale, LogScale):
            # A few outliers may be a small share of the variance, and show only along the axes.
            least = current().nearby.far
            points, first = points.through(frame).with_outliers(first, rng, least=least)
        return cls(x, y, noise, middle, reach, frame, scale, first, points.outliers)

    def resolved(self, *, turn: bool, rng: np.random.Generator) -> Nearby:
        """The same on a scale that spreads the lowest outcomes, if that predicts them better.

        Without it, if walls are a thousand times as high as the differences on the floor between
        them, drawn functions fall hundreds below the floor. turn: as in `fit`.
        """
        y, share = self.y, current().selection.low
        least, low = np.quantile(y, [0.0, share])
        # Under noise the lowest outcomes are the luckiest, and need no scale of their own.
        is_noise = self.by_logarithms or (self.is_noisy and len(self.outliers))
        if is_noise or not 0.0 < low - least < current().nearby.flat * (y.mean() - least):
            return self
        found = Nearby.fit(self.x, y, self.noise, turn=turn, floor=share, rng=rng)
        better = predicts_better(found.log_scores(low), self.log_scores(low), len(y))
        return found if better else self

    def log_scores(self, level: float) -> Array:
        """Log scores (n,) of the outcomes to which the process was fitted, each given the others.

        An outcome up to `level` has its density, in units of the objective. A higher one has the
        probability of being higher (Diks, Panchenko and van Dijk 2011, the censored likelihood).
        """
        model, y = self.model, self.y
        missed, variance = model.left_out_errors()
        z = (self.scale.to_model(np.array(level)) - (model.targets - missed)) / np.sqrt(variance)
        density = model.left_out_density() - 0.5 * np.log(2 * np.pi) + self.scale.log_slope(y)
        return np.where(y > level, log_ndtr(-z), density)

    @property
    def by_logarithms(self) -> bool:
        """Whether outcomes are seen by their logarithms, because noise multiplies them."""
        return isinstance(self.scale, LogScale)

    @property
    def is_noisy(self) -> bool:
        """Whether so much of the targets' variance is noise that it matters."""
        return bool(self.model.noise[0] > current().nearby.noisy)

    def inputs(self, x: Array) -> Array:
        """The inputs of the processes for encoded points x (n, d)."""
        return np.clip(self.frame.of((x - self.middle) / self.reach), -EDGE, EDGE)

    def slopes(self, x: Array, by_input: Array) -> Array:
        """Gradients by x (n, d) from gradients by the inputs of the processes, (n, d): (n, d)."""
        free = np.abs(self.inputs(x)) < EDGE
        return self.frame.back(by_input * free) / self.reach

    def metric(self, inputs: list[int]) -> Array:
        """A matrix (f, f) for these encoded inputs. Its product with a gradient is the steepest
        descent, if distances are measured in the process's lengthscales."""
        by_input = self.frame.rows(inputs) / self.reach[inputs, None]
        form = by_input @ by_input.T
        least = 1e-12 * np.trace(form) * np.eye(len(form))
        found: Array = np.linalg.inv(form + least)
        return found / np.trace(found)

    def targets(self, x: Array) -> tuple[Array, Array]:
        """Mean and deviation of the function at x (n, d), on the process's scale: two (n,)."""
        (mean,), (variance,) = self.model.latent(self.model.features(self.inputs(x)))
        return mean, np.sqrt(variance)

    def at_rows(self) -> tuple[Array, Array]:
        """Like `targets`, at the points that the process was fitted to, at less cost."""
        mean, variance = self.model.at_rows()
        return mean, np.sqrt(variance)

    def is_blind(self, u: Array, centre: Array, *, alike: bool) -> bool:
        """Whether the model is of no use, although it has as many points as a quadratic has
        weights, and although there is little noise.

        u: (n, k) the points in the unit cube, centre: (1, k) the best one. alike: as in `is_of_no_use`.
        """
        d = len(self.middle)
        if len(u) < (d + 1) * (d + 2) // 2 or self.by_logarithms:
            return False
        targets, (missed, _) = self.model.targets, self.model.left_out_errors()
        return is_of_no_use(targets - missed, targets, cdist(centre, u)[0], alike=alike)

    def function(self, x: Array) -> tuple[Array, Array]:
        """Mean and deviation of the function at x (n, d), without noise, in objective units: two (n,)."""
        mean, deviation = self.targets(x)
        high, low = (self.scale.to_objective(mean + s * deviation) for s in (1, -1))
        return self.scale.to_objective(mean), 0.5 * (high - low)


@dataclass(frozen=True)
class _Points:
    """The data of processes: inputs t (n, d) in [-1, 1]; y and noise (n,) as in `Nearby.fit`.

    own_noise: (n,) factor on each one's noise, 1 unless it is an outlier.
    """

    t: Array
    y: Array
    noise: Array
    own_noise: Array

    @property
    def outliers(self) -> Rows:
        """Rows of the outliers."""
        return np.flatnonzero(self.own_noise > 1)

    def through(self, frame: Frame) -> _Points:
        return replace(self, t=frame.of(self.t))

    def sketch(self, scale: TargetScale, rng: np.random.Generator) -> LocalProcess:
        variance = (self.noise * np.exp(scale.log_slope(self.y))) ** 2
        noise = ReportedNoise.of(variance) or ReportedNoise(np.nan, np.ones(len(variance)))
        targets = scale.to_model(self.y)
        return LocalProcess.sketch(self.t, targets, noise.times(self.own_noise), rng=rng)

    def as_noise_is(
        self, scale: TargetScale, first: LocalProcess, rng: np.random.Generator
    ) -> tuple[_Points, TargetScale, LocalProcess]:
        """The points, their scale and their process, changed if the noise has heavy tails or
        multiplies outcomes."""
        points, found = self, first
        if first.noise[0] > current().nearby.noisy:
            points, found = self.with_outliers(first, *rng.spawn(1))
        # If noise multiplies outcomes, an outlier may be none on the scale of logarithms.
        other_scale, other = self.by_logarithms(scale, found, rng)
        return (points, scale, found) if other is found else (self, other_scale, other)

    def with_outliers(
        self, first: LocalProcess, rng: np.random.Generator, *, least: float = 0.0
    ) -> tuple[_Points, LocalProcess]:
        """The points and their process. Each outlier gets a noise of its own. Nothing changes
        without outliers, or if none lies at least `least` deviations off.

        Otherwise the noise of all points would grow to cover the outliers, and a low outlier would
        be believed. Outliers hide each other, so they are looked for in rounds, with the median
        noise of all points.
        """
        points, found = self, first
        for round_ in range(1, ROUNDS + 1):
            missed, variance = found.left_out_errors()
            off = np.abs(missed) / np.sqrt(variance)
            far = off > current().nearby.outlying
            if not far.any() or (round_ == 1 and off.max() < least):
                break
            own = np.where(far, missed**2 / found.noise[0], 1.0)
            points = replace(self, own_noise=np.maximum(own, points.own_noise))
            usual = float(np.median(np.abs(missed[points.own_noise == 1.0])))
            found = found.with_noise(NORMAL * usual**2, first.reported.times(points.own_noise))
            if round_ % REFINED_EVERY == 0:
                found = found.refined(rng)
        if not len(points.outliers):
            return self, first
        found = found.refined(rng)
        # An outlier costs two further numbers: its noise, and which of the n rows it is.
        numbers, evidence = 3 * len(points.outliers), (found.log_evidence, first.log_evidence)
        kept = is_likelier(*evidence, numbers=numbers, n=len(self.y))
        return (points, found) if kept else (self, first)

    def by_logarithms(
        self, scale: TargetScale, first: LocalProcess, rng: np.random.Generator
    ) -> tuple[TargetScale, LocalProcess]:
        """Of two scales with their processes, the given one and that of the outcomes' logarithms,
        the likelier."""
        log_scale, (rng,) = LogScale.of(self.y), rng.spawn(1)
        slopes = np.sum(log_scale.log_slope(self.y) - scale.log_slope(self.y))
        least = first.evidence_by_mean() - slopes
        other = self.sketch(log_scale, rng)
        # If noise multiplies, even a sketch gains thousands of nats; otherwise it loses some.
        if other.evidence_by_mean() < least:
            return scale, first
        other = other.refined(rng)
        kept = is_likelier(other.evidence_by_mean(), least, numbers=2, n=len(self.y))
        is_noise = np.mean(other.noise * other.reported.relative) >= current().nearby.multiplies
        return (log_scale, other) if kept and is_noise else (scale, first)

    def along_axes(
        self,
        scale: TargetScale,
        first: LocalProcess,
        quadratic: Quadratic,
        rng: np.random.Generator,
    ) -> tuple[Frame, LocalProcess]:
        """The process along a quadratic's axes, or the given process.

        Axes may come from the likeliest quadratic, or from the quadratic part of the process
        itself, which allows for its other parts. A sketch of each decides which axes are likelier.
        """
        d = self.t.shape[1]
        found = [axes for axes in (quadratic.axes, first.axes()) if axes is not None]
        frames = [Frame.along(axes, self.t) for axes in found]
        sketches = [self.through(frame).sketch(scale, rng) for frame in frames]
        best = int(np.argmax([sketch.log_evidence for sketch in sketches]))
        other = sketches[best].refined(rng)
        evidence = other.log_evidence, first.log_evidence
        kept = is_likelier(*evidence, numbers=d * (d - 1) / 2, n=len(self.t))
        return (frames[best], other) if kept else (Frame(), first)
