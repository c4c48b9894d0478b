"""Files that other programs wrote: read, and said in one line; or refused with the option to type."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import entrances
import pytest
from mine import Mine
from needs import MACHINE, missing
from running import ran
from toy import ROOT

import dngo
from dngo import archive
from dngo.batch import Outcome, Proposal
from dngo.cli import main
from dngo.config import load
from dngo.plugins import Registry
from dngo.study import Study

FILES = Path(__file__).parent / "data" / "foreign"  # made by make.py there
SPACE = {
    "x": {"type": "float", "low": 0, "high": 1},
    "rate": {"type": "float", "low": 1e-4, "high": 1, "log": True},
    "n": {"type": "int", "low": 1, "high": 8},
    "kind": {"type": "categorical", "choices": ["a", "b", "c"]},
}


POINT = {"x": 0.5, "rate": 0.01, "n": 3, "kind": "a"}


def config_in(folder: Path, **changes: Any) -> Path:
    return entrances.config_in(folder, **{"study": "others", "space": SPACE, **changes})


def taken(config: Path) -> list[tuple[Proposal, Outcome]]:
    study = Study(load([config]))
    batch = archive.read_batch(study.archive, 0, study.space)
    return list(zip(batch.proposals, archive.read_outcomes(study.archive, batch), strict=True))


def loss(x: float, rate: float, n: int, kind: str) -> float:

    return (x - 0.3) ** 2 + abs(math.log10(rate) + 2) / 10 + n / 100


PARTS: dict[str, Any] = {
    "sklearn": {
        "space": {
            "C": {"type": "float", "low": 0.01, "high": 100, "log": True},
            "kernel": {"type": "categorical", "choices": ["linear", "rbf", "wrong"]},
        },
        "objective": {"command": "true", "direction": "maximize"},
    },
    "bayes_opt": {
        "space": {"x": SPACE["x"], "rate": {"type": "float", "low": -4, "high": 0}},
        "objective": {"command": "true", "direction": "maximize"},
    },
}
# The file, and what is said.
CASES = {
    "optuna-2_10_1.csv": "read as Optuna's table of trials: 4 parameters, value as objective, 2 failed",
    "optuna-3_6_2.csv": "read as Optuna's table of trials: 4 parameters, value as objective, 2 failed",
    "optuna-4_9_0.csv": "read as Optuna's table of trials: 4 parameters, value as objective, 2 failed",
    "optuna-5_0_0.csv": "read as Optuna's table of trials: 4 parameters, value as objective, 2 failed",
    "mlflow-2_22_5.csv": "read as MLflow's export: 4 parameters, metrics.loss as objective, 3 failed",
    "mlflow-3_17_2.csv": "read as MLflow's export: 4 parameters, metrics.loss as objective, 3 failed",
    "ray-2_60_0.csv": "read as Ray Tune's results: 4 parameters, loss as objective",
    "ray-2_60_0.result.json": "read as Ray Tune's results: 4 parameters, loss as objective",
    "hyperopt-0_2_5.json": "read as Hyperopt's trials: 4 parameters, loss as objective, ",
    "hyperopt-0_3_0.json": "failed, kind: 0 as a, 1 as b, 2 as c",
    "ax-1_3_1.csv": "read as Ax' summary: 4 parameters, loss as objective, 3 failed",
    "syne_tune-0_16_0.csv": "read as Syne Tune's results: 4 parameters, loss as objective",
    "smac-2_4_1.json": "read as SMAC's run history: 4 parameters, cost as objective, ",
    "skopt-0_10_2.csv": "read as scikit-optimize's results: 4 parameters, func_vals as objective",
    "nevergrad-1_0_12.json": "read as Nevergrad's log: 4 parameters, #loss as objective",
    "bayes_opt-1_5_1.json": "read as the log of bayes_opt: 2 parameters, target as objective",
    "bayes_opt-3_4_0.json": "read as the log of bayes_opt: 2 parameters, target as objective",
    "sklearn-1_9_1.csv": "read as scikit-learn's search: 2 parameters, mean_test_score as objective, 3 failed",
}


FEWER = {"ray-2_60_0.csv": 7, "ray-2_60_0.result.json": 1, "syne_tune-0_16_0.csv": 5}


@pytest.mark.parametrize("name", CASES)
def test_a_file_of_another_program_is_read(tmp_path: Path, capsys, name: str) -> None:
    program = name.partition("-")[0]
    options = ["--objective", "loss"] if program == "mlflow" else []
    config = config_in(tmp_path, **PARTS.get(program, {}))
    assert main(["import", str(FILES / name), "--config", str(config), *options]) == 0
    assert CASES[name] in capsys.readouterr().out.splitlines()[0]
    rows = taken(config)
    assert len(rows) == FEWER.get(name, 9)
    for proposal, outcome in rows:
        point = proposal.parameters
        assert outcome.status == (
            "failed" if point.get("kind") == "c" or point.get("kernel") == "wrong" else "ok"
        )
        if "n" in point and outcome.status == "ok":
            assert outcome.objective == pytest.approx(
                loss(**point) + (0.5 if program == "ray" else 0.0)
            )


def test_every_file_is_tried() -> None:
    assert {p.name for p in FILES.iterdir()} - {"make.py", "__pycache__"} == {*CASES}


@pytest.mark.parametrize(
    ("name", "changes", "options", "said"),
    [
        ("mlflow-3_17_2.csv", {}, [], "which column is the objective? Name it with --objective; there are metrics.loss, metrics.seconds"),
        ("mlflow-3_17_2.csv", {}, ["--objective", "los"], "has no column 'los'"),
        ("bayes_opt-1_5_1.json", {"space": PARTS["bayes_opt"]["space"]}, [], "maximises target, but the configuration says direction: minimize"),
        ("smac-2_4_1.json", {"objective": {"command": "true", "direction": "maximize"}}, [], "minimises cost"),
        ("optuna-5_0_0.csv", {"space": {"x": SPACE["x"]}}, [], "--ignore parameter_"),
        ("optuna-5_0_0.csv", {}, ["--columns", "params"], "one * stands for"),
        ("optuna-5_0_0.csv", {}, ["--columns", "p/*"], "has no column 'p/'"),
    ],
)  # fmt: skip
def test_what_is_not_clear_is_refused_with_what_to_type(
    tmp_path: Path, capsys, name: str, changes: dict[str, Any], options: list[str], said: str
) -> None:
    config = config_in(tmp_path, **changes)
    assert main(["import", str(FILES / name), "--config", str(config), *options]) == 1
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1
    assert not list(tmp_path.rglob("archive.h5"))


def table(folder: Path, columns: list[str], *rows: list[Any]) -> Path:
    path = folder / "table.csv"
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([columns, *rows])
    return path


def test_a_table_of_a_known_shape_is_read(tmp_path: Path, capsys) -> None:
    """Weights & Biases' export, after its documentation: no test environment has the program."""
    columns = ["Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep"]
    runs = [
        ("calm", "finished", "a", 0.25),
        ("dry", "crashed", "c", ""),
        ("odd", "running", "b", ""),
    ]
    rows = [
        [name, state, "-", "me", "", "2026-01-01T10:00:00.000Z", 12, "s", kind, 3, 0.01, 0.5, value]
        for name, state, kind, value in runs
    ]
    path = table(tmp_path, [*columns, "kind", "n", "rate", "x", "loss"], *rows)
    config = config_in(tmp_path)
    assert main(["import", str(path), "--config", str(config)]) == 0
    said = "read as Weights & Biases' export: 4 parameters, loss as objective, 1 failed"
    assert said in capsys.readouterr().out.splitlines()[0]
    assert [o.status for _, o in taken(config)] == ["ok", "failed"]
    assert taken(config)[0][1].objective == 0.25


def test_a_table_of_no_known_shape_is_read_as_the_user_says(tmp_path: Path, capsys) -> None:
    columns = ["p:x", "p:rate", "p:n", "p:kind", "value", "how", "other"]
    rows = [[0.5, 0.01, "3", "a", 0.25, "Done", 1], [0.5, 0.02, 3, "c", 1e9, "Crashed", 2]]
    empty = [[""] * 7, ["", "", " ", "", "", "", ""]]  # as spreadsheets end
    config = config_in(tmp_path)
    options = ["--columns", "p:*", "--objective", "value", "--status", "how"]
    options += ["--config", str(config)]
    assert main(["import", str(table(tmp_path, columns, *rows, *empty)), *options]) == 0
    said = capsys.readouterr().out
    assert "read as a table: 4 parameters, value as objective, 1 failed" in said
    assert next((o.status, o.objective) for _, o in taken(config)) == ("ok", 0.25)
    assert [o.status for _, o in taken(config)] == ["ok", "failed"]


def test_json_is_read_as_the_user_says(tmp_path: Path, capsys) -> None:
    path, run = tmp_path / "runs.json", {"params": POINT, "result": {"loss": 0.25}}
    for document in ([run], run):
        path.write_text(json.dumps(document))
        config = config_in(tmp_path)
        assert main(["tell", str(path), "--config", str(config)]) == 1
        assert "--columns 'params.*' --objective value" in capsys.readouterr().err
        options = ["--columns", "params.*", "--objective", "result.loss", "--config", str(config)]
        assert main(["tell", str(path), *options]) == 0
        (entry,) = dngo.open(config)._engine.entries()
        assert entry.outcome is not None and entry.outcome.objective == 0.25
        dngo.open(config).skip(entry.name, "again")
        capsys.readouterr()


@pytest.mark.parametrize(
    "run",
    [
        lambda i, cost, s, e: [
            [i, None, 0, 0.0],
            [cost, 1.0, {"__enum__": f"StatusType.{e}"}, 1.0, 2.0, {}],
        ],
        lambda i, cost, s, e: [i, None, 0, None, cost, 1.0, s, 1.0, 2.0, {}],
        lambda i, cost, s, e: [i, None, 0, None, cost, 1.0, 0.5, s, 1.0, 2.0, {}],
    ],
    ids=["1.4", "2.0", "with CPU time"],
)
def test_run_histories_of_earlier_releases(tmp_path: Path, run: Any) -> None:
    data = [run(1, 0.25, 1, "SUCCESS"), run(2, 1e9, 2, "CRASHED"), run(3, 1e9, 0, "RUNNING")]
    configs = {str(i + 1): {**POINT, "x": i / 4} for i in range(3)}
    path = tmp_path / "runhistory.json"
    path.write_text(json.dumps({"data": data, "configs": configs}))
    config = config_in(tmp_path)
    assert main(["import", str(path), "--config", str(config)]) == 0
    assert [(o.status, o.duration) for _, o in taken(config)] == [("ok", 1.0), ("failed", 1.0)]


def test_a_word_for_a_state_that_nobody_knows_is_named(tmp_path: Path, capsys) -> None:
    config = config_in(tmp_path)
    path = table(
        tmp_path,
        ["params_x", "params_rate", "params_n", "params_kind", "value", "state"],
        [0.5, 0.01, 3, "a", 1, "Compleet"],
    )
    words = f"import {path} --columns params_* --objective value --status state --config {config}"
    assert main(words.split()) == 1
    assert "'Compleet' is no known state; did you mean 'complete'?" in capsys.readouterr().err


def test_points_of_another_program_can_be_added(tmp_path: Path, capsys) -> None:
    config = config_in(tmp_path)
    assert main(["add", str(FILES / "optuna-5_0_0.csv"), "--config", str(config)]) == 0
    assert len(dngo.open(config)._engine.entries()) == 9


def test_attributes_of_a_foreign_optuna_study_are_no_outcome(tmp_path: Path) -> None:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/theirs.db", study_name="s")
    attributes = {"noise": 0.7, "duration": "3 min", "status": "done", "constraint_small": False}
    attributes |= {"metadata": "mine", "message": "m", "number_t": 9, "started": 1}
    # Clocks are set back between the start and the end of the second one.
    for start, end in (
        ("2025-10-26T01:00:00", "2025-10-26T01:00:05"),
        ("2025-10-26T02:59:00", "2025-10-26T02:01:00"),
    ):
        trial = optuna.trial.create_trial(
            value=0.25,
            params={"x": len(study.trials) / 4},
            distributions={"x": optuna.distributions.FloatDistribution(0, 1)},
            user_attrs=attributes,
        )
        trial.datetime_start = datetime.fromisoformat(start)
        trial.datetime_complete = datetime.fromisoformat(end)
        study.add_trial(trial)
    config = config_in(tmp_path, space={"x": SPACE["x"]})
    assert main(["import", f"{tmp_path}/theirs.db", "--config", str(config)]) == 0
    (_, one), (_, other) = taken(config)
    for outcome in (one, other):
        assert (outcome.status, outcome.objective) == ("ok", 0.25)
        assert math.isnan(outcome.noise) and not outcome.message and not outcome.constraints
    assert one.duration == 5.0 and math.isnan(other.duration) and math.isnan(other.started)


# ---- A folder whose name is not UTF-8: a study in it works, or is refused by one line before it begins

NAME = os.fsdecode(b"caf\xe9")
TABLE = "x,y,objective,small\n0.1,0.2,1.0,1\n0.3,0.4,2.0,1\n0.5,0.6,3.0,1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, seen from outside."""
    found = tmp_path / NAME
    try:
        found.mkdir()
    except OSError:
        missing(f"{MACHINE}has a file system without such names")
    monkeypatch.chdir(tmp_path)
    return found


def look(config: str, folder: Path) -> None:
    """Every command that reads a study, writing into the folder."""
    out = folder / "out"
    out.mkdir()
    forms = {form: f"x.{form}" for form in Registry("dngo.exports").names()}
    page = ["--html", str(out / "page.html")]
    for words in (
        *([command] for command in ("status", "best", "replay", "verify", "check")),
        ["audit", "--all"],
        ["audit", "--proposal", "1-0"],
        ["report", *page],
        *(["export", "--format", k, "--output", str(out / v)] for k, v in forms.items()),
    ):
        assert main([words[0], config, *words[1:]]) == 0, words
    assert main(["compare", config, f"{NAME}/results/mine", "--html", str(out / "both.html")]) == 0
    assert "caf\ufffd" in (out / "page.html").read_text(encoding="utf-8")
    assert {path.name for path in out.iterdir()} == {*forms.values(), "page.html", "both.html"}


@pytest.mark.full
def test_a_study_is_run_and_looked_at(folder: Path) -> None:
    mine = Mine(folder)
    mine.write()
    words = [sys.executable, "-m", "dngo", "run", f"{NAME}/my.yaml", "--", "--cores", "1"]
    words += ["--omit-from", "progress"]
    run = subprocess.run(words, capture_output=True, check=False, env={**os.environ})
    assert run.returncode == 0, run.stderr
    assert b"Traceback" not in run.stderr
    assert len((folder / "runs.txt").read_text().split()) == 10
    look(f"{NAME}/my.yaml", folder)


def test_a_study_is_begun_with_a_table_and_in_python_from_outside(folder: Path) -> None:
    """Its configuration then names the folder, and is archived."""
    Mine(folder).write()
    (folder / "table.csv").write_text(TABLE)
    config = f"{NAME}/my.yaml"
    assert main(["import", f"{NAME}/table.csv", "--config", config]) == 0
    study = dngo.open(config)
    study.tell(study.ask(2), [0.5, 0.4], constraints={"small": True})
    assert len(study.table()) == 5
    look(config, folder)


def test_snakemake_that_could_not_keep_its_name_is_refused(folder: Path) -> None:
    Mine(folder).write()
    words = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "1"]
    words += ["--configfile", f"{NAME}/my.yaml"]
    run = ran(words)
    assert run.returncode == 1
    *_, last = run.stderr.splitlines()
    assert "Snakemake needs paths in UTF-8; rename the folder" in last
    assert "Traceback" not in run.stderr and not (folder / "results").exists()
