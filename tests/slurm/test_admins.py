"""What administrators, colleagues and the user's own shell do to jobs in the middle of a study."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dngo.storage.claim import SILENCE

from .cluster import Cluster
from .study import SlurmStudy
from .test_interrupted import disk, fill  # noqa: F401

# Each job fills one of the four nodes: of six jobs two wait.
WHOLE_NODES = {"evaluate": {"mem_mb": 1000, "threads": 4}}


@pytest.fixture
def partition(cluster: Cluster) -> Iterator[None]:
    """The cluster's partition works again when the test ends."""
    yield
    cluster.run("scontrol", "update", "partitionname=main", "state=up", "maxtime=infinite")


def submitted(cluster: Cluster, commands, toy) -> int:
    """How many jobs Slurm has taken from a study's run, by the real `squeue`."""
    (commands.folder / "squeue").unlink(missing_ok=True)
    run = re.search(r"SLURM run ID: (\S+)", toy.log())[1]
    return len(cluster.run("squeue", "--noheader", "--states=all", f"--name={run}").splitlines())


def test_all_jobs_are_cancelled_by_the_user(study, cluster: Cluster) -> None:
    """Those that run and those that wait: each starts again, and what had ended is kept."""
    toy = study(design={"size": 6}, points_per_job=1, resources=WHOLE_NODES)
    toy.actions(**{f"p0_{k}": "go" for k in range(6)})
    toy.start()
    toy.until(lambda: len(toy.jobs()) == 6, "all are submitted")
    toy.until(lambda: sum(toy.events("start").values()) >= 4, "some run")
    jobs = set(toy.jobs())
    cluster.run("scancel", "--user=root")
    # Slurm records the end of a job before the signal reaches it: until then it would see "go".
    toy.until(lambda: not jobs & set(toy.jobs()), "all are gone")
    toy.let_go()
    toy.end()
    toy.lawful(6)


def test_a_partition_goes_down_while_jobs_wait(study, cluster: Cluster, partition) -> None:
    toy = study(design={"size": 6}, points_per_job=1, resources=WHOLE_NODES)
    toy.hurry_calls()
    toy.actions(**{f"p0_{k}": 2.0 for k in range(6)})
    toy.start()
    toy.until(lambda: "PD" in toy.jobs().values(), "some wait")
    cluster.run("scontrol", "update", "partitionname=main", "state=down")
    toy.until(lambda: "PartitionDown" in toy.log(), "it is said")
    cluster.run("scontrol", "update", "partitionname=main", "state=up")
    toy.end()
    toy.lawful(6)
    assert sum(toy.events("start").values()) == 6


def test_an_evaluation_that_is_suspended_or_stopped_keeps_its_time(study, cluster: Cluster) -> None:
    """Neither its own limit nor the job's counts the time in which Slurm let other jobs run."""
    toy = study(
        points_per_job=1,
        objective={"command": "{python} objective.py", "time_limit": 15},
        retries=0,
    )
    toy.hurry_calls()
    toy.actions(p0_1="go", p0_2="go")
    toy.start()
    suspended, stopped = (str(toy.job_of(point)) for point in ("0-1", "0-2"))
    cluster.run("scontrol", "suspend", suspended)
    cluster.run("scancel", "--signal=STOP", "--full", stopped)
    toy.until(lambda: "SUSPENDED" in toy.log(), "it is said")
    time.sleep(20)
    cluster.run("scontrol", "resume", suspended)
    cluster.run("scancel", "--signal=CONT", "--full", stopped)
    time.sleep(3)
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


def test_an_admin_changes_jobs_that_run(study, cluster: Cluster) -> None:
    """One is queued again, one is held, which is said with how to release it, one gets less time, and one a
    name by which `squeue` does not list it any more."""
    toy = study(points_per_job=1)
    toy.actions(**{f"p0_{k}": "go" for k in range(4)})
    toy.start()
    requeued, held, short, renamed = (toy.job_of(f"0-{k}") for k in range(4))
    cluster.run("scontrol", "requeue", str(requeued))
    cluster.run("scontrol", "requeuehold", str(held))
    cluster.run("scontrol", "update", f"jobid={short}", "timelimit=1")
    cluster.run("scontrol", "update", f"jobid={renamed}", "name=mine")
    toy.until(lambda: f"scontrol release {held}" in toy.log(), "it is said")
    cluster.run("scontrol", "release", str(held))
    toy.until(lambda: f"`squeue` does not list job {renamed}" in toy.log(), "it is said")
    again = ("0-0", "0-1", "0-2")
    toy.until(
        lambda: toy.hurry() or all(toy.events("start")[p] == 2 for p in again), "all run again"
    )
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert toy.events("start")["0-3"] == 1


def test_a_suspended_job_keeps_its_point_from_another_run(study, cluster: Cluster) -> None:
    """Snakemake was killed meanwhile. On another node only a job's silence would show that it is dead."""
    toy = study(points_per_job=1)
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    toy.until(lambda: len(toy.jobs()) == 1, "the others have ended")
    cluster.run("scontrol", "suspend", str(job))
    assert toy.process is not None
    os.killpg(toy.process.pid, signal.SIGKILL)
    toy.process.wait()
    (claim,) = (toy.results / "pending" / "0" / "claims").glob("1")
    owner = json.loads(claim.read_text())
    assert owner["job"] == str(job)
    claim.write_text(json.dumps({**owner, "host": "elsewhere"}))
    toy.start()
    time.sleep(SILENCE + 30)
    assert toy.events("start")["0-1"] == 1
    cluster.run("scontrol", "resume", str(job))
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert toy.events("start")["0-1"] == 1


def test_squeue_lists_none_of_the_jobs(study, cluster: Cluster, commands) -> None:
    """Without an error, as a wrapper of the site's does, or one that is late: the jobs are not over."""
    toy = study(points_per_job=1, retries=1)
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    commands.replace("squeue", "echo '1|RUN'; echo 'squeue: warning|x|y'")
    toy.until(lambda: "`squeue` does not list job" in toy.log(), "it is said")
    error = "Socket timed out on send/recv operation"
    commands.replace("scontrol", f'echo "scontrol: error: {error}" >&2; exit 1')
    toy.until(
        lambda: f"does not answer (scontrol show job: scontrol: error: {error})" in toy.log(),
        "it is said",
    )
    assert toy.events("start")["0-1"] == 1
    (commands.folder / "scontrol").unlink()
    (commands.folder / "squeue").unlink()
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4
    assert toy.log().count("Slurm answers again") <= 1


def test_slurm_times_out_for_a_while(study, cluster: Cluster, commands) -> None:
    toy = study(points_per_job=1)
    toy.hurry_calls()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    error = "Socket timed out on send/recv operation"
    for name in ("squeue", "sbatch", "scontrol", "scancel"):
        commands.replace(name, f'echo "{name}: error: {error}" >&2; exit 1')
    toy.until(lambda: "Slurm does not answer" in toy.log(), "it is said")
    toy.let_go()
    time.sleep(10)
    for name in ("squeue", "sbatch", "scontrol", "scancel"):
        (commands.folder / name).unlink()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


def test_a_refusal_in_unknown_words_passes(study, cluster: Cluster, commands) -> None:
    """Of a controller whose disk was full, and one that did not know the user for a moment."""
    toy = study(points_per_job=1, retries=0)
    toy.hurry_calls()
    words = (
        "I/O error writing script/environment to file",
        "Invalid user id",
        "Could not establish a configuration source",
    )
    refused = " ".join(f'"{text}"' for text in words)
    commands.replace(
        "sbatch",
        'case " $* " in *" --test-only "*) exec "$real" "$@" ;; esac\n'
        f"for text in {refused}; do\n"
        f'  mkdir "{commands.folder}/$(echo $text | cut -c1-5)" 2>/dev/null || continue\n'
        '  echo "sbatch: error: Batch job submission failed: $text" >&2; exit 1\ndone\n'
        'exec "$real" "$@"',
    )
    output = toy.run()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4
    assert "Slurm takes no job now, trying again: sbatch: error" in output


def test_a_job_that_does_not_end_is_said(study, cluster: Cluster, tmp_path: Path) -> None:
    """A cancelled one whose node cannot tidy up, and so one without outcomes."""
    go = tmp_path / "tidied"
    with cluster.script("Epilog", f"until [ -e {go} ]; do sleep 0.2; done"):
        toy = study(points_per_job=1)
        toy.hurry_calls()
        toy.actions(p0_1="go")
        toy.start()
        cluster.cancel(toy.job_of("0-1"))
        toy.until(lambda: "state COMPLETING, not running" in toy.log(), "it is said")
        go.touch()
        toy.let_go()
        toy.end()
    toy.lawful(4)
    assert toy.log().count("COMPLETING") == 1


def test_the_shell_has_options_for_slurms_commands(study, cluster: Cluster) -> None:
    """Of a user who looks at another partition, has questions asked, and waits for jobs."""
    before = dict(cluster.environment)
    cluster.environment |= {
        "SQUEUE_PARTITION": "other",
        "SQUEUE_USERS": "nobody",
        "SQUEUE_STATES": "PD",
        "SQUEUE_FORMAT": "%i",
        "SCANCEL_INTERACTIVE": "1",
        "SBATCH_WAIT": "1",
        "SBATCH_EXPORT": "NONE",
    }
    try:
        toy = study(points_per_job=1, iterations=1)
        toy.hurry_calls()
        toy.actions(p0_1="exit")
        toy.run()
    finally:
        cluster.environment.clear()
        cluster.environment |= before
    toy.lawful(8, p0_1="failed")


def test_slurms_commands_print_more_than_was_asked(study, cluster: Cluster, commands) -> None:
    """A wrapper that greets. Each job is still submitted once."""
    commands.replace("sbatch", 'echo "Welcome to cluster 12345!"; exec "$real" "$@"')
    commands.replace("squeue", 'echo "Closed on 2026-12-01|see|our|page|!"; exec "$real" "$@"')
    toy = study(points_per_job=1)
    toy.run()
    toy.lawful(4)
    assert submitted(cluster, commands, toy) == 4


def test_somebody_deletes_snakemakes_folder(study, cluster: Cluster) -> None:
    """With the logs of jobs that wait, and with the note that jobs read."""
    toy = study(design={"size": 6}, points_per_job=1, retries=1, resources=WHOLE_NODES)
    toy.actions(**{f"p0_{k}": "go" for k in range(6)})
    toy.start()
    toy.until(lambda: len(toy.jobs()) == 6, "all are submitted")
    toy.until(lambda: sum(toy.events("start").values()) >= 4, "some run")
    shutil.rmtree(toy.folder / ".snakemake", ignore_errors=True)
    toy.let_go()
    toy.end()
    toy.lawful(6)
    assert sum(toy.events("start").values()) == 6


def test_the_configuration_is_edited_while_jobs_run(study, cluster: Cluster) -> None:
    toy = study(points_per_job=1, iterations=1, retries=1)
    toy.actions(p0_1="go", p0_2="go")
    toy.start()
    job = toy.job_of("0-1")
    good = (toy.folder / "config.yaml").read_text()
    (toy.folder / "config.yaml").write_text("study: [\n")
    cluster.cancel(job)
    toy.until(lambda: job not in toy.jobs(), "the job is gone")  # or its objective may end first
    toy.let_go()
    toy.end()
    (toy.folder / "config.yaml").write_text(good)
    toy.lawful(8)


def test_a_folder_with_a_difficult_name(cluster: Cluster, tmp_path: Path) -> None:
    """Among others with one of Slurm's patterns for the names of logs."""
    toy = SlurmStudy(tmp_path / "my study's é %j; x", cluster, points_per_job=1)
    toy.propose_design()
    toy.run()
    toy.lawful(4)


def test_snakemake_runs_in_a_job_of_slurm(study, cluster: Cluster, monkeypatch) -> None:
    """As where nothing may run on a login node. Its own limits are no limits of its jobs."""
    given = {
        "JOB_ID": "4711",
        "JOBID": "4711",
        "NTASKS": "1",
        "MEM_PER_NODE": "100",
        "TIMELIMIT": "1",
    }
    for name, value in given.items():
        monkeypatch.setitem(cluster.environment, f"SLURM_{name}", value)
    toy = study(points_per_job=1)
    toy.run()
    toy.lawful(4)


def test_the_disk_is_full_when_outcomes_are_written(study, disk: Path) -> None:  # noqa: F811
    toy = study(results=str(disk), points_per_job=1, design={"size": 8}, retries=0)
    toy.actions(**{f"p0_{k}": "go" for k in range(8)})
    toy.start()
    toy.until(lambda: sum(toy.events("start").values()) == 8, "all run")
    ballast = fill(disk, spare=0)
    toy.let_go()
    time.sleep(10)
    ballast.unlink()
    toy.end()
    toy.lawful(8)
    assert max(toy.events("start").values()) == 1


def test_the_daemon_of_a_node_hangs(study, cluster: Cluster) -> None:
    """Its job ends, and Slurm does not hear of it; the outcomes say it."""
    toy = study(points_per_job=1)
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    node = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%N")
    pid = int((cluster.folder / "pid" / node).read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        toy.let_go()
        toy.end()
    finally:
        os.kill(pid, signal.SIGCONT)
    toy.lawful(4)
