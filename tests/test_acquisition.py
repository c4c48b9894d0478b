"""Laws of candidates, of batches, and of the maximiser."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proposing import SMALL, height, model_of, points, propose
from spaces import cube, mixed

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.ascent import climb
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import distances, gaps
from dngo.acquisition.stages.beyond import Beyond
from dngo.acquisition.state import BatchState
from dngo.space import Space
from dngo.space.parameters import Boolean, Categorical, Float, Int
from dngo.surrogates import Model
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

SHORT = SurrogateSettings(networks={"steps": 300})
SHORT_CLASSIFIER = ClassifierSettings(networks={"steps": 300})
seeds = st.integers(0, 2**32 - 1)


# ---- designs -------------------------------------------------------------------------------------


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
    known = points(space, 3)
    v = design(space, size, rng=np.random.default_rng(seed), exclude=known)
    keys = space.keys(v) if len(v) else []
    assert len(v) == min(size, total - 3)
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(space.keys(known))


# ---- batches -------------------------------------------------------------------------------------


@pytest.mark.parametrize("space", [cube(2), mixed()], ids=["cube", "mixed"])
@pytest.mark.parametrize("failing", [0.0, 0.4, 1.0])
def test_batches_hold_new_points_of_the_space_and_their_reasons(space, failing):
    v = points(space, 30)
    y = height(space, v)
    y[np.random.default_rng(0).random(30) < failing] = np.nan
    pending = points(space, 45)[30:]
    batch = propose(space, v, y, 12, pending=pending)
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
    assert all(s.startswith(("joint", "candidate:", "local:", "thompson")) for s in batch.source)


def test_points_of_a_batch_keep_their_distance_from_each_other_and_the_pending():
    space = cube(2)
    v = points(space, 40)
    pending = np.array([[0.3, 0.3], [0.31, 0.33]])
    batch = propose(
        space,
        v,
        height(space, v),
        30,
        pending=pending,
        settings=SMALL.model_copy(update={"spacing": 0.02, "local_candidates": 1000}),
    )
    gaps = distances(batch.v, np.concatenate([batch.v, pending]))
    np.fill_diagonal(gaps, 1.0)
    assert gaps.min() >= 0.02 - 1e-9


def test_an_exhausted_space_gives_what_is_left():
    space = Space({"n": Int(type="int", low=1, high=6), "b": Boolean(type="boolean")})
    v = points(space, 9)
    batch = propose(space, v, height(space, v), 10)
    assert len(batch) == 3
    everything = np.concatenate([v, batch.v])
    assert len(set(space.keys(everything))) == 12
    none = propose(space, everything, height(space, everything), 10)
    assert len(none) == 0
    assert none.v.shape == (0, 2)


def test_picks_heed_the_classifier():
    """The objective falls towards a region where everything fails: few picks go there."""
    space = cube(2)
    v = points(space, 100)
    y = np.where(v[:, 0] < 0.5, -v[:, 0], np.nan)
    model = model_of(space, v, y, 0, SHORT, SHORT_CLASSIFIER)
    infeasible = {}
    for name, changes in {"heeding": {}, "weighting": {"min_feasibility": 0.0}}.items():
        s = SMALL.model_copy(update={"local_candidates": 500, **changes})
        batch = propose(space, v, y, 20, settings=s, model=model)
        infeasible[name] = np.mean(batch.v[:, 0] >= 0.5)
    # The best feasible value is at the very limit, where half of what lies about it fails.
    assert infeasible["heeding"] <= 0.5
    assert infeasible["heeding"] <= infeasible["weighting"]


def test_the_search_for_feasibility_avoids_what_failed():
    """Nothing is ok: picks prefer the half in which the second constraint is known to hold."""
    space = cube(2)
    v, y = points(space, 60), np.full(60, np.nan)
    held = {"completed": np.ones(60), "cool": (v[:, 0] > 0.7).astype(float)}
    model = model_of(space, v, y, 0, SHORT, SHORT_CLASSIFIER, constraints=held)
    batch = propose(space, v, y, 10, model=model)
    assert np.mean(batch.v[:, 0] > 0.65) >= 0.8
    assert distances(batch.v, v).min() > 0.01
    assert np.isnan(batch.mean).all()


@pytest.mark.parametrize(
    "y", [[], [0.5], [np.nan], [1.0] * 20, [*np.linspace(0, 1, 20), 1e12]], ids=len
)
def test_proposing_survives(y):
    space = cube(2)
    v, y = points(space, len(y)), np.array(y)
    batch = propose(space, v, y, 4)
    assert len(batch) == 4
    assert np.isfinite(batch.value).all()


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
    # The second candidate lies beside the first, so it is not climbed from.
    np.testing.assert_array_equal(sorted(tops[:, 2]), sorted(start[[0, 2], 2]))
    np.testing.assert_allclose(space.unit(tops)[:, 0], 0.7, atol=1e-3)
    np.testing.assert_allclose(space.unit(tops)[:, 1], 1.0, atol=1e-6)  # the hill is out of bounds
    assert len(climb(space, start, np.zeros(3), 3, value)) == 0


@pytest.mark.parametrize("penalty", [1e6, sys.float_info.max])
def test_penalties_of_any_height_leave_the_floor_to_be_searched(penalty):
    """Whatever penalty a failed run has, most of a batch goes where there is no penalty."""

    def function(v):
        return np.where(np.abs(v - 0.5).max(axis=1) > 0.35, penalty, np.cos(9 * v).sum(axis=1))

    space = cube(2)
    v = design(space, 40, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    y = function(v)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = model_of(space, v, y, 1, SHORT)
        picks = propose(space, v, y, 24, seed=2, model=model)
        mean, deviation = model.predict(space.encode(v))
    assert np.isfinite(mean).all() and np.isfinite(deviation).all()
    assert np.mean(function(picks.v) < 10) > 0.7
    assert function(picks.v).min() < y.min()


# ---- What a batch does not depend on: the objective's unit and zero, and the order of the rows

SPACE = cube(4)
V = design(SPACE, 40, rng=np.random.default_rng(0), exclude=np.empty((0, 4)))
Y = np.cos(7.0 * V).sum(axis=1) + ((V - 0.4) ** 2) @ np.array([1.0, 3.0, 9.0, 27.0])
SURROGATE = SurrogateSettings(kind="gp", hyperparameter_samples=3)


def picks(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Twelve, of every stage: (12, 4)."""
    model, batch = model_of(SPACE, v, y, 1, SURROGATE), np.zeros(len(y), dtype=int)
    settings = AcquisitionSettings()
    return propose(SPACE, v, y, 12, seed=2, settings=settings, model=model, iteration=batch).v


@pytest.fixture(scope="module")
def picked() -> np.ndarray:
    return picks(V, Y)


# A factor of 4 changes no bit of the targets' ratios. The others change their last, and the steps of
# a fit whose noise may be e^-20 make 1e-16 to 1e-5; the last example leaves eleven digits of what
# differs, and along the floor of a valley a minimum moves by more.
@pytest.mark.parametrize(
    ("scale", "shift", "moved"), [(4.0, 0.0, 1e-9), (1e6, 1e3, 1e-4), (1e-5, 2.0, 1e-3)]
)
def test_affine_changes_of_the_objective_change_no_pick(
    picked: np.ndarray, scale: float, shift: float, moved: float
) -> None:
    np.testing.assert_allclose(picks(V, scale * Y + shift), picked, rtol=0, atol=moved)


def test_the_order_of_the_rows_of_a_batch_changes_no_pick_beyond_chance(picked: np.ndarray) -> None:
    """The fit and regions then take other random rows, so the picks may lie slightly elsewhere."""
    order = np.random.default_rng(5).permutation(len(V))
    found = picks(V[order], Y[order])
    gap = np.sqrt(((found[:, None] - picked) ** 2).mean(axis=-1)).min(axis=1)
    assert np.median(gap) < 1e-5 and gap.max() < 0.05


def test_the_objective_changes_picks(picked: np.ndarray) -> None:
    assert np.abs(picks(V, Y**3) - picked).max() > 0.01


# ---- Beyond the edge of the known feasible region

BEYOND_SPACE = cube(2)
CENTRE, RADIUS = np.array([0.3, 0.35]), 0.12
EDGE = np.array([0.7501, 0.7501])  # feasible, and next to the least of its part


def outcome(v: np.ndarray) -> np.ndarray:
    """A plane that is feasible above a line, and in a disc where it is lower."""
    in_disc = np.linalg.norm(v - CENTRE, axis=1) < RADIUS
    return np.where((v.sum(axis=1) > 1.5) | in_disc, v.sum(axis=1), np.nan)


def study() -> History:
    """A design that has missed the disc, and batches around one point on the line."""
    v = points(BEYOND_SPACE, 40)
    v = v[np.linalg.norm(v - CENTRE, axis=1) > RADIUS]
    steps = np.random.default_rng(0).uniform(-0.02, 0.02, (40, 2))
    v = np.concatenate([v, EDGE[None], EDGE + steps])
    iteration = np.repeat([0, 1, 2, 3], [len(v) - 41, 1, 20, 20])
    return History(v, outcome(v), iteration=iteration)


def beyond_model_of(history: History) -> Model:
    return model_of(BEYOND_SPACE, history.v, history.y, 0, SHORT, SHORT_CLASSIFIER)


@pytest.fixture(scope="module")
def stuck() -> tuple[History, Model]:
    history = study()
    return history, beyond_model_of(history)


def picks_of(history: History, model: Model, **changes: object) -> np.ndarray:
    settings = AcquisitionSettings(**changes)
    rng, plan = np.random.default_rng(1), settings.stages()
    state = BatchState(model, BEYOND_SPACE, history, 8, settings.shared(), plan, rng)
    picks = list(Beyond().picks(state, 8))
    assert all(pick.source.startswith("beyond") for pick in picks)
    return np.array([pick.v for pick in picks]).reshape(-1, 2)


def test_picks_go_beyond_the_edge_once_nothing_is_gained(stuck):
    history, _ = stuck
    v = picks_of(*stuck)
    assert len(v) == 4
    # These picks may be better, and lie far from failures and from each other.
    assert (v.sum(axis=1) < EDGE.sum()).all()
    assert gaps(v, history.v).min() > 0.03
    assert distances(v, v)[np.triu_indices(4, 1)].min() > 0.03


def test_they_do_not_while_something_is_gained():
    history = study()
    last = history.iteration == history.iteration[-1]
    better = np.where(last, history.y - 0.2, history.y)
    gaining = History(history.v, better, iteration=history.iteration)
    assert not len(picks_of(gaining, beyond_model_of(gaining)))


@pytest.mark.parametrize("changes", [{"boundary_every": 0}, {"min_feasibility": 0.0}], ids=str)
def test_they_do_not_where_no_pick_is_to_be_unlikely_or_all_may_be(stuck, changes):
    assert not len(picks_of(*stuck, **changes))


@pytest.mark.full
def test_another_feasible_part_is_found():
    history = study()
    for t in range(4, 12):
        rng = np.random.default_rng(t)
        picks = propose_batch(
            beyond_model_of(history),
            BEYOND_SPACE,
            history,
            size=6,
            settings=AcquisitionSettings(),
            rng=rng,
        )
        v = np.concatenate([history.v, picks.v])
        iteration = np.concatenate([history.iteration, np.full(len(picks), t)])
        history = History(v, outcome(v), iteration=iteration)
        if np.nanmin(history.y) < 0.9:
            return
    raise AssertionError("the second disc was not found")


# ---- Values that many points share: a tie is no improvement


@pytest.mark.parametrize(
    ("y", "gain"),
    [
        ([1.0, 1.0, 2.0, 2.0, 5.0], 1.0),
        ([0.25, 0.25, 0.5, 0.75, 0.5], 0.25),
        ([1.0, 2.0, 3.5, 4.0, 7.0], 0.0),
        ([3.0, 3.0, 3.0], 0.0),
        ([np.nan, 1.0, 1.0, 3.0], 2.0),
    ],
)
def test_values_that_many_share_are_a_lattice(y, gain) -> None:
    assert History(np.zeros((len(y), 1)), np.array(y)).least_gain == gain
