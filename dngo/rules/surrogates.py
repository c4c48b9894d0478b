"""The numbers that decide how surrogates are fitted. Each says what it gains, or that it was not
measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ApartRules:
    """Which points stand apart."""

    # Points closer than this do not all count; it is a share of n^(-1 / d), the root mean square
    # distance between n evenly spread points. In the deepest funnel of Hartmann6, the 95 %
    # intervals held 0.47 and 0.42 of the test points (two seeds) with all points, and 0.75 and 0.63
    # with points that lie apart.
    least: float = 0.1


@dataclass(frozen=True, kw_only=True)
class ClassifierRules:
    """How the posterior of a classifier's weights is approximated. Only the last two were measured."""

    # Prior precisions of the weights. The one that predicts left-out labels best is taken.
    precisions: tuple[float, ...] = tuple(np.geomspace(0.01, 10.0, 7).tolist())
    # Prior precision of the constant feature: base rates from 1e-4 to 1 - 1e-4 are likely.
    intercept_precision: float = 0.05
    # With more observations, so many random ones judge the precisions, and so many fit the weights.
    # Far fewer are enough for some fifty weights (benchmarks/results/fit_size.csv).
    most_judged: int = 5_000
    most: int = 40_000


@dataclass(frozen=True, kw_only=True)
class LocalRules:
    """The kernel of a region's process, and how its hyperparameters are fitted.

    Inputs are in [-1, 1], targets standardised. The numbers were chosen together, on trust regions in
    ten and twenty inputs. A number that was measured by itself says so.
    """

    # Harmonics of each input's Fourier series, whose period is twice the region. Not measured.
    harmonics: int = 16
    # The most harmonics of all inputs together. Each input has at least two.
    most_harmonics: int = 2048
    # Rounds of a fit, each (points, steps of L-BFGS-B). The first rounds with few points go most of
    # the way, at a tenth of the later steps' cost. Not measured.
    stages: tuple[tuple[int, int], ...] = ((128, 30), (400, 15))
    # With more inputs there are no quadratics, since 60 inputs already mean 1,891 weights. Without
    # any, trust regions alone end 5.6 times as high (geometric mean of 22 runs in five inputs:
    # benchmarks/tried.md, the trust regions' model).
    most_quadratic: int = 60
    # With more inputs no turned axes are looked for. A quadratic of 30 inputs has 496 weights, and
    # in 40 inputs axes were never worth the price of their angles.
    most_turned: int = 30
    # Added to the noise's variance, so that the matrix stays positive in float64.
    jitter: float = 1e-10
    # Only for a quadratic's axes: variances of its noise to try, and of its error relative to the
    # height. The likeliest pair is taken. Not measured one by one.
    noise_of_axes: tuple[float, ...] = (1e-10, 1e-6, 1e-2)
    error_of_axes: tuple[float, ...] = (0.0, 0.01, 1.0)
    # Medians of the log-normal priors. `length` is for one input: it is multiplied by the root of the
    # number of inputs, as distances grow with it. `medians` are of the variances of the three parts, the
    # length in the series, the noise's variance, and the error's relative to the height. `deviations` are
    # of the logarithms, in the same order, the length first. Only the error's was measured: with a median
    # of 0.01 the models rank better, but draws from them are too bold (benchmarks/tried.md, the trust
    # regions' model).
    length: float = float(np.exp(-0.3))
    medians: tuple[float, ...] = (0.3, 0.3, 0.3, 0.3, 0.01, 1e-4)
    deviations: tuple[float, ...] = (1.2, 2.0, 2.0, 2.0, 1.0, 3.0, 3.0)
    # Bounds of these logarithms: beyond them only rounding changes. With a least noise of e^-14 and
    # a jitter of 1e-8, runs ended 1.5 times as high on average (higher in 11, lower in 9).
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
    """Mixtures of surrogates. No number was measured by itself."""

    bootstraps: int = 200  # most rows of the trial: they tell a share to some hundredths


@dataclass(frozen=True, kw_only=True)
class LessonRules:
    """For how long what is learnt slowly serves (`surrogates/lessons.py`). No other value of either number
    was tried; tried.md, what is learnt slowly, has five searches with them and without."""

    grown: float = 0.1  # share of new observations with which it is learnt anew
    surprised: float = 4.0  # deviations from the stated mean with which one outcome teaches anew


@dataclass(frozen=True, kw_only=True)
class NearbyRules:
    """What a process of points in one region takes into account.

    least: ok outcomes; with fewer the model says nothing. Not measured. noisy: share of the noise
    in the targets' variance. From this share on, logarithms are tried and turned axes are not. Not
    measured. multiplies: share of the noise in the logarithms' variance. Only from this share on,
    logarithms are kept. Without this, steep functions without noise would be seen by logarithms as
    well, and ended twice as high (benchmarks/tried.md).
    flat: outcomes lie on a floor if they differ by less than this share of the mean height above
    the lowest.
    outlying: an outlier lies this many deviations off what all other points predict. far: if noise is
    little, outliers are looked for only if one lies this many deviations off. With 3, half of the
    studies without noise changed (benchmarks/tried.md, outliers).
    """

    least: int = 6
    noisy: float = 0.01
    multiplies: float = 0.2
    flat: float = 0.1
    outlying: float = 3.0
    far: float = 5.0


@dataclass(frozen=True, kw_only=True)
class NoiseRules:
    """How a reported noise is modelled. No number was measured by itself."""

    # Deviation of the logarithm of the noise's level from what was reported. The error of a mean is
    # estimated from a few runs, and the noise also covers what a model cannot resolve.
    deviation: float = 0.5
    # A variance is at least this share of all variances' geometric mean, and at most the inverse
    # share: a few runs may agree by chance.
    most_precise: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class PathRules:
    """How finely functions of the prior are approximated."""

    # Random waves of a process's prior, shared by all functions of one sample. Without weighted
    # strata, this many gave a smooth function between a third and twice the posterior's deviation.
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
    # Prior of the noise's variance, as a share of the signal's: little, unless the data disagree.
    # Not measured.
    noise: float = 1e-3
    noise_deviation: float = 3.0
    # With a smaller share nearly coincident points would be the same in float64. Not measured.
    least_noise: float = 1e-8
    # prior of the signal's variance: about the targets' variance, and wide. Not measured.
    signal: float = 1.0
    signal_deviation: float = 2.0
    # Prior variance of the constant mean, as a share of the signal's variance. The mean is
    # integrated out. Not measured.
    constant: float = 1.0
    # If there are more than 1.5 times `sketch` observations the mode of `sketch` of them is found
    # first. Then a few of the costly, cubic steps with every observation are enough.
    # Of more observations than `teachers`, these teach the lengthscales, whose search is cubic.
    sketch: int = 120
    teachers: int = 300
    steps_after_sketch: int = 12
    # With more lengthscales than this, lengthscales stay at the mode, and only this many samples of
    # the other hyperparameters are drawn. A hundred observations say little about each of a
    # thousand parameters (benchmarks/tried.md, rules that went).
    most_alone: int = 64
    samples_of_many: int = 4
    burn_in: int = 5  # sweeps: few, as the chain starts at the mode
    # Sweeps between kept samples. Up to this many observations five help measurably and cost
    # little; with more there are fewer.
    thin: int = 5
    thin_up_to: int = 80


@dataclass(frozen=True, kw_only=True)
class RegressionRules:
    """Priors of the heads' hyperparameters, and how they are sampled. No number was measured by itself."""

    # Deviation of log alpha, log beta and log inflation about 0. It is wide, but keeps a constant
    # objective from driving a variance to zero.
    prior_deviation: float = 4.0
    folds_alone: int = 5  # a single network leaves out the first of these folds
    # How much the networks agree is judged at so many points, half-way between neighbours. That
    # changes their variances by at least this factor.
    midpoints: int = 256
    least_agreement: float = 0.4
    # Sweeps before the first kept sample, and between two. Each costs microseconds.
    burn_in: int = 30
    thin: int = 3
    # With so many rows the networks are trained by `soap` (benchmarks/results/members.csv).
    rotated_from: int = 500
    # Cosines of each input beside a network's features, and most of them in all.
    cosines: int = 10
    most_cosines: int = 100
    # What stands beside the features is chosen by the rows that so many networks have left out,
    # with at least so many rows in all: fewer tell no length.
    judges: int = 2
    log_ridges: tuple[float, ...] = (-12.0, -10.0, -8.0, -6.0, -4.0, -2.0, 0.0, 2.0, 4.0)
    log_noises: tuple[float, ...] = (-12.0, -10.0, -8.0, -6.0, -4.0, -2.0, 0.0)
    fewest_beside: int = 10
    # Random waves beside them, the lengths and amplitudes to choose from, and the rows that tell how
    # much the features change along each input.
    rows_of_slopes: int = 100
    waves: int = 150
    lengths: tuple[float, ...] = (0.2, 0.4, 0.8)
    amplitudes: tuple[float, ...] = (1.0, 3.0, 10.0)


@dataclass(frozen=True, kw_only=True)
class SelectionRules:
    """When one model of a region's points replaces another.

    low: share of the outcomes that count as low. Heights are counted from the highest of these.
    Counted from the lowest, a lucky outcome would be taken for exact. Their spread measures the
    gain that a region promises.
    better: nats by which the mean log score of the outcomes has to rise. Nearly all of the rise
    comes from the low outcomes: half a nat for each, and a fifth of the outcomes are low.
    foresight: a model is of no use if its partial rank correlation is below this, and its rank
    correlation not above `ranked`. Where no model is of use, on `dust`, the rank correlation rises
    to 0.7; on bowls to 1. foresight_alike: as `foresight`, if points next to each other are known
    to be alike.
    """

    low: float = 0.25
    better: float = 0.1
    foresight: float = 0.15
    foresight_alike: float = 0.3
    ranked: float = 0.9


@dataclass(frozen=True, kw_only=True)
class SparseRules:
    """Where a sparse process saves time. No number was measured by itself."""

    jitter: float = 1e-7  # resolution of inducing inputs, as a share of the signal
    near_optimum: int = 4  # of the inducing inputs, one in so many is one of the best observations
    # Number of inducing inputs of a cost, which no key sets.
    inducing: int = 100
    samples: int = 2  # most samples of the hyperparameters: many observations determine them well
    burn_in: int = (
        # sweeps for signal and noise; they start from the values of the process with fewer
        # observations
        5
    )


@dataclass(frozen=True, kw_only=True)
class TailRules:
    """In robust standard deviations: beyond this, values count by their logarithm. Not measured."""

    # For a minimum the upper tail matters little, so it is compressed early and cut off.
    upper_linear: float = 5.0
    upper_limit: float = 20.0
    lower_linear: float = 20.0  # the optimum is in the lower tail


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """Numbers of training that are no keys. Only the three that begin with `most` were measured."""

    # Weights start as N(0, (gain / sqrt(inputs))^2). With a gain below 1 the network starts smooth
    # and nearly linear in x. Then it predicts better from few observations.
    initial_gain: float = 0.577
    # Adam's decays of the averages. The second is lower than usual, since there are only some
    # thousand steps. `epsilon` keeps a parameter without a gradient where it is.
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    # With more observations than this, networks are trained in rotated coordinates, and `epochs`
    # counts passes over so many values, or so many labels. Beyond that, the number of steps stays
    # the same, and each step sees other observations. With as few steps in plain coordinates,
    # values lost 0.48 of 2.71 nats (benchmarks/results/fit_size.csv).
    most_straight: int = 20_000
    most_passed: int = 20_000
    most_classified: int = 5_000
    # The rotation: the share of the newest gradient in the averages, steps between two gradients that
    # are averaged and between two decompositions. Not measured one by one.
    newest: float = 0.1
    averaged_every: int = 2
    turned_every: int = 20


@dataclass(frozen=True, kw_only=True)
class WarpingRules:
    """Which scales are compared, and how. Only `floors` was measured by itself."""

    powers: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    # Shares of the observations that may lie on a floor, below which logarithms resolve the depth
    # (benchmarks/tried.md, walls and floors). No further share is tried once one is less likely
    # than the best one by `hopeless` nats: most functions have no floor. price: what a floor costs,
    # in nats: as much as the least likely power in the prior.
    floors: tuple[float, ...] = (0.5, 0.25, 0.1, 0.03)
    hopeless: float = 10.0
    price: float = 2.0
    # prior deviation of the power about 1: a handful of observations is not bent
    prior_deviation: float = 1.0
    fewest: int = 8  # observations: with fewer only the power 1 is tried
    most: int = 120  # observations that judge the powers: each power costs a mode


@dataclass(frozen=True, kw_only=True)
class NumberRules:
    """How numbers with thresholds are fitted if the kind is `auto`. Not measured one by one
    (benchmarks/tried.md, notes on the results)."""

    samples: int = 3  # samples of the hyperparameters, while observations are few
    sampled_up_to: int = 40  # with more observations only the mode is used
    # Beyond `gp_limit` so many observations teach a number, of which such a share is nearest to the
    # best point. Of 500 points of eleven bounds, 200 predict points near the best one with a loss of
    # 0.03 nats, all of them on 100 inducing inputs with 0.47, and all of them exactly with 0.01.
    most: int = 200
    near: float = 0.66
    powers: tuple[float, ...] = (
        0.0,
        0.5,
        1.0,
    )  # as in `WarpingRules`; scales of numbers have no floor


@dataclass(frozen=True, kw_only=True)
class SurrogateRules:
    """One branch for each module of `dngo.surrogates` that uses such numbers."""

    apart: ApartRules = field(default_factory=ApartRules)
    classifier: ClassifierRules = field(default_factory=ClassifierRules)
    local: LocalRules = field(default_factory=LocalRules)
    mixture: MixtureRules = field(default_factory=MixtureRules)
    lessons: LessonRules = field(default_factory=LessonRules)
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
