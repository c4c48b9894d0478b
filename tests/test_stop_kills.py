"""Kills at any moment of a study whose evaluations report and are stopped: nothing is lost or repeated."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from toy import ROOT


def test_kills_lose_and_repeat_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("kills", ROOT / "benchmarks" / "stop_kills.py")
    assert spec is not None and spec.loader is not None
    kills = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(kills)
    monkeypatch.setattr(kills, "LONGEST", 0.8)
    found = kills.killed(tmp_path, 15, 3, seed=1)
    # The study may end before the last.
    assert found["kills"] >= 5 and found["outcomes"].get("stopped", 0) > 0, found
    assert found["evaluations"] == 24 and set(found["outcomes"]) <= {"ok", "stopped"}, found
    assert found["lost"] == 0 and not found["repeated"] and not found["contradicted"], found
    # A promoted point goes on from its checkpoint: no step is made anew but one that a kill cut short.
    assert found["promoted"] > 0 and found["wasted"] == 0, found
    assert found["without_curve"] == found["gaps"] == 0 and found["problems"] == [], found
