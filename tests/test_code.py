"""The shape of the code: which packages may import which, no circles, and nothing too long."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter

import grimp
import pytest
from toy import ROOT

# From high to low: a room imports from those below it alone, within functions too. Rooms of one
# line may know each other, as long as there is no circle of modules. What is imported for type
# checkers alone does not count.
LAYERS = [
    "__main__",
    "cli",
    "optuna sklearn",
    "api commands workflow",
    "acting entering retry",
    "audit check exchange init replay report scores",
    "locate",
    "study",
    "derive evaluation",
    "inward",
    "archive waiting",
    "outcomes",
    "batch",
    "config",
    "papers rivals",
    "acquisition",
    "surrogates",
    "space stopping",
    "elsewhere errors fronts kinds lazy objects plugins presets provenance redaction reporting rules storage streams thresholds types units version",
]
# The same within the room of the study.
STUDY_LAYERS = [
    "study",
    "settling",
    "evaluating fitting merging overlapping planning proposing",
    "beginning ending",
    "batches entries note",
    "records",
    "paths",
]
# What other rooms import of four rooms beside their faces; then what those rooms import that hold kinds, as a
# package of somebody else would. All other modules of the four are private.
DOORS = {
    "space": "columns distributions grids ladder names parameters priors sobol types",
    "surrogates": "gaussian_process nearby numerics settings",
    "acquisition": "aims belief measures outlook settings standing wavering",
    "study": "beginning entries paths settling",
}
DOORS_OF_KINDS = {
    "space": "distributions sobol",
    "surrogates": "classifier component linear network numerics optimizer problem regression sections settings storage "
    "training",
    "acquisition": "candidates measures picks settings state",
    "study": "",
}
LONGEST, MOST_PARAMETERS = 60, 8
LONGEST_MODULE = 500
LARGEST_ENGINE = (
    6746  # waves beside networks took 110, inputs that waver 72, a first feasible point 64, fronts of
    # studies with a fidelity 25, promotions that are counted 14
)


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("dngo", exclude_type_checking_imports=True, cache_dir=None)


@pytest.mark.parametrize(("room", "lines"), [("dngo", LAYERS), ("dngo.study", STUDY_LAYERS)])
def test_every_room_imports_from_lower_ones_alone(
    graph: grimp.ImportGraph, room: str, lines: list[str]
) -> None:
    rooms = {f"{room}.{name}" for line in lines for name in line.split()}
    assert graph.find_children(room) == rooms, "give them a place in the layers"
    layers = [
        grimp.Layer(*(f"{room}.{name}" for name in line.split()), independent=False)
        for line in lines
    ]
    found = graph.find_illegal_dependencies_for_layers(layers)
    chains = [" -> ".join((min(r.heads), *r.middle, min(r.tails))) for d in found for r in d.routes]
    assert chains == []


@pytest.mark.parametrize("room", DOORS)
def test_other_rooms_import_faces_and_a_few_modules(graph: grimp.ImportGraph, room: str) -> None:
    """The acquisition is built on the surrogates: for it their modules are no secret."""
    inside = {"surrogates": ("surrogates", "acquisition")}.get(room, (room,))
    found: dict[bool, set[str]] = {True: set(), False: set()}
    for module in graph.modules:
        other = module.removeprefix("dngo.").split(".")[0]
        for known in graph.find_modules_directly_imported_by(module):
            if known.startswith(f"dngo.{room}.") and other not in inside:
                found[other in ("papers", "rivals")].add(known.removeprefix(f"dngo.{room}."))
    assert found[False] == set(DOORS[room].split())
    assert found[True] <= set(DOORS_OF_KINDS[room].split())  # also what a kind to come may use


def test_there_is_no_circle_of_imports_even_of_types() -> None:
    """Who needs a type knows its module; a type that all need lies below them."""
    whole = grimp.build_graph("dngo", exclude_type_checking_imports=False, cache_dir=None)
    known = {m: whole.find_modules_directly_imported_by(m) for m in whole.modules}
    for kind in (
        "bohamiann",
        "in_sample",
        "least_squares",
    ):  # fit for their settings, and know them
        known[f"dngo.papers.{kind}"] -= {"dngo.papers.settings"}
    TopologicalSorter(known).prepare()  # raises CycleError, which names the circle


def test_the_engine_finds_nothing_by_the_name_of_a_module() -> None:
    """A kind makes its stages, and calls its fit. What comes from other packages has a registry."""
    paths = [
        p for room in ("acquisition", "surrogates") for p in (ROOT / "dngo" / room).rglob("*.py")
    ]
    named = [p.name for p in paths if re.search(r"resolve_name|import_module\(", p.read_text())]
    assert named == []


def test_functions_are_short_and_have_few_parameters() -> None:
    found = []
    for path in [*(ROOT / "dngo").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            lines = node.end_lineno - node.lineno + 1
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            parameters = len([p for p in given if p.arg not in ("self", "cls")])
            too_much = lines > LONGEST or parameters > MOST_PARAMETERS
            if too_much:
                place = path.relative_to(ROOT)
                found.append(f"{place}: {node.name}: {lines} lines, {parameters} parameters")
    assert found == []


def test_the_engine_is_small() -> None:
    """Lines of code: without docstrings, comments and empty lines."""
    rooms = ("acquisition", "surrogates")
    paths = [p for room in rooms for p in (ROOT / "dngo" / room).rglob("*.py")]
    assert sum(_lines_of_code(path.read_text()) for path in paths) <= LARGEST_ENGINE


def _lines_of_code(text: str) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, documented)]
    strings = [n.body[0] for n in nodes if ast.get_docstring(n, clean=False) is not None]
    prose = {i for s in strings for i in range(s.lineno, s.end_lineno + 1)}
    lines = [line.strip() for line in text.splitlines()]
    return sum(
        i not in prose and line != "" and line[0] != "#" for i, line in enumerate(lines, start=1)
    )


def test_modules_are_short() -> None:
    paths = [*(ROOT / "dngo").rglob("*.py"), *(ROOT / "scripts").glob("*.py")]
    lines = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in paths}
    assert {name: n for name, n in lines.items() if n > LONGEST_MODULE} == {}


# A busy machine takes any time for anything: 600 s are the last resort against what hangs.
DECIDES = re.compile(r"timeout(?:: float)? ?= ?(\d+)|assert .*(?:monotonic|perf_counter)\(\) - ")


def test_no_test_decides_by_the_time_that_something_takes() -> None:
    for path in ROOT.glob("tests/**/*.py"):
        found = [m[0] for m in DECIDES.finditer(path.read_text()) if int(m[1] or 0) < 600]
        assert found == [], f"{path}: wait for an event (tests/waiting.py)"


def test_only_what_a_machine_lacks_is_skipped_and_in_one_place() -> None:
    """Otherwise a test that is never run would not be missed."""
    skips = re.compile(r"pytest\.(?:skip|importorskip|mark\.skip|mark\.skipif)\(")
    found = {path.name for path in ROOT.glob("tests/**/*.py") if skips.search(path.read_text())}
    assert found == {"needs.py"}
