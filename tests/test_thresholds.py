"""Thresholds: constraints whose numbers are known, from the report to the model and back."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proposing import QUICK_CLASSIFIER, SMALL, points, propose
from scipy.stats import norm
from scipy.stats import t as student
from toy import QUICK_STUDY, Toy, advance

from dngo import create
from dngo.acquisition import History, Picks, propose_batch
from dngo.acquisition.standing import LOCAL
from dngo.archive import read_header, read_table, verify
from dngo.archive.reading import Table
from dngo.audit import audit, page
from dngo.cli import main
from dngo.config import load, validate
from dngo.errors import UserError
from dngo.report.data import View
from dngo.report.figures.points import thresholds
from dngo.rules import current
from dngo.scores import expected_constraints
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.study import Study
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.model import normal_quantile
from dngo.surrogates.settings import SurrogateSettings
from dngo.thresholds import Threshold

HOT = {"temperature": Threshold("<=", 350.0), "stable": None}
PROCESS = SurrogateSettings(kind="gp", hyperparameter_samples=3)
SQUARE = Space({name: Float(type="float", low=0, high=1) for name in ("x", "y")})


# ---- what is said, and what is reported ---------------------------------------------------------


def document(constraints) -> dict:
    return {
        "study": "s",
        "objective": {"command": "true"},
        "space": {"x": {"type": "boolean"}},
        "constraints": constraints,
    }


def test_names_and_bounds_are_given_as_a_list_or_a_mapping() -> None:
    listed = validate(document(["stable", {"temperature": "<=350"}]))
    mapped = validate(document({"stable": True, "temperature": "<= 350.0"}))
    assert listed.resolved() == mapped.resolved()
    assert mapped.reported == HOT
    assert validate(json.loads(mapped.resolved())) == mapped
    # What the numbers are compared with is no part of what the study is; that they are numbers is.
    other = validate(document({"stable": True, "temperature": ">= 2"}))
    assert other.identity() == mapped.identity()
    assert validate(document(["stable", "temperature"])).identity() != mapped.identity()


def test_rows_are_judged_by_the_thresholds_of_today() -> None:
    number = np.array([1.0, 2.0, 3.0, np.nan, 2.0])
    nothing = np.zeros(5)
    table = Table(
        iteration=nothing,
        slot=nothing,
        v=nothing[:, None],
        x=nothing[:, None],
        status=np.array(["ok", "infeasible", "infeasible", "failed", "infeasible"]),
        objective=np.array([0.0, 0.0, 0.0, np.nan, np.nan]),
        noise=nothing,
        duration=nothing,
        constraints={"n": np.array([1.0, 0, 0, np.nan, 0]), "flag": np.array([1.0, 1, 0, 1, 1])},
        numbers={"n": number},
        told=np.zeros(5, dtype=bool),
        stage=np.full(5, ""),
    )
    loose = table.judged({"n": Threshold("<=", 2.0)})
    assert loose.status.tolist() == ["ok", "ok", "infeasible", "failed", "invalid"]
    np.testing.assert_array_equal(loose.constraints["n"], [1, 1, 0, np.nan, 1])
    tight = table.judged({"n": Threshold(">=", 1.5)})
    assert tight.status.tolist() == ["infeasible", "ok", "infeasible", "failed", "invalid"]
    np.testing.assert_array_equal(tight.constraints["flag"], table.constraints["flag"])


# ---- the model ----------------------------------------------------------------------------------


def fitted(v: np.ndarray, number: np.ndarray, threshold: Threshold, y=None) -> Model:
    held = np.where(np.isnan(number), np.nan, threshold.keeps(number))
    data = TrainingData(
        x=SQUARE.encode(v),
        y=np.where(held == 1, number if y is None else y, np.nan),
        constraints={"completed": np.isfinite(number).astype(float), "n": held},
        numbers={"n": number},
        thresholds={"n": threshold},
    )
    return fit_model(data, PROCESS, QUICK_CLASSIFIER, rng=np.random.default_rng(0))


@pytest.mark.parametrize("relation", ["<=", ">="])
def test_the_probability_is_that_of_the_number(relation: str) -> None:
    """An average over normals, on whichever scale: where nothing is bent it is that of `normal`."""
    v = points(SQUARE, 24)
    number = 10.0 * v[:, 0] + v[:, 1] ** 2
    number[::5] = np.nan  # crashed: for the classifier of what completes
    model = fitted(v, number, Threshold(relation, 6.0))
    belief = model.classifiers["n"]
    x = SQUARE.encode(points(SQUARE, 64, seed=1))
    mean, std = belief.predict(x)
    truth = 10.0 * x[:, 0] + x[:, 1] ** 2
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.5
    p = belief.probability(x)
    held = Threshold(relation, 6.0).keeps(truth)
    assert np.mean((p - held) ** 2) < 0.05
    np.testing.assert_allclose(np.exp(belief.log_within(x, 6.0)), p)
    sign = 1.0 if relation == "<=" else -1.0
    assert np.max(np.abs(p - norm.cdf(sign * (6.0 - mean) / std))) < 0.25
    assert np.any(model.feasibility(x) < p)


def test_a_bound_that_nothing_meets_is_steered_towards() -> None:
    """Numbers say where the bound is nearer; the flags of such a study are all the same.

    The bound lies so far off that its probability is no number at all points.
    """
    v = points(SQUARE, 12)
    number = np.hypot(v[:, 0] - 0.97, v[:, 1] - 0.95)
    assert number.min() > 0.1
    model = fitted(v, number, Threshold("<=", 0.02))
    assert not model.objective
    nothing = np.full(len(v), np.nan)
    picked = propose(SQUARE, v, nothing, 3, settings=SMALL, model=model).v
    assert np.hypot(picked[:, 0] - 0.97, picked[:, 1] - 0.95).min() < 0.5 * number.min()
    far = replace(model.classifiers["n"], threshold=Threshold("<=", -1e6))
    far_model = replace(model, classifiers={**model.classifiers, "n": far})
    assert far_model.feasibility(SQUARE.encode(v)).max() < 1e-20  # Student's odds, of 12 points
    picked = propose(SQUARE, v, nothing, 1, settings=SMALL, model=far_model).v
    assert np.isfinite(picked).all()


def batch_of(model: Model, v: np.ndarray, number: np.ndarray, bound: float, stage="") -> Picks:
    held = np.where(np.isnan(number), np.nan, number <= bound)
    y, stages = np.where(held == 1, number, np.nan), np.full(len(v), stage)
    history = History(v, y, constraints={"n": held}, stage=stages)
    rng = np.random.default_rng(1)
    return propose_batch(model, SQUARE, history, size=8, settings=SMALL, rng=rng)


def test_where_the_models_led_nowhere_half_of_the_picks_are_where_least_is_violated() -> None:
    """Neighbours violate as little as a point."""
    v = points(SQUARE, 12)
    number = np.hypot(v[:, 0] - 0.97, v[:, 1] - 0.95)
    nearest = int(np.argmin(number))
    number[(nearest + 1) % 12] = np.nan  # it crashed, and is no centre
    model, name = fitted(v, number, Threshold("<=", 0.02)), "first_feasible"
    hopeful = replace(model.classifiers["n"], threshold=Threshold("<=", 0.5))
    believed = replace(model, classifiers={**model.classifiers, "n": hopeful})
    assert not any(s.startswith(LOCAL) for s in batch_of(believed, v, number, 0.02).source)
    found = batch_of(model, v, number, 0.02, name)
    assert set(found.stage) == {"first_feasible"}
    near = np.array([source.startswith(LOCAL) for source in found.source])
    assert near.sum() == 4
    assert np.abs(found.v[near] - v[nearest]).max() <= current().regions.largest
    assert len(np.unique(found.v, axis=0)) == 8
    flags = np.isnan(number).astype(float)  # crashes alone say nothing of where less is violated
    crashed = replace(model, classifiers={"completed": model.classifiers["completed"]})
    assert not any(s.startswith(LOCAL) for s in batch_of(crashed, v, flags, -1.0, name).source)


def test_a_number_that_never_changes_teaches_nothing_of_where() -> None:
    """In earlier releases, a simulator that always reported 100 hid everything that its crashes had
    taught."""
    v = points(SQUARE, 40)
    ran = v[:, 0] < 0.6
    seen = {"n": np.where(ran, v[:, 1], np.nan), "same": np.where(ran, 100.0, np.nan)}
    data = TrainingData(
        x=SQUARE.encode(v),
        y=np.where(ran, v[:, 1], np.nan),
        feasible=np.zeros(len(v), dtype=bool),
        constraints={
            "completed": ran.astype(float),
            "n": np.where(ran, seen["n"] <= 0.2, np.nan),
            "same": np.where(ran, 0.0, np.nan),
        },
        numbers=seen,
        thresholds={"n": Threshold("<=", 0.2), "same": Threshold("<=", 0.0)},
    )
    model = fit_model(data, PROCESS, QUICK_CLASSIFIER, rng=np.random.default_rng(0))
    same = model.classifiers["same"].log_progress(SQUARE.encode(points(SQUARE, 64, seed=1)))
    assert np.ptp(same) == 0 and same[0] > np.log(1 / 100)
    nothing = np.full(len(v), np.nan)
    picked = propose(SQUARE, v, nothing, 8, settings=SMALL, model=model).v
    assert np.mean(picked[:, 0] < 0.6) >= 0.75


@given(st.floats(-1e6, 1e6), st.integers(1, 200))
def test_students_odds_are_those_of_a_normal_quantile(t: float, degrees: int) -> None:
    z = normal_quantile(np.array([t, t + 1.0]), degrees)
    assert z[0] <= z[1]
    expected = student.logcdf(t, degrees)
    if degrees >= 3 and abs(t) < 30:
        np.testing.assert_allclose(norm.logcdf(z[0]), expected, rtol=0.06, atol=0.01)


def test_the_objective_is_learnt_where_a_constraint_is_broken() -> None:
    v = points(SQUARE, 24)
    y, held = v[:, 0] + v[:, 1], v[:, 0] < 0.2
    both = [
        TrainingData(
            x=SQUARE.encode(v),
            y=seen,
            feasible=held,
            constraints={"completed": np.ones(len(v)), "n": held.astype(float)},
        )
        for seen in (y, np.where(held, y, np.nan))
    ]
    new = SQUARE.encode(points(SQUARE, 64, seed=1))
    truth = new.sum(axis=1)
    missed = []
    for data in both:
        model = fit_model(data, PROCESS, QUICK_CLASSIFIER, rng=np.random.default_rng(0))
        assert model.diagnostics["ok"] == held.sum()
        missed.append(np.abs(model.predict(new)[0] - truth).mean())
    assert missed[0] < 0.2 * missed[1]


# ---- a study ------------------------------------------------------------------------------------

OBJECTIVE = """
import json, sys
p = json.load(sys.stdin)
if p["x"] > 0.9:
    sys.exit("this corner does not work")
print(json.dumps({"objective": (p["x"] - 0.8) ** 2 + (p["y"] - 0.8) ** 2,
                  "constraints": {"heat": 300 + 100 * (p["x"] + p["y"]), "small": p["y"] < 0.9}}))
"""
CONSTRAINTS = "[small, {heat: '<= 420'}]"


class Heated(Toy):
    """The toy study's machinery around an objective with a number, a flag and a corner that fails."""

    def configure(self, *, iterations: int, batch_size: int, extra: str = "") -> None:
        super().configure(iterations=iterations, batch_size=batch_size)
        (self.folder / "objective.py").write_text(OBJECTIVE)
        path = self.folder / "config.yaml"
        text = path.read_text().replace("[small]", extra or CONSTRAINTS)
        text = re.sub(
            "^surrogate: .*", "surrogate: {kind: gp, hyperparameter_samples: 2}", text, flags=re.M
        )
        path.write_text(text)

    def run(self, *iterations: int) -> None:
        study = Study(
            load([self.folder / "config.yaml"], {"results": str(self.folder / "results")})
        )
        for t in iterations:
            advance(study, t)


def bounds_in_turn(folder: Path, *given: tuple[str, int], **how: Any) -> Path:
    """The archive of a study whose bound is another one from so many evaluations on."""

    def f(x: float) -> dict[str, float]:
        return {"objective": x, "heat": x}

    for bound, evaluations in given:
        more: Any = {"constraints": {"heat": bound}, "batch_size": 4, "folder": folder, **how}
        study = create("s", {"x": (0, 1)}, **more)
        study.optimize(f, evaluations, workers=0, progress=False)
    return study.path


def test_an_audit_counts_by_the_bound_of_its_batch(tmp_path: Path) -> None:
    path = bounds_in_turn(tmp_path, ("<= -1", 4), ("<= 2", 8), acquisition="random")
    found = audit(path, "1-0")
    assert found["proposed"]["training_ok"] == 4
    assert {point["status"] for point in found["nearest_before"]} == {"ok"}
    found["outcome"]["standardised_residual"] = 0.5
    assert "\n  Surprise                +0.50 standard" in page(found)


def test_a_prediction_is_judged_by_the_bound_that_it_was_made_for(tmp_path: Path) -> None:
    path = bounds_in_turn(tmp_path, ("<= 2", 8), ("<= -1", 12), design={"size": 4}, **QUICK_STUDY)
    view = View.of(path)
    one = expected_constraints(path, view.table)["heat"]
    assert not view.ok.any() and one.brier < 0.01
    # A prediction below 0 of a number that never is: its interval ends there, as the caption says.
    vars(view)["expected_constraints"] = {"heat": replace(one, mean=one.mean - 9.0)}
    figure = thresholds(view)
    assert figure is not None and "or at a prediction below 0" in figure.caption
    assert not figure.plot.data[0].error_x.arrayminus.any()


@pytest.mark.full
def test_a_study_with_a_threshold_that_is_tightened(tmp_path: Path, capsys) -> None:
    study = Heated(tmp_path / "toy", iterations=1, batch_size=3, sleep=0)
    study.run(0, 1)
    table = read_table(study.archive)
    ran = np.isin(table.status, ("ok", "infeasible"))
    np.testing.assert_allclose(table.numbers["heat"][ran], 300 + 100 * table.v.sum(axis=1)[ran])
    assert np.isnan(table.numbers["heat"][~ran]).all()
    assert verify(study.archive) == []
    header = read_header(study.archive)
    assert header is not None and header.identity["thresholds"] == ["heat"]
    # A threshold may change; nothing is evaluated again for it, and the flags of old rows follow.
    study.configure(iterations=2, batch_size=3, extra="[small, {heat: '<= 400'}]")
    study.run(2)
    assert len(read_table(study.archive)) == 14
    assert main(["replay", str(study.archive)]) == 0
    assert "different" not in capsys.readouterr().out
    config, results = str(study.folder / "config.yaml"), str(study.folder / "results")
    status = json.loads(_printed(capsys, ["status", config, "--results", results, "--json"]))
    best = status["best"]["parameters"]
    assert 0.9 < sum(best.values()) <= 1.0
    page = _printed(capsys, ["audit", str(study.archive), "--proposal", "2-0"])
    assert "must be <= 400: " in page and "; expected " in page and "with probability" in page
    # A number becoming a flag is another study.
    study.configure(iterations=2, batch_size=3, extra="[small, heat]")
    with pytest.raises(UserError, match="whether a constraint is a number"):
        archive_of(study, results)
    _exchanged(study, tmp_path, capsys)
    with h5py.File(study.archive, "r+") as file:
        file["outcomes/numbers/heat"][3] += 1e-9
    assert "iteration 0 (rows 0 to 7)" in verify(study.archive)[0]


def archive_of(study: Heated, results: str) -> None:
    config = load([study.folder / "config.yaml"], {"results": results})
    Study(config).plan()


def _exchanged(study: Heated, folder: Path, capsys) -> None:
    """What is exported has the numbers, and what is imported has them again."""
    out = folder / "rows.csv"
    assert main(["export", str(study.archive), "--format", "csv", "--output", str(out)]) == 0
    rows = list(csv.DictReader(out.open()))
    old = read_table(study.archive)
    told = [float(row["number_heat"] or "nan") for row in rows]
    np.testing.assert_array_equal(told, old.numbers["heat"])
    study.configure(iterations=2, batch_size=3, extra="[small, {heat: '<= 380'}]")
    config = study.folder / "config.yaml"
    config.write_text(config.read_text().replace("study: toy", "study: again"))
    # Each row was judged by its threshold then, and is by its number now, whatever its status was.
    assert main(["import", str(out), "--config", str(config), "--results", str(folder / "r")]) == 0
    new = read_table(folder / "r" / "again" / "archive.h5")
    np.testing.assert_array_equal(new.numbers["heat"], old.numbers["heat"])
    broken = new.constraints["heat"] == 0
    assert np.array_equal(broken, old.numbers["heat"] > 380)
    assert set(new.status[broken]) == {"infeasible"} and set(old.status[broken]) > {"infeasible"}
    assert np.array_equal(new.status == "failed", old.status == "failed")


def _printed(capsys, command: list[str]) -> str:
    capsys.readouterr()
    assert main(command) == 0
    return capsys.readouterr().out


def test_no_number_drowns_the_others_before_the_first_feasible_point() -> None:
    """A point must come nearer than the nearest one, in units of each number's spread."""
    spread = np.array([1.0, 2.0, 3.0, 4.0])
    numbers = {"a": spread[::-1].copy(), "b": 1e9 * np.array([3.0, 1.0, 1.1, 4.0])}
    bounds = {"a": Threshold("<=", 2.5), "b": Threshold("<=", 0.0)}
    data = TrainingData(np.zeros((4, 1)), np.full(4, np.nan), numbers=numbers, thresholds=bounds)
    assert data.levels() == {"a": 2.5, "b": 1.1e9}
    found = replace(data, feasible=np.array([True, False, False, False])).levels()
    assert found == {}
