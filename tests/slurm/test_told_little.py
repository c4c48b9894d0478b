"""A site that tells little of its jobs, or has no shared files: nothing is left behind or waits for ever."""

from __future__ import annotations

import pytest

from .cluster import Cluster


def test_a_cluster_that_tells_little_of_ended_jobs(study, cluster: Cluster, commands) -> None:
    """`squeue` lists active jobs only, `scontrol show job` is denied, and somebody cancels a job."""
    commands.replace(
        "scontrol",
        'case "$*" in *"show job"*) echo "slurm_load_jobs error: Access/permission denied" >&2; '
        'exit 1 ;; esac\nexec "$real" "$@"',
    )
    commands.replace("squeue", 'exec "$real" "${@/--states=all/--states=PENDING,RUNNING}"')
    toy = study(retries=1, hurried=True)
    toy.actions(p0_1="go", p0_3="go")
    toy.start()
    for point in ("0-1", "0-3"):
        cluster.cancel(toy.job_of(point))
    toy.until(lambda: toy.events("start").total() == 6, "they start again")
    toy.let_go()
    output = toy.end()
    toy.lawful(4)
    assert toy.events("start") == {"0-0": 1, "0-1": 2, "0-2": 1, "0-3": 2}  # what had ended is kept
    assert "does not answer" not in output and "answers again" not in output


@pytest.mark.usefixtures("rsync")
def test_outcomes_travel_through_a_storage(study, cluster: Cluster) -> None:
    """No file of a job comes to its place here. The storage has it, and it stays there."""
    toy = study(points_per_job=4, designed=False)
    storage = toy.folder / "storage"
    options = ("--shared-fs-usage", "none", "--default-storage-provider", "fs")
    toy.actions(p0_1="go")
    toy.start(*options, "--default-storage-prefix", str(storage))
    cluster.cancel(toy.job_of("0-1"))
    toy.until(lambda: toy.events("start")["0-1"] == 2, "it starts again")
    toy.let_go()
    output = toy.end()
    assert "outputs are missing" not in output
    assert len(list(storage.rglob("outcomes/*.json"))) == 1
    toy.lawful(4)
