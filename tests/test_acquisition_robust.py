"""Inputs that waver: the best point is the bottom of a wide basin, and not of a narrow hole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spaces import cube

import dngo
from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.wavering import Wavering
from dngo.errors import UserError
from dngo.replay import replay
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SPACE, WITHIN = cube(2), 0.1
FEW = {"kind": "gp", "hyperparameter_samples": 2}
PROCESS = SurrogateSettings(**FEW)
HOLE, BASIN = np.array([0.2, 0.3]), np.array([0.7, 0.6])


def f(v: np.ndarray) -> np.ndarray:
    """A hole of half the inputs' wavering, 0.6 deeper than the basin."""
    hole, basin = (np.square(v - centre).sum(axis=-1) for centre in (HOLE, BASIN))
    return 2.0 * basin - 1.4 * np.exp(-hole / (2 * 0.05**2))


def wavering_mean(v: np.ndarray) -> np.ndarray:
    """The truth, by other places than the package takes: (n, k) -> (n,)."""
    places = np.random.default_rng(5).uniform(-WITHIN, WITHIN, (4000, 2))
    return f(np.clip(v[:, None] + places, 0.0, 1.0)).mean(axis=1)


def found(kind: AcquisitionSettings, seed: int) -> np.ndarray:
    """The points after a design of twelve, one of them in the hole, and four batches of six."""
    v = design(SPACE, 12, rng=np.random.default_rng(seed), exclude=np.empty((0, 2)))
    v[-1] = HOLE + 0.03
    for t in range(4):
        data = TrainingData(x=SPACE.encode(v), y=f(v), constraints={"completed": np.ones(len(v))})
        model = fit_model(data, PROCESS, rng=np.random.default_rng([seed, t]))
        picks = propose_batch(
            model,
            SPACE,
            History(v, f(v)),
            size=6,
            settings=kind,
            rng=np.random.default_rng([seed, t]),
        )
        v = np.concatenate([v, picks.v])
    return v


def test_picks_leave_a_hole_that_is_narrower_than_the_wavering() -> None:
    few = {"uniform_candidates": 512, "local_candidates": 128}
    robust = AcquisitionSettings(kind="robust", within={"x0": WITHIN, "x1": WITHIN}, **few)
    last = [found(kind, 0)[-12:] for kind in (robust, AcquisitionSettings(**few))]
    inside = [int((np.linalg.norm(v - HOLE, axis=1) < WITHIN).sum()) for v in last]
    means = [np.sort(wavering_mean(v))[:3].mean() for v in last]
    assert inside[0] <= 1 < inside[1] and means[0] < 0.1, (inside, means)


def test_places_are_inside_and_the_mean_of_a_linear_function_is_exact() -> None:
    wavering = Wavering.of(SPACE, {"x1": WITHIN})
    v = np.array([[0.5, 0.4], [0.0, 1.0]])
    places = wavering.around(v)
    assert places.min() >= 0.0 and places.max() <= 1.0
    assert (places[:8, 0] == 0.5).all() and np.ptp(places[:8, 1]) > WITHIN
    assert wavering.mean(3.0 * places[:, 1])[0] == pytest.approx(1.2)
    square = wavering.mean(places[:8, 1] ** 2)[0]
    assert square == pytest.approx(0.4**2 + WITHIN**2 / 3, rel=0.05)


def test_a_whole_study_replays_and_its_best_point_by_the_model_is_the_robust_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def g(x: float, y: float) -> float:
        return float(f(np.array([x, y])))

    study = dngo.minimize(
        g, {"x": (0, 1), "y": (0, 1)}, 18, workers=0, batch_size=6, surrogate=FEW,
        acquisition={"kind": "robust", "within": {"x": WITHIN, "y": WITHIN}},
    )  # fmt: skip
    assert replay(study.path, 1).verdict == "identical"
    assert set(study.table()["stage"]) <= {"design", "joint", "draws"}
    best = study.best("model").parameters
    assert np.hypot(best["x"] - 0.7, best["y"] - 0.6) < 0.15, best


@pytest.mark.parametrize(
    ("within", "words"),
    [
        ({"z": 0.1}, "there is no parameter 'z'"),
        ({"c": 0.1}, "c is no number, so it cannot waver"),
        ({"x": -0.1}, "greater than 0"),
        ({}, "within: is empty"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, within: dict[str, float], words: str) -> None:
    with pytest.raises(UserError, match=words):
        dngo.create(
            "wrong", {"x": (0, 1), "c": ["a", "b"]}, folder=tmp_path,
            acquisition={"kind": "robust", "within": within},
        )  # fmt: skip
