"""Keys of a study with several objectives: targets, scales and baselines."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from test_fronts import document, measured, run, verdicts

import dngo
from dngo.archive import read_table, verify
from dngo.cli import main
from dngo.config import load, validate
from dngo.errors import UserError
from dngo.fronts import on_front
from dngo.report.data import View
from dngo.scores import forward_scores
from dngo.units import Units


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
    study = run(
        tmp_path,
        5,
        acquisition=kind,
        design={"size": 50},
        batch_size=30,
        constraints={"heat": "<= 1.6"},
    )
    table = read_table(study.path)
    values = table.outcomes({"cost": Units(1.0), "yield": Units(-1.0)})
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    front = known[on_front(values[known])]
    assert (front >= 50).mean() > 0.6


# ---- a logarithmic scale ------------------------------------------------------------------------

LOG = {"cost": {"direction": "minimize", "scale": "log"}, "yield": {"direction": "maximize"}}


def spread(point: dict) -> dict:
    """What `measured` says, with a cost above 0 that spans decades."""
    found = measured(**point)
    if "objectives" in found:
        found["objectives"]["cost"] = math.exp(6 * found["objectives"]["cost"])
    return found


def grown(folder: Path, as_logarithm: bool, **changes) -> dngo.api.Session:
    """A study whose cost has a logarithmic scale, or is reported as a logarithm."""
    folder.mkdir(parents=True)
    aims = {"cost": {"direction": "minimize"}, "yield": LOG["yield"]} if as_logarithm else LOG
    changes = {"objectives": aims, "constraints": {"heat": "<= 1.6"}, **changes}
    (folder / "config.yaml").write_text(json.dumps(document(**changes)))
    study = dngo.open(folder / "config.yaml")
    for _ in range(3):
        for point in study.ask():
            said = spread(point.parameters)
            if as_logarithm and "objectives" in said:
                said["objectives"]["cost"] = float(np.log(said["objectives"]["cost"]))
            study.tell(point, **said)
    study.table()
    return study


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dngo.api.Session]:
    folder = tmp_path_factory.mktemp("log")
    return [grown(folder / str(turned), turned) for turned in (False, True)]


def test_its_picks_are_those_of_the_logarithm(both) -> None:
    one, other = (read_table(study.path).v for study in both)
    assert one.tobytes() == other.tobytes() and len(one) == 24


def test_its_front_is_in_its_own_units_and_its_volume_is_of_logarithms(both) -> None:
    one, other = (View.of(study.path).front for study in both)
    assert one.rows.tolist() == other.rows.tolist() and one.volumes == other.volumes
    row, name = int(one.rows[0]), "cost"
    assert one.objectives(0)[name] == read_table(both[0].path).objectives[name][row]
    assert one.reference[name] == pytest.approx(math.exp(other.reference[name]))


def test_it_is_replayed_shown_and_predicted_above_zero(both, capsys) -> None:
    study = both[0]
    assert verdicts(study.path) == {"identical"} and verify(study.path) == []
    found = study.predict([{"x": x, "y": 0.1, "z": 0.5} for x in (0.0, 0.5, 1.0)])
    assert (found["low_cost"] > 0).all() and (found["low_cost"] < found["mean_cost"]).all()
    table = study.table()
    known = table[table["mean_cost"].notna()]
    assert len(known) == 12 and (known["mean_cost"] > 0).all()
    for command in ("status", "report", "best"):
        assert main([command, str(study.path.parent)]) == 0
    assert main(["audit", str(study.path), "--proposal", "2-1"]) == 0
    assert re.search(r"cost expected .* from .* to .* \(95 %\)", capsys.readouterr().out)
    scores = {s.part: s for s in forward_scores(study.path, study.config) if s.iteration == 2}
    others = {s.part: s for s in forward_scores(both[1].path, both[1].config) if s.iteration == 2}
    np.testing.assert_allclose(scores["cost"].levels, others["cost"].levels)
    ok = (table.status == "ok") & (table.iteration == 2)
    slope = -np.log(table.objective_cost[ok]).mean()
    assert scores["cost"].log_density == pytest.approx(others["cost"].log_density + slope)


def test_what_is_not_above_zero_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(json.dumps(document(objectives=LOG)))
    study = dngo.open(tmp_path / "config.yaml")
    (point,) = study.ask(1)
    study.tell(point, objectives={"cost": -1.0, "yield": -2.0})
    (row,) = study.table().itertuples()
    assert row.status == "invalid" and "objectives.cost.scale is log" in row.message
    assert row.objective_yield == -2.0


def test_it_may_be_chosen_once_the_study_is_there(tmp_path: Path) -> None:
    study = run(tmp_path, 1, constraints={"heat": "<= 1.6"})
    assert "scale" not in study.config.resolved().split("objectives")[1].split("needs")[0]
    changes = {"objectives": LOG, "constraints": {"heat": "<= 1.6"}}
    (tmp_path / "config.yaml").write_text(json.dumps(document(**changes)))
    later = dngo.open(tmp_path / "config.yaml")
    for point in later.ask():
        later.tell(point, **measured(**point.parameters))
    later.table()
    assert verdicts(later.path) == {"identical"} and len(later.front())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"command": "a", "scale": "log"}}, "has its own scale: cost: {scale: log}"),
        ({"objectives": {**LOG, "cost": {"scale": "log", "reference": 0}}}, "objectives.cost.reference"),
        ({"objectives": {"f": {"scale": "log"}}, "stop": {"distance": 1}}, "a gain is a factor"),
    ],
)  # fmt: skip
def test_what_a_scale_does_not_go_with_is_one_line(changes: dict, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        validate(document(**changes))
