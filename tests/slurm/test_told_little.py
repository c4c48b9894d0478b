"""A site that renames jobs, tells little of them, or gives them less: nothing is left behind or waits for ever."""

from __future__ import annotations

import signal

import pytest

from .cluster import Cluster


def test_ctrl_c_cancels_jobs_that_got_other_names(study, cluster: Cluster) -> None:
    """As a plugin of the site may name them."""
    toy = study(points_per_job=1)
    toy.actions(**{f"p0_{k}": "go" for k in range(4)})
    toy.start()
    toy.until(lambda: len(toy.jobs()) == 4, "all are submitted")
    mine = list(toy.jobs())
    for job in mine:
        cluster.run("scontrol", "update", f"jobid={job}", "name=site")
    output = toy.terminate(signal.SIGINT)
    states = cluster.squeue()
    toy.until(lambda: not {cluster.squeue().get(j, "CA") for j in mine} - {"CA", "CG"}, "cancelled")
    assert "did not cancel" not in output and "did not confirm" not in output, states
    toy.let_go()
    toy.run()
    toy.lawful(4)


def test_jobs_that_nobody_may_cancel_are_said(study, cluster: Cluster, commands) -> None:
    toy = study(points_per_job=2)
    toy.actions(p0_1="go", p0_3="go")
    toy.start()
    left = sorted((toy.job_of("0-1"), toy.job_of("0-3")))
    commands.replace("scancel", 'echo "scancel: error: Access/permission denied" >&2; exit 1')
    output = toy.terminate(signal.SIGINT)
    assert f"`scancel {left[0]} {left[1]}`" in output
    (commands.folder / "scancel").unlink()
    toy.let_go()
    toy.until(lambda: not toy.jobs(), "they end by themselves")
    toy.run()
    toy.lawful(4)
    assert max(toy.events("start").values()) == 1


def test_a_cluster_that_tells_little_of_ended_jobs(study, cluster: Cluster, commands) -> None:
    """`squeue` lists active jobs only, `scontrol show job` is denied, and somebody cancels a job."""
    commands.replace(
        "scontrol",
        'case "$*" in *"show job"*) echo "slurm_load_jobs error: Access/permission denied" >&2; '
        'exit 1 ;; esac\nexec "$real" "$@"',
    )
    commands.replace("squeue", 'exec "$real" "${@/--states=all/--states=PENDING,RUNNING}"')
    toy = study(points_per_job=1, retries=1)
    toy.actions(p0_1="go", p0_2="go")
    toy.start()
    jobs = [toy.job_of("0-1"), toy.job_of("0-2")]
    for job in jobs:
        cluster.cancel(job)
    again = {"0-1", "0-2"}
    toy.until(lambda: all(toy.events("start").get(p, 0) == 2 for p in again), "they start again")
    toy.let_go()
    output = toy.end()
    toy.lawful(4)
    assert "does not answer" not in output and "answers again" not in output


@pytest.mark.parametrize("handles", [True, False])
def test_a_signal_to_the_batch_shell(study, cluster: Cluster, handles: bool) -> None:
    """As `slurm_extra: --signal=B:USR1@200` sends it before the end of a job."""
    toy = study(points_per_job=2)
    if handles:
        path = toy.folder / "objective.py"
        path.write_text(
            "import signal\nsignal.signal(signal.SIGUSR1, lambda *_: open('heard', 'w').close())\n"
            + path.read_text()
        )
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    cluster.run("scancel", "--batch", "--signal=USR1", str(job))
    if handles:
        toy.until((toy.folder / "heard").exists, "the objective hears it")
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


@pytest.mark.usefixtures("rsync")
def test_outcomes_travel_through_a_storage(study, cluster: Cluster) -> None:
    """No file of a job comes to its place here. The storage has it, and it stays there."""
    toy = study(points_per_job=2, designed=False)
    storage = toy.folder / "storage"
    options = ("--shared-fs-usage", "none", "--default-storage-provider", "fs")
    toy.actions(p0_1="go")
    toy.start(*options, "--default-storage-prefix", str(storage))
    cluster.cancel(toy.job_of("0-1"))
    toy.until(lambda: toy.events("start")["0-1"] == 2, "it starts again")
    toy.let_go()
    output = toy.end()
    assert "outputs are missing" not in output
    assert len(list(storage.rglob("outcomes/*.json"))) == 2
    toy.lawful(4)
