"""Fronts of noisy objectives: a lucky outcome leaves the front, and is looked at again."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from test_fronts import document, verdicts

import dngo
from dngo.acquisition import History
from dngo.archive import read_table, verify
from dngo.cli import main
from dngo.fronts import on_front
from dngo.report.data import View
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.units import Units

LUCK = {"x": 0.5, "y": 0.5, "z": 0.5}  # the defaults, which are evaluated first
SQUARE = Space({name: Float(type="float", low=0, high=1) for name in ("x", "y")})


def truth(x: float, y: float, z: float) -> dict[str, float]:
    high = 1 + y
    return {"cost": x + 0.1 * z, "yield": -high * (1 - math.sqrt(x / high))}


def grown(folder: Path, batches: int, *, noisy: bool, **changes) -> dngo.api.Session:
    """A study in which the first point seems to beat all others, by luck; then it is as it is."""
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(json.dumps(document(**changes)))
    study, seen, rng = dngo.open(folder / "config.yaml"), 0, np.random.default_rng(0)
    for _ in range(1 + batches):
        for point in study.ask():
            found, luck = truth(**point.parameters), point.parameters == LUCK and not seen
            if luck:
                found, seen = {"cost": -0.3, "yield": 0.3}, 1
            if noisy:
                found = {n: value + 0.01 * rng.standard_normal() for n, value in found.items()}
            noise = {"noise": dict.fromkeys(found, 0.5 if luck else 0.01)} if noisy else {}
            study.tell(point, objectives=found, **noise)
    study.table()
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dngo.api.Session:
    return grown(tmp_path_factory.mktemp("noisy") / "a", 2, noisy=True)


def test_a_lucky_outcome_does_not_stay_on_the_front(study: dngo.api.Session, capsys) -> None:
    table = read_table(study.path)
    observed = table.outcomes({"cost": Units(1.0), "yield": Units(-1.0)})
    assert table.id(int(np.flatnonzero(on_front(observed))[0])) == "0-0"  # it beats all others
    assert on_front(observed).sum() == 1
    front = View.of(study.path).front
    assert front.by == "model" and len(front.rows) > 5
    # What is stated is near the truth, and not what luck has said.
    for i, point in enumerate(View.of(study.path).space.to_parameters(table.v[front.rows])):
        assert front.objectives(i)["cost"] == pytest.approx(truth(**point)["cost"], abs=0.2)
    for command in (["status"], ["best"], ["report"]):
        assert main([*command, str(study.path.parent)]) == 0
        assert "outcomes are noisy: these are the surrogate's means" in capsys.readouterr().out
    assert main(["best", str(study.path.parent), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by"] == "model"
    assert len(study.front()) == len(front.rows)


def test_a_point_of_a_noisy_front_is_looked_at_again(study: dngo.api.Session) -> None:
    table = study.table()
    again = table[table.source == "replicate"]
    assert len(again) == 2 and set(again.stage) == {"again"}
    v = read_table(study.path).v
    assert len(np.unique(v, axis=0)) == len(v) - len(again)
    assert verdicts(study.path) == {"identical"} and verify(study.path) == []


def test_evaluations_of_one_point_are_one_point_of_the_front(study: dngo.api.Session) -> None:
    front, v = View.of(study.path).front, read_table(study.path).v
    assert len(np.unique(v[front.rows], axis=0)) == len(front.rows)


def test_without_noise_the_front_is_of_outcomes(tmp_path: Path) -> None:
    quiet = grown(tmp_path / "quiet", 1, noisy=False)
    front = View.of(quiet.path).front
    assert front.by == "observed" and len(front.rows) == 1
    assert "replicate" not in set(quiet.table().source)


def test_nothing_is_looked_at_again_where_replicates_are_off(tmp_path: Path) -> None:
    off = grown(tmp_path / "off", 2, noisy=True, acquisition={"replicates": "never"})
    assert "replicate" not in set(off.table().source)


def test_an_objective_that_repeats_itself_is_found_out() -> None:
    v = np.array([[0.1, 0.1], [0.5, 0.5], [0.1, 0.1]])
    several = {"a": np.array([1.0, 2.0, 1.0]), "b": np.array([3.0, 4.0, 3.0])}
    noises = dict.fromkeys(several, np.full(3, 0.1))
    history = History(v, np.zeros(3), objectives=several, noises=noises)
    assert not history.repeatable(SQUARE, "reported").any()
    several = {**several, "b": np.array([3.0, 4.0, 3.1])}
    assert replace(history, objectives=several).repeatable(SQUARE, "reported").all()
    assert not replace(history, noises={}).repeatable(SQUARE, "reported").any()
