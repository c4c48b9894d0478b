"""Picks that learn a function, or where it crosses a level, beside picks that look for its minimum."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spaces import cube

import dngo
from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.stages.learning import Belief
from dngo.errors import UserError
from dngo.replay import replay
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(2)
FEW = {"kind": "gp", "hyperparameter_samples": 1}
PROCESS = SurrogateSettings(**FEW)
AT = 1.2
GRID = SPACE.from_unit(np.random.default_rng(9).random((2000, 2)))


def f(v: np.ndarray) -> np.ndarray:
    return np.sin(6 * v[:, 0]) + np.cos(5 * v[:, 1]) + v[:, 0]


def model_of(v: np.ndarray):
    data = TrainingData(x=SPACE.encode(v), y=f(v), constraints={"completed": np.ones(len(v))})
    return fit_model(data, PROCESS, rng=np.random.default_rng(0))


def after(acquisition, seed: int) -> np.ndarray:
    """The points after a design of eight and four batches of five."""
    v = design(SPACE, 8, rng=np.random.default_rng(seed), exclude=np.empty((0, 2)))
    for t in range(4):
        found = propose_batch(
            model_of(v), SPACE, History(v, f(v)), size=5, settings=acquisition,
            rng=np.random.default_rng([seed, t]),
        )  # fmt: skip
        v = np.concatenate([v, found.v])
    return v


def missed(v: np.ndarray) -> tuple[float, float]:
    """The root mean square error over the space, and the share of it on the wrong side of the level."""
    mean, _ = model_of(v).predict(SPACE.encode(GRID))
    return float(np.sqrt(np.mean((mean - f(GRID)) ** 2))), float(
        np.mean((mean < AT) != (f(GRID) < AT))
    )


def test_each_goal_is_served_best_by_its_own_picks() -> None:
    kinds = {
        "learn": AcquisitionSettings(kind="learn"),
        "level_set": AcquisitionSettings(kind="level_set", at=AT),
        "random": AcquisitionSettings(kind="random"),
        "mcei": AcquisitionSettings(uniform_candidates=512, local_candidates=256),
    }
    found = {n: np.mean([missed(after(k, s)) for s in range(2)], axis=0) for n, k in kinds.items()}
    error, wrong = ({n: values[i] for n, values in found.items()} for i in (0, 1))
    assert error["learn"] == min(error.values()) and error["learn"] < 0.5 * error["random"]
    assert wrong["level_set"] < 0.5 * min(wrong["random"], wrong["mcei"])


def test_a_rank_one_update_equals_conditioning_on_the_point() -> None:
    rng = np.random.default_rng(1)
    a = rng.random((6, 6))
    covariance, noise = a @ a.T, 0.1
    belief = Belief(np.zeros(6), covariance.copy(), noise)
    for i in (2, 4):
        belief.learn(i)
    some = covariance[np.ix_([2, 4], [2, 4])] + noise * np.eye(2)
    rest = covariance - covariance[:, [2, 4]] @ np.linalg.solve(some, covariance[[2, 4]])
    np.testing.assert_allclose(belief.covariance, rest, atol=1e-8)


def test_a_whole_study_replays_and_a_maximised_level_is_the_same_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def g(x: float, y: float) -> float:
        return float(f(np.array([[x, y]]))[0])

    def h(x: float, y: float) -> float:
        return -g(x, y)

    level = {"kind": "level_set", "at": AT}
    space, given = {"x": (0, 1), "y": (0, 1)}, {"workers": 0, "batch_size": 4, "surrogate": FEW}
    low = dngo.minimize(g, space, 12, acquisition=level, **given)
    high = dngo.maximize(h, space, 12, acquisition={**level, "at": -AT}, **given)
    assert replay(low.path, 1).verdict == replay(high.path, 1).verdict == "identical"
    one, other = low.table(), high.table()
    np.testing.assert_allclose(one["parameter_x"], other["parameter_x"], atol=1e-9)
    assert set(one["stage"]) == {"design", "learning"}
    with pytest.raises(UserError, match=r"acquisition\.at"):
        dngo.create("wrong", {"x": (0, 1)}, acquisition="level_set")
