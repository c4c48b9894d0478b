"""Several objectives: configuration, a study from its first batch to its report, noise and scales."""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from toy import QUICK_STUDY
from waiting import until

import dngo
from dngo.acquisition import History
from dngo.archive import read_header, read_surrogate, read_table, verify
from dngo.cli import main
from dngo.config import load, validate
from dngo.errors import UserError
from dngo.evaluation.document import judge
from dngo.fronts import hypervolume, on_front
from dngo.replay import replay
from dngo.report.data import View
from dngo.report.front import weights_of
from dngo.scores import forward_scores
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.thresholds import Reported
from dngo.units import Units

TWO = {"cost": {"direction": "minimize"}, "yield": {"direction": "maximize"}}
LOG = {"cost": {"direction": "minimize", "scale": "log"}, "yield": {"direction": "maximize"}}
SMALL_SPACE = {name: {"type": "float", "low": 0, "high": 1} for name in ("x", "y", "z")}


def document(**changes) -> dict:
    found = {
        "study": "two",
        "objective": {"command": "true"},
        "objectives": TWO,
        "space": SMALL_SPACE,
        "design": {"size": 12},
        "batch_size": 6,
        "iterations": 5,
        **QUICK_STUDY,
    }
    return {k: v for k, v in {**found, **changes}.items() if v is not None}


def measured(x: float, y: float, z: float) -> dict:
    """Two objectives that disagree in x, and are both better for small y; a corner crashes."""
    if x > 0.8 and z > 0.5:
        return {"status": "failed", "message": "it crashed"}
    high = 1 + 3 * y
    found = {"cost": x + 0.01 * z, "yield": -high * (1 - math.sqrt(x / high))}
    return {"objectives": found, "constraints": {"heat": x + y}}


def verdicts(archive: Path) -> set[str]:
    """What a replay of every iteration says."""
    header = read_header(archive)
    return {replay(archive, t).verdict for t in range(header.iterations)}


# ---- what is said, and what is reported ---------------------------------------------------------


def test_several_are_an_identity_whatever_their_order() -> None:
    config = validate(document())
    turned = validate(document(objectives=dict(reversed(TWO.items()))))
    # A scale may be chosen later as well.
    assert config.identity() == turned.identity() == validate(document(objectives=LOG)).identity()
    assert config.identity()["objectives"] == {"cost": "minimize", "yield": "maximize"}
    assert validate(json.loads(config.resolved())) == config
    assert config.reported.objectives == ("cost", "yield")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"objective": {"command": "true", "direction": "minimize"}}, "objective.direction: each of"),
        ({"objectives": {"a": {"direction": "minimise"}, "b": {}}}, "objectives.a.direction: must be"),
        ({"objectives": {"a": {"reference": "high"}, "b": {}}}, "objectives.a.reference: must be a number"),
        ({"objectives": {"a": {"goal": 1}, "b": {}}}, "objectives.a.goal"),
        ({"objectives": {f"o{i}": {} for i in range(7)}}, "objectives: are 7, but at most 6"),
        ({"acquisition": "lcb"}, "acquisition.kind: lcb works only with one objective"),
        ({"objectives": None, "stop": {"hypervolume_gain": 0.1}}, "is for several `objectives`"),
        ({"objectives": None, "objective": {"command": "a", "direction": None}}, "objective.direction: must be"),
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
        ({"objectives": {"x": {}, "y1": {}}}, "objectives.x: is also the name of a parameter"),
        ({"objectives": {"heat": {}, "o": {}}, "constraints": ["heat"]}, "objectives.heat: is also the name of a constraint"),
        ({"objectives": {"objective": {}, "o": {}}}, "objectives.objective: is the name of a value in an outcome"),
        ({"objective": {"command": "a", "scale": "log"}}, "has its own scale: cost: {scale: log}"),
        ({"objectives": {**LOG, "cost": {"scale": "log", "reference": 0}}}, "objectives.cost.reference"),
        ({"objectives": {"f": {"scale": "log"}}, "stop": {"distance": 1}}, "a gain is a factor"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line(tmp_path: Path, changes: dict, message: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(document(**changes)))
    with pytest.raises(UserError) as caught:
        dngo.open(path)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("report", "status", "message"),
    [
        ({"objectives": {"cost": 1, "yield": 2}}, "ok", ""),
        ({"objectives": {"cost": 1}}, "invalid", "yield is missing"),
        ({"objectives": {"cost": 1, "yield": math.nan}}, "invalid", "the objective yield is nan"),
        ({"objectives": {"cost": 1, "yeild": 2, "yield": 2}}, "ok", "did you mean 'yield'?"),
        ({"objectives": {"cost": 1, "yield": "2"}}, "invalid", "objective yield must be a number"),
        ({"objectives": 3}, "invalid", 'report {"objectives": {cost: a number, yield: a number}}'),
        ({"objective": 3}, "invalid", "there are several objectives, but 3 has no names"),
        ({"cost": 1, "yield": 2}, "ok", ""),
        ({"cost": 1, "objectives": {"cost": 1, "yield": 2}}, "invalid", "'cost' is given twice"),
        ({}, "invalid", "there is no objective"),
    ],
)
def test_what_is_reported_is_judged(report: dict, status: str, message: str) -> None:
    wanted = Reported({}, ["cost", "yield"])
    verdict = judge(json.dumps(report).encode(), "", wanted)
    assert (verdict.status, message in verdict.message) == (status, True), verdict.message


def test_a_noise_of_each_is_kept() -> None:
    said = {"objectives": {"cost": 1, "yield": 2}, "noise": {"yield": 0.5}}
    verdict = judge(json.dumps(said).encode(), "", Reported({}, ["cost", "yield"]))
    assert verdict.fields["noises"] == {"yield": 0.5}
    said["noise"] = 0.5
    verdict = judge(json.dumps(said).encode(), "", Reported({}, ["cost", "yield"]))
    assert "a mapping" in verdict.message
    # Several are no report of one objective.
    verdict = judge(b'{"objectives": {"a": 1}}', "", {})
    assert verdict.status == "invalid" and 'report {"objective"' in verdict.message


def test_a_new_study_is_written_with_several_objectives(tmp_path: Path, capsys) -> None:
    words = ["init", str(tmp_path / "config.yaml"), "--yes", "--objectives", "cost,yield:maximize"]
    assert main([*words, "--direction", "minimize"]) == 1
    assert main(words) == 0
    assert load([tmp_path / "config.yaml"]).directions == {"cost": "minimize", "yield": "maximize"}
    assert main(["check", str(tmp_path / "config.yaml"), "--run"]) == 0
    printed = capsys.readouterr().out
    assert "minimize cost, maximize yield" in printed and "  yield        -" in printed


# ---- a study ------------------------------------------------------------------------------------


def run(folder: Path, batches: int, told=measured, **changes) -> dngo.api.Session:
    """A study by ask and tell: the design, and so many batches."""
    folder.mkdir(parents=True, exist_ok=True)
    changes = {"constraints": {"heat": "<= 1.6"}, **changes}
    (folder / "config.yaml").write_text(json.dumps(document(**changes)))
    study = dngo.open(folder / "config.yaml")
    for _ in range(1 + batches):
        for point in study.ask():
            study.tell(point, **told(**point.parameters))
    study.table()  # what was told is merged when somebody looks
    return study


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dngo.api.Session:
    return run(tmp_path_factory.mktemp("two"), 2)


def test_the_front_is_what_nothing_betters(study: dngo.api.Session) -> None:
    frame, table = study.front(), study.table()
    ok = table[table.status == "ok"]
    for row in frame.itertuples():
        better = (ok.objective_cost <= row.cost) & (ok.objective_yield >= row._3)
        assert (
            (ok.objective_cost[better] == row.cost) & (ok.objective_yield[better] == row._3)
        ).all()
    assert len(frame) > 3 and frame.knee.sum() == 1
    with pytest.raises(UserError, match="has several objectives"):
        study.best()
    assert set(study.predict([{"x": 0.2, "y": 0.1, "z": 0.5}])) >= {
        "mean_cost",
        "std_yield",
        "feasibility",
    }
    assert not study.slice("x", "cost").frame.empty
    assert study.figure("trade_off") and study.figure("progress", "yield")


def test_the_archive_verifies_and_replays_to_the_bit(study: dngo.api.Session) -> None:
    assert verify(study.path) == []
    assert verdicts(study.path) == {"identical"}
    header = read_header(study.path)
    assert header.identity["objectives"] == {"cost": "minimize", "yield": "maximize"}
    with h5py.File(study.path) as file:
        assert set(file["outcomes/objectives"]) == {"cost", "yield"}
        outlook = json.loads(file["iterations/2"].attrs["outlook"])
        assert np.isfinite(file["proposals/aims/cost"][-6:]).all()
    assert set(outlook["reference"]) == {"cost", "yield"} and outlook["gain"] >= 0
    table = read_table(study.path)
    assert np.isnan(table.objective).all() and (table.status == "failed").any()


def test_batches_enlarge_the_front_far_more_than_chance(study: dngo.api.Session) -> None:
    front = study._view.front
    assert front.volumes == sorted(front.volumes)
    others = [measured(*u).get("objectives") for u in np.random.default_rng(0).random((24, 3))]
    values = [[one["cost"], -one["yield"]] for one in others if one]
    assert front.hypervolume > 1.1 * hypervolume(np.array(values), front.least)


def test_an_altered_value_of_an_objective_is_found(study: dngo.api.Session, tmp_path: Path) -> None:
    copy = tmp_path / "archive.h5"
    copy.write_bytes(study.path.read_bytes())
    with h5py.File(copy, "r+") as file:
        file["outcomes/objectives/cost"][3] += 1e-9
    assert "digest" in verify(copy)[0]


def test_the_front_is_shown_wherever_a_best_point_is(
    study: dngo.api.Session, tmp_path: Path, capsys
) -> None:
    where, page = str(study.path.parent), tmp_path / "report.html"
    assert main(["report", where, "--html", str(page)]) == 0
    for key in ("trade_off", "volume", "progress-cost", "slices-yield", "calibration-cost"):
        assert f"figure-{key}" in page.read_text()
    assert "Traceback" not in capsys.readouterr().err  # of a figure that could not be drawn
    for words, shown in (
        (["status", where], ["Front", "hypervolume", "knee"]),
        (["best", where], ["proposal", "knee", "cost"]),
        (["report", where], ["The front", "hypervolume"]),
        (
            ["audit", str(study.path), "--proposal", "2-1"],
            ["For the front, towards", "cost expected"],
        ),
    ):
        assert main(words) == 0
        printed = capsys.readouterr().out
        assert all(word in printed for word in shown), printed
    assert main(["best", where, "--json", "--prefer", "cost=3,yield=1"]) == 0
    (dear,) = json.loads(capsys.readouterr().out)["points"]
    assert main(["best", where, "--json", "--prefer", "yield"]) == 0
    (rich,) = json.loads(capsys.readouterr().out)["points"]
    assert dear["objectives"]["cost"] < rich["objectives"]["cost"]
    assert rich["objectives"]["yield"] > dear["objectives"]["yield"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("costs=1", "did you mean 'cost'"),
        ("cost=much", "a number of 0 or more"),
        ("cost=1,cost=2", "is there twice"),
        ("cost=0", "above 0"),
    ],
)
def test_a_mistaken_preference_is_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        weights_of(text, {"cost": "minimize", "yield": "maximize"})


@pytest.mark.parametrize("form", ["csv", "parquet", "optuna"])
def test_what_is_exported_is_imported_again(
    study: dngo.api.Session, tmp_path: Path, form: str
) -> None:
    table = tmp_path / f"table.{form}"
    assert main(["export", str(study.path), "--format", form, "--output", str(table)]) == 0
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(document(constraints={"heat": "<= 1.6"})))
    assert main(["import", "--config", str(config), str(table)]) == 0
    found, before = read_table(tmp_path / "results/two/archive.h5"), read_table(study.path)
    assert found.status.tolist() == before.status.tolist()
    for name in ("cost", "yield"):
        np.testing.assert_array_equal(found.objectives[name], before.objectives[name])
    if form == "optuna":
        import optuna

        stored = optuna.load_study(study_name="two", storage=f"sqlite:///{table}")
        assert [d.name for d in stored.directions] == ["MINIMIZE", "MAXIMIZE"]
        assert len(stored.best_trials) == len(study.front())


def test_a_fork_brings_all_objectives_along(study: dngo.api.Session, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(document(study="other", constraints={"heat": "<= 1.4"})))
    assert main(["fork", str(study.path), "--config", str(config)]) == 0
    assert len(dngo.open(config).front()) > 3
    config.write_text(json.dumps(document(study="third", objectives={**TWO, "more": {}})))
    assert main(["fork", str(study.path), "--config", str(config)]) == 1


@pytest.fixture
def edited(study: dngo.api.Session, tmp_path: Path) -> Callable[..., Path]:
    """The study under another configuration: a function that writes one."""
    (tmp_path / "results").symlink_to(study.path.parents[1])

    def write(**changes) -> Path:
        config = tmp_path / "config.yaml"
        config.write_text(json.dumps(document(constraints={"heat": "<= 1.6"}, **changes)))
        return config

    return write


def test_a_reference_may_be_wrong_and_a_direction_cannot_change(edited, capsys) -> None:
    config = edited(objectives={**TWO, "cost": {"direction": "minimize", "reference": -7}})
    assert main(["check", str(config)]) == 0
    assert "Warning: objectives.cost.reference: no outcome is better" in capsys.readouterr().out
    assert dngo.open(config).front().shape[0] > 3
    config = edited(objectives={**TWO, "cost": {"direction": "maximize"}})
    assert main(["status", str(config)]) == 1
    assert "objectives was" in capsys.readouterr().err


def test_fronts_are_compared_from_one_reference(
    study: dngo.api.Session, tmp_path: Path, capsys
) -> None:
    other = run(tmp_path, 0)
    paths = [str(study.path), str(other.path)]
    assert main(["compare", *paths, "--html", str(tmp_path / "c.html")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (volumes,) = [line.split()[1:] for line in lines if line.startswith("  hypervolume  ")]
    (same,) = [line.split()[3:] for line in lines if "hypervolume after 12" in line]
    assert float(volumes[0]) > float(volumes[1]) == float(same[0]) == float(same[1])
    assert "figure-fronts" in (tmp_path / "c.html").read_text()


def test_earlier_studies_teach_the_objectives_of_their_names(
    study: dngo.api.Session, tmp_path: Path, capsys
) -> None:
    table = read_table(study.path)
    rows = table.status == "ok"
    learns = {
        "objectives": {"yield": "maximize", "cost": "minimize", "weight": "minimize"},
        "transfer": [str(study.path)],
        "design": {"size": 3},
        "batch_size": 2,
        "iterations": 1,
    }

    def weighed(x: float, y: float, z: float) -> dict:
        found = measured(x, y, z)
        if "objectives" in found:
            found["objectives"]["weight"] = z
        return found

    later = run(tmp_path, 1, weighed, study="later", **learns)
    assert main(["check", str(tmp_path / "config.yaml")]) == 0
    assert f"{rows.sum()} evaluations of two" in capsys.readouterr().out
    with h5py.File(later.path) as file:
        assert set(file["transfer/0/objectives"]) == {"cost", "yield"}
        np.testing.assert_array_equal(
            -file["transfer/0/objectives/yield"][()], table.objectives["yield"][rows]
        )
    assert verify(later.path) == [] and verdicts(later.path) == {"identical"}
    # The yield's process has the rows of both studies, that of what only this one has its own.
    ok = int((read_table(later.path, iterations=1).status == "ok").sum())
    model, _ = read_surrogate(later.path, 1)
    seen = {name: len(m.objective[0].x) for name, m in model.objectives.items()}
    assert seen == {"cost": ok + rows.sum(), "yield": ok + rows.sum(), "weight": ok}
    with h5py.File(later.path, "r+") as file:
        file["transfer/0/objectives/cost"][3] += 1e-9
    assert verify(later.path)


def test_a_study_with_other_objectives_teaches_nothing(
    study: dngo.api.Session, tmp_path: Path, capsys
) -> None:
    config = tmp_path / "config.yaml"
    others = ({"objectives": None}, {"objectives": {"error": "minimize", "speed": "maximize"}})
    for names, changes in zip(("one without a name", "error, speed"), others, strict=True):
        config.write_text(json.dumps(document(study="one", transfer=[str(study.path)], **changes)))
        assert main(["check", str(config)]) == 1
        said = capsys.readouterr().err
        assert f"it knows cost, yield, but this study has other objectives: {names}" in said


def test_a_study_ends_where_a_batch_adds_little(tmp_path: Path, capsys) -> None:
    study = run(tmp_path, 0, stop={"hypervolume_gain": 10.0})
    assert study.ask() == []
    assert main(["status", str(tmp_path / "config.yaml")]) == 0
    assert "stop.hypervolume_gain is 10" in capsys.readouterr().out


OBJECTIVE = """
import json, os, sys, time
p = json.load(sys.stdin)
with open({runs!r}, "a") as stream:
    stream.write(os.environ["DNGO_ID"] + chr(10))
time.sleep(0.2)
if p["x"] > 0.9:
    sys.exit("crashed")
print(json.dumps({{"objectives": {{"cost": p["x"], "yield": p["x"] * (2 - p["x"]) - p["y"]}},
                  "constraints": {{"heat": p["x"] + p["y"]}}}}))
"""


@pytest.mark.full
def test_killed_and_continued_a_study_repeats_nothing(tmp_path: Path) -> None:
    runs = tmp_path / "runs.txt"
    (tmp_path / "objective.py").write_text(OBJECTIVE.format(runs=str(runs)))
    given = document(
        objective={"command": "{python} objective.py"}, constraints={"heat": "<= 1.6"}, iterations=1,
        points_per_job=6, acquisition="random",
    )  # fmt: skip
    (tmp_path / "config.yaml").write_text(json.dumps(given))
    command = [sys.executable, "-m", "dngo", "run", "config.yaml", "--", "--cores", "1", "--quiet"]
    command += ["--omit-from", "report", "progress"]
    environment = {**os.environ, "PYTHONPATH": str(Path(dngo.__file__).parents[1])}
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until(lambda: runs.exists() and len(runs.read_text().splitlines()) >= 4, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ids = runs.read_text().split()
    # What was killed in the middle of an evaluation begins it once more, and nothing else.
    assert len(set(ids)) == 18 and len(ids) <= 19
    archive = tmp_path / "results/two/archive.h5"
    assert verify(archive) == []
    assert verdicts(archive) == {"identical"}
    best = json.loads((tmp_path / "results/two/best.json").read_text())
    assert (
        best["points"] and best["hypervolume"] > 0 and set(best["reference"]) == {"cost", "yield"}
    )


# ---- examples ----------------------------------------------------------------------------------


def test_the_example_reports_both_objectives(capsys) -> None:
    example = Path(__file__).parents[1] / "examples/digits/front.yaml"
    assert main(["check", str(example), "--run"]) == 0
    printed = capsys.readouterr().out
    assert "  error        6.11" in printed and "  multiply_adds 3392" in printed


@pytest.mark.usefixtures("xfoil")
def test_the_aerofoil_reports_lift_and_drag(capsys) -> None:
    example = Path(__file__).parents[1] / "examples/airfoil/front.yaml"
    assert main(["check", str(example), "--run"]) == 0
    printed = capsys.readouterr().out
    lift, drag = (float(re.search(rf"{n} +([\d.]+)", printed)[1]) for n in ("lift", "drag"))
    assert 0.6 < lift < 0.8 and 80 < lift / drag < 120


# ---- Fronts of noisy objectives: a lucky outcome leaves the front, and is looked at again

LUCK = {"x": 0.5, "y": 0.5, "z": 0.5}  # the defaults, which are evaluated first
SQUARE = Space({name: Float(type="float", low=0, high=1) for name in ("x", "y")})


def truth(x: float, y: float, z: float) -> dict[str, float]:
    high = 1 + y
    return {"cost": x + 0.1 * z, "yield": -high * (1 - math.sqrt(x / high))}


def grown(folder: Path, batches: int, *, noisy: bool) -> dngo.api.Session:
    """A study in which the first point seems to beat all others, by luck; then it is as it is."""
    seen: list[int] = []
    rng = np.random.default_rng(0)

    def told(**point: float) -> dict:
        found, luck = truth(**point), point == LUCK and not seen
        if luck:
            found = {"cost": -0.3, "yield": 0.3}
            seen.append(1)
        if not noisy:
            return {"objectives": found}
        found = {n: value + 0.01 * rng.standard_normal() for n, value in found.items()}
        return {"objectives": found, "noise": dict.fromkeys(found, 0.5 if luck else 0.01)}

    return run(folder, batches, told, constraints=None)


@pytest.fixture(scope="module")
def noisy_study(tmp_path_factory: pytest.TempPathFactory) -> dngo.api.Session:
    return grown(tmp_path_factory.mktemp("noisy"), 2, noisy=True)


def test_a_lucky_outcome_does_not_stay_on_the_front(noisy_study: dngo.api.Session, capsys) -> None:
    table = read_table(noisy_study.path)
    observed = table.outcomes({"cost": Units(1.0), "yield": Units(-1.0)})
    assert table.id(int(np.flatnonzero(on_front(observed))[0])) == "0-0"  # it beats all others
    assert on_front(observed).sum() == 1
    front = View.of(noisy_study.path).front
    assert front.by == "model" and len(front.rows) > 5
    # Evaluations of one point are one point of the front.
    assert len(np.unique(table.v[front.rows], axis=0)) == len(front.rows)
    # What is stated is near the truth, and not what luck has said.
    for i, point in enumerate(View.of(noisy_study.path).space.to_parameters(table.v[front.rows])):
        assert front.objectives(i)["cost"] == pytest.approx(truth(**point)["cost"], abs=0.2)
    for command in (["status"], ["best"], ["report"]):
        assert main([*command, str(noisy_study.path.parent)]) == 0
        assert "outcomes are noisy: these are the surrogate's means" in capsys.readouterr().out
    assert main(["best", str(noisy_study.path.parent), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["by"] == "model"
    assert len(noisy_study.front()) == len(front.rows)


def test_a_point_of_a_noisy_front_is_looked_at_again(noisy_study: dngo.api.Session) -> None:
    table = noisy_study.table()
    again = table[table.source == "replicate"]
    assert len(again) == 2 and set(again.stage) == {"again"}
    v = read_table(noisy_study.path).v
    assert len(np.unique(v, axis=0)) == len(v) - len(again)
    assert verdicts(noisy_study.path) == {"identical"} and verify(noisy_study.path) == []


def test_without_noise_the_front_is_of_outcomes(tmp_path: Path) -> None:
    quiet = grown(tmp_path, 1, noisy=False)
    front = View.of(quiet.path).front
    assert front.by == "observed" and len(front.rows) == 1
    assert "replicate" not in set(quiet.table().source)


def test_an_objective_that_repeats_itself_is_found_out() -> None:
    v = np.array([[0.1, 0.1], [0.5, 0.5], [0.1, 0.1]])
    several = {"a": np.array([1.0, 2.0, 1.0]), "b": np.array([3.0, 4.0, 3.0])}
    noises = dict.fromkeys(several, np.full(3, 0.1))
    history = History(v, np.zeros(3), objectives=several, noises=noises)
    assert not history.repeatable(SQUARE, "reported").any()
    several = {**several, "b": np.array([3.0, 4.0, 3.1])}
    assert replace(history, objectives=several).repeatable(SQUARE, "reported").all()
    assert not replace(history, noises={}).repeatable(SQUARE, "reported").any()


# ---- Keys of a study with several objectives: targets, scales and baselines


def test_a_study_ends_where_one_point_reaches_every_target(
    study: dngo.api.Session, edited, capsys
) -> None:
    table = read_table(study.path)
    cost, gain = table.objectives["cost"], table.objectives["yield"]
    ok = table.status == "ok"
    # No point has both of the best values, so both together are not reached.
    best = {"cost": float(cost[ok].min()), "yield": float(gain[ok].max())}
    row = int(np.flatnonzero(ok)[3])
    reached = {"cost": float(cost[row]), "yield": float(gain[row])}
    for target, ends in ((best, False), (reached, True), ({"cost": best["cost"]}, True)):
        config = edited(stop={"target": target})
        assert main(["check", str(config)]) == 0
        said = capsys.readouterr().out
        assert ("and stop.target is cost" in said) == ends, said


@pytest.mark.parametrize("sampler", ["tpe", pytest.param("gp", marks=pytest.mark.full)])
def test_a_sampler_of_optuna_searches_for_a_front(tmp_path: Path, sampler: str) -> None:
    kind = {"kind": "optuna", "sampler": sampler}
    study = run(tmp_path, 2, acquisition=kind)
    assert len(study.front()) and not study.has_model
    assert len(read_table(study.path)) == 24 and verify(study.path) == []
    assert set(study.table().source[12:]) == {f"optuna:{sampler}"}
    assert verdicts(study.path) == {"identical"}


def test_evolution_comes_nearer_to_the_front_than_chance(tmp_path: Path) -> None:
    """NSGA-II hears each objective: its later points are better than its first ones."""
    kind = {"kind": "optuna", "sampler": "nsgaii"}
    study = run(tmp_path, 3, acquisition=kind, design={"size": 50}, batch_size=50)
    assert verdicts(study.path) == {"identical"}
    table = read_table(study.path)
    values = table.outcomes({"cost": Units(1.0), "yield": Units(-1.0)})
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    front = known[on_front(values[known])]
    assert (front >= 50).mean() > 0.6


# ---- a logarithmic scale ------------------------------------------------------------------------


def keys_grown(folder: Path, as_logarithm: bool) -> dngo.api.Session:
    """A study whose cost spans decades: it has a logarithmic scale, or is reported as a logarithm."""

    def told(**point: float) -> dict:
        found = measured(**point)
        if "objectives" in found:
            cost = math.exp(6 * found["objectives"]["cost"])
            found["objectives"]["cost"] = float(np.log(cost)) if as_logarithm else cost
        return found

    return run(folder, 1, told, objectives=TWO if as_logarithm else LOG)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dngo.api.Session]:
    folder = tmp_path_factory.mktemp("log")
    return [keys_grown(folder / str(turned), turned) for turned in (False, True)]


def test_its_picks_are_those_of_the_logarithm(both) -> None:
    one, other = (read_table(study.path).v for study in both)
    assert one.tobytes() == other.tobytes() and len(one) == 18


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
    assert len(known) == 6 and (known["mean_cost"] > 0).all()
    for command in ("status", "report", "best"):
        assert main([command, str(study.path.parent)]) == 0
    assert main(["audit", str(study.path), "--proposal", "1-1"]) == 0
    assert re.search(r"cost expected .* from .* to .* \(95 %\)", capsys.readouterr().out)
    scores = {s.part: s for s in forward_scores(study.path, study.config) if s.iteration == 1}
    others = {s.part: s for s in forward_scores(both[1].path, both[1].config) if s.iteration == 1}
    np.testing.assert_allclose(scores["cost"].levels, others["cost"].levels)
    ok = (table.status == "ok") & (table.iteration == 1)
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
