"""Laws of a batch that is chosen by functions drawn together."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing import drawn_outcomes, fitted_component, model_of, points, propose
from scipy import stats
from spaces import cube, mixed

from dngo.acquisition import History, design
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.joint import Batch, Drawn, drawn, improvement
from dngo.acquisition.measures import expected_improvement
from dngo.acquisition.minima import Box, minima
from dngo.acquisition.settings import AcquisitionSettings, Modelled
from dngo.acquisition.spacing import Spacing, distances
from dngo.acquisition.stages.joint import Joint
from dngo.acquisition.state import BatchState
from dngo.rules import current, using
from dngo.rules.acquisition import DescentRules
from dngo.space import Space
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(2)
V = points(SPACE, 12)
Y = np.cos(5 * V).sum(axis=1) + (V[:, 0] - 0.4) ** 2


class JointAlone(Modelled):
    """All picks by functions that are drawn together."""

    kind: str = "joint"

    def stages(self):
        return [Joint()]


GP = SurrogateSettings(kind="gp", hyperparameter_samples=1, warp=False)
SETTINGS = JointAlone(uniform_candidates=512)
MANY = current().but(joint={"least": 2048, "most": 2048})


@pytest.fixture(scope="module")
def model():
    return model_of(SPACE, V, Y, 1, GP)


def unit_of(model) -> float:
    """One deviation of the targets, in units of the objective."""
    return model.scale.spread * model.scale.scale


def state_of(model) -> BatchState:
    rng, plan = np.random.default_rng(0), SETTINGS.stages()
    return BatchState(model, SPACE, History(V, Y, V[:0]), 8, SETTINGS.shared(), plan, rng)


@pytest.fixture(scope="module")
def functions(model) -> Drawn:
    with using(MANY):
        return drawn(state_of(model), 2048, np.random.default_rng(3))


def batch_by(functions: Drawn) -> Batch:
    spacing = Spacing(SPACE, History(V, Y), 0)
    return Batch(functions, improvement, np.ones(len(functions.v)), spacing)


def test_one_pick_with_nothing_pending_has_the_highest_expected_improvement(
    model, functions: Drawn
) -> None:
    """Closed-form expected improvement (Snoek et al. 2012, equation 3), within Monte Carlo error."""
    (component,) = model.objective
    (mean,), (variance,) = component.latent(component.features(SPACE.encode(functions.v)))
    best = np.min(model.scale.to_model(Y))
    exact = expected_improvement(best, mean, np.sqrt(variance)) * unit_of(model)
    at, value, second = batch_by(functions).next()
    assert value == pytest.approx(exact[at], rel=0.1) and 0.9 * value < second <= value
    assert exact[at] >= 0.95 * exact.max()


def test_a_batch_adds_as_much_as_by_fantasies(model, functions: Drawn) -> None:
    """The sum of the picks' values is the batch's expected improvement by joint draws; sequential
    fantasies estimate the same (section 3.3)."""
    batch = batch_by(functions)
    picks, values, _ = zip(*(batch.next() for _ in range(5)), strict=True)
    best = float(np.min(model.scale.to_model(Y)))
    fantasies = Fantasies(model.objective, best, 4000, np.random.default_rng(0), noisy=False)
    z, total = fantasies.features(SPACE.encode(functions.v[list(picks)])), 0.0
    for j in range(5):
        total += float(fantasies.weighted(z[:, [j]], np.ones(1))[0]) * unit_of(model)
        fantasies.condition(z[:, j], 1.0)
    assert sum(values) == pytest.approx(total, rel=0.1)
    assert list(values) == sorted(values, reverse=True)  # submodular: each adds less


def test_a_batch_fills_up_and_replays(model) -> None:
    one, other = (propose(SPACE, V, Y, 40, settings=SETTINGS, model=model) for _ in range(2))
    assert len(one) == 40 and one.v.tobytes() == other.v.tobytes()
    assert len(np.unique(one.v, axis=0)) == 40 and set(one.stage) == {"joint"}


def test_one_batch_does_not_stake_all_on_one_edge() -> None:
    """The objective falls towards an edge of crashes that nobody knows exactly."""
    v = points(SPACE, 30)
    feasible = v[:, 0] < 0.55
    y = np.where(feasible, -v[:, 0] + 0.1 * v[:, 1], np.nan)
    model = model_of(SPACE, v, y, 1, SurrogateSettings(kind="gp", hyperparameter_samples=1))
    found = propose(SPACE, v, y, 12, seed=2, settings=SETTINGS, model=model)
    assert found.v[:, 0].std() > 0.01 and (found.v[:, 0] < 0.55).sum() >= 5


def test_the_default_chooses_a_batch_by_drawn_functions_and_one_point_by_the_exact_improvement(
    model,
) -> None:
    def stages(size: int, **settings: object) -> set[str]:
        mcei = AcquisitionSettings(**settings)
        found = propose(SPACE, V, Y, size, seed=3, settings=mcei, model=model)
        assert len(found) == size and np.isfinite(found.value).all()
        return set(found.stage)

    assert stages(12) == {"trust_regions", "joint"}
    assert stages(1, trust_region_share=0.01) == {"improvement"}
    # As published.
    assert "joint" not in stages(12, trust_region_share=0.0)
    assert "joint" not in stages(12, when_vanished="explore")


# ---- Laws of expected improvement and of fantasies

seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=25, deadline=None)
@given(best=st.floats(-3, 3), mean=st.floats(-3, 3), deviation=st.floats(1e-3, 5) | st.just(0.0))
def test_expected_improvement_is_the_integral(best, mean, deviation):
    z = np.linspace(-12, 12, 200_001)
    density = stats.norm.pdf(z)
    expected = np.trapezoid(np.maximum(best - mean - deviation * z, 0) * density, z)
    found = expected_improvement(np.float64(best), np.float64(mean), np.float64(deviation))
    assert found == pytest.approx(expected, abs=1e-8)


@settings(max_examples=15, deadline=None)
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


@pytest.mark.parametrize("noisy", [True, False])
def test_mcei_with_nothing_pending_is_integrated_expected_improvement(noisy):
    components = [fitted_component(seed)[0] for seed in (0, 1)]
    fantasies = Fantasies(components, 0.1, 7, np.random.default_rng(0), noisy=noisy)
    x = np.random.default_rng(2).random((9, 2))
    values = []
    for c in components:
        mean, variance = c.predict(c.features(x))
        variance = variance if noisy else variance - c.noise
        values.append(expected_improvement(np.float64(0.1), mean, np.sqrt(variance)))
    expected = np.concatenate(values, axis=1).mean(axis=1)
    np.testing.assert_allclose(fantasies.improvement(fantasies.features(x)), expected, rtol=1e-12)


# ---- Laws of the late picks of a large batch: each of hundreds is a good one

SURROGATE = SurrogateSettings(kind="gp", hyperparameter_samples=3)
SIZE = 400


def smooth(u: np.ndarray) -> np.ndarray:
    return ((u - 0.3) ** 2).sum(axis=1)


def rugged(u: np.ndarray) -> np.ndarray:
    return smooth(u) + 0.1 * (1 - np.cos(12 * np.pi * (u - 0.3))).sum(axis=1)


def ordered(u: np.ndarray) -> np.ndarray:
    """Of a space of every kind of parameter; what is inactive is worth the middle."""
    return ((np.where(np.isnan(u), 0.5, u) - 0.4) ** 2).sum(axis=1)


def everywhere(u: np.ndarray) -> np.ndarray:
    return np.ones(len(u), dtype=bool)


def half(u: np.ndarray) -> np.ndarray:
    return u[:, 0] + u[:, 1] > 0.8


PROBLEMS = {
    "smooth": (cube(4), smooth, everywhere, 0.0),
    "rugged": (cube(4), rugged, everywhere, 0.0),
    "constrained": (cube(4), smooth, half, 0.0),
    "mixed": (mixed(), ordered, everywhere, 0.0),
    "noisy": (cube(4), smooth, everywhere, 0.1),
}


def batch_of(
    space: Space,
    function: Callable[[np.ndarray], np.ndarray],
    holds: Callable[[np.ndarray], np.ndarray],
    noise: float,
    settings: AcquisitionSettings | None = None,
):
    """A batch after a design of 100 points."""
    v = design(space, 100, rng=np.random.default_rng(0), exclude=np.empty((0, space.k)))
    u = space.unit(v)
    y = function(u) + noise * np.random.default_rng(1).standard_normal(len(v))
    y = np.where(holds(u), y, np.nan)
    model, batch = model_of(space, v, y, 2, SURROGATE), np.zeros(len(v), dtype=int)
    settings = settings or AcquisitionSettings()
    return propose(space, v, y, SIZE, seed=3, settings=settings, model=model, iteration=batch)


@pytest.mark.full
@pytest.mark.parametrize("name", PROBLEMS)
def test_each_eighth_of_a_batch_is_far_better_than_uniform_points(name: str) -> None:
    space, function, holds, noise = PROBLEMS[name]
    batch = batch_of(space, function, holds, noise)
    assert len(batch) == SIZE
    uniform = space.unit(space.sample(np.random.default_rng(4).random((4000, space.k))))
    reference = np.sort(function(uniform[holds(uniform)]))
    u = space.unit(batch.v)
    better = np.searchsorted(reference, function(u)) / len(reference)
    # Of uniform points half would be better. A quarter are better here, because a model must be
    # told from noise.
    for part, feasible in zip(np.array_split(better, 8), np.array_split(holds(u), 8), strict=True):
        assert part.mean() < (0.25 if name in ("rugged", "noisy") else 0.15)
        assert feasible.mean() > 0.5


def test_a_batch_of_draws_alone_is_good_to_its_last_pick() -> None:
    settings = AcquisitionSettings(kind="thompson", trust_region_share=0.0)
    batch = batch_of(*PROBLEMS["smooth"], settings)
    reference = np.sort(smooth(np.random.default_rng(4).random((4000, 4))))
    better = np.searchsorted(reference, smooth(batch.v)) / len(reference)
    assert max(part.mean() for part in np.array_split(better, 8)) < 0.15
    gaps = distances(batch.v, batch.v)
    assert gaps[np.triu_indices(SIZE, 1)].min() >= settings.spacing - 1e-9


def test_each_function_is_searched_for_its_own_minimum() -> None:
    rng = np.random.default_rng(5)
    lowest = rng.random((6, 3))

    def own(v: np.ndarray) -> np.ndarray:
        return ((v - lowest[:, None]) ** 2).sum(axis=2)

    shared = rng.random((64, 3))
    values = own(np.broadcast_to(shared, (6, 64, 3)))
    rules = DescentRules(rounds=10, children_wide=100, along_gradient=0)
    v, found = minima(shared, values, own, rng, box=Box.whole(cube(3)), largest=0.2, rules=rules)
    np.testing.assert_allclose(found, own(v))
    assert np.all(np.diff(found, axis=1) >= 0)
    assert np.all(found[:, 0] <= values.min(axis=1))
    assert np.abs(v[:, 0] - lowest).max() < 0.03


def test_greedy_is_near_the_best_batch() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((40, 9))
    v = SPACE.from_unit(rng.random((9, 2)))
    batch = Batch(
        Drawn(v, values, np.zeros(40)), improvement, np.ones(9), Spacing(SPACE, History(V, Y), 0)
    )
    found = sum(batch.next()[1] for _ in range(3))
    best = max(
        np.maximum(-values[:, list(c)].min(axis=1), 0).mean()
        for c in itertools.combinations(range(9), 3)
    )
    assert found >= (1 - 1 / np.e) * best
