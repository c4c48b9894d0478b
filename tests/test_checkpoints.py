"""Folders that follow points from fidelity to fidelity: found again, bounded, one evaluation at a time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluating import POINT
from waiting import until

import dngo
from dngo.batch import Outcome, Proposal, read_outcomes
from dngo.cli import main
from dngo.config import Objective, validate
from dngo.evaluation.checkpoints import Checkpoints
from dngo.evaluation.command import Places
from dngo.evaluation.function import Inline
from dngo.evaluation.run import Files, Runner, prepare_folder
from dngo.evaluation.supervision import Interrupted
from dngo.study import Study

SCRIPT = """
import json, pathlib, sys, time
import dngo

folder = pathlib.Path(sys.argv[1])


def objective(x, a, epochs):
    there = dngo.checkpoint()
    left = there / "epochs"
    done = int(left.read_text()) if left.exists() else 0
    for epoch in range(done + 1, epochs + 1):
        time.sleep(0.01)
        with open(folder / "epochs.txt", "a") as stream:
            stream.write(json.dumps([x, a, epoch]) + chr(10))
        (there / "new").write_text(str(epoch))
        (there / "new").rename(left)
    with open(folder / "ends.txt", "a") as stream:
        stream.write(json.dumps([x, a, epochs]) + chr(10))
    return (x - 0.3) ** 2 + a / epochs


dngo.create(
    "s",
    {"x": (0, 1), "a": (0, 1), "epochs": dngo.Int(1, 27)},
    folder=folder,
    fidelity={"parameter": "epochs", "low": 3, "high": 27},
    acquisition="successive_halving",
    design={"size": 9},
    batch_size=6,
    stop={"failures": 0},
).optimize(objective, 9 + 3 * 6, workers=2, progress=False)
"""


def proposal(slot: int, **parameters: Any) -> Proposal:
    return Proposal(iteration=0, slot=slot, parameters=parameters, source="test")


def ended(one: Proposal, objective: float, status: str = "ok") -> Outcome:
    return Outcome(one.iteration, one.slot, "", status, objective=objective)


def checkpoints(folder: Path, **more: Any) -> Checkpoints:
    return Checkpoints(folder / "checkpoints", fidelity="epochs", **more)


def test_a_folder_is_of_the_point_without_its_fidelity(tmp_path: Path) -> None:
    found = checkpoints(tmp_path)
    first, again = proposal(0, x=0.5, epochs=3), proposal(1, x=0.5, epochs=9)
    assert found.of(first) == found.of(again) != found.of(proposal(2, x=0.6, epochs=3))
    # Without a fidelity it is of the proposal: a repeated point is to be measured anew.
    alone = Checkpoints(tmp_path / "checkpoints")
    assert alone.of(first) != alone.of(again)


def test_two_fidelities_of_a_point_never_have_its_folder_at_the_same_time(tmp_path: Path) -> None:
    found, events = checkpoints(tmp_path), []
    first, again = proposal(0, x=0.5, epochs=3), proposal(1, x=0.5, epochs=9)

    def second() -> None:
        with found.held(again):
            events.append("second")

    with found.held(first):
        thread = threading.Thread(target=second)
        thread.start()
        time.sleep(0.3)
        events.append("first")
    thread.join(10)
    assert events == ["first", "second"]


def test_where_no_folder_can_be_made_an_evaluation_runs_without(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("a file in its place")
    with checkpoints(tmp_path).held(proposal(0, x=0.5, epochs=3)):
        pass


def left(
    found: Checkpoints, points: list[Proposal], outcomes: list[Outcome], **how: Any
) -> set[int]:
    """The slots whose folders stay after a merge."""
    for one in points:
        with found.held(one):
            (found.of(one) / "state").write_text("much")
    found.settle(points, outcomes, **how)
    return {one.slot for one in points if found.of(one).exists()}


@pytest.mark.parametrize("keep", [0, 2, 10])
def test_folders_are_bounded_and_those_of_promising_points_stay(tmp_path: Path, keep: int) -> None:
    points = [proposal(i, x=i / 10, epochs=3) for i in range(6)]
    points += [proposal(6, x=0.9, epochs=27), proposal(7, x=0.8, epochs=3)]
    outcomes = [ended(one, float(i)) for i, one in enumerate(points[:7])]
    outcomes.append(ended(points[7], float("nan"), "failed"))
    how = {"goes_on": lambda p: p.parameters["epochs"] < 27, "flying": [points[5]]}
    stay = left(checkpoints(tmp_path, keep=keep), points, outcomes, **how)
    # The one in flight stays; of those that may go on, the best third, and then the newest.
    assert stay == {5} | {0: set(), 2: {0, 1}, 10: {0, 1, 2, 3, 4}}[keep]


def test_of_several_objectives_the_folders_of_the_front_stay(tmp_path: Path) -> None:
    found = checkpoints(tmp_path, keep=2, signs={"error": 1.0, "speed": -1.0})
    points = [proposal(i, x=i / 10, epochs=3) for i in range(6)]
    values = [(1.0, 5.0), (9.0, 1.0), (9.0, 1.0), (9.0, 1.0), (5.0, 9.0), (9.0, 1.0)]
    outcomes = [
        replace(ended(one, math.nan), objectives={"error": error, "speed": speed})
        for one, (error, speed) in zip(points, values, strict=True)
    ]
    assert left(found, points, outcomes, goes_on=lambda p: True, flying=[]) == {0, 4}


def test_kills_lose_an_epoch_and_no_evaluation(tmp_path: Path) -> None:
    script = tmp_path / "study.py"
    script.write_text(SCRIPT)

    def lines(name: str) -> Counter[tuple[float, ...]]:
        text = (tmp_path / name).read_text() if (tmp_path / name).exists() else ""
        return Counter(
            tuple(json.loads(line)) for line in text.splitlines(True) if line[-1] == "\n"
        )

    kills, epochs_file = (30, 90), tmp_path / "epochs.txt"  # after so many epochs of 153
    epochs_file.touch()
    for number in (*kills, 0):
        process = subprocess.Popen(
            [sys.executable, str(script), str(tmp_path)],
            start_new_session=True,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
        )
        if number:
            until(lambda: epochs_file.read_bytes().count(b"\n") >= number, process)  # noqa: B023
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == (-signal.SIGKILL if number else 0)
    table = dngo.open(tmp_path / "s").table()
    assert len(table) == 27 and set(table["status"]) == {"ok"}

    epochs = lines("epochs.txt")
    # A kill may come between an evaluation's last line and its outcome, for each of the two workers.
    ends = lines("ends.txt")
    assert sum(ends.values()) - len(ends) <= 2 * len(kills)
    # It may cost them the epoch that they were at; what was there goes on.
    assert sum(epochs.values()) - len(epochs) <= 2 * len(kills)
    highest = {}
    for x, a, epoch in epochs:
        highest[x, a] = max(highest.get((x, a), 0), epoch)
    assert sum(highest.values()) == len(epochs)
    top = [proposal(0, x=x, a=a, epochs=27) for x, a, level in ends if level == 27]
    assert top and not any(checkpoints(tmp_path / "s").of(one).is_dir() for one in top)


def test_a_command_is_given_the_folder_and_a_check_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "objective.py").write_text(
        "import json, os, sys\n"
        "assert os.environ['DNGO_CHECKPOINT'] == sys.argv[1]\n"
        "print(json.load(sys.stdin)['x'])\n"
    )
    config = {
        "study": "s",
        "objective": {"command": "{python} objective.py {checkpoint}"},
        "space": {"x": {"type": "float", "low": 0, "high": 1}},
    }
    (tmp_path / "config.yaml").write_text(json.dumps(config))
    assert main(["check", str(tmp_path / "config.yaml"), "--run"]) == 0
    assert "ok" in capsys.readouterr().out


def test_a_program_that_does_not_name_the_folder_hears_of_none(tmp_path: Path) -> None:
    """It was told of a folder that nobody had made."""
    code = "import os; print(float('DNGO_CHECKPOINT' in os.environ))"
    document = {
        "study": "s",
        "results": str(tmp_path),
        "objective": {"command": [sys.executable, "-c", code]},
        "space": {"x": {"type": "float", "low": 0, "high": 1}},
        "design": {"size": 1},
    }
    study = Study(validate(document))
    study.propose(0, None, study.iteration(0) / "proposals.json")
    study.evaluate(0, 0, tmp_path / "outcomes.json")
    (outcome,) = read_outcomes(tmp_path / "outcomes.json")
    assert outcome.objective == 0.0


@pytest.mark.parametrize("killed_at", range(8))
def test_a_kill_while_a_restart_is_prepared_leaves_its_earlier_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: int
) -> None:
    """The checkpoint stays, so the program goes on from there, and never reports those steps again."""
    places = Places(tmp_path / "work", tmp_path / "checkpoint")
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "state").write_text("3")
    places.workdir.mkdir()
    places.parameters.write_text(json.dumps(POINT.parameters))
    lines = b'{"step": 1, "objective": 3}\n{"step": 2, "objective": 2}\n'
    places.progress.write_bytes(lines + b'{"st')
    places.stop.write_text("{}")
    (places.workdir / "made").mkdir()
    (places.workdir / "made" / "file").write_text("")
    calls = 0

    def dying(function: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > killed_at:
                raise KeyboardInterrupt
            return function(*arguments, **options)

        return call

    with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
        for module, name in (
            (os, "unlink"), (os, "rmdir"), (os, "mkdir"), (os, "replace"), (shutil, "rmtree"),
            (Path, "unlink"), (Path, "mkdir"), (Path, "write_text"), (Path, "write_bytes"),
        ):  # fmt: skip
            patch.setattr(module, name, dying(getattr(module, name)))
        prepare_folder(places, POINT)
        assert killed_at >= 5  # it came to its end
    prepare_folder(places, POINT)
    assert places.progress.read_bytes() == lines
    assert sorted(places.workdir.iterdir()) == [places.parameters, places.progress]


def test_a_function_of_this_process_goes_on_with_its_earlier_reports(tmp_path: Path) -> None:
    """As a program does: after a kill of the process it is called again, and has its checkpoint."""

    def train(parameters: dict[str, Any]) -> float:
        state = dngo.checkpoint() / "state"
        done = int(state.read_text()) if state.exists() else 0
        for step in range(done + 1, 5):
            if step == 3 and not done:
                raise KeyboardInterrupt
            dngo.progress(step, 1 / step)
            state.write_text(str(step))
        return 0.25

    (tmp_path / "checkpoint").mkdir()
    files = Files(tmp_path / "work", tmp_path / "out", tmp_path / "err", tmp_path / "checkpoint")
    objective = Objective(callable="train:train")
    inline = Inline(Runner(objective, ["x"], {}, lambda proposal: files), train)
    with pytest.raises(Interrupted):
        inline.run(POINT, 1)
    assert inline.adopt(POINT, 1) is None
    outcome = inline.run(POINT, 2)
    assert [step for step, *_ in outcome.curve] == [1, 2, 3, 4], outcome
