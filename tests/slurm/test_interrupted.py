"""A run on a real Slurm is interrupted, refused, or has a disk that is full or read-only.

After each fault the law is checked: no evaluation is lost or repeated, and the study ends as it
would have without the fault.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from needs import MACHINE, missing

from .cluster import Cluster


def test_interrupted_the_same_command_goes_on(study) -> None:
    toy = study()
    toy.actions(p0_1="go", p0_3="go")
    toy.start()
    toy.job_of("0-1"), toy.job_of("0-3")
    toy.terminate(signal.SIGINT)  # Ctrl-C: the jobs are cancelled
    toy.until(lambda: not toy.jobs(), "the jobs are cancelled")
    toy.let_go()
    toy.run()
    toy.lawful(4)
    assert toy.events("start") == {"0-0": 1, "0-1": 2, "0-2": 1, "0-3": 2}


def test_interrupted_while_slurm_is_asked_it_cancels_its_jobs(
    study, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real squeue, slow to answer the workflow, as it is on a busy cluster."""
    slow, asked, real = tmp_path / "bin" / "squeue", tmp_path / "asked", shutil.which("squeue")
    slow.parent.mkdir()
    wait = f"case $* in *--name=*) touch {asked}; sleep 5 ;; esac"
    slow.write_text(f'#!/bin/sh\n{wait}\nexec {real} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setitem(cluster.environment, "PATH", f"{slow.parent}:{os.environ['PATH']}")
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    asked.unlink(missing_ok=True)
    toy.until(asked.exists, "Slurm is asked")
    toy.terminate(signal.SIGINT)
    toy.until(lambda: not toy.jobs(), "the jobs are cancelled")
    assert toy.events("end").get("0-1", 0) == 0


def test_terminated_it_lets_its_jobs_end_and_goes_on(study) -> None:
    """Snakemake ends at once. The job ends by itself, and the next run takes over its outcome."""
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    running = toy.job_of("0-1")
    toy.terminate()
    toy.until(lambda: list(toy.jobs()) == [running], "the other job ends")
    assert not (toy.results / "archive.h5").exists()
    toy.let_go()
    toy.run()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


def test_killed_its_orphans_are_waited_for(study) -> None:
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    orphan = toy.job_of("0-1")
    os.killpg(toy.process.pid, signal.SIGKILL)
    toy.process.wait()
    toy.start()
    log = toy.results / "logs" / "evaluate" / "0" / "0.log"
    toy.until(lambda: log.exists() and "waiting" in log.read_text(), "a new job finds it taken")
    assert f"job {orphan}" in log.read_text()
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


def test_orphans_of_fit_and_propose_are_waited_for(study) -> None:
    """Neither destroys the other's files, whichever Snakemake deletes them."""
    toy = study(iterations=1)
    toy.start()
    claim = toy.results / "pending" / "1" / "claims" / "model"
    fitting = toy.until(lambda: claim.exists() and json.loads(claim.read_text()), "a fit begins")
    os.kill(fitting["pid"], signal.SIGSTOP)  # a fit that takes its time
    os.killpg(toy.process.pid, signal.SIGKILL)
    toy.process.wait()
    try:
        toy.start()
        log = toy.results / "logs" / "fit" / "1.log"
        toy.until(lambda: log.exists() and "waiting" in log.read_text(), "it is taken")
        assert f"job {fitting['job']}" in log.read_text()
    finally:
        os.kill(fitting["pid"], signal.SIGCONT)
    output = toy.end()
    toy.lawful(8)
    assert "Error in" not in output
    assert toy.cluster.squeue()[int(fitting["job"])] == "CD"


def test_a_study_that_ends_leaves_the_pending_jobs_of_another_their_logs(study) -> None:
    """Two studies in one folder: Slurm opens a job's log when the job starts, and not before."""
    held = study(resources={"evaluate": {"slurm_extra": "--hold"}})
    held.start()
    held.until(lambda: list(held.jobs().values()) == ["PD", "PD"], "its jobs are held")
    other = held.folder / "other.yaml"
    other.write_text(yaml.safe_dump({**held.config, "study": "other", "resources": {}}))
    text = held.snakemake("--configfile", str(other))
    assert "4 evaluations" in text
    for job in held.jobs():
        held.cluster.run("scontrol", "release", str(job))
    output = held.end()
    held.lawful(4, runs=dict.fromkeys(held.statuses(), 2))  # by each study once
    assert "Error in" not in output


@pytest.fixture
def partition(cluster: Cluster) -> Iterator[Callable[..., None]]:
    """A function that changes the cluster's partition until the test ends."""

    def update(**options: str) -> None:
        words = [f"{key}={value}" for key, value in options.items()]
        cluster.run("scontrol", "update", "partitionname=main", *words)

    yield update
    update(state="up", maxtime="infinite")


def test_a_refusal_that_passes_is_waited_for(study, partition) -> None:
    toy = study()
    partition(state="inactive")
    toy.start()
    toy.until(lambda: "Slurm takes no job now" in toy.log(), "a submission is refused")
    time.sleep(6)  # until it is refused again
    partition(state="up")
    output = toy.end()
    toy.lawful(4)
    assert output.count("Slurm takes no job now") == 1
    assert "Required partition not available (inactive or drain)" in output
    assert "Error in" not in output


def test_a_refusal_that_stays_ends_the_run_with_what_to_change(study, partition) -> None:
    """Of each rule, before anything is paid for."""
    toy = study(designed=False, iterations=1)
    partition(maxtime="30")
    output = toy.run(check=False)
    assert toy.process.returncode
    words = "Requested time limit is invalid (missing or exceeds some limit)"
    message = f"Slurm refuses jobs of {{}}: allocation failure: {words}. Change runtime of {{}} (now {{}} minutes)"
    assert output.count(message.format("evaluate", "evaluate", "60")) == 1
    assert output.count(message.format("fit and propose", "fit and propose", "20 + 20")) == 1
    assert "They are one job, and their runtimes are added" in output
    assert "stopped early" in output
    assert "Error in" not in output
    assert not toy.jobs()
    assert not (toy.results / "pending").exists()


def mount(*words: str | Path) -> None:
    """Mount something, or skip the test where that is not allowed."""
    result = subprocess.run(
        ["mount", *map(str, words)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        missing(f"{MACHINE}lets this user mount no file system: {result.stderr.strip()}")


def unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def test_the_study_is_read_only_for_a_moment(study) -> None:
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    # Snakemake's own bookkeeping has no such patience: it would end, to be started again.
    toy.until(lambda: "Finished jobid" in toy.snakemake_log(), "the other job ends")
    # The folder, read-only, on top of itself: whatever is opened from now on.
    mount("--bind", toy.results, toy.results)
    try:
        mount("-o", "remount,bind,ro", toy.results)
        toy.let_go()
        toy.until(lambda: toy.events("end")["0-1"], "the evaluation ends")
        time.sleep(3)
    finally:
        unmount(toy.results)
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", "size=64m", "dngo-test", place)
    yield place
    unmount(place)


def fill(disk: Path, spare: int) -> Path:
    """Fill a disk but for some bytes; the file that is to be removed."""
    free = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - spare))
    return ballast


def without_room_for_the_archive(toy, disk: Path) -> Path:
    """Run a study until merge finds the disk full; the file that is to be removed."""
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    toy.until(lambda: "Finished jobid" in toy.snakemake_log(), "the other job ends")
    # The other outcomes and logs still fit; a packed archive does not.
    ballast = fill(disk, spare=40_000)
    toy.let_go()
    log = disk / "toy" / "logs" / "merge" / "0.log"
    toy.until(lambda: log.exists() and "No space left" in log.read_text(), "merge runs out of it")
    assert not (disk / "toy" / "archive.h5").exists()
    return ballast


def test_the_disk_is_full_when_a_batch_is_merged(study, disk: Path) -> None:
    toy = study(results=str(disk))
    without_room_for_the_archive(toy, disk).unlink()
    toy.end()
    assert sum(toy.events("start").values()) == 4
    toy.lawful(4)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_while_the_disk_is_full(study, disk: Path, number: int) -> None:
    toy = study(results=str(disk))
    ballast = without_room_for_the_archive(toy, disk)
    toy.terminate(number)
    ballast.unlink()
    toy.run()
    assert sum(toy.events("start").values()) == 4
    toy.lawful(4)
