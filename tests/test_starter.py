"""The process that starts objectives may die at any moment; no evaluation is lost or repeated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from evaluating import Share, SideBySide, again, python, runner, supervised
from waiting import until

from dngo.config import Objective
from dngo.evaluation.chunk import Attempts
from dngo.evaluation.starter import Starter

# Says who started it, in a file of its own, and who ended: its list of runs.
PROGRAM = """
import os, time
with open("{folder}/began-" + os.environ["DNGO_ID"] + "-" + str(os.getpid()), "w") as stream:
    stream.write(str(os.getppid()))
while not os.path.exists("{folder}/go"):
    time.sleep(0.02)
with open("{folder}/ended", "a") as stream:
    stream.write(os.environ["DNGO_ID"] + chr(10))
print(0.5)
"""


def began(folder: Path, number: int) -> list[int]:
    """The process that started each, once `number` have begun."""

    def found() -> list[int]:
        texts = [path.read_text() for path in folder.glob("began-*")]
        return [int(t) for t in texts] if len([t for t in texts if t]) >= number else []

    return until(found)


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def killed_once(folder: Path, number: int, *, wrapped: bool = False) -> threading.Thread:
    """Kill who started the objectives once `number` of them run. They wait for that, and those that are
    not `wrapped` end with it: none may come to its end just then."""

    def kill() -> None:
        starter = began(folder, number)[0]
        running = [] if wrapped else [int(p.name.split("-")[-1]) for p in folder.glob("began-*")]
        os.kill(starter, signal.SIGKILL)
        until(lambda: all(map(ended, [starter, *running])))
        (folder / "go").touch()

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_what_runs_when_the_starter_is_killed_is_started_again_and_ends_once(
    tmp_path: Path,
) -> None:
    share = SideBySide(tmp_path, 3, PROGRAM.format(folder=tmp_path))
    starter = Starter()
    for one in share.runners:
        object.__setattr__(one, "starter", starter)
    killer = killed_once(tmp_path, 2)
    outcomes = share.evaluate_all(attempts=Attempts("r", 3))
    killer.join()
    assert [(o.status, o.objective) for o in outcomes] == [("ok", 0.5)] * 3
    assert [o.attempts for o in outcomes] == [2, 2, 1]
    assert sorted((tmp_path / "ended").read_text().split()) == ["0-0", "0-1", "0-2"]
    assert len(set(began(tmp_path, 5))) == 2, "one starter for both, and then another"


def test_a_starter_that_is_killed_again_and_again_loses_its_point(tmp_path: Path) -> None:
    code = "import os, time; os.kill(os.getppid(), 9); time.sleep(60)"
    share = Share(tmp_path, 1)
    one = runner(python(code), tmp_path)
    share.run = one.run  # type: ignore[method-assign]
    (outcome,) = share.evaluate(attempts=Attempts("r", 2))
    assert (outcome.status, outcome.attempts) == ("lost", 2)


def test_a_starter_that_dies_between_two_points_costs_no_attempt(tmp_path: Path) -> None:
    share = Share(tmp_path, 2)
    (tmp_path / "go").touch()
    one = runner(python(PROGRAM.format(folder=tmp_path)), tmp_path)

    def run(proposal, attempts):  # type: ignore[no-untyped-def]
        outcome = one.run(proposal, attempts)
        if proposal.slot == 0:
            os.kill(began(tmp_path, 1)[0], signal.SIGKILL)
        return outcome

    share.run = run  # type: ignore[method-assign]
    assert [(o.status, o.attempts) for o in share.evaluate()] == [("ok", 1)] * 2
    assert (tmp_path / "ended").read_text().split() == ["0-0", "0-1"]


def test_what_goes_on_under_a_wrapper_without_its_starter_is_adopted(tmp_path: Path) -> None:
    code = PROGRAM.format(folder=tmp_path).replace(
        "print(0.5)", "open(os.environ['DNGO_OUTCOME'], 'w').write('0.5' + chr(10))"
    )
    (tmp_path / "program.py").write_text(code.replace("os.getppid()", "os.environ['STARTER']"))
    wrapped = f"STARTER=$PPID {sys.executable} {tmp_path}/program.py; true"
    share = Share(tmp_path, 1)
    killer = killed_once(tmp_path, 1, wrapped=True)
    outcome = again(share, Objective(command=["bash", "-c", wrapped]))
    killer.join()
    assert (outcome.status, outcome.objective, outcome.attempts) == ("ok", 0.5, 1)
    assert "adopted" in outcome.message
    assert (tmp_path / "ended").read_text().split() == ["0-0"]


def supervised_by(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A process that evaluates a point, and its starter."""
    code = f"open('{folder}/started', 'w'){PROGRAM.format(folder=folder)}"
    process = supervised(Share(folder, 1), command=[sys.executable, "-c", code])
    (starter,) = began(folder, 1)
    return process, starter


def test_a_job_that_is_ended_starts_nothing_again_when_its_starter_goes_first(
    tmp_path: Path,
) -> None:
    """A scheduler signals the processes of a job one after another, in any order."""
    process, starter = supervised_by(tmp_path)
    os.kill(starter, signal.SIGKILL)
    time.sleep(0.2)
    process.terminate()
    assert process.wait() == 130
    assert len(began(tmp_path, 1)) == 1
    assert not (tmp_path / "outcomes" / "0.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_starter_ends_with_its_supervisor(tmp_path: Path, number: signal.Signals) -> None:
    process, starter = supervised_by(tmp_path)
    process.send_signal(number)
    process.wait()
    until(lambda: ended(starter))


def test_signals_to_all_of_a_job_reach_the_objective_and_leave_the_starter(tmp_path: Path) -> None:
    """As a scheduler sends them: the supervisor decides, and the starter tells it how all ended."""
    code = (
        "import os, signal; os.kill(os.getppid(), signal.SIGTERM); print(signal.getsignal(15).name)"
    )
    one = runner(python(code + "; print(1)"), tmp_path)
    share = Share(tmp_path, 2)
    share.run = one.run  # type: ignore[method-assign]
    assert [(o.status, o.attempts) for o in share.evaluate()] == [("ok", 1)] * 2
    assert (tmp_path / "out").read_text().split()[0] == "SIG_DFL"
