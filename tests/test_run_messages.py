"""A run's last line is its own: no frames of a Snakefile, and no error of Snakemake after it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from running import ran
from toy import Toy
from waiting import until

pytestmark = pytest.mark.full

JARGON = re.compile(r"WorkflowError|UserError|Traceback|^ *File |line \d+, in ", re.M)


def started(study: Toy, **environment: str) -> subprocess.Popen[str]:
    """A run, once it evaluates."""
    process = subprocess.Popen(
        study.command("--cores", "2"),
        cwd=study.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    until(lambda: list(study.results.glob("work/0/*/.started.json")), process)
    return process


@pytest.mark.usefixtures("root")
def test_a_user_without_a_name(toy) -> None:
    """As in a container that is given a number only."""
    study = toy(iterations=1, points_per_job=8)
    study.without = ("--omit-from", "conclude", "progress")
    names = {"LOGNAME", "USER", "LNAME", "USERNAME"}
    words = ["--reuid=54321", "--clear-groups", "--inh-caps=+dac_override"]
    done = ran(
        ["setpriv", *words, "--ambient-caps=+dac_override", *study.command("--cores", "2")],
        cwd=study.folder,
        env={**{k: v for k, v in os.environ.items() if k not in names}, "HOME": str(study.folder)},
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert not JARGON.search(told), told


def test_a_second_run_and_a_kill_end_with_one_good_line(brief) -> None:
    study = brief(sleep=20.0)
    run = started(study)
    try:
        second = study.start("--cores", "1")
        told, _ = second.communicate()
        assert second.returncode == 1
        assert not JARGON.search(told), told
        assert re.fullmatch(
            rf"the study in results/toy is held by process {run.pid} on \S+; wait for it, or stop it",
            told.splitlines()[-1],
        )
        assert not list(study.results.glob("pending/0/outcomes/*")), "it began nothing"
        os.killpg(run.pid, signal.SIGINT)
        os.kill(run.pid, signal.SIGTERM)
        told, _ = run.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
    assert run.returncode == 1
    assert not JARGON.search(told), told
    good = told[told.index("Study toy stopped early") :].splitlines()
    assert "the same command again" in good[0]
    assert all(line.startswith("Complete log") for line in good[1:]), told


def test_a_kill_alone_says_each_thing_once(brief) -> None:
    study = brief(sleep=1.0)
    run = started(study)
    os.kill(run.pid, signal.SIGTERM)
    told, _ = run.communicate()
    assert run.returncode == 1
    assert not JARGON.search(told), told
    assert len(set(told.splitlines())) == len(told.splitlines()), told


def test_a_home_that_cannot_be_made_is_not_needed(brief, tmp_path: Path) -> None:
    study = brief(iterations=0)
    environment = {"HOME": "/dev/null/home", "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": ""}
    run = started(study, **environment)
    told, _ = run.communicate()
    assert run.returncode == 0 and not JARGON.search(told), told
    assert len(study.evaluations()) == 8
    assert not list(tmp_path.glob("snakemake-cache-*")), "it leaves none behind"
