"""A run on a real Slurm is interrupted, or has a disk that is full or read-only.

After each fault the law is checked: no evaluation is lost or repeated, and the study ends as it
would have without the fault.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from needs import MACHINE, missing

from .cluster import Cluster


def test_whatever_ends_a_run_the_same_command_goes_on(study, cluster: Cluster, commands) -> None:
    """One study, whose runs are ended one after another while two points wait: by a signal while any call of
    Slurm's hangs, and by SIGKILL."""
    toy = study(retries=9)
    toy.actions(p0_1="go", p0_3="go")

    # Ctrl-C while Slurm is asked, which takes its time. A plugin of the site's has renamed a job.
    asked = commands.folder / "asked"
    slow = f"case $* in *--name=*) touch {asked}; sleep 5 ;; esac"
    toy.start()
    jobs = toy.job_of("0-1"), toy.job_of("0-3")
    cluster.run("scontrol", "update", f"jobid={jobs[0]}", "name=site")
    commands.replace("squeue", f'{slow}\nexec "$real" "$@"')
    toy.until(asked.exists, "Slurm is asked")
    output = toy.terminate(signal.SIGINT)
    toy.until(lambda: not toy.jobs(), "the jobs are cancelled")
    assert "did not cancel" not in output and "did not confirm" not in output
    commands.restore("squeue")

    for name, number in (
        ("scancel", signal.SIGINT),
        ("sbatch", signal.SIGTERM),
        ("squeue", signal.SIGINT),
        ("scancel", signal.SIGTERM),
        ("scontrol", signal.SIGTERM),
    ):
        commands.hang(name, once=False, unless="config")
        began = toy.events("start")["0-1"]
        toy.start()
        if name == "scancel":
            toy.until(lambda n=began: toy.events("start")["0-1"] > n, "a point starts")
        else:
            toy.until(lambda name=name: commands.hangs(name), f"a call of {name} hangs")
        output = toy.terminate(number)
        assert "stopped early" in output, name
        assert "Traceback" not in output, name
        assert ("Slurm did not confirm" in output) == (name == "scancel")
        commands.restore(name)
        # Before the points may end: one that is cancelled as it ends is evaluated again.
        for job in toy.jobs():
            cluster.cancel(job)
        toy.until(lambda: not toy.jobs(), "the cancelled jobs are gone")

    # Killed: its orphans are waited for.
    last = {point: toy.jobs_of(point)[-1] for point in ("0-1", "0-3")}
    toy.start()
    orphans = [toy.job_of(point, after=last[point]) for point in last]
    toy.kill()
    starts = toy.events("start")

    def another_waits() -> None:
        toy.start()
        for chunk, orphan in enumerate(orphans):
            log = toy.results / "logs" / "evaluate" / "0" / f"{chunk}.log"
            toy.until(
                lambda log=log, n=orphan: log.exists() and f"job {n}; waiting" in log.read_text(),
                "a new job finds the point taken",
            )
            log.unlink()

    another_waits()

    # Nobody may cancel jobs.
    left = sorted(set(toy.jobs()) - set(orphans))
    commands.replace("scancel", 'echo "scancel: error: Access/permission denied" >&2; exit 1')
    output = toy.terminate(signal.SIGINT)
    assert f"`scancel {left[0]} {left[1]}`" in output
    commands.restore("scancel")

    # Terminated, a run lets its jobs end, and the next one takes over their outcomes.
    another_waits()
    assert "Jobs that run go on" in toy.terminate()
    assert list(toy.jobs().values()) == ["R"] * 6
    assert not (toy.results / "archive.h5").exists()
    toy.let_go()
    toy.until(lambda: not toy.jobs(), "all end by themselves")
    toy.run()
    toy.lawful(4)
    assert toy.events("start") == starts
    assert starts["0-0"] == starts["0-2"] == 1


def test_orphans_of_fit_and_propose_are_waited_for(study) -> None:
    """Neither destroys the other's files, whichever Snakemake deletes them."""
    toy = study(iterations=1, points_per_job=4)
    toy.start()
    claim = toy.results / "pending" / "1" / "claims" / "model"
    fitting = toy.until(lambda: claim.exists() and json.loads(claim.read_text()), "a fit begins")
    os.kill(fitting["pid"], signal.SIGSTOP)  # a fit that takes its time
    toy.kill()
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
    held = study(points_per_job=4, resources={"evaluate": {"slurm_extra": "--hold"}})
    held.start()
    held.until(lambda: list(held.jobs().values()) == ["PD"], "its job is held")
    other = held.folder / "other.yaml"
    other.write_text(yaml.safe_dump({**held.config, "study": "other", "resources": {}}))
    text = held.snakemake("--configfile", str(other))
    assert "4 evaluations" in text
    for job in held.jobs():
        held.cluster.run("scontrol", "release", str(job))
    output = held.end()
    held.lawful(4, runs=dict.fromkeys(held.statuses(), 2))  # by each study once
    assert "Error in" not in output


def mount(*words: str | Path) -> None:
    """Mount something, or skip the test where that is not allowed."""
    result = subprocess.run(
        ["mount", *map(str, words)], capture_output=True, text=True, check=False
    )
    if result.returncode:
        missing(f"{MACHINE}lets this user mount no file system: {result.stderr.strip()}")


def unmount(place: Path) -> None:
    subprocess.run(["umount", "--lazy", str(place)], check=True)


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


def test_a_disk_that_is_read_only_or_full_loses_nothing(study, disk: Path) -> None:
    """Read-only for a moment, full when outcomes are written, and full when a batch is merged: then a signal ends
    the run, and the same command goes on."""
    toy = study(results=str(disk), points_per_job=1, design={"size": 6}, retries=0)
    toy.actions(p0_1="go-1", p0_2="go-2", p0_3="go-2", p0_4="go-2", p0_5="go-5")
    toy.start()
    for k in range(6):
        toy.job_of(f"0-{k}")

    def finished(number: int) -> None:
        """Snakemake's own bookkeeping has no such patience: it would end, to be started again."""
        toy.until(lambda: toy.snakemake_log().count("Finished jobid") == number, "jobs have ended")

    finished(1)
    # The folder, read-only, on top of itself: whatever is opened from now on.
    mount("--bind", toy.results, toy.results)
    try:
        mount("-o", "remount,bind,ro", toy.results)
        toy.let_go("go-1")
        toy.until(lambda: toy.events("end")["0-1"], "the evaluation ends")
        time.sleep(3)
    finally:
        unmount(toy.results)
    finished(2)
    ballast = fill(disk, spare=0)
    toy.let_go("go-2")
    toy.until(lambda: toy.events("end").total() == 5, "the evaluations end")
    time.sleep(5)
    ballast.unlink()
    finished(5)
    # The other outcome and logs still fit; a packed archive does not.
    ballast, log = fill(disk, spare=40_000), disk / "toy" / "logs" / "merge" / "0.log"
    toy.let_go("go-5")
    for number in (signal.SIGINT, signal.SIGTERM, None):
        toy.until(lambda: log.exists() and "No space left" in log.read_text(), "no room for merge")
        assert not (disk / "toy" / "archive.h5").exists()
        if number:
            toy.terminate(number)
            log.unlink()
            toy.start()
    ballast.unlink()
    toy.end()
    toy.lawful(6)
    assert toy.events("start").total() == 6
