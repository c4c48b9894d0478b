"""Values given and values archived: the same to the last bit, through every entrance (test_values.py).

Search spaces are made at random, both ordinary ones and ones at the limits of what is accepted.
Their points are made without the package, from the decimals in the configuration. Each entrance is
given the points, and what the archive, its table and its exports then hold is compared with them.
"""

from __future__ import annotations

import csv
import json
import math
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from entrances import command

import dngo
from dngo import archive
from dngo.audit import audit_all
from dngo.config import load
from dngo.evaluation.command import Places, call_of
from dngo.space.distributions import as_told, distributions
from dngo.space.parameters import text

Point = dict[str, Any]
WORDS = ["a", "A", "b c", "sgd, plain", 'the "best"', "it's", " led", "=1+1", "+2", "-3", "@x", "#"]
WORDS += ["é", "🙂", "1_000", "2024_10", "007", "1e3", "0x10", "nan", "NaN", "inf", "null", "None"]
WORDS += ["~", "yes", "no", "{x}", "a=b", "two\nlines", "\t", "x" * 200, "٣", "1;2", "0,25", "%d"]
WORDS += ["\\n", "$HOME", "[1]", '{"a": 1}']


# ---- spaces, and points of them -----------------------------------------------------------------


def parameter(rng: random.Random) -> dict[str, Any]:
    """A parameter as a configuration has it."""
    kinds = [_integer, _stepped_integer, _float, _stepped_float, _listed, _choices]
    return rng.choice([*kinds, *kinds, lambda rng: {"type": "boolean"}])(rng)


def _integer(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.3:
        high = rng.choice([64, 10**6, 2**32, 10**13])
        return {"type": "int", "low": 1, "high": high, "log": True}
    some = rng.randint(-(10**9), 10**9)
    low = rng.choice([0, 1, -7, -(2**31), 10**7, 2**53 - 10**6, -(2**53), some])
    high = low + rng.choice([1, 9, 10**6, rng.randint(1, 10**6)])
    return {"type": "int", "low": low, "high": high}


def _stepped_integer(rng: random.Random) -> dict[str, Any]:
    step = rng.choice([2, 5, 7, 8, 1000, 1048575])
    low = rng.choice([0, 3, -50, 10**9, rng.randint(-(10**12), 10**12)])
    high = low + step * rng.choice([1, 3, 100, 14285715, rng.randint(1, 10**6)])
    return {"type": "int", "low": low, "high": high + rng.choice([0, 0, step // 2]), "step": step}


def _float(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.4:
        low = rng.choice([1e-300, 1e-9, 1e-5, 0.001, 1.0, 5e8])
        return {"type": "float", "low": low, "high": low * rng.choice([2, 1000, 1e9]), "log": True}
    low = rng.choice([0.0, -1.0, 0.1, -273.15, 1e9, -1e300, rng.uniform(-1, 1)])
    wide = rng.choice([1.0, 0.25, 1e6, rng.random()]) if low > -1e300 else 1.9e300
    return {"type": "float", "low": low, "high": low + max(wide, 0.001)}


def _stepped_float(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {"type": "float", "low": 0.0, "high": 1.0, "step": 1 / rng.choice([3, 7, 49, 1000])}
    step, low = rng.choice([0.1, 0.05, 0.01, 1e-4, 0.5, 2.5e-7, 3e7]), rng.choice([0, 0.1, -5, 20])
    low = rng.choice([low, low, 5e8]) if step in (0.5, 3e7) else low
    count = rng.choice([2, 7, 100, 10_000, 100_000])
    high = float(Fraction(repr(low)) + count * Fraction(repr(step)))
    log = low > 0 and rng.random() < 0.2
    return {"type": "float", "low": low, "high": high, "step": step, "log": log}


def _listed(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.2:
        return {"type": "int", "values": [2**53 - 9, 2**53 - 8, 2**53]}
    if rng.random() < 0.5:
        return {"type": "int", "values": [1, 3, 4, 100, 40939735], "log": rng.random() < 0.5}
    values = rng.choice([[0.1, 0.3, 0.7], [1e-9, 1e-3, 1.0], [0.0, -1.5, 1e6]])
    return {"type": "float", "values": values}


def _choices(rng: random.Random) -> dict[str, Any]:
    numbers = [0, 1, -5, 2.5, 1e-7, 0.1, 4093973501, 2**53 + 1, 2**60 + 1]
    numbers += rng.choice([[], [2**63, 10**40], [1e300, -1e-300]])
    pool = rng.choice([WORDS, WORDS, numbers, [*WORDS, True, False, 12345, 0.5], [True, 0, "off"]])
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
    if "step" in p or (p["type"] == "int" and "low" in p):
        low, high = Fraction(repr(p["low"])), Fraction(repr(p["high"]))
        step = Fraction(repr(p.get("step", 1)))
        if abs((high - low) / step - (parts := round((high - low) / step))) < Fraction(1, 10**12):
            step = (high - low) / parts  # 1/3 in a few digits
        most = math.floor((high - low) / step)
        k = rng.choice([0, 1, most, most - 1, most // 2, *(rng.randint(0, most) for _ in range(2))])
        found = low + max(k, 0) * step
        return int(found) if p["type"] == "int" else float(found)
    if "low" in p:
        low, high = p["low"], p["high"]
        inner = rng.uniform(*map(math.log, (low, high)) if p.get("log") else (low, high))
        inner = math.exp(inner) if p.get("log") else inner
        near = rng.choice([low, high, math.nextafter(low, high), math.nextafter(high, low)])
        some = rng.choice([inner, inner, float(f"{inner:.3g}"), near])
        return min(max(some, low), high)
    return rng.choice(p.get("values") or p.get("choices") or [False, True])


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
    """A space, points of it, and the studies to which they are given.

    taken: pairs (place, points) of what was found in each place that they came to.
    """

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
        path.write_text(
            json.dumps(document), encoding="utf-8"
        )  # JSON is YAML, and says what is text
        return path

    def csv(self, path: Path, *, bare: bool = False) -> None:
        """The points with outcomes as a table. bare: without prefixes and outcomes."""
        names = [n if bare else f"parameter_{n}" for n in self.space]
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(names if bare else [*names, "objective"])
            for i, point in enumerate(self.points):
                cells = [text(point[n]) if n in point else "" for n in self.space]
                writer.writerow(cells if bare else [*cells, i])

    def parquet(self, path: Path) -> None:
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

    def optuna(self, path: Path) -> None:
        """The points as a study that Optuna has made."""
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        kinds = distributions(optuna, load([self.study()]).search_space)
        study = optuna.create_study(storage=f"sqlite:///{path}", study_name="s")
        for i, point in enumerate(self.points):
            told = {n: as_told(kinds[n], v) for n, v in point.items()}
            known = {n: kinds[n] for n in told}
            study.add_trial(
                optuna.trial.create_trial(params=told, distributions=known, value=float(i))
            )

    def file(self, form: str, **how: bool) -> Path:
        """The points with outcomes, as a file of this form."""
        path = self.folder / f"given-{self.studies}.{form}"
        getattr(self, form)(path, **how)
        return path


def run(*words: object) -> None:
    """A command, which must succeed."""
    command([*map(str, words)])


def archived(config: Path) -> Iterator[tuple[str, list[Point]]]:
    """The points in the archive of a study, in every form in which it holds them."""
    study = dngo.open(config)._engine
    header = archive.read_header(study.archive)
    assert header is not None
    read = [
        archive.read_batch(study.archive, t, study.space).proposals
        for t in range(header.iterations)
    ]
    yield "batch", [p.parameters for batch in read for p in batch]
    rows = audit_all(study.archive)
    found = [{n: row[f"parameter_{n}"] for n in study.space.parameters} for row in rows]
    yield "audit", [{n: v for n, v in row.items() if v is not None} for row in found]
    with archive.reading(study.archive) as file:
        group = file["proposals/parameters"]
        columns = {n: (c.asstr() if c.dtype.kind == "O" else c)[()] for n, c in group.items()}
    known = [
        {n: c[i] for n, c in columns.items() if c[i] == c[i] and c[i] != ""}
        for i in range(header.rows)
    ]
    yield "column", known


def imported(form: str) -> Callable[[Case], Path]:
    def entrance(case: Case) -> Path:
        path, config = case.file(form), case.study()
        run("import", path, "--config", config)
        return config

    return entrance


def there_and_back(form: str, suffix: str) -> Callable[[Case], Path]:
    """What an export of a study holds, as the beginning of another."""

    def entrance(case: Case) -> Path:
        first = imported("csv")(case)
        config, path = case.study(), case.folder / f"exported.{suffix}"
        run("export", first, "--format", form, "--output", path)
        run("import", path, "--config", config)
        return config

    return entrance


def forked(case: Case) -> Path:
    first, config = imported("csv")(case), case.study()
    run("fork", first, "--config", config)
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


def typed(case: Case, config: Path, verb: str, *more: str) -> None:
    """Two of the points, each in a command of its own."""
    case.points = case.points[:2]
    for point in case.points:
        words = [f"{n}={text(v)}" for n, v in point.items()]
        run(verb, "--config", config, "--set", *words, *more)


def added(form: str) -> Callable[[Case], Path]:
    def entrance(case: Case) -> Path:
        config = case.study()
        if form == "api":
            dngo.open(config).add(case.points)
        elif form == "numpy":
            dngo.open(config).add([{n: numpy_of(v) for n, v in p.items()} for p in case.points])
        elif form == "--set":
            typed(case, config, "add")
        else:
            how = {"bare": True} if form == "csv" else {}
            run("add", case.file(form, **how), "--config", config)
        return asked(case, config)

    return entrance


def numpy_of(given: Any) -> Any:
    """A value as numpy's arrays have it."""
    return given if isinstance(given, int) and abs(given) >= 2**63 else np.array(given)[()]


def told(form: str) -> Callable[[Case], Path]:
    """Outcomes of points that nobody asked for: rows at the end of the next batch."""

    def entrance(case: Case) -> Path:
        config = case.study()
        session = dngo.open(config)
        if form == "csv":
            run("tell", case.file("csv"), "--config", config)
        elif form == "api":
            session.tell(case.points, [float(i) for i in range(len(case.points))])
        elif form == "frame":
            import pandas as pd

            session.tell(pd.DataFrame(case.points, dtype=object), [1.0] * len(case.points))
        else:
            typed(case, config, "tell", "objective=1")
        for p in session.ask(1):
            session.tell(p, 0.5)
        return config

    return entrance


def told_back(case: Case) -> Path:
    """Points that were asked for, told by their values as a table has them, not by their names."""
    config = case.study()
    session = dngo.open(config)
    case.points = [p.parameters for p in session.ask(len(case.points))]
    run("tell", case.file("csv"), "--config", config)
    assert session.pending() == []
    session._engine.settle()
    return config


def default(case: Case) -> Path:
    """The defaults of the configuration, the first point of the design."""
    case.points = case.points[:1]
    (point,) = case.points
    of = {
        n: {**p, "default": point[n]} if n in point and p["type"] != "fixed" else p
        for n, p in case.space.items()
    }
    config = case.study(space=of, design={"size": 1})
    return asked(case, config)


ENTRANCES: dict[str, Callable[[Case], Path]] = {
    **{f"import {form}": imported(form) for form in ("csv", "parquet", "optuna")},
    **{
        f"export {f}": there_and_back(f, "db" if f == "optuna" else f)
        for f in ("csv", "parquet", "optuna")
    },
    "fork": forked,
    **{f"add {form}": added(form) for form in ("csv", "parquet", "api", "numpy", "--set")},
    **{f"tell {form}": told(form) for form in ("csv", "api", "frame", "--set")},
    "tell what was asked": told_back,
    "default": default,
}


# ---- comparing ----------------------------------------------------------------------------------


def differ(case: Case, given: list[Point], found: list[Point], place: str) -> list[str]:
    """The points that are not among the found ones, beside which the study may have proposed others."""

    def plain(point: Point) -> str:
        return json.dumps(_plain(case, point, place), sort_keys=True)

    known = {plain(point) for point in found}
    return [
        f"{place}: {point} is not in {found}; {case.space}"
        for point in given
        if plain(point) not in known
    ]


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


def tried(seed: int, rows: int, names: list[str]) -> tuple[Counter[str], list[str]]:
    """Try some entrances on one space: how many values went through each, and what was wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="dngo-values-") as name:
        case = Case(Path(name), random.Random(seed), rows)
        every = case.points
        for entrance in names:
            case.points = every
            for place, found in archived(ENTRANCES[entrance](case)):
                counts[entrance] += sum(map(len, case.points))
                bad = differ(case, case.points, found, place)
                wrong += [f"{entrance}: {each}" for each in bad]
    return counts, wrong
