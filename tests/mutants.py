"""Which small mistakes in dngo/ the tests find. Developers run it before they delete tests, and after.

    python -m pytest -p mutants --reach reach.json     # which tests reach which function, and their CPU seconds
    python tests/mutants.py reach.json --number 100 --seed 1 --output mutants.csv

A mutant is one change of one place, drawn at random: a comparison (< and <=, == and !=, is and is not), an operator
(+ and -, * and /, and, or), a number one larger, True for False, a negated condition, None returned, a call left out.
Each is tried in a copy of the working tree. Tests that reach its function run until one fails: of each file the
quickest, then the second, as long as their CPU seconds, as measured before, are at most --cap. `found` means that
one failed.

The ready tools were looked at. mutmut tries all mutants of a file and not a sample, and in a process that has imported
everything; cosmic-ray runs the same command for each. Neither sees what a test's own processes reach.
"""

from __future__ import annotations

import argparse
import ast
import copy
import csv
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.And: ast.Or,
    ast.Or: ast.And, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip


class Mutant(NamedTuple):
    """One change: of the text from `begin` to `end` (line, column) of a file."""

    path: str
    function: int  # the line where the innermost function begins; 0 outside of functions
    begin: tuple[int, int]
    end: tuple[int, int]
    new: str
    change: str


def changed(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """What may stand in the place of a node, and what that is."""
    other = copy.deepcopy(node)
    match other:
        case ast.Compare(ops=[op]) if type(op) in SWAPPED:
            other.ops = [SWAPPED[type(op)]()]
            yield other, f"{type(op).__name__} to {type(other.ops[0]).__name__}"
        case ast.BinOp(op=op) | ast.BoolOp(op=op) if type(op) in SWAPPED:
            other.op = SWAPPED[type(op)]()
            yield other, f"{type(op).__name__} to {type(other.op).__name__}"
        case ast.Break() | ast.Continue():
            yield SWAPPED[type(other)](), f"{type(other).__name__} to another"
        case ast.Constant(value=bool()):
            yield ast.Constant(not other.value), "True and False"
        case ast.Constant(value=int() | float()):
            yield ast.Constant(other.value + 1), "a number and one"
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            yield ast.UnaryOp(ast.Not(), test), "a condition negated"
        case ast.Return(value=ast.expr() as value) if not _none(value):
            yield ast.Constant(None), "None returned"
        case ast.Expr(value=ast.Call()):
            yield ast.Pass(), "a call left out"


def _none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a file, in the order of its text."""
    name = str(path.relative_to(ROOT))

    def visit(node: ast.AST, function: int) -> Iterator[Mutant]:
        if isinstance(node, ast.FunctionDef | ast.Lambda | ast.AsyncFunctionDef):
            first = getattr(node, "decorator_list", None) or [node]
            function = first[0].lineno
        if isinstance(node, ast.JoinedStr | ast.AnnAssign) and not getattr(node, "value", None):
            return
        for other, change in changed(node):
            place: Any = node
            if change == "a condition negated":
                place = node.test  # type: ignore[attr-defined]
            elif change == "None returned":
                place = node.value  # type: ignore[attr-defined]
            text = ast.unparse(other)
            if isinstance(other, ast.expr):
                text = f"({text})"
            begin, end = (
                (place.lineno, place.col_offset),
                (place.end_lineno, place.end_col_offset),
            )
            yield Mutant(name, function, begin, end, text, change)
        if not isinstance(node, ast.JoinedStr):
            for child in ast.iter_child_nodes(node):
                yield from visit(child, function)

    yield from visit(ast.parse(path.read_text()), 0)


def mutated(text: str, mutant: Mutant) -> str:
    lines = text.encode().splitlines(keepends=True)
    (first, left), (last, right) = mutant.begin, mutant.end
    new = lines[first - 1][:left] + mutant.new.encode() + lines[last - 1][right:]
    return b"".join([*lines[: first - 1], new, *lines[last:]]).decode()


def tests_of(mutant: Mutant, reach: dict[str, dict[str, float]], cap: float) -> list[str]:
    """The tests to run: of each file the quickest, then of each the second, as the cap allows.

    Those that reach the mutant's function, or outside of functions any of its file.
    """
    if mutant.function:
        found = reach.get(f"{mutant.path}:{mutant.function}", {})
    else:
        keys = [key for key in reach if key.startswith(f"{mutant.path}:")]
        found = {test: cpu for key in keys for test, cpu in reach[key].items()}
    places: Counter[str] = Counter()
    ranked = []
    for cpu, test in sorted((cpu, test) for test, cpu in found.items()):
        path = test.partition("::")[0]
        ranked.append((places[path], cpu, test))
        places[path] += 1
    chosen: list[str] = []
    spent = 0.0
    for _, cpu, test in sorted(ranked):
        if spent + cpu <= cap or not chosen:
            spent += cpu
            chosen.append(test)
    return chosen


def tried(mutant: Mutant, folder: Path, tests: list[str], cap: float) -> tuple[str, str]:
    """Verdict on a mutant in this copy of the tree, and the test that failed."""
    if not tests:
        return "not reached", ""
    path = folder / mutant.path
    before = path.read_text()
    path.write_text(mutated(before, mutant))
    (folder / "chosen.txt").write_text("\n".join(tests))
    words = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    limit = int(cap * 6 + 60)  # CPU seconds, for what never ends
    try:
        done = subprocess.run(
            [*words, "@chosen.txt"],
            cwd=folder,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 9)),
            env={**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"},
            timeout=1800,
        )
    except subprocess.TimeoutExpired:
        return "found", "hangs"
    finally:
        path.write_text(before)
    if "ERROR: not found: " in done.stderr:
        sys.exit(f"measure the reach anew: {done.stderr.strip()}")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode == 0:
        return "survived", ""
    return "found", failed[0].split(" ")[1] if failed else f"status {done.returncode}"


def main() -> None:
    parser = argparse.ArgumentParser(description="which mutants of dngo/ the tests find")
    parser.add_argument("reach", type=Path)
    parser.add_argument("--number", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cap", type=float, default=20.0, help="CPU seconds of tests a mutant")
    parser.add_argument("--output", type=Path, default=Path("mutants.csv"))
    options = parser.parse_args()
    paths = sorted(ROOT.glob("dngo/**/*.py"))
    every = [mutant for path in paths for mutant in mutants_of(path)]
    chosen = random.Random(options.seed).sample(every, options.number)
    reach = json.loads(options.reach.read_text())
    folders = [Path(tempfile.mkdtemp(prefix="mutants-")) for _ in range(2)]
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for folder in folders:
        subprocess.run(
            ["cp", "--parents", "-t", folder, *files.stdout.decode().split("\0")[:-1]],
            cwd=ROOT, check=True,
        )  # fmt: skip

    def one(mutant: Mutant) -> list[Any]:
        folder = folders.pop()
        verdict, by = tried(mutant, folder, tests_of(mutant, reach, options.cap), options.cap)
        folders.append(folder)
        print(verdict, mutant.path, mutant.begin[0], mutant.change, by, flush=True)
        return [mutant.path, *mutant.begin, mutant.change, mutant.new[:60], verdict, by]

    with ThreadPoolExecutor(2) as pool, options.output.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["path", "line", "column", "change", "new", "verdict", "test"])
        for row in pool.map(one, chosen):
            writer.writerow(row)
            stream.flush()


# ---- as a plugin of pytest: which test reaches which function ---------------------------------------


def pytest_addoption(parser: Any) -> None:
    parser.addoption("--reach", type=Path)


class Reach:
    """Functions that were called, by test. It sees this process and not those that a test starts."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, float]] = defaultdict(dict)
        self.seen: set[Any] = set()

    def called(self, frame: Any, event: str, argument: object) -> None:
        if event == "call":
            self.seen.add(frame.f_code)

    def runs(self, item: Any) -> Iterator[None]:
        self.seen.clear()
        before = _cpu()
        sys.setprofile(self.called)
        yield
        sys.setprofile(None)
        spent = _cpu() - before
        for code in self.seen:
            path = Path(code.co_filename)
            if path.is_relative_to(ROOT / "dngo"):
                key = f"{path.relative_to(ROOT)}:{code.co_firstlineno}"
                self.found[key][item.nodeid] = spent


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def pytest_configure(config: Any) -> None:
    import pytest

    if config.getoption("--reach"):
        reach = Reach()
        Reach.pytest_runtest_protocol = pytest.hookimpl(wrapper=True)(Reach.runs)  # type: ignore
        config.pluginmanager.register(reach, "reach")


def pytest_unconfigure(config: Any) -> None:
    if reach := config.pluginmanager.get_plugin("reach"):
        config.getoption("--reach").write_text(json.dumps(reach.found))


if __name__ == "__main__":
    main()
