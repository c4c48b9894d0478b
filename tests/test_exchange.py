"""Other programs' formats: exports are complete, and imported points are never evaluated again."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from toy import Toy, advance, planned

from dngo import archive, derive
from dngo.batch import STATUSES, Outcome
from dngo.cli import main
from dngo.config import load
from dngo.space.distributions import as_told
from dngo.storage.digest import digest_parameters
from dngo.study import Study, best_row

SPACE = {
    "rate": {"type": "float", "low": 1e-5, "high": 1, "log": True},
    "dropout": {"type": "float", "low": 0, "high": 0.7, "step": 0.1},
    "width": {"type": "int", "low": 8, "high": 500, "log": True},
    "depth": {"type": "int", "low": 1, "high": 9, "step": 2},
    "block": {"type": "int", "values": [16, 32, 128]},
    "kind": {"type": "categorical", "choices": ["adam", "sgd, plain"]},
    "mixed": {"type": "categorical", "choices": ["none", 1, 2.5, True]},
    "grade": {"type": "ordinal", "values": [1, 2, 5]},
    "warm": {"type": "boolean"},
    "momentum": {"type": "float", "low": 0, "high": 1, "active_if": {"kind": "sgd, plain"}},
    "constant": {"type": "fixed", "value": "here"},
}
FORMS = {"csv": "csv", "parquet": "parquet", "sqlite.db": "optuna", "journal.log": "optuna"}


def study_in(folder: Path, direction: str = "minimize", **changes: Any) -> Study:
    document = {
        "study": "made",
        "objective": {"command": "true", "direction": direction},
        "space": SPACE,
        "constraints": ["small", "quiet"],
        "design": {"size": 28},
        **changes,
    }
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return Study(load([folder / "config.yaml"], {"results": str(folder / "results")}))


def begin(study: Study, change: Callable[[Outcome], Outcome] = lambda outcome: outcome) -> Path:
    """An archive with a design and outcomes of every kind, nothing of it evaluated."""
    rng = np.random.default_rng(3)
    proposals = derive.design(study.config)
    outcomes = []
    for i, p in enumerate(proposals):
        status = STATUSES[i % len(STATUSES)] if i % 2 else "ok"
        ran = status in ("ok", "infeasible")
        outcomes.append(
            Outcome(
                iteration=0,
                slot=p.slot,
                parameters_digest=digest_parameters(p.parameters),
                status=status,
                objective=float(rng.normal()) if ran else math.nan,
                constraints={"small": int(status == "ok"), "quiet": 1} if ran else {},
                noise=0.1 if i % 3 == 0 else math.nan,
                duration=float(rng.exponential()),
                host="n1",
                started=1.7e9 + i,
                finished=1.7e9 + i + 0.25,
                message="" if ran else 'it said "no",\nand left',
                metadata={"epochs": i},
            )
        )
    batch = study.record(0, derive.DESIGN, proposals)
    archive.append(
        study.archive,
        identity=study.config.identity(),
        batch=batch,
        outcomes=[change(outcome) for outcome in outcomes],
        surrogate=None,
    )
    return study.archive


def export(path: Path, output: Path, form: str, *more: str) -> None:
    words = ["export", str(path), "--format", form, "--output", str(output), *more]
    assert main(words) == 0


def entities(crate: Path) -> dict[str, Any]:
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())["@graph"]
    assert len({e["@id"] for e in graph}) == len(graph)
    return {e["@id"]: e for e in graph}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return begin(study_in(tmp_path_factory.mktemp("made")))


# ---- out ----------------------------------------------------------------------------------------


def test_parquet_has_types(made: Path, tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    export(made, tmp_path / "t.parquet", "parquet")
    table = parquet.read_table(tmp_path / "t.parquet")
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["parameter_width"] == kinds["slot"] == "int64"
    assert kinds["parameter_rate"] == kinds["objective"] == "double"
    assert kinds["parameter_warm"] == kinds["constraint_small"] == "bool"
    assert kinds["parameter_mixed"] == kinds["status"] == "string"
    assert kinds["started"] == "timestamp[us, tz=UTC]"
    assert table["objective"].null_count == int(np.isnan(archive.read_table(made).objective).sum())
    assert table["started"][0].as_py().timestamp() == 1.7e9


@pytest.mark.parametrize(
    ("direction", "name"), [("minimize", "study.db"), ("maximize", "study.log")]
)
def test_optuna_opens_it(tmp_path: Path, direction: str, name: str) -> None:
    import optuna

    study = study_in(tmp_path, direction)
    path = begin(study)
    output = tmp_path / name
    export(path, output, "optuna")
    if name.endswith(".db"):
        storage = f"sqlite:///{output}"
    else:
        backend = optuna.storages.journal.JournalFileBackend(str(output))
        storage = optuna.storages.JournalStorage(backend)
    (found,) = optuna.study.get_all_study_summaries(storage)
    loaded = optuna.load_study(study_name=found.study_name, storage=storage)
    table = archive.read_table(path)
    best = best_row(table, direction)
    assert best is not None
    assert loaded.study_name == "made" and loaded.direction.name.lower() == direction
    assert loaded.best_value == table.objective[best]
    assert loaded.best_trial.user_attrs["id"] == f"0-{best}"
    (point,) = study.space.to_parameters(table.v[best : best + 1])
    kinds = loaded.best_trial.distributions
    assert loaded.best_trial.params == {n: as_told(kinds[n], point[n]) for n in point}
    for trial, status in zip(loaded.trials, table.status, strict=True):
        assert trial.user_attrs["status"] == status
        assert (trial.state.name == "COMPLETE") == (status in ("ok", "infeasible"))
        if trial.state.name == "COMPLETE":
            assert all(c <= 0 for c in trial.constraints.values()) == (status == "ok")
        assert ("momentum" in trial.params) == (trial.params["kind"] != "adam")
        assert trial.datetime_complete.timestamp() == 1.7e9 + trial.number + 0.25
        assert trial.duration.total_seconds() == 0.25
    assert loaded.trials[0].distributions["rate"].log
    assert loaded.trials[0].distributions["depth"].step == 2


# ---- in -----------------------------------------------------------------------------------------


def start(study: Study, file: Path, *more: str) -> int:
    words = ["import", str(file), "--config", str(study.folder.parents[1] / "config.yaml")]
    return main([*words, "--results", study.config.results, *more])


@pytest.mark.parametrize("name", FORMS)
def test_a_study_comes_back_from_every_format(made: Path, tmp_path: Path, name: str) -> None:
    file = tmp_path / f"old.{name}"
    export(made, file, FORMS[name])
    assert name != "csv" or "nan" not in file.read_text().lower()
    study = study_in(tmp_path / "new")
    assert start(study, file) == 0
    old, new = archive.read_table(made), archive.read_table(study.archive)
    assert study.space.keys(old.v) == study.space.keys(new.v)
    for column in ("x", "objective", "noise", "duration"):
        assert getattr(old, column).tobytes() == getattr(new, column).tobytes(), column
    assert list(old.status) == list(new.status)
    for constraint, flags in old.constraints.items():
        assert flags.tobytes() == new.constraints[constraint].tobytes()
    assert archive.verify(study.archive) == []
    batch = archive.read_batch(study.archive, 0, study.space)
    record = batch.environment["import"]
    assert {p.source for p in batch.proposals} == {"imported"}
    assert record["file"] == file.name and record["format"] == FORMS[name]
    assert len(record["sha256"]) == 64 and record["skipped"] == 0
    outcome = archive.read_outcomes(study.archive, batch)[3]
    assert outcome.finished == 1.7e9 + 3.25
    assert outcome.metadata["imported_from"].startswith(file.name)


TABLE = """\
rate,dropout,width,depth,block,kind,mixed,grade,warm,momentum,objective,small
0.01,0.30000000000000004,64,3,32,adam,none,2,TRUE,,0.5,true
0.02,0,8,1,16,"sgd, plain",1,1,false,0.9,0.25,1
0.03,0,8,1,16,adam,true,1,false,0.9,nan,1
0.03,0.1,8,1,16,adam,2.5,5,false,,0.7,0
"""
WRONG = """\
7,0,8,1,16,adam,none,1,false,,1,1
0.1,0.25,8,1,16,adam,none,1,false,,1,1
0.1,0,8,1,16,adam,none,3,false,,1,1
0.1,0,8,2,16,adam,none,1,false,,1,1
0.1,0,8,1,16,"sgd, plain",none,1,false,,1,1
0.1,0,8,1,16,adam,none,1,false,,much,1
0.1,0,8,1,16,adam,none,1,false,,1,perhaps
"""


def test_rows_outside_the_space_are_named_and_skipped_on_demand(tmp_path: Path, capsys) -> None:
    study = study_in(tmp_path, constraints=["small"])
    (tmp_path / "wrong.csv").write_text(TABLE + WRONG)
    assert start(study, tmp_path / "wrong.csv") == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5 and "7 such rows in all, --skip-invalid" in lines[-1]
    assert "wrong.csv: line 6: rate: 7 is outside 1e-05 to 1" in lines[0]
    assert "line 7: dropout: 0.25 is not on the grid" in lines[1]
    assert "line 8: grade: '3' is not one of [1, 2, 5]" in lines[2]
    assert "line 9: depth: 2 is not on the grid" in lines[3]
    assert "line 10: momentum has no value" in lines[4]
    assert not study.archive.exists()
    assert start(study, tmp_path / "wrong.csv", "--skip-invalid") == 0
    output = capsys.readouterr()
    assert "line 11: left out: objective: 'much' is not a number" in output.err
    assert "2 ok, 1 invalid, 1 infeasible" in output.out
    record = archive.read_batch(study.archive, 0, study.space).environment["import"]
    assert [r["row"] for r in record["skipped_first"]] == [f"line {i}" for i in range(6, 13)]


def test_mistakes_are_one_line(made: Path, tmp_path: Path, capsys) -> None:
    import optuna

    study = study_in(tmp_path)
    good = tmp_path / "good.csv"
    export(made, good, "csv")
    text = good.read_text()
    sources: dict[str, tuple[str, str | bytes | None]] = {
        "No such file": ("none.csv", None),
        "no evaluation to start from": ("empty.csv", "rate,objective\n"),
        "no column 'objective'": ("objective.csv", text.replace("objective", "loss", 1)),
        "no column for the parameters rate": ("r.csv", text.replace("parameter_rate", "r", 1)),
        "cannot be read as Parquet": ("broken.parquet", b"PAR1 and then nothing"),
        "cannot be read as an Optuna study": ("broken.db", b"SQLite format 3\0 and then nothing"),
        "has the directions maximize": ("up.db", None),
        "choose with --study from: a, b": ("two.db", None),
    }
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name, study_name, direction in (
        ("up.db", "a", "maximize"),
        ("two.db", "a", "minimize"),
        ("two.db", "b", "minimize"),
    ):
        storage = f"sqlite:///{tmp_path / name}"
        optuna.create_study(storage=storage, study_name=study_name, direction=direction)
    for expected, (name, content) in sources.items():
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content if isinstance(content, bytes) else content.encode())
        assert start(study, file) == 1, expected
        (line,) = capsys.readouterr().err.splitlines()
        assert expected in line and not study.archive.exists()
    assert start(study, good) == 0
    assert start(study, good) == 1
    assert "is there already" in capsys.readouterr().err


def test_what_optuna_found_itself(tmp_path: Path, capsys) -> None:
    """A study that Optuna ran, with a list of unnamed constraints and trials that did not end."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space = {"x": {"type": "float", "low": 0, "high": 1}, "n": {"type": "int", "low": 1, "high": 5}}
    study = study_in(tmp_path, "maximize", space=space, constraints=["small"])
    theirs = optuna.create_study(
        storage=f"sqlite:///{tmp_path / 'theirs.db'}", study_name="theirs", direction="maximize"
    )

    def objective(trial: Any) -> float:
        x, n = trial.suggest_float("x", 0, 1), trial.suggest_int("n", 1, 5)
        trial.set_user_attr("epochs", 7)
        if trial.number == 2:
            raise optuna.TrialPruned
        if trial.number == 4:
            raise RuntimeError
        # As samplers keep what their constraints_func returns.
        trial.storage.set_trial_system_attr(trial._trial_id, "constraints", [x - 0.5])
        return x * n

    theirs.optimize(objective, n_trials=12, catch=(RuntimeError,))
    theirs.enqueue_trial({"x": 0.5, "n": 1})
    assert start(study, tmp_path / "theirs.db") == 0
    said = capsys.readouterr()
    assert "trial 2: left out: was pruned, and has no objective of its own" in said.err
    assert "trial 12: left out: waits, and has not begun" in said.err and "; 2 left out" in said.out
    table = archive.read_table(study.archive)
    assert len(table) == 11  # neither the pruned one nor the one that waits
    record = archive.read_batch(study.archive, 0, study.space).environment["import"]
    assert (record["rows"], record["skipped"]) == (13, 2)
    assert (table.status == "failed").sum() == 1
    best = best_row(table, "maximize")
    assert best is not None and table.objective[best] == theirs.best_value
    assert ((table.status == "ok") == (table.constraints["small"] == 1)).all()


@pytest.mark.full
def test_a_warm_started_study_goes_on(tmp_path: Path, capsys) -> None:
    """From imported points: none is evaluated, none is proposed again."""
    toy = Toy(tmp_path / "toy", iterations=1, batch_size=10, sleep=0.0)
    config = toy.folder / "config.yaml"
    grid = "{type: float, low: 0, high: 1, step: 0.25}"
    config.write_text(config.read_text().replace("{type: float, low: 0, high: 1}", grid))
    lines = ["x,y,objective,small"]
    for i in range(12):
        x, y = i % 4 / 4, i // 4 / 4
        lines.append(f"{x},{y},{(x - 0.3) ** 2 + (y - 0.6) ** 2},{x + y < 1.5}")
    (toy.folder / "old.csv").write_text("\n".join(lines))
    words = ["import", str(toy.folder / "old.csv"), "--config", str(config)]
    assert main([*words, "--results", str(toy.folder / "results")]) == 0
    assert planned(toy.snakemake("-n"))["evaluate"] == 3
    advance(Study(load([config], {"results": str(toy.results.parent)})), 1)
    table = archive.read_table(toy.archive)
    assert list(np.bincount(table.iteration)) == [12, 10]
    points = {(float(a), float(b)) for a, b in table.v}
    assert len(points) == 22
    evaluated = toy.evaluations()
    assert len(evaluated) == 10 and set(evaluated.values()) == {1}
    assert all(not line.startswith("0-") for line in evaluated)
    capsys.readouterr()
    path = str(toy.archive)
    assert main(["verify", path]) == 0 and main(["replay", path]) == 0
    verdicts = capsys.readouterr().out.splitlines()[1:]
    assert verdicts[0].startswith("iteration 0: imported: 12 points came from a file")
    assert verdicts[1:] == ["iteration 1: identical"]
    assert main(["audit", path, "--proposal", "0-3"]) == 0
    assert "Nothing to evaluate" in toy.snakemake("-n")
    export(toy.archive, tmp_path / "crate", "ro-crate")
    found = entities(tmp_path / "crate")
    assert found["#import-0"]["object"]["@id"] == "#imported-0"
    assert found["#imported-0"]["identifier"].startswith("sha256:")


FORMULAS = ["=1+1", "+x", "-5", "@a", "'=1+1", "''-5", "\tz", "\rz", "\uff1d2", "'quoted", "plain"]
FORMULAS += ["-", "0-1"]


def test_a_spreadsheet_runs_nothing_of_a_table_and_it_comes_back(tmp_path: Path, capsys) -> None:
    """Text that begins like a formula, in a parameter and in a message; numbers stay numbers."""
    space = {
        "word": {"type": "categorical", "choices": FORMULAS},
        "x": {"type": "float", "low": -2, "high": -1},
    }
    study = study_in(tmp_path / "a", space=space, constraints=[], design={"size": 26})

    def said(outcome: Outcome) -> Outcome:
        text = f"{FORMULAS[outcome.slot % len(FORMULAS)].strip()}cmd|' /C calc'!A0"
        return replace(outcome, status="ok", objective=-1.5, message=text)

    source = begin(study, said)
    export(source, tmp_path / "out.csv", "csv")
    assert main(["audit", str(source), "--all"]) == 0
    printed = capsys.readouterr().out
    written = (tmp_path / "out.csv").read_bytes().decode()
    for text in written, printed[printed.index("id,") :]:
        for cell in (c for row in csv.reader(io.StringIO(text, newline="")) for c in row):
            number = cell.startswith("-") and float(cell) < 0
            assert number or not re.match(r"[=+\-@\t\r\uff1d]", cell), cell
    before = archive.read_table(source)
    assert set(before.v[:, 0]) == set(range(len(FORMULAS)))
    again = study_in(tmp_path / "b", space=space, constraints=[])
    assert start(again, tmp_path / "out.csv") == 0
    np.testing.assert_array_equal(archive.read_table(again.archive).v, before.v)
    with archive.reading(source) as old, archive.reading(again.archive) as new:
        messages = [f["outcomes/message"].asstr()[()].tolist() for f in (old, new)]
    assert messages[0] == messages[1] and "=1+1cmd" in messages[0][0]


def test_a_table_of_somebody_else_keeps_its_apostrophes(tmp_path: Path) -> None:
    space = {"word": {"type": "categorical", "choices": ["'=a", "=a", "b"]}}
    study = study_in(tmp_path, space=space, constraints=[])
    (tmp_path / "theirs.csv").write_text("word,objective\n'=a,1\n=a,2\nb,3\n")
    assert start(study, tmp_path / "theirs.csv") == 0
    assert archive.read_table(study.archive).v[:, 0].tolist() == [0, 1, 2]
