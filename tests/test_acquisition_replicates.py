"""Points that are evaluated once more: where their outcomes are noisy, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest
from test_entering import replays

import dngo
from dngo import archive
from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.cli import main
from dngo.config import load
from dngo.space import Space
from dngo.space.parameters import Int
from dngo.study import Study
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SIX = Space(
    {"a": Int(type="int", low=0, high=2), "b": Int(type="int", low=0, high=1)}  # all its points
)
ALL = np.array([[a, b] for a in range(3) for b in range(2)], dtype=float)
VALUES = np.array([0.3, 2.0, 0.1, 2.5, 3.0, 2.2])


def _picks(history: History, size: int = 3, **acquisition: object):
    data = TrainingData(
        x=SIX.encode(history.v),
        y=history.y,
        constraints={"completed": np.isfinite(history.y).astype(float)},
        noise=history.noise,
    )
    model = fit_model(data, SurrogateSettings(kind="gp"), rng=np.random.default_rng(0))
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
