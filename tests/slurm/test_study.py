"""`snakemake --profile slurm` on a real Slurm, through the faults a cluster has.

After each fault the law is checked: no evaluation is lost or repeated, and the study ends as it
would have without the fault.
"""

from __future__ import annotations

import signal
import time
from collections import Counter

from .cluster import Cluster

# What is run of a point with the epochs as its fidelity: from where it was left to all that are asked for.
TRAINING = """
left = os.path.join(sys.argv[4], "epochs")
done = json.load(open(left)) if os.path.exists(left) else 0
value = {"0-0": 1.0, "0-1": 5.0, "0-2": 0.5, "1-0": 0.5, "1-1": 0.3}[point]
note("start")
note(f"epochs-{done + 1}-{p['epochs']}")
for epoch in range(done + 1, p["epochs"] + 1):
    with open(sys.argv[2], "a") as stream:
        stream.write(json.dumps({"step": epoch, "objective": value}) + chr(10))
    json.dump(epoch, open(left + ".new", "w"))
    os.replace(left + ".new", left)
    time.sleep(1.5 if point == "0-1" else 0.05)  # others are looked at every two seconds
note("end")
print(value)
"""


def test_a_study_runs(study, cluster: Cluster) -> None:
    toy = study(
        designed=False,
        iterations=1,
        resources={
            "evaluate": {"mem_mb": 1000, "threads": 3, "slurm_extra": "--nice=7"},
            "fit": {"runtime": 10},
        },
    )
    before = {record["JobId"] for record in cluster.records()}
    toy.whole = True
    output = toy.run()
    toy.lawful(8)
    assert "Best point" in output
    jobs = [r for r in cluster.records() if r["JobId"] not in before]
    assert {r["JobState"] for r in jobs} == {"COMPLETED"}
    # The design, fit and propose in one job, two evaluate jobs a batch; merge and report wait for nobody.
    assert len(jobs) == 6
    # More CPUs than the machine has where Snakemake runs.
    assert sum("cpu=3,mem=1000M" in r["Tres"] for r in jobs) == 4
    assert sum("mem=4000M" in r["Tres"] for r in jobs) == 2
    # The design's proposals, and those after a fit, whose minutes are added.
    assert Counter(r["TimeLimit"] for r in jobs) == {"60": 4, "20": 1, "30": 1}
    assert "Nothing to evaluate" in toy.run()


def test_variables_reach_the_jobs_by_name_and_are_written_nowhere(
    study, cluster: Cluster, monkeypatch
) -> None:
    secret = "q7-Zebra+spoon/41"
    command = {"command": "{python} objective.py", "environment_from": ["API_TOKEN"]}
    toy = study(designed=False, objective=command)
    path = toy.folder / "objective.py"
    told = f'assert os.environ["API_TOKEN"] == "{secret[:9]}" + "{secret[9:]}"; print(os.environ["API_TOKEN"])'
    path.write_text(path.read_text().replace('note("start")', f'{told}\nnote("start")'))
    assert "objective.environment_from: API_TOKEN is not set" in toy.run(check=False)
    monkeypatch.setitem(cluster.environment, "API_TOKEN", secret)
    toy.run()
    toy.lawful(4)
    files = [p for p in toy.folder.rglob("*") if p.is_file() and not p.is_symlink()]
    assert not [p for p in files if secret.encode() in p.read_bytes()]


def test_points_that_fail_and_limits_that_are_met(study) -> None:
    """Exit status 1, time and memory beyond what Slurm gives: each an outcome, none a failed job."""
    toy = study(points_per_job=1, resources={"evaluate": {"mem_mb": 1000, "runtime": 1}}, retries=1)
    toy.actions(p0_1="exit", p0_2=300.0, p0_3="memory")
    output = toy.run()
    toy.lawful(4, p0_1="failed", p0_2="timeout", p0_3="out_of_memory")
    assert "Error in rule" not in output


def test_limits_grow_with_each_attempt_where_asked(study, cluster: Cluster) -> None:
    before = len(cluster.records())
    toy = study(
        design={"size": 1}, escalation=2.0, resources={"evaluate": {"mem_mb": 800, "runtime": 5}}
    )
    toy.actions(p0_0="memory")  # 900 MB for an objective that is given 400, then 1,200
    toy.run()
    toy.lawful(1)
    assert toy.events("start") == {"0-0": 2}
    jobs = cluster.records()[before:][-2:]
    assert ["mem=800M" in jobs[0]["Tres"], "mem=1600M" in jobs[1]["Tres"]] == [True, True]
    assert [job["TimeLimit"] for job in jobs] == ["5", "10"]


def test_points_side_by_side_on_a_node_that_is_handed_out_whole(study, cluster: Cluster) -> None:
    before = len(cluster.records())
    toy = study(
        points_per_job=4,
        points_at_once="auto",
        resources={"evaluate": {"mem_mb": 0, "threads": 2, "slurm_extra": "--exclusive"}},
    )
    toy.actions(p0_0="go", p0_1="go")
    toy.start()
    assert toy.job_of("0-0") == toy.job_of("0-1")  # both run: the node has four CPUs
    assert "0-2" not in toy.events("start")
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert len(cluster.records()) == before + 1


def test_a_job_that_made_progress_is_no_failed_attempt(study) -> None:
    """Two minutes, of which half of one is a reserve, for points each of which may take the rest."""
    toy = study(
        points_per_job=4,
        retries=0,
        objective={"command": "{python} objective.py", "time_limit": 90},
        resources={"evaluate": {"mem_mb": 1000, "runtime": 2}},
    )
    output = toy.run()
    toy.lawful(4)
    assert output.count("Trying to restart job") == 3
    assert sum(toy.events("start").values()) == 4


def test_a_cancelled_job_is_run_again_and_what_it_had_evaluated_is_kept(study) -> None:
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    toy.cluster.cancel(job)
    toy.until(lambda: toy.job_of("0-1") != job, "another job")
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert toy.events("start") == {"0-0": 1, "0-1": 2, "0-2": 1, "0-3": 1}


def test_a_point_whose_jobs_always_die_is_lost_and_the_batch_merges(study) -> None:
    toy = study(points_per_job=4, retries=1)
    toy.actions(p0_1="never")
    toy.start()
    first = toy.job_of("0-1")
    toy.cluster.run("scancel", "--quiet", "--signal=KILL", str(first))
    second = toy.until(lambda: toy.job_of("0-1") != first and toy.job_of("0-1"), "another job")
    toy.cluster.cancel(second)
    toy.end()
    toy.lawful(4, p0_1="lost")
    assert toy.events("start")["0-1"] == 2


def test_a_node_goes_away(study, cluster: Cluster) -> None:
    """The evaluation itself goes on, on a node that Slurm gives up."""
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    toy.until(lambda: list(toy.jobs()) == [job], "the other job ends")
    node = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%N")
    cluster.stop(node, signal.SIGKILL)
    cluster.set_node(node, "down")
    toy.until(lambda: "R" not in toy.jobs().values(), "Slurm gives the job up")
    time.sleep(3)  # until the node has let go of it
    toy.until(lambda: toy.hurry() or "R" in toy.jobs().values(), "it runs again")
    assert node not in cluster.run("squeue", "--noheader", "--states=R", "--format=%N").split()
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert toy.events("start")["0-1"] == 1


def test_a_job_that_a_node_cannot_start_is_not_waited_for_for_ever(study, cluster: Cluster) -> None:
    """Slurm holds such a job until somebody lets it go; here another one takes its place."""
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    job = toy.job_of("0-1")
    toy.until(lambda: list(toy.jobs()) == [job], "the other job ends")
    node = cluster.run("squeue", "--noheader", f"--jobs={job}", "--format=%N")
    cluster.set_node(node, "down")
    cluster.run("scontrol", "update", f"jobid={job}", "starttime=now")
    toy.until(lambda: toy.events("start")["0-1"] == 2, "the point starts again")
    toy.let_go()
    toy.end()
    toy.lawful(4)


def test_the_controller_is_away_for_longer_than_calls_last(study, cluster: Cluster) -> None:
    toy = study()
    toy.hurry_calls()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    cluster.stop("slurmctld")
    toy.until(lambda: "Slurm does not answer" in toy.log(), "it is said")
    toy.let_go()  # the job ends while nobody is there to hear of it
    time.sleep(15)
    cluster.up()
    toy.end()
    toy.lawful(4)


def test_slurm_forgets_its_jobs(study, cluster: Cluster) -> None:
    """A controller that lost its state: jobs end that it knows nothing of."""
    toy = study()
    toy.actions(p0_1="go")
    toy.start()
    toy.job_of("0-1")
    cluster.stop("slurmctld", signal.SIGKILL)
    for path in (cluster.folder / "state" / "slurmctld").glob("job_state*"):
        path.unlink()
    cluster.up()
    # As soon as the controller hears of the unknown job, it kills it or lets it run. In both cases
    # another job comes. The objective waits until that is settled, because an evaluation that is
    # killed between its own end and its outcome does run again.
    log = toy.results / "logs" / "evaluate" / "0" / "0.log"

    def killed() -> bool:
        return toy.events("start")["0-1"] == 2

    def waiting() -> bool:
        return log.exists() and "waiting" in log.read_text()

    toy.until(lambda: killed() or waiting(), "another job")
    settled = time.monotonic() + 15
    toy.until(lambda: killed() or time.monotonic() > settled, "its fate is known")
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert "does not know job" in toy.log()


def test_an_evaluation_is_stopped_and_a_promoted_one_finds_its_checkpoint(study) -> None:
    """On the cluster, where its first part ran in another job."""
    toy = study(
        objective={
            "command": "{python} objective.py --progress {progress} --checkpoint {checkpoint}"
        },
        space={
            "x": {"type": "float", "low": 0, "high": 1},
            "epochs": {"type": "int", "low": 1, "high": 12},
        },
        fidelity={"parameter": "epochs", "low": 4, "high": 12},
        acquisition="successive_halving",
        early_stopping={"kind": "asha", "min_steps": 1, "min_curves": 1},
        design={"size": 3},
        batch_size=2,
        points_per_job=3,
        iterations=1,
    )
    path = toy.folder / "objective.py"
    before, _, _ = path.read_text().partition('note("start")')
    path.write_text(before + TRAINING)
    toy.run()
    toy.lawful(5, p0_1="stopped")
    # The best of the three, from where it was left, and a new one.
    assert toy.events("epochs-5-12") == {"1-0": 1}
    assert toy.events("epochs-1-4") == {"0-0": 1, "0-1": 1, "0-2": 1, "1-1": 1}
