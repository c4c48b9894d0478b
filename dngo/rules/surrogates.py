"""The numbers that surrogates are fitted by. Each says what it is worth, or that it was not measured."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, kw_only=True)
class ApartRules:
    """Which points stand apart."""

    # Of the distance (n to the power of -1 / d) at which n points spread evenly stand, root mean
    # square. With all points instead, of test points in the deepest funnel of Hartmann6 0.47 and 0.42
    # were in their 95 % interval (two seeds); with those apart 0.75 and 0.63.
    least: float = 0.1
    considered: int = 5  # times as many rows as are asked for: cost. Not measured.
    # So many that a scale of the objective is fitted to, and the deviation of its targets taken from.
    scaled: int = 1000


@dataclass(frozen=True, kw_only=True)
class ClassifierRules:
    """How the posterior of a classifier's weights is approximated. Only the last two were measured."""

    # Share of the labels that the step function gets wrong: the basis cannot draw every boundary.
    flipped: float = 5e-3
    # Of expectation propagation: sweeps at most, share of a step that is taken, and the change of a
    # site's precision, in units of its margin's, at which it has settled. All sites move at once, and
    # whole steps may swing.
    most_sweeps: int = 100
    damping: float = 0.5
    settled: float = 1e-4
    # Prior precisions of the weights among which what was left out decides.
    precisions: tuple[float, ...] = tuple(np.geomspace(0.01, 10.0, 7).tolist())
    # Of the constant feature: base rates from 1e-4 to 1 - 1e-4 are likely.
    intercept_precision: float = 0.05
    # Random observations that the precisions are judged by, and that the weights are fitted to: some fifty
    # weights are determined by far fewer (benchmarks/results/fit_size.csv).
    most_judged: int = 20_000
    most: int = 100_000


@dataclass(frozen=True, kw_only=True)
class CostRules:
    """Limits on the time of a fit of the cost: a second or two. None was measured by itself."""

    most_exact: int = 150  # observations of the cost with which its process is exact
    most: int = 10_000  # observations that it is fitted to


@dataclass(frozen=True, kw_only=True)
class LocalRules:
    """The kernel of a region's process, and how its hyperparameters are fitted.

    Inputs are in [-1, 1], targets standardised. The numbers were chosen together, on trust regions in
    ten and twenty inputs; what was measured by itself says so.
    """

    # Of the Fourier series in each input, whose period is twice the region. Not measured.
    harmonics: int = 16
    # All harmonics of all inputs together, at most, but for two of each.
    most_harmonics: int = 2048
    # (points, steps of L-BFGS-B): most of the way goes with few points, at a tenth of the cost of
    # those after. Not measured.
    stages: tuple[tuple[int, int], ...] = ((128, 30), (400, 15))
    # Inputs up to which there are quadratics: of 60 they have 1,891 weights. Without any, trust
    # regions alone end 5.6 times as high (geometric mean of 22 runs in five inputs:
    # benchmarks/rules.md, the trust regions' model).
    most_quadratic: int = 60
    # Inputs up to which axes are looked for: of 30 a quadratic has 496 weights, and in 40 no axes were
    # ever worth the price of their angles.
    most_turned: int = 30
    # Variance beside the noise's, which keeps the matrix positive in float64.
    jitter: float = 1e-10
    # For a quadratic's axes alone: variances of its noise, and of its error relative to the height. The
    # likeliest pair is taken. Not measured one by one.
    noise_of_axes: tuple[float, ...] = (1e-10, 1e-6, 1e-2)
    error_of_axes: tuple[float, ...] = (0.0, 0.01, 1.0)
    # Medians of the log-normal priors: of a length, times the root of the number of inputs, as
    # distances grow with it; of the variances of the three parts; of the length in the series; of the
    # noise's variance; of the error's, relative to the height. The deviations of their logarithms in
    # the same order. Not measured, but for the error's: with a median of 0.01 the models rank better
    # and what is drawn from them is too bold (benchmarks/rules.md, the trust regions' model).
    length: float = float(np.exp(-0.3))
    medians: tuple[float, ...] = (0.3, 0.3, 0.3, 0.3, 0.01, 1e-4)
    deviations: tuple[float, ...] = (1.2, 2.0, 2.0, 2.0, 1.0, 3.0, 3.0)
    # Bounds of these logarithms: beyond them nothing changes but rounding. A noise of e^-14 at least,
    # with a jitter of 1e-8, ended 1.5 times as high in the mean: higher in 11 runs, lower in 9.
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
    """When surrogates stand side by side. None was measured by itself."""

    most_for_process: int = 20_000  # observations; from there on the bases resolve more, for less
    bootstraps: int = 200  # of the rows of the trial: a share is known to some hundredths
    negligible: float = 0.02  # a share below this is dropped: it costs time and changes little
    # Where the process stood alone, networks are judged again once the observations have grown by this
    # share: points that are asked for one by one would each pay for networks that are thrown away.
    judged_again: float = 0.1


@dataclass(frozen=True, kw_only=True)
class NearbyRules:
    """Which points decide a study's best one.

    most: points that the processes of a region or a front are conditioned on, at a cubic cost. points: so
    many nearest ones of the best: 100, 200 and 400 do about as well on thirty noisy functions of the tuning
    families, and 400 better than both on bbob-noisy. least: ok outcomes; with fewer nothing is said. Not
    measured. shares: of the additive part, where the fits start; those of regions and fronts start from the
    first. Which it is hardly matters: most fits end in the same mode. noisy: share of the noise in the
    targets' variance, from which on logarithms are tried, and axes are not. Not measured. multiplies: share
    of the noise in the logarithms' variance, from which on they are kept: steep functions without noise are
    likely by logarithms as well, and ended twice as high by them (benchmarks/rules.md).
    flat: outcomes lie on a floor if they differ by such a share of the mean height above the lowest.
    outlying: an outlier is so many deviations off what all others predict. rounds: so many times outliers
    are looked for, at the cost of a Cholesky factor each. refined_every: after so many rounds the
    hyperparameters are fitted anew.
    """

    points: int = 400
    most: int = 800
    least: int = 6
    shares: tuple[float, ...] = (0.5, 0.95)
    noisy: float = 0.01
    multiplies: float = 0.2
    flat: float = 0.1
    outlying: float = 3.0
    rounds: int = 12
    refined_every: int = 3


@dataclass(frozen=True, kw_only=True)
class NoiseRules:
    """How a reported noise is modelled. None was measured by itself."""

    # Deviation of the logarithm of the noise's level about what was reported: an error of a mean is
    # estimated from a few runs, and what a model cannot resolve comes on top.
    deviation: float = 0.5
    # Of a variance from their geometric mean: a few runs may agree by chance, and none is exact.
    most_precise: float = 1e-3


@dataclass(frozen=True, kw_only=True)
class PathRules:
    """How finely functions of the prior are approximated."""

    # Random ones of a process's prior, shared by the functions drawn of one sample. Drawn plainly, not
    # in weighted strata, so many gave a smooth function a third to twice the posterior's deviation.
    frequencies: int = 512


@dataclass(frozen=True, kw_only=True)
class ProcessRules:
    """Priors of a process's hyperparameters, and how their posterior is explored.

    Variances are of standardised targets. Priors are log-normal: a median, and the deviation of the
    logarithm. What was measured by itself says so.
    """

    # A lengthscale's median, in units of the unit cube, for one input; it grows with the root of the
    # number of inputs, as distances in the cube do (Hvarfner, Hellsten and Nardi 2024): else a
    # function of twenty inputs looks like noise before its first hundred observations.
    lengthscale: float = 0.5
    lengthscale_deviation: float = 1.0
    # The noise's variance, as a share of the signal's: little, unless the data say otherwise. Not
    # measured.
    noise: float = 1e-3
    noise_deviation: float = 3.0
    # Below this share nearly coincident points would be the same in float64. Not measured.
    least_noise: float = 1e-8
    signal: float = 1.0  # variance; wide about that of the targets. Not measured.
    signal_deviation: float = 2.0
    # Variance of the constant mean, which is integrated out, as a share of the signal's. Not measured.
    constant: float = 1.0
    # Steps of L-BFGS-B to the mode, and observations from whose mode those with more of them start:
    # cubic steps are few where a sketch has come close already.
    steps: int = 60
    sketch: int = 120
    steps_after_sketch: int = 12
    # Where a second search starts, off the prior's medians: a rough function with less noise.
    rougher_lengthscale: float = 1.5
    rougher_noise: float = 3.0
    # Lengthscales up to which each is sampled by itself, and directions of all of them together beyond,
    # with so many samples: of a thousand parameters a hundred observations say little, one by one.
    most_alone: int = 64
    directions: int = 16
    samples_of_many: int = 4
    burn_in: int = 5  # sweeps; few, as the chain starts at the mode
    # Sweeps between kept samples, and the observations up to which a sweep costs so little that it is in
    # full. Five measurably help there.
    thin: int = 5
    thin_up_to: int = 80


@dataclass(frozen=True, kw_only=True)
class RegressionRules:
    """Priors of the heads' hyperparameters, and how they are sampled. None was measured by itself."""

    # Deviation of log alpha, log beta and log inflation, about 0: wide, but a constant objective must not
    # drive a variance to zero.
    prior_deviation: float = 4.0
    # The out-of-fold likelihood is a sum over observations; this many random ones determine three
    # numbers, and keep the cost of the sampler from growing with the data.
    most_left_out: int = 1000
    folds_alone: int = 5  # of which one network by itself leaves out the first
    # Points half-way between neighbours at which the networks' agreement is judged, and the least
    # factor that it may put on their variances.
    midpoints: int = 256
    least_agreement: float = 0.4
    # Sweeps before the first kept sample, and from one to the next; each costs microseconds.
    burn_in: int = 30
    thin: int = 3


@dataclass(frozen=True, kw_only=True)
class SelectionRules:
    """When one model of points that lie together takes the place of another.

    low: the share of the outcomes that is low. Heights are counted from the highest of these: counted from
    the lowest, a lucky one is taken for exact. The gain that a region promises is measured by their spread.
    better: nats by which the mean log score of the outcomes has
    to rise. Nearly all of the rise comes from the low ones: half a nat for each of a fifth of the outcomes.
    foresight: a model is of no use if its partial rank correlation is lower, and its rank correlation is
    not above `ranked`. Where no model is of use, on `dust`, the latter rises to 0.7; on bowls to 1.
    foresight_alike: as `foresight`, where points next to each other are known to be alike.
    """

    low: float = 0.25
    better: float = 0.1
    foresight: float = 0.15
    foresight_alike: float = 0.3
    ranked: float = 0.9


@dataclass(frozen=True, kw_only=True)
class SparseRules:
    """Where a sparse process saves time. None was measured by itself."""

    jitter: float = 1e-7  # share of the signal: resolution of the inducing inputs
    near_optimum: int = 4  # one in so many inducing inputs is among the best observations
    # Inducing inputs where no key says how many: of a cost, and of a number with a threshold.
    inducing: int = 100
    samples: int = (
        2  # of the hyperparameters, at most: many observations leave little doubt of them
    )
    burn_in: int = (
        5  # sweeps for signal and noise, from those of the process with fewer observations
    )


@dataclass(frozen=True, kw_only=True)
class TailRules:
    """Robust standard deviations beyond which values count by their logarithm. Not measured."""

    # A minimiser need not resolve the upper tail: it is compressed early, and cut off.
    upper_linear: float = 5.0
    upper_limit: float = 20.0
    lower_linear: float = 20.0  # the lower one holds the optimum


@dataclass(frozen=True, kw_only=True)
class TrainingRules:
    """Numbers of training that are no keys. Only `most_classified` was measured by itself."""

    # Weights start as N(0, (gain / sqrt(inputs))^2). Under 1 the network starts as a smooth, nearly
    # linear function of x, which generalises better from few observations.
    initial_gain: float = 0.577
    # Of Adam: the averages' decays, the second less than usual, as there are some thousand steps only;
    # and what keeps a parameter whose gradient is zero where it is.
    betas: tuple[float, float] = (0.9, 0.99)
    epsilon: float = 1e-8
    # Labels that `epochs` counts passes over: with more of them there are as many steps, each with other
    # ones. Of values no such bound: it costs 0.48 nats of 2.71 (benchmarks/results/fit_size.csv).
    most_classified: int = 20_000
    at_once: int = 200  # steps whose minibatches are sent to the device together: its latency


@dataclass(frozen=True, kw_only=True)
class WarpingRules:
    """Which scales are compared, and how. None was measured by itself but for `floors`."""

    powers: tuple[float, ...] = (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    # Shares of the observations that lie on the floor, whose depth is resolved (benchmarks/rules.md, walls
    # and floors). None further is tried where one is so much less likely, in nats, than the best: most
    # functions have no floor. price: in nats, that of the least likely power.
    floors: tuple[float, ...] = (0.5, 0.25, 0.1, 0.03)
    hopeless: float = 10.0
    price: float = 2.0
    prior_deviation: float = 1.0  # of the power about 1: a handful of observations stays unbent
    fewest: int = 8  # observations from which on other powers than 1 are tried
    most: int = 120  # observations that the powers are judged by, each at the cost of a mode
    steps: int = 15  # of L-BFGS-B from a neighbour's mode


@dataclass(frozen=True, kw_only=True)
class NumberRules:
    """How the numbers that have thresholds are fitted, where the kind is `auto` (benchmarks/rules.md,
    thresholds). Not measured one by one."""

    samples: int = 3  # of the hyperparameters, while observations are few
    sampled_up_to: int = 40  # observations; with more the mode stands alone
    sketch: int = 64  # observations in use on the way to the mode
    steps: int = 25
    steps_after_sketch: int = 5
    # Their scales have no floor; these are as those of `WarpingRules`.
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
