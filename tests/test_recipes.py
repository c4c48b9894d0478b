"""The recipes of CONTRIBUTING.md, followed to the word in a copy of the repository."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import ran
from toy import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text().partition("## Recipes")[2]
RECIPES = {
    title: body
    for title, _, body in (s.partition("\n") for s in re.split(r"^### ", TEXT, flags=re.M)[1:])
}
PARTS = ("dngo", "snakemake_logger_plugin_dngo", "scripts", "tests", "docs", "examples")


def blocks(recipe: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", RECIPES[recipe], re.DOTALL | re.MULTILINE)


def commands(recipe: str) -> list[str]:
    return "".join(blocks(recipe, "sh")).splitlines()


def follow(folder: Path, recipe: str) -> set[str]:
    """Write what a recipe says; the files that it touches."""
    touched = set()
    for block in blocks(recipe, "python"):
        head, _, code = block.partition("\n")
        if new := re.fullmatch(r"# a new file: (\S+)", head):
            assert not (folder / new[1]).exists(), new[1]
            (folder / new[1]).write_text(code)
            touched.add(new[1])
            continue
        place = re.fullmatch(r"# (\S+), below( the first)?: (.+)", head)
        assert place is not None, head
        path = folder / place[1]
        lines = path.read_text().splitlines(keepends=True)
        at, *others = [i for i, line in enumerate(lines) if line.strip() == place[3]]
        assert place[2] or not others, head
        path.write_text("".join([*lines[: at + 1], code, *lines[at + 1 :]]))
        touched.add(place[1])
    return touched


def run(folder: Path, *words: str, module: str = "dngo", **more: str) -> str:
    """What a command of the copy prints."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", **more}
    command = [sys.executable, "-m", module, *words]
    done = ran(command, cwd=folder, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    found = (p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(p.relative_to(folder)): p.read_bytes() for p in found}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository in which every recipe with code was followed."""
    folder = tmp_path_factory.mktemp("copy")
    for part in PARTS:
        left_out = shutil.ignore_patterns("*.pyc.*", "_build", "modules", "data", "images")
        shutil.copytree(ROOT / part, folder / part, ignore=left_out)
    for path in ROOT.glob("*.*"):
        if path.is_file():
            shutil.copy(path, folder)
    before = contents(folder)
    named = set()
    for recipe in RECIPES:
        named |= follow(folder, recipe)
    for line in {line for recipe in RECIPES for line in commands(recipe)}:
        words, output = line.split(" > ")
        (folder / output).write_text(run(folder, *words.split()[1:]))
        named.add(output)
    after = contents(folder)
    assert {name for name in after if after[name] != before.get(name)} == named
    assert len(named) > 8
    return folder


@pytest.mark.full
def test_what_was_added_passes_lint_and_the_tests_of_the_code(copy: Path) -> None:
    run(copy, "check", ".", module="ruff")
    run(copy, "format", "--check", "dngo", module="ruff")
    files = ["code", "config", "pages", "config_keys", "acquisition_settings", "overwriting"]
    held = [*(f"tests/test_{name}.py" for name in files), "-q", "-n", "0"]
    chosen = (
        "layers or rooms or circle or lower or short or of_the_model or the_help or is_tried "
        "or is_known or (is_read and between) or (acts and nearest)"
    )
    run(copy, *held, "-p", "no:cacheprovider", "-k", chosen, module="pytest")


OBJECTIVE = "import json, sys; p = json.load(sys.stdin); print((p['x'] - 0.3) ** 2 + 1 / p['w'])"


@pytest.fixture(scope="module")
def study(copy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study by the surrogate, the acquisition and the type of parameter that were added."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "objective.py").write_text(OBJECTIVE)
    document = {
        "study": "new",
        "objective": {"command": [sys.executable, "objective.py"]},
        "space": {
            "x": {"type": "float", "low": 0, "high": 1},
            "w": {"type": "wavelength", "low": 0.1, "high": 10},
        },
        "surrogate": "nearest",
        "acquisition": {"kind": "between", "share": 0.4, "trust_region_share": 0},
        "design": {"size": 5},
        "batch_size": 3,
    }
    (folder / "config.yaml").write_text(json.dumps(document))
    code = (
        "from dngo.config import load; from dngo.study import Study; import sys\n"
        "sys.path.append('tests'); from toy import advance\n"
        f"study = Study(load([{str(folder / 'config.yaml')!r}]))\n"
        "for t in range(2): advance(study, t)\n"
        "from dngo.replay import replay\n"
        "assert [replay(study.paths.archive, t).verdict for t in range(2)] == ['identical'] * 2\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(copy), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-c", code], cwd=copy, env=environment, check=True)
    return folder / "results" / "new"


@pytest.mark.full
def test_a_study_by_what_was_added_runs_and_replays(study: Path, copy: Path) -> None:
    audited = run(copy, "audit", str(study / "archive.h5"), "--proposal", "1-0")
    assert "the stage of middle" in audited


@pytest.mark.full
def test_the_command_that_was_added_works_beside_all_others(study: Path, copy: Path) -> None:
    assert run(copy, "count", str(study)) == "8\n"
    assert "print how many evaluations there are" in run(copy, "--help")
    assert "For example: dngo count" in run(copy, "count", "--help")


@pytest.mark.full
def test_the_export_that_was_added_is_a_format(study: Path, copy: Path, tmp_path: Path) -> None:
    path = tmp_path / "ids.txt"
    run(copy, "export", str(study), "--format", "ids", "--output", str(path))
    assert path.read_text().split()[-3:] == ["1-0", "1-1", "1-2"]
