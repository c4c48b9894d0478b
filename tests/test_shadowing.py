"""Files beside a function that have the names of modules which others need."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from running import ran

from dngo.cli import main

pytestmark = pytest.mark.usefixtures("here")

CONFIG = """
study: mine
objective: {{callable: "{callable}"}}
space:
  x: {{type: float, low: 0, high: 1}}
design: {{size: 4}}
"""
BROKEN = "raise RuntimeError('this is another file of mine')\n"
NAMES = [
    *("types", "json", "dngo", "random", "socket", "site", "encodings", "numpy"),
    *("h5py", "dngo/__init__"),
]


def write(folder: Path, callable: str = "mine:f", **files: str) -> None:
    for name, text in {"mine": "def f(x):\n    return x\n", **files}.items():
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (folder / "config.yaml").write_text(CONFIG.format(callable=callable))


@pytest.mark.parametrize("name", NAMES)
def test_a_file_beside_a_function_breaks_no_import(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write(tmp_path, **{name: BROKEN})
    assert main(["check", "--run"]) == 0
    told = capsys.readouterr().out
    assert f"Objective: mine:f of {tmp_path}/mine.py" in told and "status       ok" in told


@pytest.mark.parametrize("name", ["json", "random", "numpy", "h5py"])
def test_the_command_without_its_script_starts_all_the_same(tmp_path: Path, name: str) -> None:
    write(tmp_path, **{name: BROKEN})
    words = [sys.executable, "-m", "dngo", "check"]
    done = ran(words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["json", "types", "dngo", "platform"])
def test_a_function_in_a_file_with_such_a_name_is_refused_by_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    write(tmp_path, f"{name}:f", **{name: "def f(x):\n    return x\n"})
    assert main(["check"]) == 1
    told = capsys.readouterr().err
    assert f"{tmp_path}/{name}.py has the name of a module that Python or dngo needs" in told
    assert len(told.splitlines()) == 1 and "objective.callable" in told


def test_the_files_of_the_folder_come_before_packages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where Python runs a script: `test` is a package of Python's own, `yaml` one that is installed."""
    write(
        tmp_path,
        "test:f",
        test="import yaml\ndef f(x):\n    return yaml.three\n",
        yaml="three = 3\n",
    )
    assert main(["check", "--run"]) == 0
    assert "objective    3" in capsys.readouterr().out


def test_what_a_file_hides_is_named_where_an_import_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = "from json import mine\nfrom numpy import array\n"
    write(tmp_path, mine=mine, json="mine = 1\n", numpy="")
    assert main(["check"]) == 1
    assert "`import json` does not import json.py there" in capsys.readouterr().err
    (tmp_path / "json.py").unlink()
    write(tmp_path, mine=mine.splitlines()[1], numpy="")
    assert main(["check"]) == 1
    assert "numpy.py there hides the package numpy" in capsys.readouterr().err


def test_a_script_is_parsed_whatever_lies_beside_it(tmp_path: Path) -> None:
    write(tmp_path, types=BROKEN, ast=BROKEN)
    text = CONFIG.replace('callable: "{callable}"', "command: [python, {words}]")
    for words in "mine.py", "-m, mine":
        Path("config.yaml").write_text(text.format(words=words))
        assert main(["check"]) == 0
