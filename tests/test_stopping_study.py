"""A study whose evaluations report and are stopped: what its archive keeps, and what the model
learns."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from test_archive import DOCUMENT, append, batch_of
from toy import QUICK_STUDY

import dngo
from dngo import archive, derive, inward
from dngo.archive import verify
from dngo.audit import audit, page
from dngo.batch import Outcome
from dngo.cli import main
from dngo.config import validate
from dngo.exchange.optuna import write
from dngo.replay import replay
from dngo.report import status
from dngo.report.data import View
from dngo.report.figures import all_figures
from dngo.report.health import reporting as reporting_checks
from dngo.stopping.curves import Curve
from dngo.stopping.ends import predicted
from dngo.surrogates import Model, TargetScale

pytestmark = pytest.mark.usefixtures("here")

CHEAP: dict[str, Any] = {"acquisition": "random", "folder": "studies", "batch_size": 8}


def trained(x: float) -> float:
    """It reports 20 steps, and its end is the value at the last."""
    for step in range(1, 21):
        value = (x - 0.3) ** 2 + 1 / step
        dngo.progress(step, value)
        if dngo.should_stop():
            return value
    return value


def minimised(**settings: Any) -> Any:
    rule = {"kind": "median", "min_curves": 4, "grace": 0.2}
    return dngo.minimize(
        trained, {"x": (0, 1)}, 24, **{**CHEAP, "workers": 0, "early_stopping": rule, **settings}
    )


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return minimised(folder=tmp_path_factory.mktemp("studies"))


# ---- the archive --------------------------------------------------------------------------------


def test_without_progress_an_archive_is_what_it_was() -> None:
    config = validate(DOCUMENT)
    found = [append(Path("a.h5"), config, t)["digest"] for t in range(3)]
    # As release 0.3.0 wrote it, before there was progress.
    assert found[-1] == "ee8123d271435f75a6082e2e5383a0727289e0c39b52105bfe24bcb49ce94b69"
    with h5py.File("a.h5") as file:
        assert "stopped" not in h5py.check_enum_dtype(file["outcomes/status"].dtype)
        assert "progress" not in file["iterations/2"]
    assert "early_stopping" not in config.stored()


def reported(outcomes: list[Outcome]) -> list[Outcome]:
    rng = np.random.default_rng(3)
    curves = [
        [[float(s), rng.random() if s % 3 else None, 0.5] for s in range(4)] for _ in outcomes
    ]
    found = [replace(o, curve=c) for o, c in zip(outcomes, curves, strict=True)]
    stop = {"kind": "median", "step": 3.0, "value": None, "at": 3.0, "worse_than": 2, "of": 3, "target": 9.0}  # fmt: skip
    found[0] = replace(found[0], curve=[])
    found[2] = replace(found[2], status="stopped", objective=math.nan, constraints={}, stop=stop)
    return found


def written(path: Path) -> list[list[Outcome]]:
    """An archive of three iterations, of which the second and the third have progress."""
    config, kept = validate(DOCUMENT), []
    for t in range(3):
        batch, outcomes = batch_of(config, t)
        kept.append(reported(outcomes) if t else outcomes)
        archive.append(
            path, identity=config.identity(), batch=batch, outcomes=kept[-1], surrogate=None
        )
    return kept


def test_progress_comes_back_as_it_was_written() -> None:
    path, space = Path("a.h5"), validate(DOCUMENT).search_space
    kept = written(path)
    assert verify(path) == []
    for t, outcomes in enumerate(kept):
        found = archive.read_outcomes(path, archive.read_batch(path, t, space))
        assert [(o.status, o.curve, o.stop) for o in found] == [
            (o.status, o.curve, o.stop) for o in outcomes
        ]
    curves = archive.read_curves(path)
    assert [len(c.points) for c in curves] == [0] * 5 + [0, 4, 4, 4, 4] * 2
    assert repr(archive.read_curves(path, 2)) == repr(curves[:10])
    assert list(archive.read_table(path).status).count("stopped") == 2


@pytest.mark.parametrize("what", ["points", "stops", "gone", "more", "wider"])
def test_what_is_altered_in_it_shows(what: str) -> None:
    path = Path("a.h5")
    written(path)
    with h5py.File(path, "r+") as file:
        group = file["iterations/1/progress"]
        if what == "points":
            group["points"][2, 2] += 1e-9
        elif what == "stops":
            stops = json.loads(group["stops"].asstr()[()])
            stops["2"]["of"] = 4
            group["stops"][()] = json.dumps(stops, sort_keys=True)
        elif what == "gone":
            del file["iterations/1/progress"]
        elif what == "more":
            group["more"] = 1.0
        else:  # a value for an objective that there is not
            points = np.insert(group["points"][()], 3, 0.5, axis=1)
            del group["points"]
            group["points"] = points
    said = {"more": "progress: does not have the members", "wider": "points: has shape"}
    if what in said:
        with pytest.raises(dngo.UserError, match=said[what]):
            verify(path)
    else:
        assert any(line.startswith("iteration 1 (rows 5 to 9)") for line in verify(path))


# ---- what is learnt -----------------------------------------------------------------------------


def test_a_stopped_run_is_put_where_it_stood() -> None:
    def curve(*values: float) -> Curve:
        return Curve(tuple((float(s), v, 0.0) for s, v in enumerate(values)))

    ended = [curve(1, 0.1), curve(2, 0.2), curve(3, 0.3)]
    curves = [*ended, curve(2.5), curve(9), curve(math.nan), Curve()]
    y = np.array([0.1, 0.2, 0.3, np.nan, np.nan, np.nan, np.nan])
    stopped = np.array([False] * 3 + [True] * 4)
    found = predicted(curves, y, stopped, 1.0)
    assert np.allclose(found[3:6], [0.25, 0.3, 0.3]) and np.isnan(found[[0, 1, 2, 6]]).all()
    # Where hardly any came to its end, nothing is known.
    assert np.isnan(predicted(curves[1:6], y[1:6], stopped[1:6], 1.0)).all()
    # The other way round where large values are good.
    turned = [Curve(tuple((s, -v, t) for s, v, t in c.points)) for c in curves]
    assert np.allclose(predicted(turned, y, stopped, -1.0)[3:6], [0.25, 0.3, 0.3])


# ---- from the first point to the last -----------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
def test_a_study_of_a_function(study: Any, workers: int) -> None:
    study = minimised(workers=workers) if workers else study
    path = study.path
    table = archive.read_table(path)
    stopped = table.status == "stopped"
    assert len(table) == 24 and set(table.status) <= {"ok", "stopped"}
    # A fork of so little work may have ended before it is looked at.
    assert stopped.any() or workers
    assert np.isnan(table.objective[stopped]).all()
    curves = archive.read_curves(path)
    assert all(len(c.points) == 20 for c, s in zip(curves, stopped, strict=True) if not s)
    assert verify(path) == []
    assert study.best().objective == table.objective[~stopped].min()


def test_large_values_may_be_good() -> None:
    def trained(x: float) -> float:
        for step in range(1, 21):
            value = x - 1 / step
            dngo.progress(step, value)
            if dngo.should_stop():
                break
        return value

    study = dngo.maximize(
        trained, {"x": (0, 1)}, 24, workers=0, early_stopping={"kind": "asha"}, **CHEAP
    )
    table = archive.read_table(study._study.archive)
    x = table.v[:, 0]
    assert x[table.status == "stopped"].mean() < x[table.status == "ok"].mean()
    assert study.best().parameters["x"] == x.max()


def test_a_model_that_learns_from_stops_replays_bit_for_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dngo.evaluation.stopping.PAUSE", 0.0)
    monkeypatch.setattr("dngo.evaluation.stopping.SHARE", 0.0)
    monkeypatch.setattr("dngo.evaluation.stopping.EACH", 0.0)
    study = minimised(**QUICK_STUDY)
    assert (archive.read_table(study._study.archive).status == "stopped").any()
    last = archive.read_header(study._study.archive).iterations - 1  # type: ignore[union-attr]
    assert replay(study._study.archive, last).verdict == "identical"


def test_what_was_stopped_is_shown_wherever_one_looks(study: Any) -> None:
    path = study.path
    table = archive.read_table(path)
    row = int(np.flatnonzero(table.status == "stopped")[0])
    name = f"{table.iteration[row]}-{table.slot[row]}"
    text = page(audit(path, name))
    assert f"stopped at step {archive.read_curves(path)[row].last[0]:.0f} of 20" in text
    assert "Reported as it ran      1: " in text
    curves = study.curves()
    assert curves.groupby("id").size().max() == 20
    assert set(curves.id[curves.stopped]) == {
        f"{t}-{s}" for t, s in zip(table.iteration, table.slot, strict=True)
        if table.status[(table.iteration == t) & (table.slot == s)] == "stopped"
    }  # fmt: skip
    assert {trace.name for trace in study.figures.curves().data} >= {"stopped early"}
    assert "stopped" in {trace.name.split(" (")[0] for trace in study.figure().data}
    shown = study.table()
    assert (shown.last_step[shown.status == "ok"] == 20).all()
    assert shown.last_value.notna().all()
    data = status(study._study)
    assert (
        data["messages"] == {} and data["outcomes"]["stopped"] == (table.status == "stopped").sum()
    )
    assert data["feasible_share"] == 1.0


def test_optuna_sees_pruned_trials_with_their_values(study: Any, tmp_path: Path) -> None:
    import optuna

    path = study.path
    write(path, tmp_path / "study.db")
    trials = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path}/study.db").trials
    table, curves = archive.read_table(path), archive.read_curves(path)
    for trial, ended, curve in zip(trials, table.status, curves, strict=True):
        assert trial.state.name == {"ok": "COMPLETE", "stopped": "PRUNED"}[ended]
        assert trial.intermediate_values == {int(s): v for s, v, _ in curve.points}


def test_the_report_says_what_is_wrong_with_progress() -> None:
    def wrong(x: float) -> float:
        dngo.progress(-1, x)
        return x

    study = dngo.minimize(wrong, {"x": (0, 1)}, 8, workers=0, early_stopping=True, **CHEAP)
    found = [(c.level, c.finding) for c in reporting_checks(View.of(study.path))]
    assert found == [
        ("note", "8 of 8 evaluations reported progress that could not be read, for example: step must be 0 or "
            "more, but is -1"),
        ("warn", "None of 8 evaluations reported progress, so none is stopped early."),
    ]  # fmt: skip


def test_a_stop_teaches_where_it_would_have_ended_and_no_constraint(study: Any) -> None:
    config, path = study.config, study._study.archive
    table = archive.read_table(path)
    stopped = table.status == "stopped"
    iterations = archive.read_header(path).iterations  # type: ignore[union-attr]
    ends = inward.ends(path, table, config, iterations)
    assert ends.keys() == {"objective"} and (np.isfinite(ends["objective"]) == stopped).all()
    data = inward.training_data(table, config, stopped=ends)
    assert np.isnan(data.constraints["completed"][stopped]).all()
    assert (data.constraints["completed"][~stopped] == 1).all()
    own = table.objective[~stopped]
    assert (data.y[~stopped] == own).all() and not data.feasible[stopped].any()  # type: ignore[index]
    assert (own.min() <= data.y[stopped]).all() and (data.y[stopped] <= own.max()).all()
    # They are worse than most, and so it is learnt.
    assert np.median(data.y[stopped]) > np.median(own)
    # The acquisition knows no value of theirs: none of them is ever the best.
    nothing = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {})
    known = derive.Basis(path, config, iterations, iterations).history(nothing)
    assert np.isnan(known.y[stopped]).all()


def of_two(x: float, y: float) -> dict[str, float] | None:
    """The cost does not change as it runs; the error falls."""
    for step in range(1, 21):
        values = {"error": abs(x - 0.3) + y + 1 / step, "cost": 1 - y + abs(x - 0.3)}
        dngo.progress(step, values)
        if dngo.should_stop():
            return None
    return values


def test_a_study_of_several_objectives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    for name in ("PAUSE", "SHARE", "EACH"):
        monkeypatch.setattr(f"dngo.evaluation.stopping.{name}", 0.0)
    rule = {"kind": "median", "min_curves": 4, "grace": 0.2}
    aims = {"error": "minimize", "cost": "minimize"}
    settings = {**CHEAP, **QUICK_STUDY, "workers": 0, "early_stopping": rule, "objectives": aims}
    study = dngo.minimize(of_two, {"x": (0, 1), "y": (0, 1)}, 16, **settings)
    path, config = study._study.archive, study.config
    table = archive.read_table(path)
    stopped = table.status == "stopped"
    assert stopped.any() and set(table.status) == {"ok", "stopped"} and verify(path) == []
    iterations = archive.read_header(path).iterations  # type: ignore[union-attr]
    assert replay(path, iterations - 1).verdict == "identical"
    # Each objective of a stopped run is learnt where it stood, and no front counts it.
    ends = inward.ends(path, table, config, iterations)
    assert list(ends) == ["cost", "error"]
    data = inward.training_data(table, config, stopped=ends)
    for name, end in ends.items():
        assert (np.isfinite(end) == stopped).all()
        assert (data.objectives[name][stopped] == end[stopped]).all()
        assert (data.objectives[name][~stopped] == table.objectives[name][~stopped]).all()
    ids = {f"{t}-{s}" for t, s in zip(table.iteration[stopped], table.slot[stopped], strict=True)}
    assert not ids & set(study.front().id)
    # What a user looks at.
    assert list(study.curves().columns)[4:6] == ["value_cost", "value_error"]
    shown = study.table()
    assert np.allclose(shown.last_value_cost[~stopped], shown.objective_cost[~stopped])
    assert {f.key for f in all_figures(View.of(path))} >= {"curves-cost", "curves-error"}
    write(path, tmp_path / "study.db")
    trials = optuna.load_study(study_name=None, storage=f"sqlite:///{tmp_path}/study.db").trials
    assert [t.state.name == "PRUNED" for t in trials] == stopped.tolist()


def test_a_trial_says_that_nothing_can_be_stopped(capsys: pytest.CaptureFixture[str]) -> None:
    """The first mistake: the rule is configured, and the objective reports only at its end."""
    Path("objective.py").write_text("print(1)")
    Path("config.yaml").write_text(
        "study: quiet\nbatch_size: 2\niterations: 1\nearly_stopping: true\n"
        "objective: {command: '{python} objective.py'}\n"
        "space: {x: {type: float, low: 0, high: 1}}\n"
    )
    assert main(["check", "--run"]) == 0
    assert "none was reported: early_stopping cannot stop anything" in capsys.readouterr().out
    Path("objective.py").write_text(
        'print(\'{"progress": {"step": 1, "objective": 2}}\')\nprint(1)'
    )
    assert main(["check", "--run"]) == 0
    assert "none was reported" not in capsys.readouterr().out
