"""The best points of a study: by the outcome, and by the surrogate, which heeds noise."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from proposing import model_of
from spaces import cube
from toy import QUICK_STUDY

import dngo
from dngo.audit import audit
from dngo.cli import main
from dngo.errors import UserError
from dngo.report.beside import beside
from dngo.report.best import around_the_best
from dngo.report.data import View
from dngo.report.text import summary
from dngo.report.uncertain import left_out
from dngo.surrogates.data import TargetScale
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.model import Model
from dngo.surrogates.settings import SurrogateSettings

ARCHIVES = Path(__file__).parent / "data" / "archives"


def test_a_new_outcome_is_heeded_as_by_a_process_that_has_learnt_it() -> None:
    """With one sample of the hyperparameters: the rank-one update at the point itself."""
    rng = np.random.default_rng(0)
    x, y = rng.random((12, 2)), rng.standard_normal(12)
    given = (np.zeros((1, 2)), np.array([1.3]), np.array([0.2]))
    scale = TargetScale(0.0, 1.0, 0.0, 1.0)
    before = Model((GaussianProcess(x[:-1], y[:-1], *given),), scale, {})
    after = Model((GaussianProcess(x, y, *given),), scale, {})
    unknown = np.full(12, np.nan)
    heeded = before.function(x[-1:], y[-1:])
    learnt = after.function(x, unknown)
    np.testing.assert_allclose(np.ravel(heeded), [learnt[0][-1], learnt[1][-1]], rtol=1e-8)


def test_under_noise_the_surrogate_names_better_points_than_luck_does() -> None:
    """The truth at the points that are named, over studies of a noisy bowl."""
    space, named = cube(3), []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        v = rng.random((60, 3))
        truth = ((v - 0.5) ** 2).sum(axis=1)
        y = truth + 0.1 * rng.standard_normal(60)
        settings = SurrogateSettings(kind="gp", hyperparameter_samples=3)
        model = model_of(space, v, y, seed, settings)
        mean, _ = model.function(space.encode(v), np.full(60, np.nan))
        named.append((truth[np.argmin(mean)], truth[np.argmin(y)]))
    by_model, by_luck = np.mean(named, axis=0)
    assert by_model < 0.7 * by_luck


@pytest.mark.parametrize("by", ["observed", "model"])
def test_the_best_are_ranked_and_written(tmp_path: Path, capsys, by: str) -> None:
    path = str(ARCHIVES / "v1-auto.h5")
    top = dngo.open(path).top(3, by)
    value = [one.objective if by == "observed" else one.mean + one.std for one in top]
    assert value == sorted(value) and len({one.id for one in top}) == 3
    words = ["best", path, "--by", by, "--top", "3", "--output", str(tmp_path / "best")]
    assert main(words) == 0
    assert f"1. proposal {top[0].id}" in capsys.readouterr().out
    files = sorted((tmp_path / "best").iterdir())
    assert [f.name for f in files] == [f"{i}-{one.id}.json" for i, one in enumerate(top, 1)]
    assert [json.loads(f.read_text()) for f in files] == [one.parameters for one in top]
    assert main(words) == 1  # nothing is replaced
    assert "is there already" in capsys.readouterr().err


def test_the_newest_outcomes_count_though_no_surrogate_has_learnt_them() -> None:
    view = View.of(ARCHIVES / "v1-auto.h5")
    mean, _, _ = view.expected
    foreseen, _, _ = view.predict(view.table.x)
    newest = view.ok & (view.table.iteration == view.table.iteration[-1])
    gap = np.abs(view.table.objective - mean)[newest]
    assert (gap < np.abs(view.table.objective - foreseen)[newest]).all()


def test_a_baseline_has_no_opinion(capsys) -> None:
    path = str(ARCHIVES / "v1-random.h5")
    assert main(["best", path]) == 0
    assert "surrogate" not in capsys.readouterr().out
    assert main(["best", path, "--by", "model"]) == 1
    assert "no surrogate has learnt the objective yet" in capsys.readouterr().err


def test_an_audit_without_a_point_says_what_it_can_do(capsys) -> None:
    assert main(["audit", str(ARCHIVES / "v1-auto.h5")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    for word in ("--proposal 7-12", "side by side", "--all", "dngo best"):
        assert word in line


def test_where_the_surrogate_sees_less_the_points_around_the_best_decide() -> None:
    # A bent valley that a model of the whole space smooths away, and a few outcomes that are far off.
    rng = np.random.default_rng(4)
    near = np.clip([0.6, 0.36, 0.5] + 0.1 * rng.standard_normal((120, 3)), 0, 1)
    u = np.concatenate([rng.random((80, 3)), near])
    truth = 100 * (u[:, 1] - u[:, 0] ** 2) ** 2 + (u[:, 0] - 0.6) ** 2 + (u[:, 2] - 0.5) ** 2
    y = truth.copy()
    y[150] = truth.min() - 5.0  # by luck alone
    rows, mean, deviation = around_the_best(u, u, y, np.full(len(u), np.nan))
    best = rows[np.argmin(mean + deviation)]
    assert truth[best] <= np.quantile(truth, 0.02)
    assert best != 150 and (deviation > 0).all()
    exact, mean, deviation = around_the_best(u, u, truth, np.full(len(u), np.nan))
    assert exact[np.argmin(mean + deviation)] == np.argmin(truth), (
        "without noise the best seen is the best"
    )


def test_where_luck_is_in_the_best_the_report_says_what_the_surrogate_makes_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = synthetic.study(tmp_path, iterations=2, size=20)
    view = View.of(made.archive)
    best, std = view.ranking("observed")[0], np.ones(len(view.table))
    outcomes = view.table.objective

    def said(mean: np.ndarray) -> str:
        monkeypatch.setattr(View, "expected", (mean, std, np.ones(len(mean))))
        (line,) = [one for one in summary(made).splitlines() if "initial design" in one]
        return line

    assert said(outcomes + 1e-3).endswith("better")
    assert "by the surrogate" not in said(outcomes + 1e-3)
    lucky = outcomes.copy()
    lucky[best] = 2 * np.nanmax(outcomes)
    assert "by the surrogate worse" in said(lucky) and "better, by the surrogate" in said(lucky)


def test_a_point_that_was_found_feasible_is_recommended_whatever_the_classifier_thinks(
    monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Seen in a study of a simulator: the best of all, kept out by a probability of 0.4935."""
    path = str(ARCHIVES / "v1-auto.h5")
    monkeypatch.setattr(Model, "feasibility", lambda self, x: np.full(len(x), 0.4935))
    view = View.of(Path(path))
    assert len(view.ranking("model")) == len(view.ranking("observed")) > 0
    assert main(["best", path]) == 0
    assert "left out" not in capsys.readouterr().out
    # Under noise the outcome may have been luck. Then the reason is said.
    view.table.noise[:] = 0.1
    # A copy of a view has computed nothing yet.
    assert len(view.ranking("observed")) and not len(replace(view).ranking("model"))
    (line,) = left_out(replace(view))
    assert f"proposal {view.id(view.ranking('observed')[0])} with" in line and "0.49 only" in line


# ---- Points side by side: what differs is said, as a difference or a factor


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dngo.Session:
    """A study on a logarithmic scale, with a choice, a condition, a threshold and a failure."""
    space = {
        "rate": (1e-4, 1, "log"),
        "kind": ["a", "b"],
        "n": dngo.Int(1, 5),
        "more": dngo.Float(0, 1, active_if={"kind": "a"}),
    }
    made = dngo.create(
        "beside",
        space,
        objective={"scale": "log"},
        constraints={"heat": "<= 5"},
        **QUICK_STUDY,
        design={"size": 6},
        folder=tmp_path_factory.mktemp("beside"),
    )
    for n in (6, 2):
        points = made.ask(n)
        made.tell(
            points, [{"objective": 1 / (i + 1), "constraints": {"heat": i}} for i in range(n)]
        )
    made.tell({"id": made.ask(1)[0].id, "status": "failed", "message": "it broke"})
    made.table()
    return made


def test_each_value_is_that_of_the_audit_and_the_difference_that_of_the_values(
    session: dngo.Session,
) -> None:
    ids = ["0-1", "1-0"]
    lines = {line.name: line for line in beside(session.path, ids)}
    for i, name in enumerate(ids):
        data = audit(session.path, name)
        for parameter, value in data["parameters"].items():
            assert lines[parameter].values[i] == value
        assert lines["objective"].values[i] == data["outcome"]["objective"]
        assert lines["heat"].values[i] == data["outcome"]["numbers"]["heat"]
    first, second = lines["heat"].values
    assert float(lines["heat"].difference) == pytest.approx(second - first)
    for name in ("rate", "objective"):
        first, second = lines[name].values
        assert lines[name].difference == f"times {second / first:.4g}"
    assert lines["status"].difference == "" and not lines["status"].differs
    # A design has no prediction: there is nothing to subtract from.
    assert lines["objective expected"].values[0] is None
    assert lines["objective expected"].difference == "differs"


def test_the_command_and_python_show_the_same(session: dngo.Session, capsys) -> None:
    path = str(session.path)
    words = ["audit", path, "--proposal", "0-0", "--proposal", "1-1", "--proposal", "2-0"]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert text.split()[:3] == ["0-0", "1-1", "2-0"] and "difference" not in text
    frame = session.compare("0-0", "1-1", "2-0")
    assert set(frame.index) == {line.split("  ")[1] for line in text.splitlines()[1:]}
    assert frame.loc["message", "2-0"] == "it broke" and frame.loc["status", "2-0"] == "failed"
    assert list(session.compare("0-0", "1-1").columns) == ["0-0", "1-1", "difference"]
    assert main([*words, "--json"]) == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == ["0-0", "1-1", "2-0"]


def test_of_several_objectives_each_has_the_difference_of_its_scale(tmp_path: Path) -> None:
    several = {"error": {"direction": "minimize", "scale": "log"}, "speed": "maximize"}
    study = dngo.create("s", {"x": (0, 1)}, objectives=several, folder=tmp_path, batch_size=2)
    study.tell(study.ask(2), [{"error": 1.0, "speed": 1.0}, {"error": 4.0, "speed": 4.0}])
    study.table()
    lines = {line.name: line.difference for line in beside(study.path, ["0-0", "0-1"])}
    assert (lines["error"], lines["speed"]) == ("times 4", "+3")


def test_no_points_are_no_count_of_the_best(session: dngo.Session) -> None:
    with pytest.raises(UserError, match="count: must be 1 or more, not 0"):
        session.top(0)


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["0-0"], "name at least two points"),
        (["0-0", "0-0"], "0-0: is named twice"),
        (["0-0", "9-0"], "has no proposal 9-0"),
        (["0-0", "x"], "'x'"),
        (["0-0", 3], "3 is not the id of a point"),
    ],
)
def test_a_mistake_is_one_line(session: dngo.Session, ids: list[Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        beside(session.path, ids)
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_surprise_on_a_logarithmic_scale_is_that_of_the_logarithm(
    session: dngo.Session, capsys
) -> None:
    data = audit(session.path, "1-1")
    mean, std = data["proposed"]["mean"], data["proposed"]["std"]
    spread = math.sqrt(math.log1p((std / mean) ** 2))
    expected = (math.log(data["outcome"]["objective"]) - math.log(mean) + spread**2 / 2) / spread
    assert data["outcome"]["standardised_residual"] == pytest.approx(expected)
    assert main(["audit", str(session.path), "--proposal", "1-1"]) == 0
    line = next(s for s in capsys.readouterr().out.splitlines() if "Objective expected" in s)
    numbers = [float(n) for n in re.findall(r"[\d.e-]+\d", line.replace("(95 %)", ""))]
    low, high = numbers[1:]
    assert 0 < low < mean < high and "±" not in line
