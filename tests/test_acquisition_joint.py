"""Laws of a batch that is chosen by functions drawn together."""

from __future__ import annotations

import numpy as np
import pytest
from proposing import points
from spaces import cube

from dngo.acquisition import History, propose_batch
from dngo.acquisition.fantasies import Fantasies
from dngo.acquisition.joint import Batch, Drawn, drawn, improvement
from dngo.acquisition.measures import expected_improvement
from dngo.acquisition.settings import AcquisitionSettings, Modelled
from dngo.acquisition.spacing import Spacing
from dngo.acquisition.stages.joint import Joint
from dngo.acquisition.state import BatchState
from dngo.rules import current, using
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(2)
V = points(SPACE, 12)
Y = np.cos(5 * V).sum(axis=1) + (V[:, 0] - 0.4) ** 2


class JointAlone(Modelled):
    """All picks by functions that are drawn together."""

    kind: str = "joint"

    def stages(self):
        return [Joint()]


SETTINGS = JointAlone(uniform_candidates=512)
MANY = current().but(joint={"least": 2048, "most": 2048})


@pytest.fixture(scope="module")
def model():
    data = TrainingData(x=SPACE.encode(V), y=Y, constraints={"completed": np.ones(len(Y))})
    settings = SurrogateSettings(kind="gp", hyperparameter_samples=1, warp=False)
    return fit_model(data, settings, rng=np.random.default_rng(1))


def unit_of(model) -> float:
    """One deviation of the targets, in units of the objective."""
    return model.scale.spread * model.scale.scale


def state_of(model, pending: np.ndarray = V[:0]) -> BatchState:
    history = History(V, Y, pending)
    plan = SETTINGS.stages()
    return BatchState(model, SPACE, history, 8, SETTINGS.shared(), plan, np.random.default_rng(0))


def test_one_pick_with_nothing_pending_has_the_highest_expected_improvement(model) -> None:
    """Closed-form expected improvement (Snoek et al. 2012, equation 3), within Monte Carlo error."""
    with using(MANY):
        functions = drawn(state_of(model), 2048, np.random.default_rng(3))
    batch = Batch(
        functions, improvement, np.ones(len(functions.v)), Spacing(SPACE, History(V, Y), 0)
    )
    (component,) = model.objective
    (mean,), (variance,) = component.latent(component.features(SPACE.encode(functions.v)))
    best = np.min(model.scale.to_model(Y))
    exact = expected_improvement(best, mean, np.sqrt(variance)) * unit_of(model)
    at, value, second = batch.next()
    assert value == pytest.approx(exact[at], rel=0.1) and 0.9 * value < second <= value
    assert exact[at] >= 0.95 * exact.max()


def test_a_batch_adds_as_much_as_by_fantasies(model) -> None:
    """The sum of the picks' values is the batch's expected improvement by joint draws; sequential
    fantasies estimate the same (section 3.3)."""
    with using(MANY):
        functions = drawn(state_of(model), 2048, np.random.default_rng(3))
    batch = Batch(
        functions, improvement, np.ones(len(functions.v)), Spacing(SPACE, History(V, Y), 0)
    )
    picks, values, _ = zip(*(batch.next() for _ in range(5)), strict=True)
    best = float(np.min(model.scale.to_model(Y)))
    fantasies = Fantasies(model.objective, best, 4000, np.random.default_rng(0), noisy=False)
    z, total = fantasies.features(SPACE.encode(functions.v[list(picks)])), 0.0
    for j in range(5):
        total += float(fantasies.weighted(z[:, [j]], np.ones(1))[0]) * unit_of(model)
        fantasies.condition(z[:, j], 1.0)
    assert sum(values) == pytest.approx(total, rel=0.1)
    assert list(values) == sorted(values, reverse=True)  # submodular: each adds less


def test_greedy_is_near_the_best_batch() -> None:
    rng = np.random.default_rng(5)
    values = rng.standard_normal((40, 9))
    v = SPACE.from_unit(rng.random((9, 2)))
    batch = Batch(
        Drawn(v, values, np.zeros(40)), improvement, np.ones(9), Spacing(SPACE, History(V, Y), 0)
    )
    found = sum(batch.next()[1] for _ in range(3))
    import itertools

    best = max(
        np.maximum(-values[:, list(c)].min(axis=1), 0).mean()
        for c in itertools.combinations(range(9), 3)
    )
    assert found >= (1 - 1 / np.e) * best


def test_a_batch_fills_up_and_replays(model) -> None:
    one, other = (
        propose_batch(
            model, SPACE, History(V, Y), size=40, settings=SETTINGS, rng=np.random.default_rng(2)
        )
        for _ in range(2)
    )
    assert len(one) == 40 and one.v.tobytes() == other.v.tobytes()
    assert len(np.unique(one.v, axis=0)) == 40 and set(one.stage) == {"joint"}


def test_one_batch_does_not_stake_all_on_one_edge() -> None:
    """The objective falls towards an edge of crashes that nobody knows exactly."""
    v = points(SPACE, 30)
    feasible = v[:, 0] < 0.55
    y = np.where(feasible, -v[:, 0] + 0.1 * v[:, 1], np.nan)
    data = TrainingData(x=SPACE.encode(v), y=y, constraints={"completed": feasible.astype(float)})
    model = fit_model(
        data, SurrogateSettings(kind="gp", hyperparameter_samples=1), rng=np.random.default_rng(1)
    )
    found = propose_batch(
        model, SPACE, History(v, y), size=12, settings=SETTINGS, rng=np.random.default_rng(2)
    )
    assert found.v[:, 0].std() > 0.01 and (found.v[:, 0] < 0.55).sum() >= 5


def test_the_default_chooses_a_batch_by_drawn_functions_and_one_point_by_the_exact_improvement(
    model,
) -> None:
    def stages(size: int, **settings: object) -> set[str]:
        mcei, rng = AcquisitionSettings(**settings), np.random.default_rng(3)
        found = propose_batch(model, SPACE, History(V, Y), size=size, settings=mcei, rng=rng)
        assert len(found) == size and np.isfinite(found.value).all()
        return set(found.stage)

    assert stages(12) == {"trust_regions", "joint"}
    assert stages(1, trust_region_share=0.01) == {"improvement"}
    # As published.
    assert "joint" not in stages(12, trust_region_share=0.0)
    assert "joint" not in stages(12, when_vanished="explore")


@pytest.mark.parametrize(
    "surrogate",
    [
        {"kind": "auto"},
        {"kind": "adaptive_basis", "networks": {"width": 10, "steps": 20, "ensemble": 2}},
        {"kind": "least_squares", "networks": {"width": 10, "steps": 20}},
        {"kind": "bohamiann", "posterior_samples": 10, "chains": 10, "burn_in": 50, "thin": 5},
    ],
)
def test_every_kind_of_surrogate_begins_a_batch_with_nothing_pending(surrogate) -> None:
    """The first pick has nothing pending and nothing picked before it."""
    data = TrainingData(x=SPACE.encode(V), y=Y, constraints={"completed": np.ones(len(Y))})
    found = fit_model(data, SurrogateSettings(**surrogate), rng=np.random.default_rng(1))
    batch = propose_batch(
        found, SPACE, History(V, Y), size=3, settings=SETTINGS, rng=np.random.default_rng(2)
    )
    assert len(batch) == 3 and set(batch.stage) == {"joint"}
