"""Calls of Slurm that hang, jobs that never start, and the end of a run: nothing is silent or endless."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Cluster


def jobs_of(cluster: Cluster, before: int) -> Counter[str]:
    """How often Slurm has taken each job, by its comment without the number of the submission."""
    lines = cluster.run("squeue", "--noheader", "--states=all", "--format=%A|%k").splitlines()
    rows = [line.split("|", 1) for line in lines]
    return Counter(tag.split(" #")[0] for number, tag in rows if int(number) > before)


def newest(cluster: Cluster) -> int:
    return max(cluster.squeue(), default=0)


def test_a_submission_without_its_answer_is_looked_for_and_made_once(
    study, cluster: Cluster, commands
) -> None:
    """The first call hangs before Slurm has heard of it, and the second afterwards. The third says that it timed
    out although Slurm took the job. The fourth does not say the job's number."""
    toy, before = study(points_per_job=1), newest(cluster)
    toy.hurry_calls()
    error = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    taken = '"$real" "$@" >/dev/null'
    ways = (
        "sleep 1000",
        f"{taken}; sleep 1000",
        f'{taken}; echo "{error}" >&2; exit 1',
        f"{taken}; exit",
    )
    each = [
        f"if mkdir {commands.folder}/{i} 2>/dev/null; then {way}; fi\n"
        for i, way in enumerate(ways)
    ]
    test = 'case "$*" in *--test-only*) exec "$real" "$@" ;; esac\n'
    commands.replace("sbatch", f'{test}{"".join(each)}exec "$real" "$@"')
    toy.run()
    toy.lawful(4)
    assert (commands.folder / str(len(ways) - 1)).exists(), "each has happened"
    assert sorted(jobs_of(cluster, before).values()) == [1] * 4
    assert sum(toy.events("start").values()) == 4


def test_a_signal_ends_the_run_while_a_call_hangs(study, cluster: Cluster, commands) -> None:
    """Any call of Slurm's, one after another in one study, which then goes on as if nothing had been."""
    toy = study(retries=9)
    toy.actions(p0_1="go", p0_3="go")
    calls = [
        ("scancel", signal.SIGINT),
        ("sbatch", signal.SIGTERM),
        ("squeue", signal.SIGINT),
        ("scancel", signal.SIGTERM),
        ("scontrol", signal.SIGTERM),
    ]
    for i, (name, number) in enumerate(calls):
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
        (commands.folder / name).unlink()
        # Before the points may end: one that is cancelled as it ends is evaluated again.
        # What a run that got SIGTERM has left goes on, the last time.
        if i < len(calls) - 1:
            for job in toy.jobs():
                cluster.cancel(job)
            toy.until(lambda: not toy.jobs(), "the cancelled jobs are gone")
    toy.let_go()
    toy.run()
    toy.lawful(4)


def test_slurm_is_silent_and_that_is_said(study, cluster: Cluster, commands) -> None:
    toy = study()
    toy.hurry_calls()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    commands.hang("squeue", once=False)
    toy.until(lambda: "Slurm does not answer (squeue)" in toy.log(), "it is said")
    (commands.folder / "squeue").unlink()
    toy.until(lambda: "Slurm answers again" in toy.log(), "it is said")
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert toy.log().count("Slurm does not answer") == 1


def test_a_run_that_begins_without_a_controller_says_so(study, cluster: Cluster) -> None:
    toy = study()
    cluster.stop("slurmctld")
    toy.start()
    toy.until(lambda: "Slurm does not answer (scontrol ping)" in toy.log(), "it is said")
    cluster.up()
    toy.end()
    toy.lawful(4)


@pytest.fixture
def partition(cluster: Cluster) -> Iterator[None]:
    yield
    cluster.run("scontrol", "update", "partitionname=main", "state=up", "maxtime=infinite")


@pytest.mark.usefixtures("partition")
def test_a_job_that_can_never_start_ends_the_run_with_what_to_change(
    study, cluster: Cluster
) -> None:
    toy = study(points_per_job=1)
    toy.hurry_calls()
    for node in cluster.nodes:
        cluster.set_node(node, "drain")
    toy.start()
    toy.until(lambda: len(toy.jobs()) == 4, "all are submitted")
    cluster.run("scontrol", "update", "partitionname=main", "maxtime=10")
    output = toy.end(check=False)
    assert toy.process.returncode
    found = "Slurm takes jobs of evaluate but does not start them: PartitionTimeLimit. Change runtime of evaluate"
    assert output.count(found) == 1
    assert "stopped early" in output
    assert not toy.jobs()


def test_what_jobs_wait_for_is_said(study, cluster: Cluster) -> None:
    toy = study()
    toy.hurry_calls()
    for node in cluster.nodes:
        cluster.set_node(node, "drain")
    toy.start()
    toy.until(lambda: "Nodes required for job are DOWN" in toy.log(), "it is said")
    time.sleep(5)
    for node in cluster.nodes:
        cluster.set_node(node, "resume")
    output = toy.end()
    toy.lawful(4)
    assert output.count("Nodes required for job are DOWN") == 1


def test_a_job_that_hangs_before_it_begins_is_said(study, cluster: Cluster, tmp_path: Path) -> None:
    """In a prolog of the site; so does Python where its file system is away."""
    go = tmp_path / "mended"
    with cluster.script("TaskProlog", f"until [ -e {go} ]; do sleep 0.2; done"):
        toy = study()
        toy.hurry_calls()
        toy.propose_design()
        toy.start()
        toy.until(lambda: "did not come to our code" in toy.log(), "it is said")
        go.touch()
        output = toy.end()
    toy.lawful(4)
    assert output.count("did not come to our code") == 1
    assert "2 jobs began in Slurm" in output


def test_a_job_whose_outcomes_are_written_is_done_though_its_node_tidies_up(
    study, cluster: Cluster, tmp_path: Path
) -> None:
    go = tmp_path / "tidied"
    with cluster.script("Epilog", f"until [ -e {go} ]; do sleep 0.2; done"):
        toy = study()
        toy.run()
        assert set(toy.jobs().values()) == {"CG"}
        go.touch()
    toy.lawful(4)
