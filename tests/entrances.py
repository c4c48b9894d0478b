"""The ways by which outcomes come in: each takes what is reported of some points, and gives their outcomes.

What is reported of a point has the names of a table: objectives, constraints, and all else of an outcome.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

import dngo
from dngo import archive
from dngo.batch import Outcome
from dngo.cli import main
from dngo.config import Config, load
from dngo.errors import UserError
from dngo.evaluation.call import document_of
from dngo.evaluation.document import adoptable, judge
from dngo.exchange import export
from dngo.exchange.fork import fork
from dngo.exchange.warm_start import warm_start
from dngo.study import Study

Said = dict[str, Any]
Entrance = Callable[[Path, list[Said]], list[Outcome]]
UNREADABLE = "unreadable outcome: "


def config_in(folder: Path, **changes: Any) -> Path:
    """The configuration of a study over a square."""
    document = {
        "study": "taken",
        "results": "results",
        "objective": {"command": "true"},
        "space": {n: {"type": "float", "low": 0, "high": 1} for n in ("x", "y")},
        "design": {"size": 4},
        **changes,
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def study_at(config: Path) -> Study:
    return Study(load([config]))


def again(config: Path) -> Path:
    """The configuration of another study of the same problem."""
    text = config.read_text().replace("study: taken", "study: again")
    path = config.with_name("again.yaml")
    path.write_text(text)
    return path


def command(words: list[str]) -> str:
    """What a command prints; a UserError if it refuses."""
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(words)
    if code:
        assert "Traceback" not in error.getvalue()
        raise UserError(error.getvalue().strip())
    return out.getvalue()


def waits(config: Path) -> list[Outcome]:
    found = sorted(study_at(config).entries(), key=lambda entry: entry.parameters["x"])
    return [entry.outcome for entry in found if entry.outcome is not None]


def archived(config: Path) -> list[Outcome]:
    study = study_at(config)
    batch = archive.read_batch(study.archive, 0, study.space)
    assert not archive.verify(study.archive)
    pairs = zip(batch.proposals, archive.read_outcomes(study.archive, batch), strict=True)
    return [outcome for _, outcome in sorted(pairs, key=lambda pair: pair[0].parameters["x"])]


# ---- the objective's own report -------------------------------------------------------------------


def as_report(config: Config, said: Said) -> Said:
    inside = {n: said[n] for n in config.constraints if n in said}
    several = {n: said[n] for n in config.objectives or {} if n in said}
    rest = {n: v for n, v in said.items() if n not in inside and n not in several}
    parts = {"constraints": inside, "objectives": several}
    return {**rest, **{name: part for name, part in parts.items() if part}}


def judged(text: bytes, config: Config) -> Outcome:
    verdict = judge(text, "", config.reported)
    return Outcome(0, 0, "", verdict.status, message=verdict.message, **verdict.fields)


def report(config: Path, rows: list[Said]) -> list[Outcome]:
    found, document = [], load([config])
    for said in rows:
        text = json.dumps(as_report(document, said)).encode()
        outcome = judged(text, document)
        ends = [outcome.objective, *outcome.objectives.values()]
        adopted = adoptable(text, document.reported)
        is_read = not outcome.message.startswith(UNREADABLE)
        assert not is_read or (adopted is not None) == any(map(math.isfinite, ends))
        found.append(outcome)
    return found


def function(config: Path, rows: list[Said]) -> list[Outcome]:
    document = load([config])
    return [judged(document_of(as_report(document, s)).encode(), document) for s in rows]


# ---- what people report ---------------------------------------------------------------------------


def placed(rows: list[Said]) -> list[Said]:
    return [{"x": (i + 1) / 32, "y": 0.5, **said} for i, said in enumerate(rows)]


def tell_python(config: Path, rows: list[Said]) -> list[Outcome]:
    session = dngo.open(config)
    for point, said in zip(placed([{}] * len(rows)), rows, strict=True):
        session.tell(point, **said)
    return waits(config)


def tell_dict(config: Path, rows: list[Said]) -> list[Outcome]:
    document = load([config])
    dngo.open(config).tell(placed([as_report(document, said) for said in rows]))
    return waits(config)


def tell_frame(config: Path, rows: list[Said]) -> list[Outcome]:
    import pandas

    dngo.open(config).tell(pandas.DataFrame(placed(rows)))
    return waits(config)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def tell_set(config: Path, rows: list[Said]) -> list[Outcome]:
    for said in placed(rows):
        words = [f"{name}={as_text(value)}" for name, value in said.items()]
        command(["tell", "--config", str(config), "--set", *words])
    return waits(config)


def table(config: Path, rows: list[Said]) -> Path:
    """The points as a CSV file."""
    names = dict.fromkeys(n for said in placed(rows) for n in said)
    path = config.with_name("told.csv")
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(names))
        writer.writeheader()
        writer.writerows({n: as_text(v) for n, v in said.items()} for said in placed(rows))
    return path


def tell_file(config: Path, rows: list[Said]) -> list[Outcome]:
    command(["tell", "--config", str(config), str(table(config, rows))])
    return waits(config)


# ---- files as the beginning of a study ------------------------------------------------------------


def import_csv(config: Path, rows: list[Said]) -> list[Outcome]:
    warm_start(study_at(config), table(config, rows))
    return archived(config)


def import_parquet(config: Path, rows: list[Said]) -> list[Outcome]:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = config.with_name("t.parquet")
    parquet.write_table(pa.Table.from_pylist(placed(rows)), path)
    warm_start(study_at(config), path)
    return archived(config)


def import_optuna(config: Path, rows: list[Said]) -> list[Outcome]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study, path = study_at(config), config.with_name("theirs.log")
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    theirs = optuna.create_study(storage=optuna.storages.JournalStorage(backend), study_name="a")
    # Only then the attributes are ours.
    theirs.set_user_attr("archive_digest", "")
    theirs.set_user_attr("constraints", [])
    ours = {n: "number_" if t else "constraint_" for n, t in study.config.reported.items()}
    for said in placed(rows):
        point = {n: said.pop(n) for n in ("x", "y")}
        value = said.pop("objective", None)
        state = "FAIL" if value is None else "COMPLETE"
        trial = optuna.trial.create_trial(
            state=optuna.trial.TrialState[state],
            value=value,
            params=point,
            distributions=dict.fromkeys(point, optuna.distributions.FloatDistribution(0, 1)),
            user_attrs={ours.get(n, "") + n: v for n, v in said.items()},
        )
        theirs.add_trial(trial)
    warm_start(study, path)
    return archived(config)


def exported(form: str, suffix: str) -> Entrance:
    """What an export of a study holds, as the beginning of another."""

    def entrance(config: Path, rows: list[Said]) -> list[Outcome]:
        import_csv(config, rows)
        path = config.with_name(f"out.{suffix}")
        export(study_at(config).archive, path, form)
        warm_start(study_at(again(config)), path)
        return archived(again(config))

    entrance.__name__ = f"exported_as_{form}"
    return entrance


def forked(config: Path, rows: list[Said]) -> list[Outcome]:
    import_csv(config, rows)
    fork(study_at(again(config)), study_at(config).archive)
    return archived(again(config))
