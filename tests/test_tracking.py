"""Experiment trackers: a run for each evaluation, once, also while the study runs; and W&B's table."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from toy import QUICK_STUDY
from waiting import until

import dngo
from dngo import plugins
from dngo.cli import main
from dngo.errors import UserError
from dngo.exchange import tracking
from dngo.exchange.tracking import Evaluation, Tracking
from dngo.storage.claim import Claim


def measure(x: float, kind: str) -> dict[str, Any]:
    if x > 0.9:
        raise RuntimeError("this corner does not work")
    for step in (1, 2):
        dngo.progress(step, x / step)
    return {"objective": x**2, "constraints": {"warm": x < 0.8, "heat": 300 + 100 * x}}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dngo.Session:
    """Six evaluations, two of which are notable."""
    study = dngo.create(
        "measured",
        {"x": (0, 1), "kind": ["a", "b"]},
        constraints=["warm", {"heat": "<= 350"}],
        folder=tmp_path_factory.mktemp("measured"),
        batch_size=3,
        **QUICK_STUDY,
    )
    study.add({"x": 0.95, "kind": "b"})
    study.add({"x": 0.25, "kind": "a"})
    study.optimize(measure, 6, workers=0)
    study.note("=odd, it leaks", study.top(1)[0].id, ["leak"])
    return study


class Kept:
    """A tracker of ten lines. It forgets to answer if asked to."""

    def __init__(self, study: str, at: str):
        self.path = Path(at)

    def known(self) -> set[str]:
        return set(self.path.read_text().split()) if self.path.exists() else set()

    def log(self, evaluation: Evaluation) -> None:
        with self.path.open("a") as stream:
            stream.write(f"{evaluation.key}\n")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> None:
    own = {**plugins.OWN["dngo.trackers"], "kept": "test_tracking:Kept"}
    monkeypatch.setattr(plugins, "OWN", {**plugins.OWN, "dngo.trackers": own})
    monkeypatch.setattr(tracking, "TRACKERS", plugins.Registry("dngo.trackers"))


def test_a_tracker_of_another_package_gets_each_evaluation_once(
    measured: dngo.Session, kept: None, tmp_path: Path
) -> None:
    at = tmp_path / "kept.txt"
    assert Tracking(measured._engine, "kept", str(at)).update() == 6
    assert Tracking(measured._engine, "kept", str(at)).update() == 0
    text = at.read_text()
    assert len(set(text.split())) == 6
    at.write_text("".join(text.splitlines(keepends=True)[:4]))  # it was killed there
    assert Tracking(measured._engine, "kept", str(at)).update() == 2
    assert sorted(at.read_text().split()) == sorted(text.split())


def test_two_trackings_at_once_and_unknown_names_are_one_line(
    measured: dngo.Session, kept: None, tmp_path: Path
) -> None:
    tracked = Tracking(measured._engine, "kept", str(tmp_path / "kept.txt"))
    claim = Claim(measured._engine.folder / ".track.claim")
    with claim.held(wait=0.0, what="it"), pytest.raises(UserError, match="is held by process"):
        tracked.update()
    with pytest.raises(UserError, match="must be one of mlflow, kept"):
        Tracking(measured._engine, "wandbee")


def test_an_evaluation_in_flight_is_logged_before_its_batch_is_archived(
    kept: None, tmp_path: Path
) -> None:
    study = dngo.create("flying", {"x": (0, 1)}, folder=tmp_path, **QUICK_STUDY)
    tracked, at = None, tmp_path / "kept.txt"
    points = study.ask(4)
    study.tell(points[0], 1.0)
    study.skip(points[1], "no")
    tracked = Tracking(study._engine, "kept", str(at))
    assert tracked.update() == 1
    study.tell(points[2], 2.0)
    study.tell(points[3], 3.0)
    assert len(study.table()) == 4 and tracked.update() == 2 and tracked.update() == 0
    assert len(at.read_text().split()) == 3


# ---- MLflow -------------------------------------------------------------------------------------


def runs(mlflow: ModuleType, at: str, name: str) -> dict[str, Any]:
    client = mlflow.MlflowClient(at)
    experiment = client.get_experiment_by_name(name)
    return {r.info.run_name: r for r in client.search_runs([experiment.experiment_id])}


def test_mlflow_has_a_run_for_each_evaluation(
    measured: dngo.Session, mlflow: ModuleType, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    at = f"sqlite:///{tmp_path}/mlflow.db"
    place = str(measured.path.parent)
    for count in (6, 0):
        assert main(["track", place, "--to", "mlflow", "--at", at]) == 0
        assert capsys.readouterr().out.endswith(f"measured: {count} evaluations logged\n")
    found, table = runs(mlflow, at, "measured"), measured.table()
    assert set(found) == set(table["id"])
    for _, row in table.iterrows():
        run = found[row["id"]]
        assert run.data.params == {"x": str(row["parameter_x"]), "kind": row["parameter_kind"]}
        failed = row["status"] == "failed"
        assert run.info.status == ("FAILED" if failed else "FINISHED")
        assert run.data.tags["status"] == row["status"]
        assert run.info.start_time == int(1000 * row["started"])
        assert ("objective" in run.data.metrics) != failed
        if not failed:
            assert run.data.metrics["objective"] == row["objective"]
            assert run.data.metrics["heat"] == row["number_heat"]
            assert run.data.tags["warm"] == str(row["parameter_x"] < 0.8).lower()
            course = mlflow.MlflowClient(at).get_metric_history(run.info.run_id, "progress")
            assert [m.step for m in course] == [1, 2]
    (failed,) = [r for r in found.values() if r.info.status == "FAILED"]
    assert "this corner does not work" in failed.data.tags["message"]


def test_a_run_that_a_kill_has_cut_off_is_made_again(
    measured: dngo.Session, mlflow: ModuleType, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    at = f"sqlite:///{tmp_path}/mlflow.db"
    tracked = Tracking(measured._engine, "mlflow", at)
    client, ended = tracked.tracker.client, 0

    def killed(*given: Any) -> None:
        nonlocal ended
        ended += 1
        if ended == 3:
            raise KeyboardInterrupt
        client.__class__.set_terminated(client, *given)

    monkeypatch.setattr(client, "set_terminated", killed)
    with pytest.raises(KeyboardInterrupt):
        tracked.update()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert Tracking(measured._engine, "mlflow", at).update() == 4
    found = runs(mlflow, at, "measured")
    assert len(found) == 6 and all(r.info.status != "RUNNING" for r in found.values())


def test_what_mlflow_refuses_is_one_line(
    measured: dngo.Session, mlflow: ModuleType, tmp_path: Path, capsys
) -> None:
    words = ["track", str(measured.path.parent), "--to", "mlflow", "--at"]
    assert main([*words, f"nonsense://{tmp_path}"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and said.startswith("mlflow: ")


@pytest.mark.full
def test_a_study_is_followed_while_it_runs(brief, mlflow: ModuleType, tmp_path: Path) -> None:
    study = brief(iterations=1, sleep=0.5, points_per_job=8)
    at = f"sqlite:///{tmp_path}/mlflow.db"
    run = study.start("--cores", "2", "--config", "acquisition=random")
    words = [sys.executable, "-m", "dngo", "track", "--to", "mlflow", "--at", at, "--follow"]
    place = {"cwd": study.folder, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen(words, **place)
    until(lambda: "logged" in first.stdout.readline())
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    second = subprocess.Popen(words, **place)
    run.communicate()
    output, _ = second.communicate()
    assert second.returncode == 0, output
    found = runs(mlflow, at, "toy")
    assert set(found) == {name for name in study.runs_of()}
    assert len(found) == sum(study.runs_of().values())


# ---- Weights & Biases ---------------------------------------------------------------------------


def test_the_table_of_experiments_is_read_as_its_page_reads_it(
    measured: dngo.Session, tmp_path: Path
) -> None:
    """By pandas, row by row: name, notes and tags, a configuration, a summary."""
    import ast

    import pandas

    output = tmp_path / "wandb.csv"
    assert main(["export", str(measured.path), "--format", "wandb", "--output", str(output)]) == 0
    frame, table = pandas.read_csv(output), measured.table()
    assert frame["Experiment"].tolist() == table["id"].tolist()
    (noted,) = frame.index[frame["Notes"].notna()]
    assert frame["Notes"][noted] == "=odd, it leaks"
    assert ast.literal_eval(frame["Tags"][noted]) == ["leak"]
    assert {name for name in frame if name.startswith("parameter_")} == {
        "parameter_x",
        "parameter_kind",
    }
    assert frame["parameter_x"].tolist() == table["parameter_x"].tolist()
    pandas.testing.assert_series_equal(frame["objective"], table["objective"])
    with output.open(newline="") as stream:
        assert len({len(line) for line in csv.reader(stream)}) == 1
