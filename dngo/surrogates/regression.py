"""Adaptive basis regression of the objective: an ensemble of networks with Bayesian heads.

A network interpolates its training data, so a Bayesian linear regression on it sees residuals near
zero. The evidence (8) then chooses a noise near zero, and the model is certain about points that it
has not seen. So network k leaves out fold k (a single network leaves out one fold of several), and
the hyperparameters are sampled from the predictive likelihood of the left-out rows. The paper's
recipe, one network and the evidence of its own training data, is in `dngo.papers.in_sample`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dngo.rules import current
from dngo.surrogates.apart import apart
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network, WithCosines, WithWaves
from dngo.surrogates.numerics import LOG_LIMIT
from dngo.surrogates.problem import Fit, Problem, ReportedNoise, Trial
from dngo.surrogates.sections import TRAININGS, EnsembleSettings
from dngo.surrogates.slice_sampling import slice_sample
from dngo.types import Array, Mask, Progress, Rows

# The likelihood of left-out rows is a sum over at most this many random observations. They are
# enough for three numbers, and the sampler's cost does not grow with the data.
MOST_LEFT_OUT = 1000


def number_of_folds(networks: int) -> int:
    """Each network leaves out one fold. With a single fold it would learn from nothing."""
    return networks if networks > 1 else current().regression.folds_alone


def folds(problem: Problem, networks: int, rng: np.random.Generator) -> Rows:
    """The fold of each of n rows: (n,). Sizes of folds differ by at most two.

    Rows that taught the networks keep theirs.
    """
    count = number_of_folds(networks)

    def drawn(some: Problem, own: np.random.Generator) -> Rows:
        return own.permutation(np.arange(len(some.x)) % count)

    found = problem.learn(f"folds {count}", drawn, rng)
    if problem.lesson is None:
        return found
    fold = np.arange(len(problem.x)) % count
    fold[problem.lesson.rows] = found
    return fold


@dataclass(frozen=True)
class Ensemble:
    """How an ensemble of bases is fitted: its networks, the name of their training, and how many samples of
    the heads' hyperparameters are drawn."""

    training: str
    samples: int
    networks: EnsembleSettings


def fit_regression(
    problem: Problem,
    settings: Ensemble,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    fold: Rows | None = None,
) -> Fit[FiniteBasis]:
    """A component for each network. fold: (n,) the network that leaves out each row; drawn if None.

    With many rows the networks are trained by `soap`, which follows a smooth objective more closely.
    """
    x, ensemble, rules = problem.x, settings.networks.ensemble, current().regression
    folding, training_rng, sampling, choosing = rng.spawn(4)
    fold = folds(problem, ensemble, folding) if fold is None else fold
    kept = np.zeros(len(x), dtype=bool)
    kept[choosing.permutation(len(x))[:MOST_LEFT_OUT]] = True

    def train(some: Problem, own: np.random.Generator) -> Sequence[Any]:
        taught = slice(None) if problem.lesson is None else problem.lesson.rows
        of, (training, waving) = fold[taught], own.spawn(2)
        rows = [np.flatnonzero(of != k) for k in range(ensemble)]
        how = settings.networks
        if how.optimizer == "adam" and len(of) >= rules.rotated_from:
            how = how.model_copy(update={"optimizer": "soap"})
        given = {"loss": "squared", "rng": training, "progress": progress}
        networks: list[Network] = TRAININGS.find(settings.training)(
            some.x, some.targets, rows, how, **given
        )
        return _beside(some, networks, of, waving)

    what = f"bases {settings.training} {settings.networks.model_dump_json()}"
    bases = problem.learn(what, train, training_rng)
    left_out = _LeftOut.fit(problem, bases, fold, kept)
    return _out_of_fold(problem, left_out, bases, settings.samples, sampling)


def _beside(
    problem: Problem, networks: list[Network], fold: Rows, rng: np.random.Generator
) -> Sequence[Any]:
    """The bases: networks with cosines and waves beside them, or without, as the rows that the first
    networks have left out are likeliest. Only rows that lie apart count: where a search piles up its
    points, the whole space would look smooth."""
    rules, x = current().regression, problem.x
    spread = np.zeros(len(x), dtype=bool)
    spread[apart(x, MOST_LEFT_OUT, rng, problem.groups)] = True
    judged = spread & (fold < rules.judges)

    def highest(some: Sequence[Any]) -> float:
        return _LeftOut.fit(problem, some[: rules.judges], fold, judged).highest()

    learnt: Sequence[Any] = [
        WithCosines.of(n, x, rules.cosines, rules.most_cosines) for n in networks
    ]
    if spread.sum() < rules.fewest_beside:
        return learnt
    if highest(networks) > highest(learnt):
        learnt = networks
    if not rules.waves:
        return learnt
    best, chosen, drawn = highest(learnt), learnt, []
    for network, basis in zip(networks, learnt, strict=True):
        directions = rng.standard_normal((x.shape[1], rules.waves))
        scaled = _slopes(network, x[spread])[:, None] * directions
        drawn.append((basis, scaled, rng.uniform(0.0, 2.0 * np.pi, rules.waves)))
    for length in rules.lengths:
        for amplitude in rules.amplitudes:
            waved = [WithWaves(b, w / length, phases, amplitude) for b, w, phases in drawn]
            if (found := highest(waved)) > best:
                best, chosen = found, waved
    return chosen


def _slopes(network: Network, x: Array) -> Array:
    """How much the features change along each input, over the geometric mean of all: (inputs,)."""
    logs = np.log(network.slopes(x[: current().regression.rows_of_slopes]) + 1e-6)
    return np.asarray(np.exp(logs - logs.mean()))


def _out_of_fold(
    problem: Problem,
    left_out: _LeftOut,
    bases: Sequence[Any],
    samples: int,
    rng: np.random.Generator,
) -> Fit[FiniteBasis]:
    """Heads with alpha, beta and an inflation from the rows that each network has left out."""
    chain = sample_chain(left_out.log_posterior, np.zeros(3), samples, rng)
    log_ridge, log_inflation, log_noise = chain.T
    beta = np.exp(-log_noise)
    alpha = np.exp(log_ridge) * beta
    components = []
    for basis in bases:
        # Every head learns from all data, including the fold that its network has not seen.
        features = basis.features(problem.x)
        head = Regression.fit(features, problem.targets, problem.relative_noise)
        mean, variance = head.posterior(alpha, beta)
        variance *= np.exp(log_inflation)[:, None]
        components.append(FiniteBasis(basis, head.rotation, mean, variance, 1 / beta))
    agreement = _agreement(components, problem.x, rng)
    components = [
        replace(c, variance=c.variance * agreement, noise=c.noise * agreement) for c in components
    ]
    found = {
        "log_alpha": float(np.mean(np.log(alpha))),
        "log_beta": float(np.mean(np.log(beta))),
        "agreement": agreement,
        "log_inflation": float(np.mean(log_inflation)),
        "wave_amplitude": getattr(bases[0], "amplitude", 0.0),
        "out_of_fold_log_density": left_out.mean_log_density(chain.mean(axis=0)),
    }
    # One network left out each row, but the average of all networks is used. The average's error
    # variance is (1 + agreement) / 2 of one network's, so its log density is higher by this.
    together = -0.5 * np.log(0.5 * (1.0 + agreement))
    trial = Trial(left_out.rows, left_out.log_density(chain) + together)
    return Fit(tuple(components), found, trial)


def sample_chain(
    log_posterior: Callable[[Array], float], start: Array, samples: int, rng: np.random.Generator
) -> Array:
    """Samples (H, p) of the logarithms of the hyperparameters."""
    burn_in, thin = current().regression.burn_in, current().regression.thin
    return slice_sample(
        log_posterior, start, width=2.0, samples=samples, burn_in=burn_in, thin=thin, rng=rng
    )


def _agreement(components: list[FiniteBasis], x: Array, rng: np.random.Generator) -> float:
    """The factor on a network's variance in an ensemble.

    Left-out errors calibrate each network by itself, but the average of K networks errs less. Let B
    be the variance between the networks. The average's error variance is smaller by (1 - 1/K) B.
    The mixture of their predictions adds (1 - 1/K) B, so it is too wide by 2 (1 - 1/K) B. B is
    measured half-way between observations and their nearest neighbours. No network has seen these
    points, and yet they lie among the data.
    """
    k = len(components)
    if k < 2 or len(x) < 2 * k:
        return 1.0
    some = x[rng.permutation(len(x))[: current().regression.midpoints]]
    others = x[rng.permutation(len(x))[:MOST_LEFT_OUT]]
    squares = np.sum((some[:, None] - others) ** 2, axis=2)
    squares[squares < 1e-12] = np.inf  # skip the row itself, and its duplicates
    new = 0.5 * (some + others[np.argmin(squares, axis=1)])
    found = [c.predict(c.features(new)) for c in components]
    between = np.var([mean for mean, _ in found], axis=0, ddof=1)
    own = np.mean([variance for _, variance in found], axis=0)
    excess = 2.0 * (1.0 - 1.0 / k) * np.mean(between / own)
    return float(max(1.0 - excess, current().regression.least_agreement))


@dataclass
class _LeftOut:
    """Each network's prediction of the fold that it left out, as a function of three numbers.

    The coordinates are logarithms: of the ridge alpha / beta (only this changes the means), of the
    inflation, and of the noise 1 / beta. In the posterior they are nearly independent. alpha, beta
    and the inflation would be tightly correlated, and mix slowly.
    """

    features: list[Array]
    targets: list[Array]
    heads: list[Regression]
    rows: Rows
    relative_noise: Array
    noise: ReportedNoise | None
    _last: tuple[float, Array, Array] | None = None

    @classmethod
    def fit(cls, problem: Problem, bases: Sequence[Any], fold: Rows, kept: Mask) -> _LeftOut:
        """kept: (n,) which of the left-out rows count."""
        x, targets, relative = problem.x, problem.targets, problem.relative_noise
        features, ys, heads, rows = [], [], [], []
        for k, basis in enumerate(bases):
            seen, unseen = np.flatnonzero(fold != k), np.flatnonzero((fold == k) & kept)
            head = Regression.fit(basis.features(x[seen]), targets[seen], relative[seen])
            features.append(basis.features(x[unseen]) @ head.rotation)
            ys.append(targets[unseen])
            heads.append(head)
            rows.append(unseen)
        order = np.concatenate(rows)
        return cls(features, ys, heads, order, relative[order], problem.noise)

    def log_posterior(self, log: Array) -> float:
        if not _inside(log):
            return -np.inf
        log_ridge, log_inflation, log_noise = log
        fit = float(np.sum(self._log_density(log)))
        # alpha = ridge / noise, beta = 1 / noise
        prior = log_prior(np.array([log_ridge - log_noise, -log_noise, log_inflation]))
        if self.noise is not None:
            away = (log_noise - np.log(self.noise.level)) / current().noise.deviation
            prior -= 0.5 * float(away**2)
        return fit + prior

    def highest(self) -> float:
        """The highest posterior density among a few ridges and noises."""
        rules = current().regression
        return max(
            self.log_posterior(np.array([ridge, 0.0, noise]))
            for ridge in rules.log_ridges
            for noise in rules.log_noises
        )

    def mean_log_density(self, log: Array) -> float:
        return float(np.mean(self._log_density(log)))

    def log_density(self, chain: Array) -> Array:
        """The log density of each left-out target, averaged over the samples (H, 3) of a chain: (m,)."""
        each = np.array([self._log_density(log) for log in chain])
        return np.asarray(logsumexp(each, axis=0) - np.log(len(chain)))

    def _log_density(self, log: Array) -> Array:
        error, spread = self._at(float(log[0]))
        variance = np.exp(log[2]) * (np.exp(log[1]) * spread + self.relative_noise)
        return -0.5 * (error / variance + np.log(2 * np.pi * variance))

    def _at(self, log_ridge: float) -> tuple[Array, Array]:
        """Squared errors and z^T (Lambda + ridge)^-1 z of all left-out rows."""
        if self._last is None or self._last[0] != log_ridge:
            ridge = np.exp(log_ridge)
            errors, spreads = [], []
            for z, y, head in zip(self.features, self.targets, self.heads, strict=True):
                shrink = 1.0 / (head.eigenvalues + ridge)
                errors.append((y - z @ (head.projection * shrink)) ** 2)
                spreads.append((z * z) @ shrink)
            self._last = (log_ridge, np.concatenate(errors), np.concatenate(spreads))
        return self._last[1], self._last[2]


def _inside(log: Array) -> bool:
    return bool(np.all(np.abs(log) < LOG_LIMIT))


def log_prior(log: Array) -> float:
    if not _inside(log):
        return -np.inf
    return -0.5 * float(np.sum(log**2)) / current().regression.prior_deviation ** 2
