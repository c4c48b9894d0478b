"""Keys of a study with several objectives: targets, scales and baselines."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from test_fronts import document, run, verdicts

from dngo.archive import read_table, verify
from dngo.cli import main
from dngo.config import load, validate
from dngo.errors import UserError
from dngo.fronts import on_front


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stop": {"target": 1}}, "stop.target: must have a value for objectives by name: {cost: a number"),
        ({"stop": {"target": {}}}, "stop.target: must have a value for objectives by name"),
        ({"stop": {"target": {"costs": 1}}}, "stop.target.costs: is not an objective; did you mean 'cost'"),
        ({"stop": {"target": {"cost": "low"}}}, "stop.target.cost: must be a number"),
        ({"objectives": None, "stop": {"target": {"cost": 1}}}, "stop.target: must be a number"),
        ({"stop": {"target": "low"}}, "stop.target: must be"),
        ({"stop": {"distance": 1}}, "with several, use `stop.hypervolume_gain`"),
        ({"stop": {"expected_improvement": 1}}, "with several, use `stop.hypervolume_gain`"),
        ({"optimum": 0.0}, "with several, use the `reference` of each, or `stop.target`"),
        ({"acquisition": {"kind": "optuna", "sampler": "cmaes"}}, "cmaes works only with one objective"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path: Path, changes: dict, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(UserError) as caught:
        load([path])
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_study_ends_where_one_point_reaches_every_target(tmp_path: Path, capsys) -> None:
    study = run(tmp_path / "a", 1, constraints={"heat": "<= 1.6"})
    table = read_table(study.path)
    cost, gain = table.objectives["cost"], table.objectives["yield"]
    ok = table.status == "ok"
    # No point has both of the best values, so both together are not reached.
    best = {"cost": float(cost[ok].min()), "yield": float(gain[ok].max())}
    row = int(np.flatnonzero(ok)[3])
    reached = {"cost": float(cost[row]), "yield": float(gain[row])}
    for target, ends in ((best, False), (reached, True), ({"cost": best["cost"]}, True)):
        path = tmp_path / "a" / "config.yaml"
        changes = {"constraints": {"heat": "<= 1.6"}, "stop": {"target": target}}
        path.write_text(json.dumps(document(**changes)))
        assert main(["check", str(path)]) == 0
        said = capsys.readouterr().out
        assert ("and stop.target is cost" in said) == ends, said
    assert validate(json.loads(load([path]).resolved())) == load([path])


@pytest.mark.parametrize("sampler", ["tpe", "nsgaii", pytest.param("gp", marks=pytest.mark.full)])
def test_a_sampler_of_optuna_searches_for_a_front(tmp_path: Path, sampler: str) -> None:
    kind = {"kind": "optuna", "sampler": sampler}
    study = run(tmp_path, 2, acquisition=kind, constraints={"heat": "<= 1.6"})
    table = read_table(study.path)
    assert len(table) == 24 and verify(study.path) == []
    assert set(study.table().source[12:]) == {f"optuna:{sampler}"}
    assert verdicts(study.path) == {"identical"}


def test_evolution_comes_nearer_to_the_front_than_chance(tmp_path: Path) -> None:
    """NSGA-II hears each objective: its later points are better than its first ones."""
    kind = {"kind": "optuna", "sampler": "nsgaii"}
    study = run(tmp_path, 5, acquisition=kind, design={"size": 50}, batch_size=30, constraints={"heat": "<= 1.6"})
    table = read_table(study.path)
    values = table.outcomes({"cost": "minimize", "yield": "maximize"})
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    front = known[on_front(values[known])]
    assert (front >= 50).mean() > 0.6
