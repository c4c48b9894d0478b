"""An archive that another program changed: the next command says so, whatever it is."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import h5py
import pytest
from toy import QUICK_STUDY

import dngo
from dngo.cli import main
from dngo.errors import UserError

SPACE = {"x": (0.0, 1.0), "k": ["a", "b"]}
CHEAP: dict[str, Any] = {"acquisition": "random", "progress": False, "workers": 0}


def f(x: float, k: str) -> float:
    return x + (k == "b")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of three iterations, and its configuration."""
    folder = tmp_path_factory.mktemp("study")
    here = Path.cwd()
    os.chdir(folder)
    study = dngo.create("s", SPACE, batch_size=4, folder="results", **QUICK_STUDY)
    study.optimize(f, 12, workers=0, progress=False)
    study.write_config("s.yaml", objective="objective:f")
    Path("objective.py").write_text("def f(x, k): return x\n")
    os.chdir(here)
    return folder


@pytest.fixture
def path(before: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(before, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return Path("results/s/archive.h5")


def alter(path: Path, place: str = "outcomes/objective", row: int = 1, value: Any = -9.0) -> None:
    """Change one value, and neither the size of the file nor its time of change."""
    known = path.stat()
    with h5py.File(path, "r+") as file:
        if "@" in place:
            name, attribute = place.split("@")
            file[name].attrs[attribute] = value
        else:
            file[place][row] = value
    os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns + 1))


COMMANDS = {
    "status": ["status", "s.yaml"],
    "status of the archive": ["status", "results/s/archive.h5"],
    "best": ["best", "s.yaml"],
    "export": ["export", "s.yaml", "--format", "csv", "--output", "out.csv"],
    "report": ["report", "s.yaml"],
    "figure": ["figure", "course", "s.yaml", "--output", "course.svg"],
    "compare": ["compare", "results/s", "results/s"],
    "audit": ["audit", "s.yaml", "--proposal", "1-0"],
    "audit of all": ["audit", "s.yaml", "--all"],
    "replay": ["replay", "s.yaml"],
    "add": ["add", "--config", "s.yaml", "--set", "x=0.5", "k=a"],
    "tell": ["tell", "--config", "s.yaml", "--set", "x=0.5", "k=a", "objective=1"],
    "note": ["note", "--config", "s.yaml", "--point", "0-0", "good"],
    "retry": ["retry", "--failed", "s.yaml"],
    "check": ["check", "s.yaml"],
    "run": ["run", "s.yaml"],
    "fork": ["fork", "results/s", "--name", "t"],
}
CALLS: dict[str, Callable[[], Any]] = {
    "open": lambda: dngo.open("results/s").best(),
    "table": lambda: dngo.open("results/s/archive.h5").table(),
    "ask": lambda: dngo.create("s", SPACE, folder="results").ask(2),
    "tell": lambda: dngo.create("s", SPACE, folder="results").tell(
        {"x": 0.5, "k": "a", "objective": 1.0}
    ),
    "minimize": lambda: dngo.minimize(f, SPACE, 12, name="s", folder="results", **CHEAP),
    "more": lambda: dngo.minimize(f, SPACE, 14, name="s", folder="results", **CHEAP),
    "look": lambda: repr(dngo.open("results/s")),
    "note": lambda: dngo.open("results/s").note("good"),
}


# What reads the header alone looks at the last iteration: whoever finds the first one altered finds all.
FIRST, LAST = 1, 11


def places(names: Iterable[str], *also: str) -> list[tuple[str, int]]:
    return [*((name, FIRST) for name in names), *((name, LAST) for name in also)]


@pytest.mark.parametrize(("command", "row"), places(COMMANDS, "status", "replay", "run"))
def test_every_command_says_that_an_archive_was_altered(
    path: Path, command: str, row: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["status", "s.yaml"]) == 0
    alter(path, row=row)
    content = path.read_bytes()
    capfd.readouterr()
    assert main(COMMANDS[command]) == 1
    said = capfd.readouterr().err.strip()
    assert "was altered after dngo wrote it (iteration" in said and "dngo verify results/s" in said
    assert said.count("\n") == 0
    assert path.read_bytes() == content


@pytest.mark.parametrize(("call", "row"), places(CALLS, "look", "tell"))
def test_every_call_says_that_an_archive_was_altered(path: Path, call: str, row: int) -> None:
    alter(path, row=row)
    content = path.read_bytes()
    with pytest.raises(UserError, match="was altered after dngo wrote it"):
        CALLS[call]()
    assert path.read_bytes() == content


def test_verify_names_all_that_differs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for row in (1, 7, 11):
        alter(path, row=row)
    assert main(["verify", "s.yaml"]) == 1
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_the_values_of_an_altered_archive_can_go_into_a_new_study(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alter(path, row=11)
    assert main(["status", "s.yaml"]) == 1
    words = shlex.split(capsys.readouterr().err.partition("study: ")[2].partition(", then")[0])
    assert words[:2] == ["dngo", "export"]
    for form in ("archive", "ro-crate"):
        assert main([form if w == "csv" else w for w in words[1:]]) == 1
        assert "--altered is for --format csv and parquet" in capsys.readouterr().err
    assert main(words[1:]) == 0
    assert "iteration 2 (rows 10 to 11): its values do not have" in capsys.readouterr().err
    Path("t.yaml").write_text(Path("s.yaml").read_text().replace("study: s", "study: t"))
    assert main(["import", "values.csv", "--config", "t.yaml"]) == 0
    assert dngo.open("t.yaml").table()["objective"].min() == -9
    assert main(["status", "t.yaml"]) == 0
