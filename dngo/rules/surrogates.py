"""The numbers that surrogates are fitted by. Each says what it gains, or that it was not measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ApartRules:
    """Which points stand apart."""

    # Share of the root mean square distance, n^(-1 / d), between n points that are spread evenly. In the
    # deepest funnel of Hartmann6, 0.47 and 0.42 of the test points (two seeds) were in their 95 % interval
    # with all points, and 0.75 and 0.63 with those that stand apart.
    least: float = 0.1


@dataclass(frozen=True, kw_only=True)
class ClassifierRules:
    """How the posterior of a classifier's weights is approximated. Only the last two were measured."""

    # Prior precisions of the weights. The one that predicts left-out labels best is taken.
    precisions: tuple[float, ...] = tuple(np.geomspace(0.01, 10.0, 7).tolist())
    # For the constant feature: base rates from 1e-4 to 1 - 1e-4 are likely.
    intercept_precision: float = 0.05
    # Random observations: so many judge the precisions, so many fit the weights. Far fewer determine some
    # fifty weights (benchmarks/results/fit_size.csv).
    most_judged: int = 5_000
    most: int = 40_000


@dataclass(frozen=True, kw_only=True)
class CostRules:
    """A limit on the time of a cost's fit: a second or two."""

    most_exact: int = 150  # observations of the cost: with more its process is sparse


@dataclass(frozen=True, kw_only=True)
class LocalRules:
    """The kernel of a region's process, and how its hyperparameters are fitted.

    Inputs are in [-1, 1], targets standardised. The numbers were chosen together, on trust regions in
    ten and twenty inputs. A number that was measured by itself says so.
    """

    # In each input's Fourier series, whose period is twice the region. Not measured.
    harmonics: int = 16
    # The most harmonics of all inputs together. Each input has at least two.
    most_harmonics: int = 2048
    # (points, steps of L-BFGS-B). Few points go most of the way, at a tenth of the later steps' cost.
    # Not measured.
    stages: tuple[tuple[int, int], ...] = ((128, 30), (400, 15))
    # With more inputs there are no quadratics: of 60 inputs they have 1,891 weights. Without any, trust
    # regions alone end 5.6 times as high (geometric mean of 22 runs in five inputs:
    # benchmarks/rules.md, the trust regions' model).
    most_quadratic: int = 60
    # With more inputs no axes are looked for. A quadratic of 30 inputs has 496 weights, and in 40 inputs
    # axes were never worth the price of their angles.
    most_turned: int = 30
    # Added to the noise's variance: it keeps the matrix positive in float64.
    jitter: float = 1e-10
    # Only for a quadratic's axes: variances of its noise, and of its error relative to the height. The
    # likeliest pair is taken. Not measured one by one.
    noise_of_axes: tuple[float, ...] = (1e-10, 1e-6, 1e-2)
    error_of_axes: tuple[float, ...] = (0.0, 0.01, 1.0)
    # Medians of the log-normal priors. `length` is for one input: it is multiplied by the root of the
    # number of inputs, as distances grow with it. `medians` are of the variances of the three parts, the
    # length in the series, the noise's variance, and the error's relative to the height. `deviations` are
    # of the logarithms, in the same order, the length first. Only the error's was measured: with a median
    # of 0.01 the models rank better, but draws from them are too bold (benchmarks/rules.md, the trust
    # regions' model).
    length: float = float(np.exp(-0.3))
    medians: tuple[float, ...] = (0.3, 0.3, 0.3, 0.3, 0.01, 1e-4)
    deviations: tuple[float, ...] = (1.2, 2.0, 2.0, 2.0, 1.0, 3.0, 3.0)
    # Bounds of these logarithms: beyond them only rounding changes. With a noise of e^-14 at least, and a
    # jitter of 1e-8, runs ended 1.5 times as high in the mean: higher in 11, lower in 9.
    bounds: tuple[tuple[float, float], ...] = (
        (-3.0, 5.0),
        (-9.0, 4.0),
        (-9.0, 4.0),
        (-9.0, 6.0),
        (-3.0, 1.5),
        (-20.0, 1.0),
        (-14.0, 0.0),
    )


@dataclass(frozen=True, kw_only=True)
class MixtureRules:
    """When surrogates stand side by side. No number was measured by itself."""

    bootstraps: int = 200  # of the trial's rows: a share is known to some hundredths
    # Where the process stood alone, networks are judged again once the observations have grown by this
    # share. Otherwise a study that asks for points one by one would train networks for each and drop them.
    judged_again: float = 0.1


@dataclass(frozen=True, kw_only=True)
class NearbyRules:
    """What the process of points that lie together heeds.

    least: ok outcomes; with fewer the model says nothing. Not measured. noisy: share of the noise in the
    targets' variance. From it on logarithms are tried, and axes are not. Not measured. multiplies: share of
    the noise in the logarithms' variance. From it on logarithms are kept: steep functions without noise are
    also likely by logarithms, and ended twice as high by them (benchmarks/rules.md).
    flat: outcomes lie on a floor if they differ by such a share of the mean height above the lowest.
    outlying: an outlier is so many deviations off what all others predict. rounds: in which outliers are
    looked for, each at the cost of a Cholesky factor.
    """

    least: int = 6
    noisy: float = 0.01
    multiplies: float = 0.2
    flat: float = 0.1
    outlying: float = 3.0
    rounds: int = 12


@dataclass(frozen=True, kw_only=True)
class NoiseRules:
    """How a reported noise is modelled. No number was measured by itself."""

    # Deviation of the logarithm of the noise's level from what was reported. The error of a mean is
    # estimated from a few runs, and the noise also covers what a model cannot resolve.
    deviation: float = 0.5
    # A variance is at least this share of their geometric mean, and at most its inverse: a few runs may
    # agree by chance, and no variance is exact.
    most_precise: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class PathRules:
    """How finely functions of the prior are approximated."""

    # Random waves of a process's prior, shared by all functions of one sample. Without weighted strata so
    # many gave a smooth function a third to twice the posterior's deviation.
    frequencies: int = 512


@dataclass(frozen=True, kw_only=True)
class ProcessRules:
    """Priors of a process's hyperparameters, and how their posterior is explored.

    Variances are of standardised targets. Priors are log-normal: a median, and the deviation of the
    logarithm. A number that was measured by itself says so.
    """

    # A lengthscale's median for one input, in units of the unit cube. It grows with the root of the number
    # of inputs, as distances in the cube do (Hvarfner, Hellsten and Nardi 2024). Without that a function
    # of twenty inputs looks like noise before its first hundred observations.
    lengthscale: float = 0.5
    lengthscale_deviation: float = 1.0
    # The noise's variance, as a share of the signal's: little, unless the data disagree. Not measured.
    noise: float = 1e-3
    noise_deviation: float = 3.0
    # With a smaller share nearly coincident points would be the same in float64. Not measured.
    least_noise: float = 1e-8
    signal: float = 1.0  # variance: about the targets' own, with a wide prior. Not measured.
    signal_deviation: float = 2.0
    # The constant mean is integrated out: its variance, as a share of the signal's. Not measured.
    constant: float = 1.0
    # With more than 1.5 times `sketch` observations the mode of `sketch` of them is found first.
    # A few of the costly, cubic steps are then enough.
    sketch: int = 120
    steps_after_sketch: int = 12
    # With more lengthscales these stay at the mode, and there are so many samples of the rest. A hundred
    # observations say little of each of a thousand parameters (benchmarks/rules.md, hundreds of inputs).
    most_alone: int = 64
    samples_of_many: int = 4
    burn_in: int = 5  # sweeps: few, as the chain starts at the mode
    # Sweeps between kept samples. Five help measurably up to so many observations, where they cost little;
    # beyond there are fewer.
    thin: int = 5
    thin_up_to: int = 80


@dataclass(frozen=True, kw_only=True)
class RegressionRules:
    """Priors of the heads' hyperparameters, and how they are sampled. No number was measured by itself."""

    # Deviation of log alpha, log beta and log inflation about 0. It is wide, but keeps a constant
    # objective from driving a variance to zero.
    prior_deviation: float = 4.0
    folds_alone: int = 5  # one network by itself leaves out the first of these
    # The networks' agreement is judged at so many points half-way between neighbours. It multiplies their
    # variances by at least so much.
    midpoints: int = 256
    least_agreement: float = 0.4
    # Sweeps before the first kept sample, and between two. Each costs microseconds.
    burn_in: int = 30
    thin: int = 3
    # With so many rows the networks are also trained by `soap`, and those that predict better are kept
    # (benchmarks/results/members.csv).
    rotated_from: int = 500


@dataclass(frozen=True, kw_only=True)
class SelectionRules:
    """When one model of points that lie together replaces another.

    low: share of the outcomes that is low. Heights are counted from the highest of these: counted from
    the lowest, a lucky one is taken for exact. Their spread measures the gain that a region promises.
    better: nats by which the mean log score of the outcomes has to rise. Nearly all of the rise comes from
    the low ones: half a nat for each of a fifth of the outcomes.
    foresight: a model is of no use if its partial rank correlation is lower than this, and its rank
    correlation is not above `ranked`. Where no model is of use, on `dust`, the rank correlation rises to
    0.7; on bowls to 1. foresight_alike: as `foresight`, if points next to each other are known to be alike.
    """

    low: float = 0.25
    better: float = 0.1
    foresight: float = 0.15
    foresight_alike: float = 0.3
    ranked: float = 0.9


@dataclass(frozen=True, kw_only=True)
class SparseRules:
    """Where a sparse process saves time. No number was measured by itself."""

    jitter: float = 1e-7  # share of the signal: the resolution of inducing inputs
    near_optimum: int = 4  # one in so many inducing inputs is among the best observations
    # Inducing inputs where no key sets their number: for a cost, and for a number with a threshold.
    inducing: int = 100
    samples: int = 2  # of the hyperparameters, at most: many observations determine them well
    burn_in: int = (
        5  # sweeps for signal and noise, from the values of the process with fewer observations
    )


@dataclass(frozen=True, kw_only=True)
class TailRules:
    """Robust standard deviations: values beyond them count by their logarithm. Not measured."""

    # A minimiser need not resolve the upper tail: it is compressed early, and cut off.
    upper_linear: float = 5.0
    upper_limit: float = 20.0
    lower_linear: float = 20.0  # the optimum is in the lower tail


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """Numbers of training that are no keys. Only the three that begin with `most` were measured."""

    # Weights start as N(0, (gain / sqrt(inputs))^2). Under 1 the network starts smooth and nearly linear
    # in x: it then generalises better from few observations.
    initial_gain: float = 0.577
    # Of Adam: the averages' decays, the second lower than usual, as there are only some thousand steps.
    # `epsilon` keeps a parameter without a gradient where it is.
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    # Networks that learn from more observations are trained in rotated coordinates, and `epochs` counts
    # passes over so many values, or so many labels. With more there are as many steps, each with other
    # observations. With as few steps in plain coordinates values lost 0.48 nats of 2.71
    # (benchmarks/results/fit_size.csv).
    most_straight: int = 20_000
    most_passed: int = 20_000
    most_classified: int = 5_000
    # The rotation: widest layer, the share of the newest gradient in the averages, steps between two
    # gradients that are averaged and between two decompositions. Not measured one by one.
    widest_turned: int = 128
    newest: float = 0.1
    averaged_every: int = 2
    turned_every: int = 20


@dataclass(frozen=True, kw_only=True)
class WarpingRules:
    """Which scales are compared, and how. Only `floors` was measured by itself."""

    powers: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    # Shares of the observations that lie on the floor: their depth is resolved (benchmarks/rules.md, walls
    # and floors). No further share is tried once one is less likely than the best by `hopeless` nats: most
    # functions have no floor. price: of a floor, in nats, as of the least likely power in the prior.
    floors: tuple[float, ...] = (0.5, 0.25, 0.1, 0.03)
    hopeless: float = 10.0
    price: float = 2.0
    prior_deviation: float = 1.0  # of the power about 1: a handful of observations stays unbent
    fewest: int = 8  # observations: with fewer only the power 1 is tried
    most: int = 120  # observations that judge the powers: each power costs a mode


@dataclass(frozen=True, kw_only=True)
class NumberRules:
    """How numbers with thresholds are fitted if the kind is `auto` (benchmarks/rules.md, thresholds).
    Not measured one by one."""

    samples: int = 3  # of the hyperparameters, while observations are few
    sampled_up_to: int = 40  # observations: with more only the mode is used
    # Their scales have no floor. These numbers are like `WarpingRules`.
    powers: tuple[float, ...] = (0.0, 0.5, 1.0)
    most_judged: int = 48
    warping_steps: int = 8


@dataclass(frozen=True, kw_only=True)
class SurrogateRules:
    """One branch for each module of `dngo.surrogates` that uses such numbers."""

    apart: ApartRules = field(default_factory=ApartRules)
    classifier: ClassifierRules = field(default_factory=ClassifierRules)
    cost: CostRules = field(default_factory=CostRules)
    local: LocalRules = field(default_factory=LocalRules)
    mixture: MixtureRules = field(default_factory=MixtureRules)
    nearby: NearbyRules = field(default_factory=NearbyRules)
    numbers: NumberRules = field(default_factory=NumberRules)
    noise: NoiseRules = field(default_factory=NoiseRules)
    paths: PathRules = field(default_factory=PathRules)
    process: ProcessRules = field(default_factory=ProcessRules)
    regression: RegressionRules = field(default_factory=RegressionRules)
    selection: SelectionRules = field(default_factory=SelectionRules)
    sparse: SparseRules = field(default_factory=SparseRules)
    tails: TailRules = field(default_factory=TailRules)
    training: TrainingRules = field(default_factory=TrainingRules)
    warping: WarpingRules = field(default_factory=WarpingRules)
