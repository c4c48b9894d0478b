"""A positive objective over decades: its logarithm is modelled, so gains and intervals are
factors."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import QUICK_STUDY

import dngo
from dngo.cli import main
from dngo.errors import UserError
from dngo.evaluation.document import judge
from dngo.outcomes import judge as judge_said
from dngo.replay import replay
from dngo.report.expected_gain import expected_gain
from dngo.report.live import promised
from dngo.thresholds import Reported
from dngo.units import Units

pytestmark = pytest.mark.usefixtures("here")

SPACE = {"x": (0, 1), "y": (0, 1)}
LOG: dict[str, Any] = {"objective": {"scale": "log"}}


def decades(x: float, y: float) -> float:
    return math.exp(20 * (x - 0.3) ** 2 + 5 * y)


def test_its_picks_are_those_of_the_logarithm() -> None:
    given: dict[str, Any] = {**QUICK_STUDY, "direction": "maximize"}
    asked = []
    for name, more in (("log", LOG), ("linear", {})):
        session = dngo.create(name, SPACE, **given, **more)
        found = []
        for n in (10, 3):
            points = session.ask(n)
            values = [decades(**p.parameters) for p in points]
            session.tell(points, values if more else np.log(values))
            found += [p.parameters for p in points]
        asked.append(found)
    assert asked[0] == asked[1]


def test_what_is_expected_is_above_zero_and_gains_are_factors(capsys) -> None:
    study = dngo.create("decades", SPACE, **QUICK_STUDY, **LOG)
    for n in (8, 4, 1):
        study.tell(points := study.ask(n), [decades(**p.parameters) for p in points])
    study.table()
    at = [{"x": x, "y": y} for x in (0.0, 0.3, 1.0) for y in (0.0, 0.5, 1.0)]
    found = study.predict(at)
    assert (found["low"] > 0).all() and (found["low"] < found["mean"]).all()
    assert (found["mean"] < found["high"]).all()
    table = study.table()
    known = table[table["mean"].notna()]
    assert len(known) == 5 and (known["mean"] > 0).all() and (known["std"] > 0).all()
    said = expected_gain(study._engine)
    assert said["scale"] == "log" and said["record"]["expected"] >= 1 <= said["record"]["gained"]
    assert "a factor of" in study.report() and study.best().interval[0] > 0
    assert main(["best", "dngo-studies/decades"]) == 0 and "(95 %)" in capsys.readouterr().out
    assert replay(study.path, 2).verdict == "identical"


def test_a_promise_is_never_more_than_there_is() -> None:
    units, some = Units(1.0, True), np.ones(1)
    mean, std = units.outward(np.array([-3.0]), np.array([6.0]))
    assert 0 < promised(units, 0.005, mean, std, some) < 0.005
    assert promised(Units(1.0), 0.005, mean, std, some) > 0.005


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("log", [True, False])
def test_moments_lead_back_to_what_the_model_sees(sign: float, log: bool) -> None:
    units = Units(sign, log)
    mean, std = np.array([-2.0, 0.0, 3.0, -40.0]), np.array([0.1, 1.0, 5.0, 1e-3])
    there = units.outward(mean, std)
    np.testing.assert_allclose(units.moments(*there), (mean, std), rtol=1e-6, atol=1e-9)
    low, high = units.interval(*there, 2.0)
    ends = np.sort([units.inward(low), units.inward(high)], axis=0)
    np.testing.assert_allclose(ends, [mean - 2 * std, mean + 2 * std], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(
        np.isnan(units.inward(np.array([0.0, -1.0, np.nan]))), [log, log, 1]
    )


def test_what_is_not_above_zero_is_invalid_at_every_entrance() -> None:
    study = dngo.create("decades", SPACE, acquisition="random", **LOG)
    wanted = Reported({"small": None}, (), ["objective"])
    for value in (0, -3):
        said = {"objective": value, "constraints": {"small": True}}
        for verdict in (judge(json.dumps(said).encode(), "", wanted), judge_said(said, wanted)):
            assert verdict.status == "invalid" and math.isnan(verdict.fields["objective"])
            assert "objective.scale is log: it must be above 0" in verdict.message
        with pytest.raises(UserError, match="its status is ok, but the objective is not a number"):
            study.tell({"x": 0.77, "y": 0.77, "objective": value, "status": "ok"})
    (point,) = study.ask(1)
    study.tell(point, -3)
    Path("more.csv").write_text("x,y,objective\n0.111,0.222,0\n0.333,0.444,2.5\n")
    study.write_config("decades.yaml", objective="objective:f")
    assert main(["tell", "more.csv", "--config", "decades.yaml"]) == 0
    study.tell(study.ask(1), 3.0)
    table = study.table()
    wrong = table[table["message"].str.contains("above 0")]
    assert list(wrong["status"]) == ["invalid"] * 2 and (table["status"] == "ok").sum() == 2


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"objectives": {"a": "minimize", "b": "minimize"}},
            "each of `objectives` has its own scale",
        ),
        ({"stop": {"distance": 0.1}}, "stop.distance: is in the objective's units"),
        ({"stop": {"expected_improvement": 0.1}}, "a gain is a factor"),
    ],
)
def test_what_it_does_not_go_with_is_refused(more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        dngo.create("mine", SPACE, **LOG, **more)


def test_it_may_be_chosen_once_the_study_is_there() -> None:
    session = dngo.create("mine", SPACE, **QUICK_STUDY)
    points = session.ask(8)
    session.tell(points, [decades(**p.parameters) - 10 for p in points])
    assert (session.table()["objective"] <= 0).any()
    (point,) = session.ask(1)
    session.tell(point, 1.0)
    later = dngo.create("mine", SPACE, **QUICK_STUDY, **LOG)
    (point,) = later.ask(1)
    later.tell(point, 1.0)
    assert later.predict({"x": 0.5, "y": 0.5})["low"][0] > 0
    assert [replay(later.path, t).verdict for t in (1, 2)] == ["identical"] * 2
    assert "scale" not in json.dumps(session._engine.batch(1).config["objective"])
