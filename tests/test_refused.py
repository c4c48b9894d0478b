"""If the system refuses a process, a thread or a descriptor, dngo waits, and that is no attempt at
a point."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import limited
import pytest
from evaluating import RUNNER, Share
from waiting import until

from dngo.batch import read_outcomes

ARCHIVE = Path(__file__).parent / "data" / "archives" / "v1-random.h5"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def words(folder: Path, before: str = "") -> list[str]:
    """A process that evaluates one point; its objective counts its runs."""
    Share(folder, 1)
    count = f"echo run >> {folder}/runs; echo 0.5"
    return [
        *(sys.executable, "-c", before + RUNNER, str(folder)),
        json.dumps({"command": ["sh", "-c", count]}),
    ]


def starts(folder: Path) -> str:
    path = folder / "claims" / "0.starts"
    return path.read_text() if path.exists() else ""


def told(process: subprocess.Popen[str], pattern: str) -> None:
    """Wait until it says so."""
    assert process.stderr is not None
    for line in process.stderr:
        if re.search(pattern, line):
            return
    raise AssertionError(f"it never said {pattern!r}")


WAITS = {1: "claiming 0-0: .*trying again", 2: "starting 0-0: .*trying again", 3: "starting 0-0"}


@pytest.mark.parametrize("number", WAITS)
def test_a_start_that_is_refused_is_none(group: limited.Group, tmp_path: Path, number: int) -> None:
    """Refused are the thread of the claim, the process that starts others, and the objective."""
    group.limit(number)
    process = group.start(words(tmp_path), stderr=subprocess.PIPE)
    told(process, WAITS[number])
    assert starts(tmp_path) == ""
    group.limit("max")
    assert process.wait() == 0
    (outcome,) = read_outcomes(tmp_path / "outcomes" / "0.json")
    assert (outcome.status, outcome.objective, outcome.attempts) == ("ok", 0.5, 1)
    assert (tmp_path / "runs").read_text() == "run\n"


def test_who_waits_for_a_process_heeds_a_signal(group: limited.Group, tmp_path: Path) -> None:
    group.limit(2)
    process = group.start(words(tmp_path), stderr=subprocess.PIPE)
    told(process, "trying again in 2 s")
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 130
    assert starts(tmp_path) == "" and not (tmp_path / "runs").exists()


def test_a_job_gives_up_in_the_end_and_the_point_is_not_lost(
    group: limited.Group, tmp_path: Path
) -> None:
    short = "import dngo.storage.patience as p; p.PATIENCE = 1.0\n"
    group.limit(3)
    process = group.start(words(tmp_path, short), stderr=subprocess.PIPE)
    _, told = process.communicate()
    assert process.returncode == 1
    assert "JobOver: 0-0 was not started: the machine refuses a process" in told
    assert starts(tmp_path) == "" and not (tmp_path / "outcomes" / "0.json").exists()


def test_a_process_without_descriptors_waits_for_some(tmp_path: Path) -> None:
    lower = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 1024))\n"
    process = subprocess.Popen(words(tmp_path, lower), stderr=subprocess.PIPE, text=True)
    told(process, "starting 0-0: .*Too many open files; trying again")
    assert starts(tmp_path) == ""
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1024, 1024))
    assert process.wait() == 0
    (outcome,) = read_outcomes(tmp_path / "outcomes" / "0.json")
    assert (outcome.status, outcome.attempts) == ("ok", 1)


def test_a_program_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    program = tmp_path / "program"
    with open("/bin/echo", "rb") as source, open(program, "wb") as stream:
        stream.write(source.read())
        program.chmod(0o755)
        stream.flush()
        begin = [*words(tmp_path)[:-1], json.dumps({"command": [str(program), "0.5"]})]
        process = subprocess.Popen(begin, stderr=subprocess.PIPE, text=True)
        told(process, "starting 0-0: .*Text file busy; trying again")
        assert starts(tmp_path) == ""
    assert process.wait() == 0
    (outcome,) = read_outcomes(tmp_path / "outcomes" / "0.json")
    assert (outcome.status, outcome.attempts) == ("ok", 1)


def test_an_archive_is_not_called_damaged_because_a_process_was_refused(
    group: limited.Group,
) -> None:
    group.limit(1)
    process = group.start(
        [sys.executable, "-m", "dngo", "verify", str(ARCHIVE)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    told(process, "opening a file: .*; trying again")
    group.limit("max")
    out, _ = process.communicate()
    assert process.returncode == 0 and "every value has its recorded digest" in out


@pytest.mark.full
def test_a_run_on_a_machine_without_a_process_to_spare_goes_on_when_there_is_one(
    brief, group: limited.Group
) -> None:
    """From its beginning, and again once it evaluates: each point is evaluated once."""
    study = brief(iterations=1, batch_size=4)
    study.configure(iterations=1, batch_size=4, extra="acquisition: random\n")
    group.limit(6)
    process = group.start(
        [*study.command("--cores", "2")],
        cwd=study.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=ENVIRONMENT,
    )
    threading.Timer(8.0, lambda: group.limit("max")).start()
    until(study.evaluations, process)
    group.limit(4)
    threading.Timer(8.0, lambda: group.limit("max")).start()
    out, _ = process.communicate()
    assert process.returncode == 0, out
    assert "Traceback" not in out and "Error" not in out, out
    assert len(study.evaluations()) == 12 and set(study.evaluations().values()) == {1}
    statuses = re.search(r"Outcomes: (.*)", out)
    assert statuses and "lost" not in statuses[1]


@pytest.mark.full
@pytest.mark.parametrize("number", [5, 7])
def test_a_run_that_waits_for_a_process_heeds_a_signal(
    brief, group: limited.Group, number: int
) -> None:
    """In Snakemake's scheduler, or in the thread of a job."""
    study = brief(iterations=0)
    group.limit(number)
    with open(study.folder / "told", "w") as stream:
        process = group.start(
            study.command("--cores", "2"),
            cwd=study.folder,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=ENVIRONMENT,
        )
        until(lambda: "trying again in 2 s" in (study.folder / "told").read_text(), process)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1
    told = (study.folder / "told").read_text()
    assert "stopped early" in told
    assert not re.search(r"Traceback|WorkflowError|^ *File ", told, re.M), told
