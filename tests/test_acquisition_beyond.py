"""Beyond the edge of the known feasible region."""

from __future__ import annotations

import numpy as np
import pytest
from proposing import points
from spaces import cube

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import distances, gaps
from dngo.acquisition.stages.beyond import Beyond
from dngo.acquisition.state import BatchState
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

SPACE = cube(2)
CENTRE, RADIUS = np.array([0.3, 0.35]), 0.12
EDGE = np.array([0.7501, 0.7501])  # feasible, and next to the least of its part
SHORT = SurrogateSettings(networks={"steps": 300})
SHORT_CLASSIFIER = ClassifierSettings(networks={"steps": 300})


def outcome(v: np.ndarray) -> np.ndarray:
    """A plane that is feasible above a line, and in a disc where it is lower."""
    in_disc = np.linalg.norm(v - CENTRE, axis=1) < RADIUS
    return np.where((v.sum(axis=1) > 1.5) | in_disc, v.sum(axis=1), np.nan)


def study() -> History:
    """A design that has missed the disc, and batches around one point on the line."""
    v = points(SPACE, 40)
    v = v[np.linalg.norm(v - CENTRE, axis=1) > RADIUS]
    steps = np.random.default_rng(0).uniform(-0.02, 0.02, (40, 2))
    v = np.concatenate([v, EDGE[None], EDGE + steps])
    iteration = np.repeat([0, 1, 2, 3], [len(v) - 41, 1, 20, 20])
    return History(v, outcome(v), iteration=iteration)


def model_of(history: History):
    completed = np.isfinite(history.y).astype(float)
    data = TrainingData(x=history.v, y=history.y, constraints={"completed": completed})
    return fit_model(data, SHORT, SHORT_CLASSIFIER, rng=np.random.default_rng(0))


def picks_of(history: History, **changes: object) -> np.ndarray:
    settings = AcquisitionSettings(**changes)
    rng, plan = np.random.default_rng(1), settings.stages()
    state = BatchState(model_of(history), SPACE, history, 8, settings.shared(), plan, rng)
    picks = list(Beyond().picks(state, 8))
    assert all(pick.source.startswith("beyond") for pick in picks)
    return np.array([pick.v for pick in picks]).reshape(-1, 2)


def test_picks_go_beyond_the_edge_once_nothing_is_gained():
    history = study()
    v = picks_of(history)
    assert len(v) == 4
    # These picks may be better, and lie far from failures and from each other.
    assert (v.sum(axis=1) < EDGE.sum()).all()
    assert gaps(v, history.v).min() > 0.03
    assert distances(v, v)[np.triu_indices(4, 1)].min() > 0.03


def test_they_do_not_while_something_is_gained():
    history = study()
    last = history.iteration == history.iteration[-1]
    better = np.where(last, history.y - 0.2, history.y)
    assert not len(picks_of(History(history.v, better, iteration=history.iteration)))


@pytest.mark.parametrize("changes", [{"boundary_every": 0}, {"min_feasibility": 0.0}], ids=str)
def test_they_do_not_where_no_pick_is_to_be_unlikely_or_all_may_be(changes):
    assert not len(picks_of(study(), **changes))


@pytest.mark.full
def test_another_feasible_part_is_found():
    history = study()
    for t in range(4, 12):
        rng = np.random.default_rng(t)
        picks = propose_batch(
            model_of(history), SPACE, history, size=6, settings=AcquisitionSettings(), rng=rng
        )
        v = np.concatenate([history.v, picks.v])
        iteration = np.concatenate([history.iteration, np.full(len(picks), t)])
        history = History(v, outcome(v), iteration=iteration)
        if np.nanmin(history.y) < 0.9:
            return
    raise AssertionError("the second disc was not found")
