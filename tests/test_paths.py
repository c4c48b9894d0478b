"""Paths that a configuration or a command line names: `~` is the home folder, `$` is refused."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
from mine import GOOD, Mine
from toy import ROOT, advance

from dngo.archive import read_table
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.evaluation.fingerprint import fingerprint
from dngo.locate import find_study
from dngo.workflow.start import command

ARCHIVE = ROOT / "tests/data/archives/v1-random.h5"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, beside the folder in which everything else is."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def write(**changes: object) -> Path:
    document = {
        "study": "a",
        "objective": {"command": "true"},
        "space": {"x": {"type": "float", "low": 0, "high": 1}},
        **changes,
    }
    Path("config.yaml").write_text(json.dumps(document))
    return Path("config.yaml")


def test_results_lie_in_the_home_folder(home: Path) -> None:
    path = write(results="~/studies")
    assert load([path]).results == str(home / "studies")
    assert find_study([path]).folder == home / "studies" / "a"
    # From a command line, where bash leaves it as it is after an equals sign.
    path = write()
    assert load([path], {"results": "~/others"}).results == str(home / "others")
    words = command(path, "~/others", [])
    assert f"results={home / 'others'}" in words


def test_the_objective_starts_in_the_home_folder(home: Path) -> None:
    objective = {"command": "true", "working_directory": "~/work"}
    assert load([write(objective=objective)]).objective.working_directory == str(home / "work")


@pytest.mark.parametrize("key", ["results", "working_directory", "transfer"])
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("$HOME/x", "$HOME/x: $HOME is not replaced by a value; write ~"),
        (
            "/data/${SCRATCH}/x",
            "/data/${SCRATCH}/x: ${SCRATCH} is not replaced by a value; write what ${SCRATCH} "
            "stands for",
        ),
        ("~nobody_of_this_name/x", "~nobody_of_this_name/x: there is no user 'nobody_of_this_name'; "
            "for a folder, write ./~nobody_of_this_name"),
    ],
)  # fmt: skip
def test_what_nothing_is_put_in_place_of_is_refused(
    home: Path, key: str, written: str, said: str
) -> None:
    if key == "transfer":
        path, place = write(transfer=[written]), "transfer.0"
    elif key == "results":
        path, place = write(results=written), key
    else:
        path = write(objective={"command": "true", key: written})
        place = f"objective.{key}"
    with pytest.raises(UserError) as error:
        load([path])
    assert str(error.value) == f"config.yaml:1: {place}: {said}"
    assert sorted(os.listdir()) == ["config.yaml"]


def test_what_such_a_folder_holds_is_not_lost(home: Path) -> None:
    """Release 0.1.0 made folders that are called `~` and `$HOME`: their studies go on there."""
    for written in ("~/x", "$HOME/x"):
        (Path(written) / "a").mkdir(parents=True)
        assert load([write(results=written)]).results == written
    assert load([write(results="./~/y")]).results == "~/y"


def test_earlier_studies_are_found_in_the_home_folder(home: Path, capsys) -> None:
    shutil.copy(ARCHIVE, home / "old.h5")
    space = {
        "x": {"type": "float", "low": 0, "high": 1},
        "n": {"type": "int", "low": 1, "high": 100},
    }
    path = write(transfer=["~/old.h5"], space=space)
    assert load([path]).transfer == ["~/old.h5"], "a part of what the study is, on any machine"
    assert main(["check", str(path)]) == 0
    assert "(~/old.h5)" in capsys.readouterr().out


def test_a_program_and_a_script_are_found_in_the_home_folder(home: Path, capsys) -> None:
    program = home / "run"
    program.write_text("#!/bin/sh\necho 1\n")
    program.chmod(0o755)
    (home / "f.py").write_text("print(1)\n")
    for words in ("~/run {x}", f"{sys.executable} ~/f.py"):
        config = load([write(objective={"command": words})])
        assert main(["check", "--run", "config.yaml"]) == 0
        assert "status       ok" in capsys.readouterr().out
        name = next(word for word in words.split() if word.startswith("~"))
        assert list(fingerprint(config.objective)["files"]) == [name]


def test_other_words_are_the_programs_own_and_check_says_so(home: Path, capsys) -> None:
    said = {
        "echo ~/data.csv": "the program gets '~/data.csv' as it is; no shell replaces '~' by a value",
        "echo --data=$HOME/d.csv": "the program gets '--data=$HOME/d.csv' as it is; no shell replaces",
        "sh -c 'echo $HOME'": "",
        "echo {x}": "",
    }
    for words, warning in said.items():
        assert main(["check", str(write(objective={"command": words}))]) == 0
        output = capsys.readouterr().out
        assert ("Warning" in output) == bool(warning)
        assert warning in output


@pytest.mark.parametrize(
    "words",
    [
        ["export", str(ARCHIVE), "--format", "csv", "--output", "$HOME/x"],
        ["compare", str(ARCHIVE), "--html=$HOME/x"],
        ["compare", str(ARCHIVE), "$HOME/x"],
        ["init", "$HOME/x", "--yes"],
    ],
)
def test_no_file_is_written_where_a_variable_stands(home: Path, words: list[str], capsys) -> None:
    with pytest.raises(SystemExit):
        main(words)
    said = f"dngo {words[0]}: $HOME/x: $HOME is not replaced by a value; write ~"
    assert capsys.readouterr().err.startswith(said) and os.listdir() == []
    # A name with such a sign is one where it is there.
    Path("$HOME").mkdir()
    if words[1:] != [str(ARCHIVE), "$HOME/x"]:
        assert main(words) == 0 and Path("$HOME/x").exists()


def test_a_study_in_the_home_folder_runs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Mine(home.parent / "here")
    mine.options["more"] = "results: ~/studies"
    mine.write(**{"objective.py": GOOD})
    study = find_study([mine.folder / "my.yaml"])
    study.begin()
    advance(study, 0)
    assert len(read_table(home / "studies/mine/archive.h5")) == 8
    assert not (mine.folder / "~").exists()
