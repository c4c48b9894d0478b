"""Models of a few hundred points that lie together, weighted by how well they predict what was left out.

A trust region is searched by them, and a study's best point is chosen by them: among points that differ
little, a model of the whole space smooths away what tells them apart.

Each candidate sees the points in a way of its own, and none knows of another:

``plain``        the outcomes and the inputs as they are
``logarithmic``  logarithms of the outcomes, for noise that multiplies
``floor``        heights above the lowest outcome by their logarithms, for walls around a floor
``lowest``       the lowest points alone, beside which the plain one answers for all others
``robust``       the plain one with a noise of its own for each outlier
``... turned``   the same along the axes of the likeliest quadratic
``... again``    the best of these from another start

One score chooses (`log_score`): the log density of each outcome, given all others, in units of the
objective. Of a high outcome only that it is high counts: a model is there to tell the low ones apart.
Weights are those of the mixture that is likeliest by these scores (stacking: Yao, Vehtari, Simpson and
Gelman 2018). A candidate that was chosen by looking at the outcomes pays a price for that.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import norm

from dngo.surrogates.data import LogScale, TargetScale
from dngo.surrogates.local_process import LocalProcess, likeliest_quadratic
from dngo.surrogates.numerics import bounded, one_thread
from dngo.surrogates.problem import ReportedNoise
from dngo.types import Array, Rows


@dataclass(frozen=True, kw_only=True)
class LocalModelRules:
    """Which candidates there are, and how they are judged.

    low: share of the outcomes that are low. kept: a smaller weight is dropped. shares: of the additive
    part, where a fit and a second one start. again_up_to: points up to which there is a second one. lowest:
    share of the points that are the lowest, and lowest_least: so many at least. outlying: deviations off
    what all others predict. rounds: in which outliers are looked for, refined_every so many with a fit.
    points, least: of `around_the_best`.
    """

    low: float = 0.25
    kept: float = 0.05
    shares: tuple[float, float] = (0.5, 0.95)
    again_up_to: int = 400
    lowest: float = 0.2
    lowest_least: int = 20
    noisy: float = 0.01
    outlying: float = 3.0
    rounds: int = 12
    refined_every: int = 3
    points: int = 400
    least: int = 6


RULES = LocalModelRules()

NORMAL = 2.198  # variance of a normal, by the square of its median deviation
EDGE = 1.5  # of what a process sees: beyond it nothing changes
KINDS = (
    "plain",
    "logarithmic",
    "floor",
    "lowest",
    "turned",
    "refined",
    "robust",
    "again",
    "distance",
)


@dataclass(frozen=True)
class View:
    """Points along axes of their own, (x - middle) @ axes - shift: (d, d), in columns, and (d,) twice."""

    axes: Array
    middle: Array
    shift: Array

    @classmethod
    def box(cls, x: Array) -> View:
        """That in which points x (n, d) are in [-1, 1] along each input."""
        reach = np.maximum(0.5 * np.ptp(x, axis=0), 1e-6)
        middle = 0.5 * (x.max(axis=0) + x.min(axis=0))
        return cls(np.diag(1.0 / reach), middle, np.zeros(x.shape[1]))

    def along(self, axes: Array, x: Array) -> View:
        """That in which they are so along these axes (d, d) of what a box's view sees."""
        seen = self.of(x) @ axes
        reach = 0.5 * np.ptp(seen, axis=0)
        reach = np.where(reach > 1e-9, reach, 1.0)  # none where points share an input's value
        shift = 0.5 * (seen.max(axis=0) + seen.min(axis=0)) / reach
        return View(self.axes @ axes / reach, self.middle, shift)

    def of(self, x: Array) -> Array:
        """Points x (n, d) as they are seen: (n, d)."""
        return (x - self.middle) @ self.axes - self.shift


@dataclass(frozen=True)
class Sample:
    """Points that lie together: x (n, d) encoded, y (n,) minimised, noise (n,) as reported, NaN unknown."""

    x: Array
    y: Array
    noise: Array

    def at(self, rows: Rows) -> Sample:
        return Sample(self.x[rows], self.y[rows], self.noise[rows])


@dataclass(frozen=True)
class LocalModel:
    """One candidate.

    kind: what it is. rows: those of the sample that it knows, in their order. price: in nats, of what was
    chosen by looking at the outcomes. own_noise: (m,) what each one's is multiplied by, 1 unless it is an
    outlier.
    """

    kind: str
    sample: Sample
    rows: Rows
    view: View
    scale: TargetScale
    process: LocalProcess
    own_noise: Array
    price: float = 0.0

    @classmethod
    def sketch(
        cls,
        kind: str,
        sample: Sample,
        scale: TargetScale,
        rng: np.random.Generator,
        *,
        rows: Rows | None = None,
        price: float = 0.0,
        turned: bool = True,
    ) -> LocalModel:
        """The first stage of its fit (`LocalProcess.sketch`). sample: of the rows, all if None.

        turned: whether axes of its own are looked for, those of the likeliest quadratic and those of the
        process's own. Axes are hyperparameters like others: the evidence decides, at half of log n for each
        angle (Schwarz 1978).
        """
        n, d = sample.x.shape
        rows = np.arange(n) if rows is None else rows
        view, ones = View.box(sample.x), np.ones(n)
        process = _sketch(sample, scale, view, ones, RULES.shares[0], rng)
        found = cls(kind, sample, rows, view, scale, process, ones, price)
        if not turned:
            return found
        quadratic = likeliest_quadratic(view.of(sample.x), process.targets)
        highest, angles = process.log_evidence, 0.5 * (d * (d - 1) / 2) * np.log(n)
        for axes in (None if quadratic is None else quadratic.axes, process.axes()):
            if axes is None:
                continue
            other = view.along(axes, sample.x)
            process = _sketch(sample, scale, other, ones, RULES.shares[0], rng)
            if process.log_evidence - angles > highest:
                highest = process.log_evidence - angles
                found = replace(found, view=other, process=process)
        return found

    def refined(self, rng: np.random.Generator) -> LocalModel:
        """Taken through the later stages of its fit."""
        return replace(self, process=self.process.refined(rng))

    def again(self, rng: np.random.Generator) -> LocalModel:
        """The same from another start: the hyperparameters have several modes."""
        share = RULES.shares[1]
        process = _sketch(self.sample, self.scale, self.view, self.own_noise, share, rng)
        return replace(self, kind=f"{self.kind} again", process=process.refined(rng))

    def robust(self, rng: np.random.Generator) -> LocalModel:
        """With a noise of its own for each outlier, where the evidence is for that.

        What a few outliers miss is noise of all points else, and what lies low among them is believed.
        One hides behind another: they are looked for in rounds, by the noise of the middle one of all.
        """
        own, found = self.own_noise, self.process
        for round_ in range(1, RULES.rounds + 1):
            missed, variance = found.left_out_errors()
            far = np.abs(missed) > RULES.outlying * np.sqrt(variance)
            if not far.any():
                break
            own = np.maximum(np.where(far, missed**2 / found.noise[0], 1.0), own)
            usual = float(np.median(np.abs(missed[own == 1.0])))
            found = found.with_noise(NORMAL * usual**2, self.process.reported * own)
            if round_ % RULES.refined_every == 0:
                found = found.refined(rng)
        outliers = int(np.sum(own > 1))
        if not outliers:
            return self
        found = found.refined(rng)
        # Half of log n for each one's noise (Schwarz 1978), and which of n points it is.
        price = 1.5 * outliers * np.log(len(self.rows))
        if found.log_evidence - price < self.process.log_evidence:
            return self
        return replace(self, process=found, own_noise=own)

    def log_score(self, level: float) -> Array:
        """Of each of its rows given half of the others: (m,), in units of the objective.

        For an outcome up to `level` its log density; for a higher one the log probability that it is
        higher (Diks, Panchenko and van Dijk 2011, the censored likelihood).
        """
        y = self.sample.y
        mean, variance = self.process.from_halves(halves(len(y)))
        deviation = np.sqrt(variance)
        at = self.scale.to_model(np.array(level))
        z = (self.process.targets - mean) / deviation
        density = norm.logpdf(z) - np.log(deviation) + self.scale.log_slope(y)
        return np.where(y > level, norm.logsf((at - mean) / deviation), density)

    def log_below(self, bound: float) -> Array:
        """Log probability that each of its outcomes, given half of the others, is at most this: (m,)."""
        mean, variance = self.process.from_halves(halves(len(self.sample.y)))
        z = (self.scale.to_model(np.array(bound)) - mean) / np.sqrt(variance)
        return np.asarray(norm.logcdf(z))

    @property
    def is_of_all(self) -> bool:
        """Whether it knows every point of the sample."""
        return not self.kind.startswith("lowest")

    @property
    def outliers(self) -> Rows:
        """Rows of the sample whose outcomes are not believed."""
        return self.rows[self.own_noise > 1]

    @property
    def is_noisy(self) -> bool:
        """Whether noise is a part of the targets' variance that has to be heeded."""
        return bool(self.process.noise[0] > RULES.noisy)

    def inputs(self, x: Array) -> Array:
        """What the process sees of encoded points x (n, d)."""
        return np.clip(self.view.of(x), -EDGE, EDGE)

    def slopes(self, x: Array, by_input: Array) -> Array:
        """Gradients at x (n, d), of those by what the process sees of it, (n, d): (n, d)."""
        free = np.abs(self.inputs(x)) < EDGE
        return (by_input * free) @ self.view.axes.T

    def metric(self, inputs: list[int]) -> Array:
        """(f, f) of these encoded inputs, whose product with a gradient by them is the steepest way down
        where lengths are those that the process sees."""
        by_input = self.view.axes[inputs]
        form = by_input @ by_input.T
        least = 1e-12 * np.trace(form) * np.eye(len(form))
        found: Array = np.linalg.inv(form + least)
        return found / np.trace(found)

    def function(self, x: Array | None = None) -> tuple[Array, Array]:
        """Mean and deviation of the function, without noise, objective units: two (n,).

        x: (n, d) encoded; None: the points that it knows, at less cost.
        """
        if x is None:
            mean, variance = self.process.at_rows()
        else:
            features = self.process.features(self.inputs(x))
            (mean,), (variance,) = self.process.latent(features)
        high, low = (self.scale.to_objective(mean + s * np.sqrt(variance)) for s in (1, -1))
        return self.scale.to_objective(mean), 0.5 * (high - low)


@dataclass(frozen=True)
class LocalModels:
    """The candidates that predict best, with their weights.

    models: first the one of the largest weight among those of all points, then the others by weight.
    weights: sum 1. scores: each one's mean log score, less its price; of_distance: that of the distance
    from the best point alone.
    """

    models: tuple[LocalModel, ...]
    weights: Array
    scores: Array
    of_distance: float = field(default=-np.inf)

    @classmethod
    def fit(
        cls,
        x: Array,
        y: Array,
        noise: Array,
        *,
        rng: np.random.Generator,
        thorough: bool = True,
        lowest: bool = True,
    ) -> LocalModels:
        """x: (n, d) encoded; y: (n,) minimised; noise: (n,) as reported, NaN unknown.

        thorough: whether every candidate is tried; else plain and floor. lowest: whether the lowest points
        may have a model of their own.
        """
        sample = Sample(x, y, noise)
        streams = dict(zip(KINDS, rng.spawn(len(KINDS)), strict=True))
        level = float(np.quantile(y, RULES.low))
        models = _sketches(sample, streams, thorough=thorough, lowest=lowest)
        # The plain one is refined whatever it promises: all are compared with it.
        chosen = {0, *np.flatnonzero(_judged(models, level)[0] >= RULES.kept)}
        models = [m.refined(streams["refined"]) for i, m in enumerate(models) if i in chosen]
        if thorough and models[0].is_noisy:
            models[0] = models[0].robust(streams["robust"])
        weights, scores = _judged(models, level)
        if thorough and len(y) <= RULES.again_up_to:
            best = next(i for i in np.argsort(-weights, kind="stable") if models[i].is_of_all)
            models.append(models[best].again(streams["again"]))
            weights, scores = _judged(models, level)
        order = np.argsort(-weights, kind="stable")
        of_all = next(i for i in order if models[i].is_of_all)
        weights[of_all] = max(weights[of_all], RULES.kept)
        kept = [of_all, *(i for i in order if weights[i] >= RULES.kept and i != of_all)]
        return cls(
            tuple(models[i] for i in kept),
            weights[kept] / weights[kept].sum(),
            scores[kept],
            _score_of_distance(models[0], level, streams["distance"]),
        )

    @property
    def first(self) -> LocalModel:
        """The one of the largest weight among those that know all points."""
        return self.models[0]

    @property
    def is_blind(self) -> bool:
        """Whether nothing predicts better than the distance from the best point does.

        A model has a length for each input, and pays a nat for each beyond the first (Akaike 1974).
        """
        n, d = self.first.sample.x.shape
        return bool(self.scores.max() - (d - 1) / n < self.of_distance)

    def function(self, x: Array | None = None) -> tuple[Array, Array]:
        """Mean and deviation of the function, without noise, objective units: two (n,).

        x: (n, d) encoded; None: at the points of the sample, at less cost.
        """
        pairs = [(m, w) for m, w in zip(self.models, self.weights, strict=True) if m.is_of_all]
        total = sum(w for _, w in pairs)
        means, deviations = np.array([m.function(x) for m, _ in pairs]).transpose(1, 0, 2)
        weight = np.array([w / total for _, w in pairs])
        mean = weight @ means
        return mean, np.sqrt(weight @ (deviations**2 + (means - mean) ** 2))


def _sketch(
    sample: Sample,
    scale: TargetScale,
    view: View,
    own_noise: Array,
    share: float,
    rng: np.random.Generator,
) -> LocalProcess:
    """The first stage of the fit of a process that sees points so. share: of its additive part."""
    reported = ReportedNoise.of((sample.noise * np.exp(scale.log_slope(sample.y))) ** 2)
    relative = own_noise * (1.0 if reported is None else reported.relative)
    targets = scale.to_model(sample.y)
    return LocalProcess.sketch(
        view.of(sample.x), targets, rng=rng, share=share, relative_noise=relative
    )


def _sketches(
    sample: Sample, streams: dict[str, np.random.Generator], *, thorough: bool, lowest: bool
) -> list[LocalModel]:
    """The candidates before they are judged, the plain one first."""
    y, (n, d) = sample.y, sample.x.shape
    price = float(np.log(n))  # two more numbers of a scale: half of log n for each (Schwarz 1978)
    scales = {"plain": TargetScale.fit(y), "floor": TargetScale.fit(y, floor=RULES.low)}
    if not scales["floor"].is_bent:
        del scales["floor"]
    if thorough:
        scales["logarithmic"] = LogScale.of(y)
    found = [
        LocalModel.sketch(
            kind, sample, scale, streams[kind], price=price * (kind != "plain"), turned=thorough
        )
        for kind, scale in scales.items()
    ]
    count = max((d + 1) * (d + 2) // 2, RULES.lowest_least, int(RULES.lowest * n))
    if thorough and lowest and count <= n // 2:
        rows = np.sort(np.argsort(y, kind="stable")[:count])
        some = sample.at(rows)
        scale = TargetScale.fit(some.y)
        found.append(LocalModel.sketch("lowest", some, scale, streams["lowest"], rows=rows))
    return found


def _judged(models: list[LocalModel], level: float) -> tuple[Array, Array]:
    """Weights (k,), sum 1, and mean log scores less prices (k,), of models, the first the plain one."""
    plain = models[0].log_score(level)
    n = len(plain)
    scores = np.empty((len(models), n))
    for score, model in zip(scores, models, strict=True):
        score[:] = plain
        score[model.rows] = model.log_score(level)
        if not model.is_of_all:
            score[model.rows] += _log_truncated(models[0], model)
        score -= model.price / n
    density = np.exp(scores - scores.max(axis=0))
    weights = np.full(len(models), 1.0 / len(models))
    for _ in range(100):
        weighted = weights[:, None] * density
        weights = np.mean(weighted / weighted.sum(axis=0), axis=1)
    return weights, scores.mean(axis=1)


def halves(n: int) -> NDArray[np.bool_]:
    """Which of n rows are in one half: always the same, and at random."""
    return np.random.default_rng(n).permutation(n) < n // 2


def _log_truncated(plain: LocalModel, lowest: LocalModel) -> Array:
    """What the log scores of a model of the lowest points lack: (m,).

    That a point is one of these is what the plain model has to say, and theirs only where among them it
    is: the density of both together is the first's probability times the second's density, truncated.
    """
    bound = float(lowest.sample.y.max())
    return plain.log_below(bound)[lowest.rows] - lowest.log_below(bound)


def _score_of_distance(plain: LocalModel, level: float, rng: np.random.Generator) -> float:
    """Mean log score of a process that sees nothing of a point but its distance from the best one."""
    sample = plain.sample
    seen = plain.view.of(sample.x)
    gap = cdist(seen, seen[[int(np.argmin(sample.y))]])
    by_distance = replace(sample, x=gap)
    model = LocalModel.sketch("distance", by_distance, plain.scale, rng)
    return float(model.log_score(level).mean())


def around_the_best(u: Array, x: Array, y: Array, noise: Array) -> tuple[Rows, Array, Array]:
    """The points near the best one, and the function's mean and deviation there: rows and two (m,).

    u: (n, k) in the unit cube, by which points are near, and x: (n, d) the same encoded. y: (n,)
    finite; noise: (n,). First the points near the lowest value, then those near the lowest mean among
    them. No rows where there are too few. The same points always give the same bits.
    """
    if len(y) < RULES.least or u.shape[1] == 0:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    y, centre, before = bounded(y), int(np.argmin(y)), -1
    with one_thread():
        while True:
            rows = np.argsort(cdist(u[[centre]], u)[0], kind="stable")[: RULES.points]
            rng = np.random.default_rng(0)
            local = LocalModels.fit(x[rows], y[rows], noise[rows], rng=rng, lowest=False)
            mean, deviation = local.function()
            best = int(rows[np.argmin(mean + deviation)])
            if before >= 0 or best == centre:
                break
            centre, before = best, centre
    return rows, mean, deviation
