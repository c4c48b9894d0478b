"""Laws of expected improvement and of fantasies."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing import drawn_outcomes, fitted_component
from scipy import stats
from spaces import cube

from dngo.acquisition import History
from dngo.acquisition.candidates import Candidates
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.measures import expected_improvement
from dngo.acquisition.shortlist import Shortlist
from dngo.acquisition.spacing import Spacing
from dngo.surrogates.linear import FiniteBasis, Regression

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=50, deadline=None)
@given(best=st.floats(-3, 3), mean=st.floats(-3, 3), deviation=st.floats(1e-3, 5))
def test_expected_improvement_is_the_integral(best, mean, deviation):
    z = np.linspace(-12, 12, 200_001)
    density = stats.norm.pdf(z)
    expected = np.trapezoid(np.maximum(best - mean - deviation * z, 0) * density, z)
    found = expected_improvement(np.float64(best), np.float64(mean), np.float64(deviation))
    assert found == pytest.approx(expected, abs=1e-8)


def test_expected_improvement_of_a_certain_point_is_its_improvement():
    found = expected_improvement(np.array([1.0, 1.0]), np.array([0.25, 2.0]), np.zeros(2))
    np.testing.assert_array_equal(found, [0.75, 0.0])


@settings(max_examples=25, deadline=None)
@given(seed=seeds, pending=st.integers(1, 5), n=st.integers(0, 8))
def test_rank_one_updates_equal_refitting_with_the_fantasised_points(seed, pending, n):
    component, (network, x, y, alpha, beta) = fitted_component(seed, n=n)
    rng = np.random.default_rng(seed)
    fantasies = Fantasies([component], 0.0, 3, rng)
    new, test = rng.random((pending, 2)), rng.random((10, 2))
    outcomes = drawn_outcomes(fantasies, new, 1 / beta)
    ((mean, variance),) = fantasies.moments(fantasies.features(test))
    for h, s in itertools.product(range(2), range(mean.shape[2])):
        targets = np.r_[y, [o[h, s if o.shape[1] > 1 else 0] for o in outcomes]]
        phi = network.features(np.concatenate([x, new]))
        refit = Regression.fit(phi, targets)
        full = FiniteBasis(
            network, refit.rotation, *refit.posterior(alpha[[h]], beta[[h]]), 1 / beta[[h]]
        )
        expected_mean, expected_variance = full.predict(full.features(test))
        np.testing.assert_allclose(mean[0, h, s], expected_mean[:, 0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            variance[0, h, 0] + 1 / beta[h], expected_variance[:, 0], rtol=1e-8
        )


@pytest.mark.parametrize("noisy", [True, False])
def test_mcei_converges_to_quadrature_over_the_outcome(noisy):
    component, (network, x, y, alpha, beta) = fitted_component(3, h=1)
    rng = np.random.default_rng(0)
    new, test = rng.random((1, 2)), rng.random((4, 2))
    best, probability = float(y.min()), 0.7
    noise = 1 / beta[0]
    mean, variance = (float(part[0, 0]) for part in component.predict(component.features(new)))
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    weights = weights / weights.sum()
    phi = network.features(np.concatenate([x, new]))
    expected = np.zeros(4)
    # Nested quadrature: over the function's value at the pending point, and over the noise.
    for (a, wa), (b, wb) in itertools.product(zip(nodes, weights, strict=True), repeat=2):
        value = mean + np.sqrt(variance - noise) * a
        outcome = value + np.sqrt(noise) * b
        head = Regression.fit(phi, np.r_[y, outcome])
        full = FiniteBasis(network, head.rotation, *head.posterior(alpha, beta), 1 / beta)
        m, v = (part[:, 0] for part in full.predict(full.features(test)))
        deviation = np.sqrt(v if noisy else v - noise)
        low = np.minimum(best, outcome if noisy else value)
        held = expected_improvement(low, m, deviation)
        broken = expected_improvement(np.float64(best), m, deviation)
        expected += wa * wb * (probability * held + (1 - probability) * broken)
    fantasies = Fantasies([component], best, 20_000, np.random.default_rng(1), noisy=noisy)
    fantasies.condition(fantasies.features(new)[:, 0], probability)
    found = fantasies.improvement(fantasies.features(test))
    np.testing.assert_allclose(found, expected, rtol=0.01)


def test_a_pick_lowers_its_own_value_because_the_incumbent_is_fantasised():
    component, (_, _, y, _, _) = fitted_component(7)
    fantasies = Fantasies([component], float(y.min()), 400, np.random.default_rng(0))
    z = fantasies.features(np.random.default_rng(1).random((50, 2)))
    values = fantasies.improvement(z)
    top = int(np.argmax(values))
    for _ in range(5):
        fantasies.condition(z[:, top])
    assert fantasies.improvement(z[:, [top]])[0] < 0.5 * values[top]
    # An outcome that is sure to break a constraint is never the incumbent.
    hopeless = Fantasies([component], float(y.min()), 4, np.random.default_rng(0))
    hopeless.condition(z[:, top], 0.0)
    assert hopeless.incumbent == pytest.approx(y.min())


@pytest.mark.parametrize("probability", [0.25, 0.8])
def test_points_that_may_fail_together_leave_something_to_improve(probability: float) -> None:
    """However many are pending: in a share 1 - p of the fantasies none of them holds its bounds."""
    component, (_, _, y, _, _) = fitted_component(7)
    fantasies = Fantasies([component], float(y.min()), 400, np.random.default_rng(0))
    z = fantasies.features(np.random.default_rng(1).random((60, 2)))
    for j in range(60):
        fantasies.condition(z[:, j], probability)
    kept = np.mean(fantasies.parts[0].best == y.min())
    assert kept >= 1 - probability - 1 / 400
    assert kept < 1  # and in the others some outcome is the best


def _shortlist(fantasies: Fantasies, x: np.ndarray) -> Shortlist:
    """Of all points x (n, 2), each as good as its improvement."""
    space = cube(2)
    pool = Candidates(space, set())
    pool.add(x, "uniform")
    pool.feasibility = pool.rate = np.ones(len(x))
    scores = fantasies.improvement(fantasies.features(x))
    spacing = Spacing(space, History(np.empty((0, 2)), np.empty(0)), 0.0)
    return Shortlist(fantasies, pool, np.arange(len(x)), scores, spacing.among(x))


def test_lazy_picks_are_worth_what_greedy_ones_are():
    """The lazy bound is a heuristic. This measures its loss against evaluating all candidates."""
    component, (_, _, y, _, _) = fitted_component(11, n=10, h=3)
    x = np.random.default_rng(1).random((300, 2))

    def batch(lazy: bool) -> list[float]:
        fantasies = Fantasies([component], float(y.min()), 20, np.random.default_rng(2))
        picker = _shortlist(fantasies, x)
        values = []
        for _ in range(20):
            if not lazy:
                picker._update(np.arange(300))
            values.append(picker.pick(picker.open.free).value)
        return values

    greedy, lazy = batch(False), batch(True)
    assert lazy[0] == greedy[0]
    assert sum(lazy) == pytest.approx(sum(greedy), rel=0.1)
