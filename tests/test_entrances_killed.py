"""Commands by which people enter something, killed at each step on the disk, and several at once.

Each command is run in a fork of this process, which is killed before its n-th change of a file, for
every n. The same command is then typed again. Nothing may be lost, altered or doubled.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from test_left import PNG

from dngo import archive
from dngo.api.stages import next_batch
from dngo.archive import verify
from dngo.cli import main
from dngo.config import load
from dngo.study import Study, entries

CHANGES = {"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
LAST = 200  # changes of a command, at most
CONFIG = """
study: toy
objective: {command: "true"}
space:
  x: {type: float, low: 0, high: 1}
  y: {type: float, low: 0, high: 1}
design: {size: 3}
batch_size: 3
iterations: 3
acquisition: random
"""


def _is_change(event: str, given: tuple[Any, ...], folder: str) -> bool:
    if event == "open" and isinstance(given[0], str):
        return given[0].startswith(folder) and bool(given[2] & (os.O_WRONLY | os.O_RDWR))
    return event in CHANGES and str(given[0]).startswith(folder)


def forked(folder: Path, words: Sequence[str], kill_at: int = 0) -> int:
    """Begin a command in a fork, which is killed before a change of a file. Returns its process."""
    pid = os.fork()
    if pid:
        return pid
    seen = 0

    def look(event: str, given: tuple[Any, ...]) -> None:
        nonlocal seen
        if _is_change(event, given, str(folder)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    code = 99
    try:
        os.chdir(folder)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        sys.addaudithook(look)
        code = main([*words])
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    """The exit status of a process; negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def study_in(folder: Path) -> Study:
    return Study(load([folder / "config.yaml"], {"results": str(folder / "results")}))


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study with three archived outcomes, two of which failed, and three points in flight."""
    folder = tmp_path_factory.mktemp("begun")
    (folder / "config.yaml").write_text(CONFIG)
    study = study_in(folder)
    next_batch(study, 0, None)
    rows = [f"0-0,1.5,,{json.dumps('')}", "0-1,,failed,", "0-2,,failed,"]
    (folder / "first.csv").write_text("\n".join(["id,objective,status,message", *rows]))
    assert main(["tell", str(folder / "first.csv"), "--config", str(folder / "config.yaml")]) == 0
    study.settle()
    next_batch(study, 1, None)
    (folder / "a.png").write_bytes(PNG)
    image = '"{""image"": ""a.png""}"'
    (folder / "told.csv").write_text(
        f"id,x,y,objective,metadata\n1-0,,,2.5,{image}\n,0.125,0.25,3.5,{image}\n1-2,,,4.5,\n"
    )
    (folder / "old.csv").write_text(
        f"x,y,objective,metadata\n0.1,0.2,1,{image}\n0.3,0.4,2,\n0.5,0.6,3,{image}\n"
    )
    (folder / "new.yaml").write_text(CONFIG.replace("study: toy", "study: new"))
    return folder


def state(folder: Path, name: str = "toy") -> dict[str, Any]:
    """What a study knows: archived rows, outcomes in flight, what waits, notes, and pictures."""
    study = study_in(folder)
    if name != "toy":
        study = Study(study.config.model_copy(update={"study": name}))
    place = study.archive
    rows = archive.read_table(place) if place.exists() else None
    assert rows is None or verify(place) == []
    flying = study.in_flight(study.merged())
    return {
        "rows": []
        if rows is None
        else list(zip(rows.iteration, rows.slot, rows.status, strict=True)),
        "values": [] if rows is None else [round(y, 9) for y in rows.objective if y == y],
        "flying": sorted(
            (o.id, o.status, o.objective if o.status == "ok" else 0)
            for batch in flying
            for o in study.outcomes(batch)
            if o is not None
        ),
        "waiting": sorted(
            (e.source, json.dumps(e.parameters), e.outcome.objective if e.outcome else 0)
            for e in study.entries()
        ),
        "notes": sorted((n.point, n.text) for n in entries.notes(place)),
        "pictures": sorted(
            "entered" if "entered" in p.parts else "/".join(p.parts[-2:])
            for p in (study.folder / "images").rglob("*.*")
        ),
    }


COMMANDS: dict[str, tuple[str, list[str]]] = {
    "add": ("toy", ["add", "--set", "x=0.75", "y=0.5"]),
    "tell": ("toy", ["tell", "told.csv"]),
    "skip": ("toy", ["skip", "1-1", "--reason", "gone"]),
    "retry": ("toy", ["retry", "--failed"]),
    "note": ("toy", ["note", "leak", "--point", "0-1"]),
    "import": ("new", ["import", "old.csv", "--config", "new.yaml"]),
    "fork": ("new", ["fork", "results/toy/archive.h5", "--config", "new.yaml"]),
    # The first who looks merges a batch that is complete.
    "look": ("toy", ["status"]),
}
COMPLETE = (["tell", "told.csv"], ["skip", "1-1", "--reason", "gone"], ["note", "leak"])


@pytest.mark.full
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_killed_at_any_step_and_typed_again_enters_everything_once(
    begun: Path, tmp_path: Path, command: str
) -> None:
    name, words = COMMANDS[command]
    if command == "look":
        begun = Path(shutil.copytree(begun, tmp_path / "complete"))
        assert [ended(forked(begun, each)) for each in COMPLETE] == [0, 0, 0]
    wanted = tmp_path / "wanted"
    shutil.copytree(begun, wanted)
    before, old = state(begun, name), state(begun)
    assert ended(forked(wanted, words)) == 0
    after = state(wanted, name)
    assert after != before
    kills = 0
    for step in range(1, LAST):
        folder = tmp_path / str(step)
        shutil.copytree(begun, folder)
        status = ended(forked(folder, words, kill_at=step))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        kills += 1
        killed = Path(shutil.copytree(folder, tmp_path / "killed"))
        again = ended(forked(folder, words))
        if command == "tell" and again:
            again = ended(forked(folder, [*words, "--skip-invalid"]))
        # Where all of it had been entered before the kill, the command says that it is there.
        assert again == 0 or state(killed, name) == after
        shutil.rmtree(killed)
        found = state(folder, name)
        assert found == after, f"killed at step {step}"
        now = found if name == "toy" else state(folder)
        assert now["rows"][: len(old["rows"])] == old["rows"]
        shutil.rmtree(folder)
    assert kills >= 2, "it was killed nowhere"


def test_a_picture_stays_with_an_outcome_that_a_batch_has_taken(
    begun: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "taken"
    shutil.copytree(begun, folder)
    for words in COMPLETE:
        assert ended(forked(folder, words)) == 0
    study = study_in(folder)
    study.settle()
    (picture,) = study.paths.entered_pictures.iterdir()
    assert len(next_batch(study, 2, None).told) == 1 and not study.entries()
    for name in ("0a1b2c3d.png", ".0a1b2c3d.tmp"):  # as a kill leaves them
        shutil.copy(picture, picture.with_name(name))
    # The next report removes what no outcome names, and nothing else.
    assert ended(forked(folder, ["tell", "--set", "x=0.7", "y=0.6", "objective=1"])) == 0
    assert list(picture.parent.iterdir()) == [picture]


def test_commands_at_the_same_time_enter_everything_once(begun: Path, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    shutil.copytree(begun, folder)
    many = [
        *(["add", "--set", f"x=0.{i}", f"y=0.{i}5"] for i in range(1, 5)),
        *(["add", "--set", "x=0.875", "y=0.875"] for _ in range(3)),
        *(["tell", "told.csv"] for _ in range(3)),
        *(["retry", "--failed"] for _ in range(2)),
        *(["note", f"note {i}", "--point", "1-1"] for i in range(4)),
        *(["skip", "1-1", "--reason", "gone"] for _ in range(2)),
        ["status"],
    ]
    statuses = [ended(pid) for pid in [forked(folder, words) for words in many]]
    succeeded = Counter(words[0] for words, s in zip(many, statuses, strict=True) if s == 0)
    # Of commands that say the same, exactly one enters it, and the others say that it is there.
    assert succeeded == {"add": 5, "tell": 1, "retry": 1, "note": 4, "skip": 1, "status": 1}
    study = study_in(folder)
    study.settle()
    found = state(folder)
    assert len(found["rows"]) == 6 and sorted(found["values"]) == [1.5, 2.5, 4.5]
    assert Counter(source for source, _, _ in found["waiting"]) == {
        **{"user": 5, "retry": 2, "imported": 1}
    }
    assert len(found["notes"]) == 4 and found["pictures"] == ["1/0.png", "entered"]


def test_two_studies_are_not_begun_at_the_same_place(begun: Path, tmp_path: Path) -> None:
    folder = tmp_path / "two"
    shutil.copytree(begun, folder)
    many = [COMMANDS["import"][1], COMMANDS["fork"][1]] * 2
    statuses = [ended(pid) for pid in [forked(folder, words) for words in many]]
    assert sorted(statuses) == [0, 1, 1, 1]
    assert len(state(folder, "new")["rows"]) == 3
