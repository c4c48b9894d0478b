"""What the papers' figures show is what their captions say."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from toy import ROOT


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    import figures

    quick = figures.PAPER.networks.model_copy(update={"steps": 5, "epochs": 0})
    monkeypatch.setattr(figures, "PAPER", figures.PAPER.model_copy(update={"networks": quick}))
    return figures


def test_each_panel_of_activations_has_its_own(figures, capsys) -> None:
    models = figures.activations(1)
    assert {name: m.objective[0].network.activation for name, m in models.items()} == {
        name: name for name in ("tanh", "relu_tanh", "relu")
    }
    assert len({line.split()[1] for line in capsys.readouterr().out.splitlines()}) == 3


def test_workers_share_the_time_and_know_what_is_under_way(figures) -> None:
    from courses import GP, OPT, Strategy, Task, compare, search

    task = Task(figures.cube(1), lambda v: (float(v[0]), 1.0 + float(v[0])))
    for strategy in (Strategy(GP, 3), Strategy("gp-ei-per-second-2012", 3), OPT, Strategy("tpe")):
        course = search(task, strategy, 8, 0)
        assert len(set(course.v[:, 0])) == len(course.y) == 8
        assert (np.diff(course.ends) >= 0).all()
        busy = (1 + course.y).sum()
        assert busy / strategy.workers <= course.ends[-1] + 1e-9 <= busy + 1e-9
        if strategy.workers == 3:
            assert course.ends[-1] < 0.75 * busy
    assert course.best(3) == course.y[:3].min() == course.best(until=course.ends[2])
    found = compare(
        {"random": (Task(task.space, task.evaluate, least=0.9), Strategy("random"))}, 9, 2
    )
    assert all(len(one.y) < 9 or one.y.min() > 0.9 for one in found["random"])
