"""Each objective, constraint and entry of an outcome is known, unknown or infinite by itself."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from entrances import (
    Said,
    as_report,
    config_in,
    exported,
    forked,
    function,
    import_csv,
    import_parquet,
    report,
    study_at,
    tell_dict,
    tell_file,
    tell_frame,
    tell_python,
    tell_set,
)
from toy import QUICK_STUDY as QUICK

import dngo
from dngo import archive, inward
from dngo.batch import Outcome
from dngo.cli import main
from dngo.config import load
from dngo.evaluation.document import judge_file
from dngo.exchange.fork import fork
from dngo.exchange.warm_start import warm_start
from dngo.storage.plain import MOST_BYTES
from dngo.study import Study

ONE = {"constraints": {"t": "<= 350", "u": ">= 0"}}
TWO = {"objectives": {"a": "minimize", "b": "maximize"}, "constraints": ["c"]}
GOOD = {"one": {"objective": 0.5, "t": 300.0, "u": 1.0}, "two": {"a": 1.0, "b": 2.0, "c": True}}
INF, NAN = math.inf, math.nan


def config_of(folder: Path, kind: str, **more: Any) -> Path:
    design = {"size": 4, "include_default": False}
    return config_in(
        folder, **{"design": design, **QUICK, **(ONE if kind == "one" else TWO), **more}
    )


def study_in(folder: Path, kind: str, **more: Any) -> Study:
    return study_at(config_of(folder, kind, **more))


FORMS = (("csv", "csv"), ("parquet", "parquet"), ("optuna", "db"))
TABLES = [tell_file, import_csv, forked, *(exported(*form) for form in FORMS)]
ENTRANCES = [report, function, tell_dict, tell_frame, tell_set, import_parquet, *TABLES]
# What changes of a good outcome, and the outcome: status, what is kept.
Case = tuple[Said, str, Said]
CASES: dict[str, dict[str, Case]] = {
    "one": {
        "beyond every bound": ({"t": INF}, "infeasible", {"objective": 0.5, "t": INF, "u": 1.0}),
        "below every bound": ({"t": -INF}, "ok", {"objective": 0.5, "t": -INF, "u": 1.0}),
        "above a lower bound": ({"u": INF}, "ok", {"objective": 0.5, "t": 300.0, "u": INF}),
        "unknown number": ({"t": NAN}, "invalid", {"objective": 0.5, "u": 1.0}),
        "unknown and broken": ({"t": NAN, "u": -1.0}, "infeasible", {"objective": 0.5, "u": -1.0}),
        "no number": ({"t": NAN, "u": NAN}, "invalid", {"objective": 0.5}),
        "no objective": ({"objective": NAN}, "invalid", {"t": 300.0, "u": 1.0}),
        "infinite objective": ({"objective": INF}, "invalid", {"t": 300.0, "u": 1.0}),
    },
    "two": {
        "one of two": ({"b": NAN}, "invalid", {"a": 1.0, "c": 1}),
        "the other": ({"a": INF}, "invalid", {"b": 2.0, "c": 1}),
        "one of two, broken": ({"b": NAN, "c": False}, "infeasible", {"a": 1.0, "c": 0}),
    },
}


def known(outcome: Outcome) -> Said:
    """All that an outcome knows, by name."""
    found: Said = {**outcome.constraints, **outcome.numbers, **outcome.objectives}
    if math.isfinite(outcome.objective):
        found["objective"] = outcome.objective
    return found


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("entrance", ENTRANCES, ids=lambda f: f.__name__)
def test_of_one_bad_part_the_rest_is_kept(tmp_path: Path, entrance: Any, kind: str) -> None:
    cases = dict(CASES[kind])
    if entrance is tell_frame:
        cases.pop("no objective", None)  # an empty cell: nobody measured it, and nothing says why
    if entrance in TABLES and "no objective" in cases:  # there a word says why
        _, status, kept = cases["no objective"]
        cases["no objective"] = ({"objective": NAN, "status": "invalid"}, status, kept)
    rows = [{**GOOD[kind], **changes} for changes, _, _ in cases.values()]
    if entrance in TABLES:  # where an empty cell is what is unknown
        rows = [{n: "" if v != v else v for n, v in row.items()} for row in rows]
    found = dict(zip(cases, entrance(config_of(tmp_path, kind), rows), strict=True))
    assert {name: (o.status, known(o)) for name, o in found.items()} == {
        name: (status, kept) for name, (_, status, kept) in cases.items()
    }
    for name, outcome in found.items():
        assert (outcome.status == "ok") == (outcome.message == "") or "status" in cases[name][0]


def test_a_report_keeps_what_can_be_meant(tmp_path: Path) -> None:
    config = config_of(tmp_path / "one", "one")
    for changes, kept in (
        ({"t": "hot"}, {"objective": 0.5, "u": 1.0}),
        ({"t": [1, 2]}, {"objective": 0.5, "u": 1.0}),
        ({"objective": "much"}, {"t": 300.0, "u": 1.0}),
    ):
        (outcome,) = function(config, [{**GOOD["one"], **changes}])
        assert outcome.status == "invalid" and known(outcome) == kept
        assert outcome.message.startswith("unreadable outcome: ")
    two = config_of(tmp_path / "two", "two")
    for more in ({}, {"b": "much"}, {"b": None}, {"bb": 2}):
        (outcome,) = function(two, [{"c": True, "objectives": {"a": 1.0, **more}}])
        assert outcome.status == "invalid" and known(outcome) == {"a": 1.0, "c": 1}


def test_large_metadata_leave_the_small_ones(tmp_path: Path) -> None:
    config = config_of(tmp_path, "one")
    large = {
        "epochs": 9,
        "log": "x" * (MOST_BYTES + 1),
        "inner": {"small": 1, "list": list(range(400_000))},
    }
    for entrance in (function, tell_python):
        (outcome,) = entrance(config, [{**GOOD["one"], "metadata": large}])
        assert outcome.status == "ok" and outcome.objective == 0.5
        found = outcome.metadata
        assert found["epochs"] == 9 and found["inner"]["small"] == 1
        assert found["log"].startswith("[left out: ") and len(json.dumps(found)) < MOST_BYTES
    place = tmp_path / "outcome.json"
    place.write_text(json.dumps({**as_report(load([config]), GOOD["one"]), "metadata": large}))
    verdict = judge_file(place, "", load([config]).reported)
    assert verdict.status == "ok" and verdict.fields["metadata"]["epochs"] == 9
    assert verdict.fields["metadata"]["log"].startswith("[left out: ")


# ---- what follows from such rows ----------------------------------------------------------------


def begun(folder: Path, kind: str, rows: list[Said]) -> Study:
    study = study_in(folder, kind)
    names = list(dict.fromkeys(n for row in rows for n in row))
    with open(folder / "rows.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, ["x", "y", *names])
        writer.writeheader()
        for i, row in enumerate(rows):
            point = {"x": (i + 0.5) / len(rows), "y": (i * 7 % len(rows)) / len(rows)}
            writer.writerow({**point, **{n: "" if v != v else v for n, v in row.items()}})
    warm_start(study, folder / "rows.csv")
    return study


def test_the_known_one_of_two_teaches_its_own_model(tmp_path: Path, capsys) -> None:
    rows = [{"a": float(i), "b": 10.0 - i, "c": True} for i in range(8)]
    rows += [{"a": -5.0, "b": NAN, "c": True}, {"a": NAN, "b": 50.0, "c": True}]
    study = begun(tmp_path, "two", rows)
    data = inward.training_data(archive.read_table(study.archive), study.config)
    assert np.isfinite(data.objectives["a"]).sum() == np.isfinite(data.objectives["b"]).sum() == 9
    assert np.nanmin(data.objectives["a"]) == -5.0 and np.nanmin(data.objectives["b"]) == -50.0
    assert data.ok.sum() == 8 and data.constraints["completed"].tolist() == [1.0] * 8 + [0.0] * 2
    # No front has a point that lacks an objective.
    assert main(["best", str(study.archive), "--json"]) == 0
    assert "50.0" not in (said := capsys.readouterr().out) and "-5.0" not in said
    assert dngo.open(tmp_path / "config.yaml").ask(
        4
    )  # the models are fitted, and a batch is chosen
    assert main(["report", str(tmp_path / "config.yaml")]) == 0
    assert main(["audit", "--all", "--json", str(study.archive)]) == 0


def test_an_unknown_constraint_hides_no_objective_and_no_point_is_feasible_by_it(
    tmp_path: Path, capsys
) -> None:
    rows = [{"objective": float(i), "t": 300.0 + 10 * i, "u": 1.0} for i in range(8)]
    rows += [
        {"objective": -3.0, "t": NAN, "u": 1.0},
        {"objective": -2.0, "t": INF, "u": 1.0},
        {"objective": 9.0, "t": -INF, "u": 1.0},
    ]
    study = begun(tmp_path, "one", rows)
    table = archive.read_table(study.archive, thresholds=study.config.thresholds)
    assert table.status.tolist()[-3:] == ["invalid", "infeasible", "ok"]
    data = inward.training_data(table, study.config)
    assert np.isfinite(data.y).all() and np.isfinite(data.numbers["t"]).sum() == 10
    assert data.numbers["t"][9] == 370.0 + 70.0 and data.numbers["t"][10] == 300.0 - 70.0
    assert main(["best", str(study.archive), "--json"]) == 0
    best = json.loads(capsys.readouterr().out)
    assert "-3" not in json.dumps(best) and "-2" not in json.dumps(best)
    assert dngo.open(tmp_path / "config.yaml").ask(4)
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path / "config.yaml"), "--html", str(page)]) == 0
    page = page.read_text()
    assert "Infinity" not in page and "NaN," not in page
    capsys.readouterr()
    for name in ("status", "verify"):
        assert main([name, str(tmp_path / "config.yaml")]) == 0, capsys.readouterr().err
    capsys.readouterr()
    assert main(["audit", "--all", "--json", str(study.archive)]) == 0
    assert "Infinity" not in capsys.readouterr().out
    for proposal in ("0-8", "0-9", "0-10"):
        assert main(["audit", "--proposal", proposal, str(study.archive)]) == 0


def test_a_changed_bound_makes_no_unknown_constraint_known(tmp_path: Path) -> None:
    study = begun(
        tmp_path, "one", [{"objective": float(i), "t": 300.0, "u": 1.0} for i in range(4)]
    )
    one = dngo.open(tmp_path / "config.yaml")
    (point,) = one.ask(1)
    one.tell(point, {"objective": -1.0, "constraints": {"t": NAN, "u": -1.0}})
    (point,) = one.ask(1)
    one.tell(point, {"objective": -2.0, "constraints": {"t": 400.0, "u": NAN}})
    one.ask(1)
    study = study_in(tmp_path, "one", constraints={"t": "<= 350", "u": ">= -5"})
    before = archive.read_table(study.archive)
    assert before.status.tolist()[4:] == ["infeasible", "infeasible"]
    now = archive.read_table(study.archive, thresholds=study.config.thresholds)
    assert now.status.tolist()[4:] == ["invalid", "infeasible"]
    # A fork that asks for the known one only knows the outcome as a whole.
    again = study_in(tmp_path, "one", study="again", constraints={"u": ">= -5"})
    fork(again, study.archive)
    assert archive.read_table(again.archive).status.tolist()[4:] == ["ok", "invalid"]
