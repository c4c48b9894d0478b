"""What pages name exists: commands and options, names in Python, files, outputs, and the gallery's
numbers."""

from __future__ import annotations

import ast
import csv
import re
import shlex
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from toy import ROOT

import dngo
from dngo.api.session import Session
from dngo.cli import _parser, main
from dngo.config import validate
from dngo.config.model import Config
from dngo.errors import UserError

PAGES = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"}
    | set(ROOT.glob("docs/*.md"))
    | set(ROOT.glob("examples/*/README.md"))
    | set(ROOT.glob("slurm/*.md"))
)
# A word in capitals, or with a placeholder, stands for a path.
FOLDERS = "benchmarks|dngo|docs|envs|examples|profiles|rules|scripts|slurm|tests"
IN_REPOSITORY = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")
# Of entry points.
GROUPS = {
    name
    for path in ROOT.glob("dngo/**/*.py")
    for name in re.findall(r'(?:Registry\(|group=)"(dngo\.\w+)"', path.read_text())
}
# Pages that show another package's study beside ours.
OTHERS = ("from-optuna", "from-ax")
MADE = ("benchmarks/results/", "docs/_build", "docs/modules", "examples/cnn/results/")


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(text: str) -> Iterator[list[str]]:
    """The words behind `dngo` in blocks and in names in backticks, up to a comment or a pipe."""
    text = text.replace("\\\n", " ")
    blocks = "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.DOTALL))
    lines = [line.strip().removeprefix("$ ") for line in blocks.splitlines()]
    lines += re.findall(r"`(dngo [^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines:
        line = re.split(r"\s(?:#|\||&&|>|;|\.\.\.)|   ", line)[0]
        if re.match(r"dngo [a-z-]", line):
            try:
                yield shlex.split(line)[1:]
            except ValueError:  # the rest of a quote is on the next line
                continue


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_commands_and_options_are_there(page: Path) -> None:
    parser = _parser()
    there = parser.commands
    top = {option for action in parser._actions for option in action.option_strings}
    for name, *rest in commands(page.read_text()):
        if name.startswith("-"):
            assert name in top, name
            continue
        assert name in there, f"dngo {name}"
        known = {o for a in there[name]._actions for o in a.option_strings}
        given = rest[: rest.index("--")] if "--" in rest else rest
        for word in given:
            option = word.partition("=")[0].rstrip(",.:")
            assert not option.startswith("--") or option in known, f"dngo {name} {word}"


def test_the_help_of_every_command_says_what_it_does_and_shows_one_that_works() -> None:
    parser = _parser()
    for name, command in parser.commands.items():
        text = " ".join(command.format_help().split())
        assert re.search(r" [A-Z][a-z]+ [^.]{10,}\. (?:positional arguments|options):", text), name
        if name != "run":  # its own text has several
            assert text.count("For example: dngo ") == 1, name
            example = (command.epilog or "").partition("For example: dngo ")[2]
            assert parser.parse_args(shlex.split(example)).command == name


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_names_in_python_are_there(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"`dngo\.(\w+)[`(]", text):
        module = ROOT / "dngo" / name
        known = hasattr(dngo, name) or module.exists() or module.with_suffix(".py").exists()
        assert known or f"dngo.{name}" in GROUPS, name
    if page.stem not in OTHERS:
        for name in re.findall(r"`study\.(\w+)\(", text):
            assert hasattr(Session, name), name


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_files_that_a_page_names_are_there(page: Path) -> None:
    text = page.read_text()
    for name in IN_REPOSITORY.findall(text):
        if name.startswith(MADE) or re.search(r"[A-Z]{4}|\.\.\.", name):
            continue
        there = (ROOT / name, page.parent / name, ROOT / f"{name}.py")
        assert any(path.exists() for path in there), name


STUDY: dict[str, Any] = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}
REFUSED = re.compile("unknown key|belongs to another section|does nothing where")


def sections(text: str) -> Iterator[dict[str, Any]]:
    """Sections of a study's configuration, in blocks of YAML and in names in backticks."""
    for shown in re.findall(r"```ya?ml\n(.*?)```|`([a-z_]+: [^`]+)`", text, re.DOTALL):
        try:
            found = yaml.safe_load("".join(shown).replace("{...}", "{}"))
        except yaml.YAMLError:  # a part of one, or several that cannot stand side by side
            continue
        if isinstance(found, dict) and found.keys() <= Config.model_fields.keys():
            yield found


def refused(section: dict[str, Any]) -> list[str]:
    """What dngo says of keys that are not there, or have no effect where they stand."""
    objective = section.get("objective")
    if isinstance(objective, dict) and "callable" not in objective:
        section = {**section, "objective": {**STUDY["objective"], **objective}}
    try:
        validate({**STUDY, **section})
    except UserError as error:
        return [line for line in str(error).splitlines() if REFUSED.search(line)]
    return []


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_keys_on_pages_are_accepted(page: Path) -> None:
    for section in sections(page.read_text()):
        assert not refused(section), section


def test_there_are_keys_to_look_for() -> None:
    assert sum(len(list(sections(page.read_text()))) for page in PAGES) > 50
    (shown,) = sections("Write `acquisition: {trust_region_shares: 0}`.")
    assert refused(shown)


HOLE = "\0"
# What an objective, a user's file or the processor puts into an output.
NOT_OURS = ("exit status 1: ", "archive of archive", "blas was", "and is openblas")
OUTPUT = re.compile(
    r"^\$ (?:dngo|snakemake) |^Best point|^iteration  |^What came of it", re.MULTILINE
)


@cache
def said() -> str:
    """All texts of the package in one line; what a text puts in is a hole."""
    found = []
    for path in sorted(ROOT.glob("dngo/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                parts = (v.value if isinstance(v, ast.Constant) else HOLE for v in node.values)
                found.append("".join(map(str, parts)))
    return " ".join(" ".join(found).split())


def outputs(text: str) -> Iterator[str]:
    """Three words and more in a row, in blocks of a page that show what a command prints."""
    for block in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL):
        if OUTPUT.search(block):
            for line in block.splitlines():
                if not line.startswith("$") and not any(word in line for word in NOT_OURS):
                    yield from re.findall(r"[A-Z]?[a-z]+(?: [a-z]+){2,}", line)


def is_said(words: str) -> bool:
    """Whether the package has these words, or puts one part of them into the other."""
    text, tokens = said(), words.split()
    if words in text:
        return True
    for i in range(1, len(tokens)):
        first, last = " ".join(tokens[:i]), " ".join(tokens[i:])
        before = f"{first} {HOLE}" in text and (last in text or i == len(tokens) - 1)
        if before or (f"{HOLE} {last}" in text and (first in text or i == 1)):
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_outputs_on_pages_are_in_todays_words(page: Path) -> None:
    for words in outputs(page.read_text()):
        assert is_said(words), words


def test_there_are_outputs_to_look_for() -> None:
    assert sum(len(list(outputs(page.read_text()))) for page in PAGES) > 50
    assert is_said("standard deviations from the prediction")
    assert not is_said("standard deviations from the forecast")


def test_there_are_commands_and_files_to_look_for() -> None:
    texts = [page.read_text() for page in PAGES]
    assert sum(len(list(commands(text))) for text in texts) > 100
    assert sum(len(IN_REPOSITORY.findall(text)) for text in texts) > 60
    assert list(commands("See `dngo no-such --x`.\n```\n$ dngo run a.yaml # go\n```\n")) == [
        ["run", "a.yaml"],
        ["no-such", "--x"],
    ]


def test_the_gallery_shows_five_studies_as_they_ended() -> None:
    text = (ROOT / "docs" / "gallery.md").read_text()
    assert text.count("\n## ") >= 5
    for folder, picture in (
        ("captions", "captions"),
        ("cnn", "cnn"),
        ("self_tuning", "self-tuning"),
    ):
        with (ROOT / "examples" / folder / "results.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        section = next(s for s in text.split("\n## ") if f"images/{picture}.png" in s)
        assert f"{len(rows)} evaluations" in section, folder


def test_a_figure_of_the_gallery_is_drawn_from_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    import figure

    with (ROOT / "examples" / "cnn" / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    figure.draw(rows, tmp_path / "cnn.png", "error (%)", minimize=True)
    assert (tmp_path / "cnn.png").read_bytes().startswith(b"\x89PNG")


SIMULATE = """#!{python}
import re
text = open("input.nml").read()
angle, cells = (float(re.search(rf"{{name}} = (.*)", text)[1]) for name in ("angle", "cells"))
print("STOP: grid is singular" if angle > 9 else "time step 1")
if angle > 9:
    raise SystemExit(1)
open("output.txt", "w").write(f" drag =  {{angle * cells:.6E}}".replace("E", "D"))
"""


@pytest.mark.parametrize(("angle", "said"), [(2, "objective    6"), (10, "grid is singular")])
def test_the_script_for_a_program_with_an_input_file_works(
    tmp_path: Path, capsys, angle: int, said: str
) -> None:
    text = (ROOT / "docs" / "objective.md").read_text().split("## A program with an input file")[1]
    script, template = re.findall(r"```(?:python)?\n(.*?)```", text, re.DOTALL)
    (tmp_path / "objective.py").write_text(script)
    (tmp_path / "template.nml").write_text(template)
    (tmp_path / "simulate").write_text(SIMULATE.format(python=sys.executable))
    (tmp_path / "simulate").chmod(0o755)
    (tmp_path / "config.yaml").write_text(
        "study: flow\nobjective: {command: '{python} objective.py'}\nspace:\n"
        f"  angle: {{type: float, low: 1, high: 11, default: {angle}}}\n"
        "  cells: {type: int, low: 1, high: 9, default: 3}\n"
    )
    assert main(["check", str(tmp_path / "config.yaml"), "--run"]) == (angle > 9)
    assert said in capsys.readouterr().out
