"""Calls of Slurm that hang, jobs that never start, and the end of a run: nothing is silent or endless."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

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
    toy, before = study(points_per_job=1, hurried=True), newest(cluster)
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


def test_slurm_is_silent_in_many_ways_and_that_is_said(study, cluster: Cluster, commands) -> None:
    """A run begins without a controller. `squeue` hangs. All calls time out for a while. The controller is away
    for longer than calls last, and comes back without its state. `squeue` lists no job, without an error,
    as a wrapper of the site's does, or one that is late: the jobs are not over."""
    toy = study(points_per_job=1, retries=1, hurried=True)
    toy.actions(**{f"p0_{k}": f"go-{k}" for k in range(4)})
    cluster.stop("slurmctld")
    toy.start()
    toy.says("Slurm does not answer (scontrol ping)")
    cluster.up()
    for k in range(4):
        toy.job_of(f"0-{k}")

    commands.hang("squeue", once=False)
    before = toy.log().count("Slurm does not answer")
    toy.says("Slurm does not answer (squeue)")
    commands.restore("squeue")
    toy.says("Slurm answers again")
    assert toy.log().count("Slurm does not answer") == before + 1

    error = "Socket timed out on send/recv operation"
    every = ("squeue", "sbatch", "scontrol", "scancel")
    for name in every:
        commands.replace(name, f'echo "{name}: error: {error}" >&2; exit 1')
    toy.says("Slurm does not answer")
    toy.let_go("go-0")
    toy.until(lambda: toy.events("end")["0-0"], "it ends meanwhile")
    time.sleep(3)
    commands.restore(*every)
    toy.says("Slurm answers again")

    cluster.stop("slurmctld")
    toy.says("Slurm does not answer")
    toy.let_go("go-1")  # the job ends while nobody is there to hear of it
    toy.until(lambda: toy.events("end")["0-1"], "it ends meanwhile")
    time.sleep(5)
    cluster.up()
    toy.says("Slurm answers again")

    commands.replace("squeue", "echo '1|RUN'; echo 'squeue: warning|x|y'")
    toy.says("`squeue` does not list job")
    commands.replace("scontrol", f'echo "scontrol: error: {error}" >&2; exit 1')
    toy.says(f"does not answer (scontrol show job: scontrol: error: {error})")
    commands.restore("scontrol", "squeue")
    toy.let_go("go-2")
    toy.until(lambda: toy.snakemake_log().count("Finished jobid") == 3, "three jobs have ended")
    assert sum(toy.events("start").values()) == 4
    _forget(toy, cluster)
    toy.let_go("go-3")
    toy.end()
    toy.lawful(4)


def _forget(toy, cluster: Cluster) -> None:
    """Have Slurm forget its jobs, of which 0-3 runs, and wait until its fate is known.

    As soon as the controller hears of the unknown job, it kills it or lets it run. In both cases another job
    comes. The objective waits until that is settled, because an evaluation that is killed between its own
    end and its outcome does run again.
    """
    cluster.stop("slurmctld", signal.SIGKILL)
    for path in (cluster.folder / "state" / "slurmctld").glob("job_state*"):
        path.unlink()
    cluster.up()
    log = toy.results / "logs" / "evaluate" / "0" / "3.log"
    toy.says("does not know job")

    def killed() -> bool:
        return toy.events("start")["0-3"] == 2

    toy.until(lambda: killed() or (log.exists() and "waiting" in log.read_text()), "another job")
    settled = time.monotonic() + 15
    toy.until(lambda: killed() or time.monotonic() > settled, "its fate is known")


def test_a_job_that_can_never_start_ends_the_run_with_what_to_change(
    study, cluster: Cluster, partition
) -> None:
    """Slurm refuses it, of each rule, before anything is paid for; or takes it and does not start it."""
    toy = study(designed=False, iterations=1, points_per_job=1, hurried=True)
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
    toy.propose_design()
    partition(maxtime="infinite")
    for node in cluster.nodes:
        cluster.set_node(node, "drain")
    toy.start()
    toy.until(lambda: len(toy.jobs()) == 4, "all are submitted")
    partition(maxtime="10")
    output = toy.end(check=False)
    assert toy.process.returncode
    found = "Slurm takes jobs of evaluate but does not start them: PartitionTimeLimit. Change runtime of evaluate"
    assert output.count(found) == 1
    assert "stopped early" in output
    assert not toy.jobs()


def test_what_jobs_wait_for_is_said(study, cluster: Cluster, partition, tmp_path: Path) -> None:
    """For a partition that takes no job, for nodes, for a partition that starts none, and for a prolog of the
    site: so does Python where its file system is away."""
    toy, go = study(hurried=True), tmp_path / "mended"
    for node in cluster.nodes:
        cluster.set_node(node, "drain")
    partition(state="inactive")
    toy.start()
    toy.says("Slurm takes no job now")
    time.sleep(4)  # until it is refused again
    partition(state="up")
    toy.says("Nodes required for job are DOWN")
    partition(state="down")
    toy.says("PartitionDown")
    with cluster.script("TaskProlog", f"until [ -e {go} ]; do sleep 0.2; done"):
        partition(state="up")
        for node in cluster.nodes:
            cluster.set_node(node, "resume")
        toy.says("2 jobs began in Slurm and did not come to our code")
        go.touch()
        output = toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4
    assert "Required partition not available (inactive or drain)" in output
    assert "Error in" not in output
    for words in (
        "takes no job now",
        "Nodes required for job are DOWN",
        "did not come to our code",
    ):
        assert output.count(words) == 1


def test_a_job_that_does_not_end_is_said_unless_its_outcomes_are_there(
    study, cluster: Cluster, tmp_path: Path
) -> None:
    """Nodes cannot tidy up. A job that is cancelled, and so has no outcomes, is waited for, and no other."""
    waits = f"until [ -e {tmp_path}/$SLURM_JOB_ID ] || [ -e {tmp_path}/tidied ]; do sleep 0.2; done"
    with cluster.script("Epilog", waits):
        toy = study(points_per_job=1, hurried=True)
        toy.actions(p0_1="go")
        toy.start()
        job = toy.job_of("0-1")
        cluster.cancel(job)
        toy.says("state COMPLETING, not running")
        (tmp_path / str(job)).touch()
        toy.let_go()
        output = toy.end()
        assert list(toy.jobs().values()) == ["CG"] * 4
        (tmp_path / "tidied").touch()
    toy.lawful(4)
    assert output.count("COMPLETING") == 1
