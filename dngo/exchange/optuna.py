"""Optuna: a study in an SQLite file, or in a journal (a file called .log or .journal).

``ok`` and ``infeasible`` outcomes with a number are COMPLETE trials. ``stopped`` ones are PRUNED,
and all others FAIL. Values reported during the evaluation are intermediate values. Constraints
stand where Optuna's own samplers keep them: a list in the system attribute "constraints". A value
of zero or less means satisfied. The study's user attribute "constraints" gives the names in the
same order. Optuna 5 knows a second form, with names. Older versions and optuna-dashboard read the
list only.
"""

from __future__ import annotations

import math
import shutil
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from dngo import archive as archives
from dngo.audit import audit_rows
from dngo.batch import STOPPED
from dngo.config import Config
from dngo.errors import UserError
from dngo.exchange import package
from dngo.exchange.rows import FileRows, Row, known
from dngo.outcomes import EARLIEST, NAMES, is_time
from dngo.replay import configuration
from dngo.space.distributions import as_told, distributions
from dngo.stopping.curves import Curve
from dngo.storage.files import handing_out
from dngo.thresholds import Threshold

JOURNALS = (".log", ".journal", ".jsonl")
# The parts of an outcome that an export stores as attributes of a trial.
ATTRIBUTES = tuple(name for name in NAMES if name not in ("objective", "constraints"))
UNFINISHED = {
    "PRUNED": "was pruned, and has no objective of its own",
    "RUNNING": "has not ended",
    "WAITING": "waits, and has not begun",
}


def write(archive: Path, output: Path) -> None:
    """Write an archive as a study with its name, a trial for each proposal in order."""
    optuna = package("optuna")
    header = archives.read_header(archive)
    curves = archives.read_curves(archive)
    assert header is not None  # `read_curves` has read it already
    config = configuration(archive, header.iterations - 1)
    names = sorted(config.constraints)
    kinds = distributions(optuna, config.search_space)
    journal = output.suffix in JOURNALS
    with handing_out(output) as temporary, _storage(optuna, temporary, journal=journal) as storage:
        directions = list(config.directions.values()) or [config.direction]
        study = optuna.create_study(storage=storage, study_name=config.study, directions=directions)
        if config.has_several:
            with warnings.catch_warnings():  # experimental, but optuna-dashboard shows it
                warnings.simplefilter("ignore")
                study.set_metric_names(list(config.directions))
        study.set_user_attr("constraints", names)
        study.set_user_attr("config", config.stored())
        study.set_user_attr("archive_digest", header.digest)
        for number, row in enumerate(audit_rows(archive)):
            excess = [_excess(row, name, config.reported[name]) for name in names]
            values = [row[f"objective_{n}"] for n in config.directions] or [row["objective"]]
            try:
                trial = _trial(optuna, number, row, kinds, excess, values)
                trial.intermediate_values = _intermediate(curves[number])
                storage.create_new_trial(study._study_id, trial)
            except ValueError as error:  # a forged archive may hold points outside its space
                raise UserError(
                    f"{archive}: row {number} is no point of its space: {error}"
                ) from None


def _intermediate(curve: Curve) -> dict[int, float]:
    """Values reported during an evaluation.

    Optuna's steps are whole numbers; the last value of a step counts. It has no place for values of
    several objectives.
    """
    return {int(p[0]): p[1] for p in curve.points if p[0] < 2**31 and len(p) == 3}


def _excess(row: dict[str, Any], name: str, threshold: Threshold | None) -> float | None:
    """Zero or less if a constraint holds, more if it does not, None if that is unknown."""
    number, flag = known(row.get(f"number_{name}")), row.get(f"constraint_{name}")
    if threshold is not None and number is not None:
        excess = threshold.sign * float(number - threshold.bound)
        return min(max(excess, -sys.float_info.max), sys.float_info.max)  # JSON has no infinity
    return None if flag is None else 1.0 - 2.0 * flag


def _trial(
    optuna: Any,
    number: int,
    row: dict[str, Any],
    distributions: dict[str, Any],
    excess: list[float | None],
    objectives: list[float],
) -> Any:
    values = {n: row[f"parameter_{n}"] for n in distributions}
    # An inactive parameter was not suggested.
    parameters = {n: as_told(distributions[n], v) for n, v in values.items() if v is not None}
    complete = row["status"] in ("ok", "infeasible") and all(map(math.isfinite, objectives))
    attributes = {
        name: known(value)  # also of an objective whose trial is not complete
        for name, value in row.items()
        if not name.startswith("parameter_") and known(value) is not None
    }
    stopped = row["status"] == STOPPED
    started, finished = _local(row["started"]), _local(row["finished"])
    state = optuna.trial.TrialState
    return optuna.trial.FrozenTrial(
        number=number,
        trial_id=-1,  # the storage assigns the id
        state=state.COMPLETE if complete else state.PRUNED if stopped else state.FAIL,
        value=None,
        values=objectives if complete else None,
        # Optuna insists on a time: 1970 stands for an unknown one.
        datetime_start=started or finished or _local(0.0),
        datetime_complete=finished or started or _local(0.0),
        params=parameters,
        distributions={n: distributions[n] for n in parameters},
        user_attrs=attributes,
        # One unknown value would shift the others, so none are given.
        system_attrs={"constraints": excess} if excess and None not in excess else {},
        intermediate_values={},
    )


def _local(seconds: float) -> datetime | None:
    """Optuna's clock: local time without a zone."""
    return datetime.fromtimestamp(seconds) if is_time(seconds) else None


@contextmanager
def _storage(optuna: Any, path: Path, *, journal: bool) -> Iterator[Any]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        if journal:
            from optuna.storages import JournalStorage
            from optuna.storages.journal import JournalFileBackend

            yield JournalStorage(JournalFileBackend(str(path)))
            return
        # In an address, `?` and `%` in a path would lead to another file.
        connect = partial(sqlite3.connect, path)
        storage = optuna.storages.RDBStorage("sqlite:///study", {"creator": connect})
        try:
            yield storage
        finally:
            storage.remove_session()
            storage.engine.dispose()
    finally:
        optuna.logging.set_verbosity(before)


# ---- reading ------------------------------------------------------------------------------------


def read(path: Path, config: Config, *, name: str | None) -> FileRows:
    """The finished trials of a study, and the other trials; raises UserError.

    name: which study, if the file holds several.
    config: gives the directions that the study must have. It also names constraints and objectives,
    if the study does not name them.
    """
    optuna = package("optuna")
    with tempfile.TemporaryDirectory() as folder:
        # Optuna's storage writes even when we only read, so we read a copy.
        copy = Path(folder) / "copy"
        shutil.copyfile(path, copy)
        try:
            with _storage(optuna, copy, journal=not is_sqlite(path)) as storage:
                study = _choose(optuna, path, storage, name)
                title, attributes = study.study_name, study.user_attrs
                directions = [d.name.lower() for d in study.directions]
                metrics = study.metric_names or list(config.directions)
                trials = study.get_trials(deepcopy=False)
        except UserError:
            raise
        except Exception as error:  # SQLAlchemy's, JSON's, Optuna's own
            reason = " ".join(str(error).partition("[SQL:")[0].split())[:160]
            raise UserError(f"{path}: cannot be read as an Optuna study ({reason})") from None
    wanted = config.directions or {"objective": config.direction}
    if not config.has_several:  # Optuna gives a single objective no name
        metrics = list(wanted)
    if len(metrics) != len(directions) or dict(zip(metrics, directions, strict=True)) != wanted:
        each = [f"{d} {n}" for n, d in config.directions.items()]
        says = ", ".join(each) or config.direction
        raise UserError(
            f"{path}: study {title!r} has the directions {', '.join(directions)}, but the "
            f"configuration says {says}"
        )
    order, ours = attributes.get("constraints"), "archive_digest" in attributes
    # This attribute belongs to another program, and means something else.
    if not isinstance(order, list):
        order = list(config.constraints)
    named = metrics if config.objectives else []
    ended = [
        t for t in trials if t.state.name not in UNFINISHED or (ours and t.state.name == "PRUNED")
    ]
    rows = [_row(t, order, named, ours=ours) for t in ended]
    others = [t for t in trials if t.state.name in UNFINISHED and t not in ended]
    left_out = {f"trial {t.number}": UNFINISHED[t.state.name] for t in others}
    return FileRows("optuna", rows, left_out)


def is_sqlite(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(16) == b"SQLite format 3\0"


def _choose(optuna: Any, path: Path, storage: Any, name: str | None) -> Any:
    names = optuna.get_all_study_names(storage)
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        listed = ", ".join(names) or "none"
        wrong = f"there is no study {name!r}" if name else "holds several studies or none"
        raise UserError(f"{path}: {wrong}; choose with --study from: {listed}")
    return optuna.load_study(study_name=name, storage=storage)


def _row(trial: Any, names: list[str], objectives: list[str], *, ours: bool) -> Row:
    """A trial as a row.

    ours: whether our export wrote it; its attributes then say what is known. Other programs' own
    attributes of the same names mean something else.
    objectives: the names of several.
    """
    values: dict[str, Any] = {f"parameter_{n}": v for n, v in trial.params.items()}
    if ours:
        held = ("constraint_", "number_", *(("objective_", "noise_") if objectives else ()))
        attributes = trial.user_attrs.items()
        values |= {n: v for n, v in attributes if n in ATTRIBUTES or n.startswith(held)}
        # Our export leaves out what is unknown.
        values = {**{f"constraint_{name}": None for name in names}, **values}
    for name, amount in trial.constraints.items():
        place = int(name) if name.isdigit() else -1  # the list's constraints are called 0, 1, ...
        name = names[place] if 0 <= place < len(names) else name
        is_number = isinstance(amount, int | float)
        unknown = is_number and math.isnan(amount)
        values[f"constraint_{name}"] = None if unknown else amount <= 0 if is_number else amount
    if trial.state.name in ("FAIL", "PRUNED"):  # such trials get here only from our own export
        values.setdefault("status", "failed")
        known = trial.user_attrs if ours else {}
        names = [f"objective_{n}" for n in objectives] or ["objective"]
        values |= {name: known.get(name) for name in names}
    elif objectives:
        values |= {f"objective_{n}": v for n, v in zip(objectives, trial.values, strict=True)}
    else:
        values["objective"] = trial.value
    began, ended = trial.datetime_start, trial.datetime_complete
    # The times are local. At the end of summer time a trial may seem to end before it starts.
    if not ours and began is not None and ended is not None and began <= ended:
        times = {"started": began.timestamp(), "finished": ended.timestamp()}
        if all(is_time(t) and t >= EARLIEST for t in times.values()):
            values |= {**times, "duration": (ended - began).total_seconds()}
    return Row(f"trial {trial.number}", values)
