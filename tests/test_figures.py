"""What the papers' figures show is what their captions say."""

from __future__ import annotations

import sys

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
