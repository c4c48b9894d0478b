"""Laws of the acquisition: fantasies, expected improvement, candidates, batches."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import approx_fprime
from spaces import cube, mixed

from dngo.acquisition import History, design, endgame, propose_batch
from dngo.acquisition import candidates as cand
from dngo.acquisition.ascent import climb
from dngo.acquisition.improvement import Fantasies, expected_improvement
from dngo.acquisition.local import LocalModel, _Likelihood
from dngo.acquisition.propose import _Lazy
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.thompson import Draws
from dngo.parameters import Boolean, Categorical, Fixed, Float, Int
from dngo.space import Space
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.linear import FiniteBasis, Regression
from dngo.surrogates.network import Network
from dngo.surrogates.settings import SurrogateSettings

QUICK = SurrogateSettings(networks=3, width=8, steps=50, epochs=0, hyperparameter_samples=3)
SMALL = AcquisitionSettings(
    uniform_candidates=128, local_candidates=64, shortlist=128, fantasies=5, refinements=1
)
seeds = st.integers(0, 2**32 - 1)


def _network(d: int, rng: np.random.Generator, width: int = 5) -> Network:
    return Network((rng.standard_normal((d, width)) * 2,), (rng.standard_normal(width),), "tanh")


def _component(seed: int, n: int = 6, d: int = 2, h: int = 2) -> tuple[FiniteBasis, tuple]:
    """A component fitted to n random points, and what it was fitted to."""
    rng = np.random.default_rng(seed)
    network = _network(d, rng)
    x, y = rng.random((n, d)), rng.standard_normal(n)
    alpha, beta = rng.uniform(0.2, 3, h), rng.uniform(0.5, 50, h)
    head = Regression.fit(network.features(x), y)
    return (
        FiniteBasis(network, head.rotation, *head.posterior(alpha, beta), 1 / beta),
        (network, x, y, alpha, beta),
    )


def _model(space: Space, v: np.ndarray, y: np.ndarray, seed: int = 0) -> Model:
    data = TrainingData(
        x=space.encode(v), y=y, constraints={"completed": np.isfinite(y).astype(float)}
    )
    return fit_model(data, QUICK, rng=np.random.default_rng(seed))


def _points(space: Space, n: int, seed: int = 0) -> np.ndarray:
    return design(space, n, rng=np.random.default_rng(seed), exclude=np.empty((0, space.k)))


def _height(space: Space, v: np.ndarray) -> np.ndarray:
    return np.sum((space.encode(v) - 0.3) ** 2, axis=1)


def _propose(space, v, y, size, *, pending=None, seed=1, settings=SMALL, model=None):
    return propose_batch(
        model or _model(space, v, y),
        space,
        History(v, y, np.empty((0, space.k)) if pending is None else pending),
        size=size,
        settings=settings,
        rng=np.random.default_rng(seed),
    )


# ---- expected improvement and fantasies ----------------------------------------------------------


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


@pytest.mark.parametrize("noisy", [True, False])
def test_mcei_with_nothing_pending_is_integrated_expected_improvement(noisy):
    components = [_component(seed)[0] for seed in (0, 1)]
    fantasies = Fantasies(components, 0.1, 7, np.random.default_rng(0), noisy=noisy)
    x = np.random.default_rng(2).random((9, 2))
    values = []
    for c in components:
        mean, variance = c.predict(c.features(x))
        variance = variance if noisy else variance - c.noise
        values.append(expected_improvement(np.float64(0.1), mean, np.sqrt(variance)))
    expected = np.concatenate(values, axis=1).mean(axis=1)
    np.testing.assert_allclose(fantasies.improvement(fantasies.features(x)), expected, rtol=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=seeds, pending=st.integers(1, 5), n=st.integers(0, 8))
def test_rank_one_updates_equal_refitting_with_the_fantasised_points(seed, pending, n):
    component, (network, x, y, alpha, beta) = _component(seed, n=n)
    rng = np.random.default_rng(seed)
    fantasies = Fantasies([component], 0.0, 3, rng)
    new, test = rng.random((pending, 2)), rng.random((10, 2))
    outcomes = []
    for point in fantasies.features(new).transpose(1, 0, 2):
        ((before, latent),) = fantasies.moments(point[:, None])
        fantasies.condition(point)
        ((after, _),) = fantasies.moments(point[:, None])
        # The outcome that was drawn, read off the update of the mean.
        gain = latent / (latent + (1 / beta)[None, :, None, None])
        outcomes.append((before + (after - before) / gain)[0, :, :, 0])
    ((mean, variance),) = fantasies.moments(fantasies.features(test))
    for h, s in itertools.product(range(2), range(mean.shape[2])):
        targets = np.r_[y, [o[h, s if o.shape[1] > 1 else 0] for o in outcomes]]
        phi = network.features(np.concatenate([x, new]))
        refit = Regression.fit(phi, targets)
        full = FiniteBasis(
            network,
            refit.rotation,
            *refit.posterior(alpha[[h]], beta[[h]]),
            1 / beta[[h]],
        )
        expected_mean, expected_variance = full.predict(full.features(test))
        np.testing.assert_allclose(mean[0, h, s], expected_mean[:, 0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            variance[0, h, 0] + 1 / beta[h], expected_variance[:, 0], rtol=1e-8
        )


@pytest.mark.parametrize("noisy", [True, False])
def test_mcei_converges_to_quadrature_over_the_outcome(noisy):
    component, (network, x, y, alpha, beta) = _component(3, h=1)
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


def test_the_order_of_the_pending_points_changes_nothing_but_monte_carlo_error():
    component, _ = _component(5)
    rng = np.random.default_rng(0)
    new, test = rng.random((4, 2)), rng.random((6, 2))
    values, variances = [], []
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        runs = []
        for seed in range(20):
            fantasies = Fantasies([component], -0.5, 200, np.random.default_rng(seed))
            z = fantasies.features(new[order])
            for j in range(4):
                fantasies.condition(z[:, j], 0.8)
            runs.append(fantasies.improvement(fantasies.features(test)))
        variances.append(fantasies.moments(fantasies.features(test))[0][1])
        values.append(np.array(runs))
    np.testing.assert_allclose(variances[0], variances[1], rtol=1e-10)
    error = np.sqrt(sum(v.var(axis=0, ddof=1) / len(v) for v in values))
    assert np.all(np.abs(values[0].mean(axis=0) - values[1].mean(axis=0)) < 5 * error)
    assert np.all(error < 0.1 * values[0].mean(axis=0))


def test_a_pick_lowers_its_own_value_because_the_incumbent_is_fantasised():
    component, (_, _, y, _, _) = _component(7)
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


def test_lazy_picks_are_worth_what_greedy_ones_are():
    """The lazy bound is a heuristic: count what it costs against evaluating everything."""
    component, (_, _, y, _, _) = _component(11, n=10, h=3)
    x = np.random.default_rng(1).random((300, 2))

    def batch(lazy: bool) -> list[float]:
        fantasies = Fantasies([component], float(y.min()), 20, np.random.default_rng(2))
        z = fantasies.features(x)
        picker = _Lazy(fantasies, z, fantasies.improvement(z), np.ones(300))
        values = []
        for _ in range(20):
            if not lazy:
                picker._update(np.arange(300))
            values.append(picker.pick(~picker.taken)[1])
        return values

    greedy, lazy = batch(False), batch(True)
    assert lazy[0] == greedy[0]
    assert sum(lazy) == pytest.approx(sum(greedy), rel=0.1)


@pytest.mark.timeout(30)
def test_equal_scores_are_picked_one_after_another():
    """Where nothing promises anything all scores are the same number: 0."""
    component, _ = _component(0)
    x = np.random.default_rng(1).random((300, 2))
    fantasies = Fantasies([component], -1e9, 2, np.random.default_rng(2))
    z = fantasies.features(x)
    picker = _Lazy(fantasies, z, fantasies.improvement(z), np.ones(300))
    for _ in range(100):
        assert picker.pick(~picker.taken)[1] == 0.0
    assert picker.taken.sum() == 100


# ---- candidates ----------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [cube(3), mixed()], ids=["cube", "mixed"])
def test_candidates_are_points_of_the_space(space):
    rng = np.random.default_rng(0)
    v = _points(space, 20)
    for found in (
        cand.uniform(space, 64, rng),
        cand.around(space, v, 500, rng),
        cand.neighbours(space, v),
    ):
        np.testing.assert_array_equal(space.round(found), found)


def test_neighbours_hold_every_other_category_and_both_steps():
    space = mixed()
    column = {c.name: j for j, c in enumerate(space.columns)}
    found = cand.neighbours(space, space.defaults())
    start = space.defaults()[0]
    for name in ("kind", "deep"):
        j = column[name]
        others = set(range(space.columns[j].levels)) - {int(start[j])}
        assert others <= set(found[:, j].astype(int))
    for name, values in (("units", {2.0, 4.0}), ("size", {0.0, 2.0}), ("step", {0.1, 0.4})):
        assert values <= set(found[:, column[name]]), name


def test_local_steps_reach_every_kind_of_parameter_and_stay_local():
    space = mixed()
    start = space.defaults()
    found = cand.around(space, start, 2000, np.random.default_rng(0))
    both_active = space.active(found) & space.active(start)
    moved = (found != start) & both_active
    assert np.all(moved.mean(axis=0)[space.active(start)[0]] > 0.2)
    small = cand.around(cube(2), np.full((1, 2), 0.5), 500, np.random.default_rng(0), largest=1e-3)
    assert np.abs(small - 0.5).max() < 5e-3


@settings(max_examples=20, deadline=None)
@given(size=st.integers(0, 70), seed=seeds)
def test_design_is_distinct_new_and_complete(size, seed):
    space = Space(
        {
            "n": Int(type="int", low=1, high=4),
            "kind": Categorical(type="categorical", choices=["a", "b", "c"]),
            "depth": Int(type="int", low=1, high=3, active_if={"kind": ["a"]}),
        }
    )
    total = 4 * (3 + 1 + 1)
    known = _points(space, 3)
    v = design(space, size, rng=np.random.default_rng(seed), exclude=known)
    keys = space.keys(v) if len(v) else []
    assert len(v) == min(size, total - 3)
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(space.keys(known))


def test_design_fills_the_space_better_than_chance():
    v = _points(cube(3), 64)
    chance = [np.random.default_rng(s).random((64, 3)) for s in range(20)]
    limit = min(float(_discrepancy(c)) for c in chance)
    assert _discrepancy(v) < limit


def _discrepancy(v: np.ndarray) -> float:
    return stats.qmc.discrepancy(v)


def test_a_space_of_nothing_but_fixed_parameters_has_one_point():
    space = Space({"a": Fixed(type="fixed", value=1)})
    assert design(space, 5, rng=np.random.default_rng(0), exclude=np.empty((0, 0))).shape == (1, 0)


# ---- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [cube(2), mixed()], ids=["cube", "mixed"])
@pytest.mark.parametrize("failing", [0.0, 0.4, 1.0])
def test_batches_hold_new_points_of_the_space_and_their_reasons(space, failing):
    v = _points(space, 30)
    y = _height(space, v)
    y[np.random.default_rng(0).random(30) < failing] = np.nan
    pending = _points(space, 45)[30:]
    batch = _propose(space, v, y, 12, pending=pending)
    assert len(batch) == 12
    np.testing.assert_array_equal(space.round(batch.v), batch.v)
    keys = space.keys(np.concatenate([batch.v, v, pending]))
    assert len(set(keys)) == len(keys)
    assert list(batch.num_pending) == list(range(15, 27))
    for name in ("value", "mean", "std", "feasibility", "runner_up", "source"):
        assert len(getattr(batch, name)) == 12
    assert np.isfinite(batch.value).all()
    assert np.all((batch.feasibility > 0) & (batch.feasibility < 1))
    assert np.isfinite(batch.mean).all() == (failing < 1)
    assert all(s.startswith(("candidate:", "local:", "thompson")) for s in batch.source)


def test_same_stream_same_batch():
    space = mixed()
    v = _points(space, 25)
    y = _height(space, v)
    one, two, other = (_propose(space, v, y, 8, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.v, two.v)
    np.testing.assert_array_equal(one.value, two.value)
    assert not np.array_equal(one.v, other.v, equal_nan=True)


def test_points_of_a_batch_keep_their_distance_from_each_other_and_the_pending():
    space = cube(2)
    v = _points(space, 40)
    pending = np.array([[0.3, 0.3], [0.31, 0.33]])
    batch = _propose(
        space,
        v,
        _height(space, v),
        30,
        pending=pending,
        settings=SMALL.model_copy(update={"min_distance": 0.02, "local_candidates": 1000}),
    )
    gaps = cand.distances(batch.v, np.concatenate([batch.v, pending]))
    np.fill_diagonal(gaps, 1.0)
    assert gaps.min() >= 0.02 - 1e-9


def test_an_exhausted_space_gives_what_is_left():
    space = Space({"n": Int(type="int", low=1, high=6), "b": Boolean(type="boolean")})
    v = _points(space, 9)
    batch = _propose(space, v, _height(space, v), 10)
    assert len(batch) == 3
    everything = np.concatenate([v, batch.v])
    assert len(set(space.keys(everything))) == 12
    none = _propose(space, everything, _height(space, everything), 10)
    assert len(none) == 0
    assert none.v.shape == (0, 2)


def test_proposals_are_better_than_chance():
    space = cube(3)
    v = _points(space, 40)
    y = np.sum((v - 0.3) ** 2, axis=1)
    data = TrainingData(x=v, y=y, constraints={"completed": np.ones(40)})
    model = fit_model(data, SurrogateSettings(), rng=np.random.default_rng(0))
    batch = _propose(space, v, y, 5, model=model)
    assert np.sum((batch.v - 0.3) ** 2, axis=1).min() < y.min()


def test_picks_heed_the_classifier():
    """The objective falls towards a region where everything fails: few picks go there."""
    space = cube(2)
    v = _points(space, 100)
    y = np.where(v[:, 0] < 0.5, -v[:, 0], np.nan)
    data = TrainingData(x=v, y=y, constraints={"completed": np.isfinite(y).astype(float)})
    model = fit_model(data, SurrogateSettings(steps=300), rng=np.random.default_rng(0))
    infeasible = {}
    for name, changes in {"heeding": {}, "weighting": {"min_feasibility": 0.0}}.items():
        s = SMALL.model_copy(update={"local_candidates": 500, **changes})
        batch = _propose(space, v, y, 20, settings=s, model=model)
        infeasible[name] = np.mean(batch.v[:, 0] >= 0.5)
    # The best feasible value is at the very limit, where half of what lies about it fails.
    assert infeasible["heeding"] <= 0.5
    assert infeasible["heeding"] <= infeasible["weighting"]


def test_the_search_for_feasibility_avoids_what_failed():
    """Nothing is ok: picks prefer the half in which the second constraint is known to hold."""
    space = cube(2)
    v = _points(space, 60)
    data = TrainingData(
        x=v,
        y=np.full(60, np.nan),
        constraints={"completed": np.ones(60), "cool": (v[:, 0] > 0.7).astype(float)},
    )
    s = SurrogateSettings(steps=300)
    model = fit_model(data, s, rng=np.random.default_rng(0))
    batch = _propose(space, v, data.y, 10, model=model)
    assert np.mean(batch.v[:, 0] > 0.65) >= 0.8
    assert cand.distances(batch.v, v).min() > 0.01
    assert np.isnan(batch.mean).all()


@pytest.mark.parametrize(
    "y", [[0.5], [np.nan], [1.0] * 20, [*np.linspace(0, 1, 20), 1e12]], ids=str
)
def test_proposing_survives(y):
    space = cube(2)
    v, y = _points(space, len(y)), np.array(y)
    batch = _propose(space, v, y, 4)
    assert len(batch) == 4
    assert np.isfinite(batch.value).all()


def test_proposing_from_no_outcome_at_all():
    space = cube(2)
    batch = _propose(space, np.empty((0, 2)), np.empty(0), 4, pending=_points(space, 3))
    assert len(batch) == 4
    assert cand.distances(batch.v, batch.v)[np.triu_indices(4, 1)].min() > 0.2


def test_progress_ends_at_one():
    seen: list[float] = []
    space = cube(2)
    v = _points(space, 20)
    propose_batch(
        _model(space, v, _height(space, v)),
        space,
        History(v, _height(space, v)),
        size=20,
        settings=SMALL,
        rng=np.random.default_rng(0),
        progress=lambda fraction, message: seen.append(fraction),
    )
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


# ---- trust regions and draws ---------------------------------------------------------------------


def _local_model(seed: int = 0) -> tuple[LocalModel, np.ndarray]:
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1, 1, (40, 3))
    y = np.sin(3 * t[:, 0]) + t[:, 1] ** 2 + t[:, 0] * t[:, 2]
    return LocalModel.fit(t, (y - y.mean()) / y.std(), rng=rng), t


def test_gradient_of_the_local_likelihood_is_its_derivative():
    model, t = _local_model()
    likelihood = _Likelihood(t, model.targets)
    theta = np.random.default_rng(1).normal(0, 0.3, 7) - np.array([0, 0, 0, 1, 1, 1, 4])
    numerical = approx_fprime(theta, lambda x: likelihood(x)[0], 1e-6)
    np.testing.assert_allclose(likelihood(theta)[1], numerical, rtol=1e-3, atol=1e-5)


def test_paths_have_the_moments_of_the_posterior():
    model, _ = _local_model()
    t = np.random.default_rng(2).uniform(-1, 1, (20, 3))
    mean, deviation = model.predict(t)
    rng = np.random.default_rng(3)
    # Random frequencies are an approximation: many sets of few functions.
    drawn = np.concatenate([model.paths(np.ones(25), rng)(t) for _ in range(80)], axis=1)
    error = deviation / np.sqrt(drawn.shape[1]) + 1e-3
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 6 * error)
    np.testing.assert_allclose(drawn.std(axis=1), deviation, rtol=0.15, atol=2e-3)
    np.testing.assert_allclose(model.paths(np.zeros(3), rng)(t), np.c_[mean, mean, mean], atol=1e-6)


def test_each_path_by_itself_is_that_path():
    model, _ = _local_model()
    rng = np.random.default_rng(4)
    paths = model.paths(np.linspace(0, 1, 5), rng)
    t = rng.uniform(-1, 1, (5, 7, 3))
    together = paths(t.reshape(-1, 3)).reshape(5, 7, 5)
    own = np.stack([together[i, :, i] for i in range(5)])
    np.testing.assert_allclose(paths.own(t), own, atol=1e-9)


def _region(u: np.ndarray, targets: np.ndarray, block: int = 10) -> endgame.Region:
    return endgame.region(u, targets, np.arange(len(u)), block)[0]


def test_regions_shrink_after_failures_and_follow_successes():
    u = np.full((41, 2), 0.5)
    failing = _region(u, np.r_[0.0, np.ones(40)])
    assert (failing.centre, failing.half) == (0, endgame.LARGEST / 16)
    u[35] = 0.52
    moved = _region(u, np.r_[0.0, np.ones(34), -1.0, np.ones(5)])
    assert moved.centre == 35
    assert moved.half > failing.half
    # What has not been evaluated yet changes nothing of what was.
    assert _region(u[:31], np.r_[0.0, np.ones(30)]).half == endgame.LARGEST / 8
    # Failures elsewhere say nothing about it.
    u[1:] = 0.99
    assert _region(u, np.r_[0.0, np.ones(40)]).half == endgame.LARGEST


def test_regions_are_the_ends_of_funnels_and_the_best_comes_first():
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.random((100, 2)), rng.normal(0.2, 0.02, (100, 2))])
    ends = np.array([[0.2, 0.2], [0.8, 0.7]])
    targets = np.min(cand.distances(u, ends) + np.array([0.0, 0.1]), axis=1)
    found = list(itertools.islice(endgame.regions(u, targets, np.arange(200), 20), 2))
    assert found[0].centre == int(np.argmin(targets))
    gap = np.abs(u[found[0].centre] - u[found[1].centre]).max()
    assert found[1].half <= 0.5 * gap
    for region, end in zip(found, ends, strict=True):
        assert cand.distances(u[[region.centre]], end[None])[0, 0] < 0.1


def test_local_picks_are_more_where_they_have_paid():
    rng = np.random.default_rng(0)
    batch = np.repeat(np.arange(5), 20)
    near, far = 0.1 + 0.02 * rng.random((50, 2)), 0.9 + 0.02 * rng.random((50, 2))
    u = np.stack([near, far], axis=1).reshape(100, 2)  # by turns
    paying = np.where(np.arange(100) % 2, 1.0, -np.arange(100.0))
    flat = np.r_[-1.0, np.zeros(99)]
    assert endgame.share(u, paying, batch, 20, 0.6) > 0.8
    assert endgame.share(u, flat, batch, 20, 0.6) == pytest.approx(0.6, abs=0.05)
    assert [endgame.share(u, paying, batch, 20, usual) for usual in (0.0, 1.0)] == [0.0, 1.0]


def test_a_converged_region_gives_its_picks_back():
    space = cube(2)
    v = np.concatenate([_points(space, 30), 0.3 + 1e-3 * np.random.default_rng(0).random((60, 2))])
    y = np.sum((v - 0.3) ** 2, axis=1)
    history = History(v, y)
    picked = endgame.pick(
        space,
        history,
        40,
        4,
        np.random.default_rng(1),
        crowd=endgame.Crowd(space, history, 0.0),
        penalty=lambda v: np.zeros(len(v)),
        count=1,
    )
    assert 1 <= len(picked) < 20


def test_doubt_multiplies_the_deviations():
    component, _ = _component(0)
    x = np.random.default_rng(1).random((5, 2))
    fantasies = Fantasies([component], 0.0, 1, np.random.default_rng(0), noisy=False)
    z = fantasies.features(x)
    ((mean, variance),) = fantasies.moments(z)
    fantasies.doubt = 3.0
    expected = expected_improvement(np.zeros(1), mean, 3.0 * np.sqrt(variance)).mean(axis=(0, 1, 2))
    np.testing.assert_allclose(fantasies.improvement(z), expected)


def test_local_picks_find_the_minimum_of_a_smooth_function():
    space = cube(4)
    v = _points(space, 64)
    batch = _propose(
        space,
        v,
        np.sum((v - 0.3) ** 2, axis=1),
        10,
        settings=SMALL.model_copy(update={"local_share": 1.0}),
    )
    assert "local:thompson" in batch.source
    assert np.sum((batch.v - 0.3) ** 2, axis=1).min() < 1e-3


def test_picks_without_expected_improvement_are_draws():
    space = cube(2)
    v = _points(space, 40)
    settings = SMALL.model_copy(update={"local_share": 0.0, "vanishing": 10.0})
    batch = _propose(space, v, _height(space, v), 12, settings=settings)
    assert batch.source.count("thompson") == 11
    gaps = cand.distances(batch.v, batch.v)
    assert gaps[np.triu_indices(12, 1)].min() >= settings.min_distance - 1e-9
    # The whole batch, if asked for.
    settings = SMALL.model_copy(update={"local_share": 0.0, "kind": "thompson"})
    assert set(_propose(space, v, _height(space, v), 5, settings=settings).source) == {"thompson"}


def test_draws_have_the_moments_of_the_mixture():
    components = [_component(seed)[0] for seed in (0, 1)]
    x = np.random.default_rng(2).random((5, 2))
    draws = Draws(components, x, np.random.default_rng(0))(20_000)
    parts = [c.predict(c.features(x)) for c in components]
    means = np.concatenate([m for m, _ in parts], axis=1)
    variances = np.concatenate(
        [v - c.noise for (_, v), c in zip(parts, components, strict=True)], axis=1
    )
    mean = means.mean(axis=1)
    variance = variances.mean(axis=1) + means.var(axis=1)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(draws)))
    np.testing.assert_allclose(draws.var(axis=0), variance, rtol=0.1)


# ---- the maximiser -------------------------------------------------------------------------------


def test_a_climb_ends_where_no_gradient_is_left_and_keeps_what_is_listed():
    space = Space(
        {
            "x": Float(type="float", low=1e-3, high=10, log=True),
            "y": Float(type="float", low=-1, high=1),
            "z": Float(type="float", values=[0.0, 1.0, 4.0]),
        }
    )

    def value(v):
        u = space.unit(v)
        return np.exp(-3 * (u[:, 0] - 0.7) ** 2 - (u[:, 1] - 1.4) ** 2 + 0.1 * v[:, 2])

    start = space.from_unit(np.array([[0.2, 0.3, 0.5], [0.21, 0.3, 0.5], [0.9, 0.1, 0.0]]))
    tops = climb(space, start, value(start), 3, value)
    # The second lies beside the first, and is not worth a climb of its own.
    np.testing.assert_array_equal(sorted(tops[:, 2]), sorted(start[[0, 2], 2]))
    np.testing.assert_allclose(space.unit(tops)[:, 0], 0.7, atol=1e-3)
    np.testing.assert_allclose(space.unit(tops)[:, 1], 1.0, atol=1e-6)  # the hill is out of bounds
    assert len(climb(space, start, np.zeros(3), 3, value)) == 0


def test_a_single_pick_is_the_top_of_its_hill():
    space = cube(3)
    v = _points(space, 30)
    y = np.sum((v - 0.4) ** 2, axis=1) + 0.2 * np.sin(9 * v[:, 0])
    settings = SMALL.model_copy(update={"local_share": 0.0})
    model = _model(space, v, y)
    batch = _propose(space, v, y, 1, settings=settings, model=model)
    assert batch.source == ("candidate:ascent",)
    best = float(model.scale.to_model(y).min())
    fantasies = Fantasies(model.objective, best, 1, np.random.default_rng(0), noisy=False)
    near = np.clip(batch.v + 0.01 * np.random.default_rng(0).standard_normal((500, 3)), 0, 1)
    top, *values = fantasies.improvement(
        fantasies.features(space.encode(np.concatenate([batch.v, near])))
    )
    assert max(values) <= top * (1 + 1e-4)
