"""Values given and values archived: the same to the last bit, through every entrance.

Search spaces are drawn at random from ordinary parameters and ones at the limits of what is accepted.
Their points are made without the package, from the decimals in the configuration. Each entrance is
given the points, and what the archive, its table and its exports then hold is compared with them.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import random
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dngo
from dngo import archive
from dngo.audit import audit_all
from dngo.cli import main as command
from dngo.config import load
from dngo.evaluation.command import Places, call_of
from dngo.space.distributions import as_told, distributions
from dngo.space.parameters import text

Point = dict[str, Any]
WORDS = [
    *(
        "a",
        "A",
        "b c",
        "sgd, plain",
        'the "best"',
        "it's",
        " led",
        "=1+1",
        "+2",
        "-3",
        "@x",
        "#",
        "é",
    ),
    *("🙂", "1_000", "2024_10", "007", "1e3", "0x10", "nan", "NaN", "inf", "null", "None", "~"),
    *("yes", "no", "{x}", "a=b", "two\nlines", "\t", "x" * 200, "٣", "1;2", "0,25", "%d", "\\n"),
    *("$HOME", "[1]", '{"a": 1}'),
]


# ---- spaces, and points of them -----------------------------------------------------------------


NUMBERS: list[dict[str, Any]] = [
    {"type": "int", "low": 1, "high": 2**32, "log": True},
    {"type": "int", "low": -(2**53), "high": -(2**53) + 9},
    {"type": "int", "low": 2**53 - 10**6, "high": 2**53},
    {"type": "int", "low": 3, "high": 3 + 7 * 142857142, "step": 7},
    {"type": "int", "low": -50, "high": -50 + 1048575 * 953674, "step": 1048575},
    {"type": "int", "values": [2**53 - 9, 2**53 - 8, 2**53]},
    {"type": "int", "values": [1, 3, 4, 100, 40939735], "log": True},
    {"type": "float", "low": 1e-300, "high": 1e-297, "log": True},
    {"type": "float", "low": 5e8, "high": 1e9, "log": True},
    {"type": "float", "low": -1e300, "high": 9e299},
    {"type": "float", "low": -273.15, "high": -272.9},
    {"type": "float", "low": 0.0, "high": 1.0, "step": 1 / 49},
    {"type": "float", "low": 0.1, "high": 10.1, "step": 0.1, "log": True},
    {"type": "float", "low": 5e8, "high": 5e8 + 50_000, "step": 0.5},
    {"type": "float", "low": -5, "high": -4.975, "step": 2.5e-7},
    {"type": "float", "values": [1e-9, 1e-3, 1.0]},
    {"type": "float", "values": [0.0, -1.5, 1e6]},
    {"type": "boolean"},
]
POOLS: list[list[Any]] = [
    WORDS,
    [*WORDS, True, False, 12345, 0.5],
    [0, 1, -5, 2.5, 1e-7, 0.1, 4093973501, 2**53 + 1, 2**60 + 1, 2**63, 10**40, 1e300, -1e-300],
    [True, 0, "off"],
]


def parameter(rng: random.Random) -> dict[str, Any]:
    """A parameter as a configuration has it."""
    if rng.random() < 0.7:
        return dict(rng.choice(NUMBERS))
    pool = rng.choice(POOLS)
    found = rng.sample(pool, min(rng.randint(2, 6), len(pool)))
    kind, name = rng.choice([("categorical", "choices"), ("ordinal", "values")])
    return {"type": kind, name: found}


def space(rng: random.Random) -> dict[str, dict[str, Any]]:
    """The section `space` of a configuration, some of its parameters conditional."""
    found = {f"p{i}": parameter(rng) for i in range(rng.randint(2, 6))}
    # One of which there are values enough for many points.
    found["free"] = {"type": "float", "low": 0.0, "high": 1.0}
    if rng.random() < 0.6:
        found["switch"] = {"type": "categorical", "choices": ["on", "off", 3]}
        for name in rng.sample(sorted(n for n in found if n[0] == "p"), rng.randint(1, 2)):
            found[name]["active_if"] = {"switch": rng.choice(["on", ["on", 3], 3])}
    if rng.random() < 0.3:
        fixed = rng.choice([1, 0.1, "word", True, 2**53 + 1])
        found["constant"] = {"type": "fixed", "value": fixed}
    return found


def value(p: dict[str, Any], rng: random.Random) -> Any:
    """A value of a parameter."""
    if p["type"] == "fixed":
        return p["value"]
    if "low" not in p:
        return rng.choice(p.get("values") or p.get("choices") or [False, True])
    if "step" in p or p["type"] == "int":
        low, high = Fraction(repr(p["low"])), Fraction(repr(p["high"]))
        parts = round((high - low) / Fraction(repr(p.get("step", 1))))
        k = rng.choice([0, 1, parts, parts - 1, parts // 2, rng.randint(0, parts)])
        found = low + k * (high - low) / parts
        return int(found) if p["type"] == "int" else float(found)
    low, high = p["low"], p["high"]
    some = math.sqrt(low) * math.sqrt(high) if p.get("log") else rng.uniform(low, high)
    near = rng.choice([low, high, math.nextafter(low, high), math.nextafter(high, low)])
    return min(max(rng.choice([some, some, float(f"{some:.3g}"), near]), low), high)


def points(of: dict[str, dict[str, Any]], number: int, rng: random.Random) -> list[Point]:
    """Different points of a space."""
    found: dict[str, Point] = {}
    for _ in range(number):
        point = {name: value(p, rng) for name, p in of.items()}
        for name, p in of.items():
            for parent, wanted in p.get("active_if", {}).items():
                if point[parent] not in (wanted if isinstance(wanted, list) else [wanted]):
                    del point[name]
        found.setdefault(json.dumps(point), point)
    return list(found.values())


# ---- entrances ----------------------------------------------------------------------------------


class Case:
    """A space, points of it, and the studies to which they are given."""

    def __init__(self, folder: Path, rng: random.Random, rows: int) -> None:
        self.folder, self.rng, self.space = folder, rng, space(rng)
        self.points = points(self.space, rows, rng)
        self.studies = 0

    def study(self, **changes: Any) -> Path:
        """The configuration of a new study over the space."""
        self.studies += 1
        document = {
            "study": f"s{self.studies}",
            "objective": {"command": "true"},
            "space": self.space,
            "design": {"size": len(self.points), "include_default": False},
            "acquisition": {"kind": "random"},
            **changes,
        }
        path = self.folder / f"s{self.studies}.yaml"
        path.write_text(json.dumps(document), encoding="utf-8")  # and says what is text
        return path

    def table(self, path: Path, *, bare: bool = False) -> Path:
        """The points with outcomes as a CSV file. bare: without prefixes and outcomes."""
        names = [n if bare else f"parameter_{n}" for n in self.space]
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(names if bare else [*names, "objective"])
            for i, point in enumerate(self.points):
                cells = [text(point[n]) if n in point else "" for n in self.space]
                writer.writerow(cells if bare else [*cells, i])
        return path

    def parquet(self, path: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns: dict[str, Any] = {"objective": [float(i) for i in range(len(self.points))]}
        for name in self.space:
            cells = [point.get(name) for point in self.points]
            kinds = {type(c) for c in cells if c is not None}
            if len(kinds) > 1 or any(isinstance(c, int) and abs(c) >= 2**63 for c in cells):
                cells = [None if c is None else text(c) for c in cells]
            columns[f"parameter_{name}"] = cells
        pq.write_table(pa.table(columns), path)
        return path

    def optuna(self, path: Path, config: Path) -> Path:
        """The points as a study that Optuna has made."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        kinds = distributions(optuna, load([config]).search_space)
        study = optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
        for i, point in enumerate(self.points):
            told = {n: as_told(kinds[n], v) for n, v in point.items()}
            own = {n: kinds[n] for n in told}
            trial = optuna.trial.create_trial(params=told, distributions=own, value=float(i))
            study.add_trial(trial)
        return path


def run(*words: str) -> None:
    """A command, which must succeed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = command(list(words))
    if status:
        raise AssertionError(f"dngo {' '.join(words)}: {said.getvalue()[:500]}")


def archived(config: Path) -> Iterator[tuple[str, list[Point]]]:
    """The points in the archive of a study, in every form in which it holds them."""
    study = dngo.open(config)._engine
    header = archive.read_header(study.archive)
    assert header is not None
    batches = (archive.read_batch(study.archive, t, study.space) for t in range(header.iterations))
    yield "batch", [p.parameters for batch in batches for p in batch.proposals]
    rows = audit_all(study.archive)
    found = [{n: row[f"parameter_{n}"] for n in study.space.parameters} for row in rows]
    yield "audit", [{n: v for n, v in row.items() if v is not None} for row in found]
    with archive.reading(study.archive) as file:
        group = file["proposals/parameters"]
        texts = {n for n in group if group[n].dtype.kind == "O"}
        columns = {n: (group[n].asstr() if n in texts else group[n])[()] for n in group}
    rows = [{n: c[i] for n, c in columns.items()} for i in range(header.rows)]
    yield "column", [{n: v for n, v in row.items() if v == v and v != ""} for row in rows]


def imported(case: Case, form: str = "csv") -> Path:
    config, path = case.study(), case.folder / f"given.{form}"
    if form == "csv":
        case.table(path)
    elif form == "parquet":
        case.parquet(path)
    else:
        case.optuna(path, config)
    run("import", str(path), "--config", str(config))
    return config


def there_and_back(case: Case, form: str) -> Path:
    """What an export of a study holds, as the beginning of another."""
    first = imported(case)
    config, path = case.study(), case.folder / f"exported.{'db' if form == 'optuna' else form}"
    run("export", str(first), "--format", form, "--output", str(path))
    run("import", str(path), "--config", str(config))
    return config


def forked(case: Case) -> Path:
    first, config = imported(case), case.study()
    run("fork", str(first), "--config", str(config))
    return config


def asked(case: Case, config: Path) -> Path:
    """Ask for the points that wait at the head of the design, and tell their outcomes."""
    session = dngo.open(config)
    found = session.ask(len(case.points))
    names, places = list(case.space), Places(Path("WORKDIR"))
    sent = [call_of(session.config.objective, p, places, names, 0).document for p in found]
    assert [json.loads(s) for s in sent] == [p.parameters for p in found]
    session.tell(found, [float(i) for i in range(len(found))])
    return config


def typed(case: Case, command: str, config: Path, *more: str) -> None:
    """Two of the points, each in the words of a command line."""
    case.points = case.points[:2]
    for point in case.points:
        words = [f"{n}={text(v)}" for n, v in point.items()]
        run(command, "--config", str(config), "--set", *words, *more)


def added(case: Case, form: str) -> Path:
    config = case.study()
    if form == "csv":
        table = case.table(case.folder / "bare.csv", bare=True)
        run("add", str(table), "--config", str(config))
    elif form == "parquet":
        run("add", str(case.parquet(case.folder / "bare.parquet")), "--config", str(config))
    elif form == "api":
        dngo.open(config).add(case.points)
    elif form == "numpy":
        dngo.open(config).add([{n: numpy_of(v) for n, v in p.items()} for p in case.points])
    else:
        typed(case, "add", config)
    return asked(case, config)


def numpy_of(given: Any) -> Any:
    """A value as numpy's arrays have it."""
    return given if isinstance(given, int) and abs(given) >= 2**63 else np.array(given)[()]


def told(case: Case, form: str) -> Path:
    """Outcomes of points that nobody asked for: rows at the end of the next batch."""
    config = case.study()
    session = dngo.open(config)
    if form == "csv":
        run("tell", str(case.table(case.folder / "told.csv")), "--config", str(config))
    elif form == "api":
        session.tell(case.points, [float(i) for i in range(len(case.points))])
    elif form == "frame":
        import pandas as pd

        session.tell(pd.DataFrame(case.points, dtype=object), [1.0] * len(case.points))
    else:
        typed(case, "tell", config, "objective=1")
    for p in session.ask(1):
        session.tell(p, 0.5)
    return config


def told_back(case: Case) -> Path:
    """Points that were asked for, told by their values as a table has them, not by their names."""
    config = case.study()
    session = dngo.open(config)
    case.points = [p.parameters for p in session.ask(len(case.points))]
    run("tell", str(case.table(case.folder / "back.csv")), "--config", str(config))
    assert session.pending() == []
    session._engine.settle()
    return config


def default(case: Case) -> Path:
    """The defaults of the configuration, the first point of the design."""
    case.points = case.points[:1]
    (point,) = case.points
    free = {n for n in point if case.space[n]["type"] != "fixed"}
    of = {n: p | ({"default": point[n]} if n in free else {}) for n, p in case.space.items()}
    config = case.study(space=of, design={"size": 1})
    return asked(case, config)


FORMS: dict[str, tuple[Callable[[Case, str], Path], tuple[str, ...]]] = {
    "import": (imported, ("csv", "parquet", "optuna")),
    "export": (there_and_back, ("csv", "parquet", "optuna")),
    "add": (added, ("csv", "parquet", "api", "numpy", "--set")),
    "tell": (told, ("csv", "api", "frame", "--set")),
}
ENTRANCES: dict[str, Callable[[Case], Path]] = {
    **{f"{n} {form}": partial(f, form=form) for n, (f, forms) in FORMS.items() for form in forms},
    **{"fork": forked, "tell what was asked": told_back, "default": default},
}


# ---- comparing ----------------------------------------------------------------------------------


def differ(case: Case, given: list[Point], found: list[Point], place: str) -> list[str]:
    """The given points that are not there. Beside them there may be others, which the study has proposed."""
    texts = [json.dumps(_plain(case, point, place), sort_keys=True) for point in found]
    wanted = [json.dumps(_plain(case, point, place), sort_keys=True) for point in given]
    return [f"{place}: {text}, of {case.space}" for text in wanted if text not in texts]


def _plain(case: Case, point: Point, place: str) -> Point:
    """A point as it is compared: floats where the parameter is one, text where the column is."""
    found = {}
    for name, v in point.items():
        p = case.space[name]
        if place == "column" and p["type"] == "fixed":
            continue
        if p["type"] == "float" or (place == "column" and p["type"] == "int"):
            v = float(v)
        elif place == "column":
            v = text(v)
        found[name] = v
    return found


def tried(seed: int, rows: int, entrance: str) -> list[str]:
    """Try an entrance on one space: what was wrong with the values that went through it."""
    with tempfile.TemporaryDirectory(prefix="dngo-values-") as name:
        case = Case(Path(name), random.Random(seed), rows)
        config = ENTRANCES[entrance](case)
        found = [differ(case, case.points, points, place) for place, points in archived(config)]
        return [line for lines in found for line in lines]
