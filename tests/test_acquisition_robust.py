"""Inputs that waver: the best point is the bottom of a wide basin, and not of a narrow hole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from proposing import model_of, propose
from spaces import cube
from test_entering import replays

import dngo
from dngo import archive
from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.wavering import Wavering
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.replay import replay
from dngo.report.best import around, function_at
from dngo.space import Space
from dngo.space.parameters import Int
from dngo.study import Study
from dngo.surrogates.settings import SurrogateSettings

SPACE, WITHIN = cube(2), 0.1
FEW = {"kind": "gp", "hyperparameter_samples": 2}
PROCESS = SurrogateSettings(**FEW)
SEARCH = {"uniform_candidates": 512, "local_candidates": 128}
HOLE, BASIN = np.array([0.2, 0.3]), np.array([0.7, 0.6])


def f(v: np.ndarray) -> np.ndarray:
    """A hole of half the inputs' wavering, 0.6 deeper than the basin."""
    hole, basin = (np.square(v - centre).sum(axis=-1) for centre in (HOLE, BASIN))
    return 2.0 * basin - 1.4 * np.exp(-hole / (2 * 0.05**2))


def wavering_mean(v: np.ndarray) -> np.ndarray:
    """The truth, by other places than the package takes: (n, k) -> (n,)."""
    places = np.random.default_rng(5).uniform(-WITHIN, WITHIN, (4000, 2))
    return f(np.clip(v[:, None] + places, 0.0, 1.0)).mean(axis=1)


def found(kind: AcquisitionSettings) -> np.ndarray:
    """The points after a design of twelve, one of them in the hole, and three batches of six."""
    v = design(SPACE, 12, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    v[-1] = HOLE + 0.03
    for t in range(3):
        model = model_of(SPACE, v, f(v), t, PROCESS)
        picks = propose(SPACE, v, f(v), 6, seed=t, settings=kind, model=model)
        v = np.concatenate([v, picks.v])
    return v


def test_picks_leave_a_hole_that_is_narrower_than_the_wavering() -> None:
    robust = AcquisitionSettings(kind="robust", within={"x0": WITHIN, "x1": WITHIN}, **SEARCH)
    last = [found(kind)[-12:] for kind in (robust, AcquisitionSettings(**SEARCH))]
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


def test_an_outcome_that_the_model_has_not_learnt_counts_where_inputs_waver() -> None:
    v = design(SPACE, 12, rng=np.random.default_rng(1), exclude=np.empty((0, 2)))
    model = model_of(SPACE, v, f(v), 1, PROCESS)
    new = np.array([[0.1, 0.9], [0.5, 0.4]])
    x, y = SPACE.encode(new), f(new) - [1.0, np.nan]  # the second is unknown

    def expected(within: float, y: np.ndarray) -> np.ndarray:
        config = {"acquisition": {"within": {"x0": within}}}
        return np.array(function_at(model, SPACE, config, x, new, y))

    assert expected(1e-9, y) == pytest.approx(np.array(model.function(x, y)), rel=1e-5)
    before, after = expected(0.1, np.full(2, np.nan)), expected(0.1, y)
    assert after[0, 0] < before[0, 0] - 0.1 and after[1, 0] < before[1, 0]
    assert (after[:, 1] == before[:, 1]).all()


def test_points_around_decide_which_is_best_where_inputs_waver() -> None:
    v = np.random.default_rng(0).random((80, 2))
    v[:3], v[-1] = HOLE + np.array([[0.0, 0.0], [0.01, 0.0], [0.0, 0.02]]), BASIN + 0.03
    known = SPACE.unit(v), SPACE.encode(v), f(v), np.full(len(v), np.nan)
    surrogate = np.where(
        np.arange(len(v)) == 1, -1.0, 0.0
    )  # it takes a point in the hole for the best

    def best(within: dict[str, float]) -> np.ndarray:
        config = {"acquisition": {"within": within}}
        rows, mean, deviation = around(SPACE, config, known, v, surrogate)
        return v[rows[np.argmin(mean + deviation)]]

    assert np.linalg.norm(best({}) - HOLE) < 0.03
    robust = best({"x0": WITHIN, "x1": WITHIN})
    assert wavering_mean(robust[None])[0] < np.sort(wavering_mean(v))[0] + 0.01
    config = {"acquisition": {"within": {"x0": WITHIN}}}
    assert not len(
        around(SPACE, config, known, v, np.full(len(v), np.nan))[0]
    )  # without a surrogate


def test_a_whole_study_replays_and_its_best_point_by_the_model_is_the_robust_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def g(x: float, y: float) -> float:
        return float(f(np.array([x, y])))

    study = dngo.minimize(
        g, {"x": (0, 1), "y": (0, 1)}, 18, workers=0, batch_size=6, surrogate=FEW, design={"size": 12},
        acquisition={"kind": "robust", "within": {"x": WITHIN, "y": WITHIN}, **SEARCH},
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


# ---- Points that are evaluated once more: where their outcomes are noisy, and nowhere else

SIX = Space(
    {"a": Int(type="int", low=0, high=2), "b": Int(type="int", low=0, high=1)}  # all its points
)
ALL = np.array([[a, b] for a in range(3) for b in range(2)], dtype=float)
VALUES = np.array([0.3, 2.0, 0.1, 2.5, 3.0, 2.2])


def _picks(history: History, size: int = 3, **acquisition: object):
    model = model_of(SIX, history.v, history.y, 0, PROCESS, noise=history.noise)
    settings = AcquisitionSettings(**acquisition)
    rng = np.random.default_rng(1)
    return propose_batch(model, SIX, history, size=size, settings=settings, rng=rng)


def test_noisy_points_are_picked_again_and_others_never():
    noise = np.full(6, 0.4)
    picks = _picks(History(ALL, VALUES, noise=noise))
    assert set(picks.source) == {"replicate"}
    assert len({tuple(v) for v in picks.v}) == len(picks) == 3
    assert {(0, 0), (1, 0)} <= {tuple(v) for v in picks.v}  # of which either may be the lowest
    assert len(_picks(History(ALL, VALUES, noise=noise), replicates="never")) == 0
    assert len(_picks(History(ALL, VALUES))) == 0
    assert len(_picks(History(ALL, VALUES, noise=np.zeros(6)))) == 0
    assert len(_picks(History(ALL, VALUES), replicates="always")) == 3


def test_what_failed_is_not_tried_again_nor_what_is_under_way():
    y, noise = VALUES.copy(), np.full(6, 0.4)
    y[0] = np.nan
    history = History(ALL, y, pending=ALL[[2]], noise=noise)
    for rule in ("reported", "always"):
        again = {tuple(v) for v in _picks(history, size=6, replicates=rule).v}
        assert again == {tuple(v) for v in ALL[[1, 3, 4, 5]]}


@pytest.mark.parametrize("rule", ["reported", "always"])
def test_an_objective_that_repeats_itself_is_found_out(rule):
    # A deterministic one that reports its own error bound as noise: 0.1 and 0.3 again, to the last digit.
    v, y = np.concatenate([ALL, ALL[[0, 2]]]), np.concatenate([VALUES, VALUES[[0, 2]]])
    noise = np.full(8, 0.4)
    assert len(_picks(History(v, y, noise=noise), replicates=rule)) == 0
    y[-1] += 0.01  # one that differs is enough
    assert len(_picks(History(v, y, noise=noise), replicates=rule)) == 3


def test_a_new_point_is_preferred_where_it_promises_more():
    # Precise and high outcomes are not worth a second look while half of the points are unknown.
    history = History(ALL[[1, 3, 5]], VALUES[[1, 3, 5]], noise=np.full(3, 1e-3))
    assert set(_picks(history, size=2).source) == {"joint"}


@pytest.fixture
def study(tmp_path) -> Study:
    """Four batches of three over six points with a reported noise, asked for and told."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "study: six\nobjective: {command: 'true'}\nsurrogate: gp\nbatch_size: 3\niterations: 3\n"
        "classifier: {networks: {steps: 20, epochs: 1}}\n"
        "space:\n  a: {type: int, low: 0, high: 2}\n  b: {type: int, low: 0, high: 1}\n"
    )
    rng = np.random.default_rng(0)
    for _ in range(4):
        session = dngo.open(path, results=tmp_path / "results")
        for point in session.ask():
            p = point.parameters
            value = VALUES[2 * p["a"] + p["b"]] + 0.4 * rng.standard_normal()
            session.tell({**p, "objective": float(value), "noise": 0.4})
        assert session.pending() == []
    return Study(load([path], {"results": str(tmp_path / "results")}))


def test_replicates_are_archived_beside_the_first_and_replay(study):
    table = archive.read_table(study.archive)
    assert len(table.v) == 12 and len(np.unique(table.v, axis=0)) == 6
    assert set(replays(study)) == {"identical"}


def test_a_point_that_was_evaluated_several_times_is_ranked_once(study, capsys):
    session, table = dngo.open(study.archive), archive.read_table(study.archive)
    for by in ("observed", "model"):
        top = session.top(6, by)
        assert len(top) == len({tuple(one.parameters.values()) for one in top}) == 6
        assert sum(one.evaluations for one in top) == 12
        for one in top:
            outcomes = table.objective[(table.v == list(one.parameters.values())).all(axis=1)]
            assert one.objective == outcomes.min()
            assert one.average == pytest.approx(outcomes.mean())
    assert main(["best", str(study.archive), "--top", "6"]) == 0
    assert "evaluations;" in capsys.readouterr().out
