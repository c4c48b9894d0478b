"""Which numbers of `dngo/rules/` act: batches in twenty-five regimes, each number halved and doubled.

    python benchmarks/acting.py --picks FILE         # the picks of all regimes, as hexadecimal numbers
    python benchmarks/acting.py --results acting.csv # each number of the tree; no run is repeated
    python benchmarks/acting.py --results acting.csv --table

A number acts in a regime if a pick, or what is said beside the picks, has another bit with half of the
number or with twice as much. A regime that never reads a number is not run again for it. A row of the
file is one number.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from regimes import FURTHER, REGIMES, Degrees, Regime

from dngo.rules import Rules, current, using

LIMIT = 120  # CPU seconds of one run; what takes longer acts


def paths(node: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Of every number below a branch."""
    for one in fields(node):
        value = getattr(node, one.name)
        if is_dataclass(value):
            yield from paths(value, (*before, one.name))
        else:
            yield (*before, one.name)


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        tree = getattr(tree, name)
    return tree


def changed(tree: Any, path: tuple[str, ...], value: Any) -> Any:
    first, *rest = path
    inner = changed(getattr(tree, first), tuple(rest), value) if rest else value
    return replace(tree, **{first: inner})


def scaled(value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(scaled(one, factor) for one in value)
    if isinstance(value, int):
        return int(value * factor)
    return value * factor


@contextmanager
def traced(read: set[tuple[str, ...]]) -> Iterator[None]:
    """Within it, what is read of the tree is noted."""
    tree = copy.deepcopy(current())

    def watch(node: Any, before: tuple[str, ...]) -> None:
        own = {one.name for one in fields(node)}
        for name in own:
            if is_dataclass(getattr(node, name)):
                watch(getattr(node, name), (*before, name))

        def get(self: Any, name: str) -> Any:
            if name in own:
                read.add((*before, name))
            return object.__getattribute__(self, name)

        kind = type(node)
        # Under its own name: what is raised and shown stays the same.
        other = type(kind.__name__, (kind,), {"__getattribute__": get})
        object.__setattr__(node, "__class__", other)

    watch(tree, ())
    with using(tree):
        yield


class _TooLong(Exception):
    pass


def _stop(*_: object) -> None:
    raise _TooLong


def digest_of(regime: Regime | Degrees, rules: Rules, model: Any) -> str:
    """Of the picks by other rules, the model given or fitted anew."""
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        with using(rules):
            numbers = regime.numbers(regime.fit() if model is None else model)
        return hashlib.sha256(" ".join(numbers).encode()).hexdigest()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def measure(path: Path, branches: Sequence[str], enough: int, only: Sequence[str]) -> None:
    """Write a row for each number that the file lacks: its value, who reads it and where it acts.

    branches: of the tree, or single numbers; all if empty. enough: regimes in which a number acts, after
    which no further one is tried, the quick ones first. only: names of regimes; all if empty.
    """
    done = set()
    if path.exists():
        with path.open(newline="") as stream:
            done = {row["number"] for row in csv.DictReader(stream)}
    known: dict[str, tuple[Regime | Degrees, Any, str, set, set]] = {}
    seconds: dict[str, float] = {}
    for name, make in REGIMES.items():
        if only and name not in only:
            continue
        began = time.process_time()
        fitting: set[tuple[str, ...]] = set()
        picking: set[tuple[str, ...]] = set()
        regime = make()
        with traced(fitting):
            model = regime.fit()
        with traced(picking):
            numbers = regime.numbers(model)
        usual = hashlib.sha256(" ".join(numbers).encode()).hexdigest()
        known[name] = regime, model, usual, fitting, picking
        seconds[name] = time.process_time() - began
    new = not path.exists()
    with path.open("a", newline="") as stream:
        rows = csv.writer(stream)
        if new:
            rows.writerow(["number", "value", "read", "acts", "regimes"])
        for one in paths(current()):
            names = {one[0], ".".join(one)}
            if names & done or (branches and not names & set(branches)):
                continue
            read, acts = [], []
            for name in sorted(known, key=lambda name: seconds[name]):
                regime, model, usual, fitting, picking = known[name]
                if one not in fitting and one not in picking:
                    continue
                read.append(name)
                if len(acts) == enough:
                    continue
                value = at(current(), one)
                for factor in (2.0, 0.5):
                    other = scaled(value, factor)
                    if other == value:
                        other = scaled(value, 3.0)
                    rules = changed(current(), one, other)
                    if digest_of(regime, rules, None if one in fitting else model) != usual:
                        acts.append(name)
                        break
            value = at(current(), one)
            rows.writerow([".".join(one), value, len(read), len(acts), "; ".join(acts)])
            stream.flush()


def table(path: Path) -> None:
    """By branch: each number, and in how many regimes it acts of those that read it."""
    with path.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    branches: dict[str, list[str]] = {}
    for row in rows:
        branch, _, number = row["number"].partition(".")
        branches.setdefault(branch, []).append(f"{number} {row['acts']}/{row['read']}")
    print("| branch | acts in / read in |")
    print("| --- | --- |")
    for branch, found in branches.items():
        print(f"| `{branch}` | {', '.join(found)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picks", type=Path, help="file for the picks of all regimes")
    parser.add_argument("--results", type=Path, help="file with a row for each number")
    parser.add_argument(
        "--branches",
        nargs="*",
        default=(),
        help="of the tree, or numbers as branch.number; all if left out",
    )
    parser.add_argument("--enough", type=int, default=len(REGIMES), help="regimes to be found")
    parser.add_argument("--table", action="store_true", help="print what the file says")
    parser.add_argument("--only", nargs="*", help="regimes that are asked; all if left out")
    given = parser.parse_args()
    if given.picks is not None:
        with given.picks.open("w") as stream:
            for name, make in {**REGIMES, **FURTHER}.items():
                if given.only and name not in given.only:
                    continue
                regime = make()
                numbers = regime.numbers(regime.fit())
                print(name, *numbers, file=stream)
                print(name, hashlib.sha256(" ".join(numbers).encode()).hexdigest()[:16])
    elif given.results is None:
        sys.exit("give --picks or --results")
    elif given.table:
        table(given.results)
    else:
        measure(given.results, given.branches, given.enough, given.only or ())


if __name__ == "__main__":
    main()
