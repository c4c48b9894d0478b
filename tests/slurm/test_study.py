"""`snakemake --profile slurm` on a real Slurm, through the faults a cluster has.

After each fault the law is checked: no evaluation is lost or repeated, and the study ends as it
would have without the fault.
"""

from __future__ import annotations

import os
import signal
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


def test_a_study_runs(study, cluster: Cluster, monkeypatch) -> None:
    """In a folder with a difficult name, among others with one of Slurm's patterns for the names of logs. A
    variable reaches the jobs by its name, and is written nowhere."""
    secret = "q7-Zebra+spoon/41"
    toy = study(
        name="my study's é %j; x",
        designed=False,
        iterations=1,
        objective={"command": "{python} objective.py", "environment_from": ["API_TOKEN"]},
        resources={
            "evaluate": {"mem_mb": 1000, "threads": 3, "slurm_extra": "--nice=7"},
            "fit": {"runtime": 10},
        },
    )
    path = toy.folder / "objective.py"
    told = f'assert os.environ["API_TOKEN"] == "{secret[:9]}" + "{secret[9:]}"; print(os.environ["API_TOKEN"])'
    path.write_text(path.read_text().replace('note("start")', f'{told}\nnote("start")'))
    before = {record["JobId"] for record in cluster.records()}
    toy.whole = True
    monkeypatch.setitem(cluster.environment, "API_TOKEN", secret)
    output = toy.snakemake()
    toy.lawful(8)
    files = [p for p in toy.folder.rglob("*") if p.is_file() and not p.is_symlink()]
    assert not [p for p in files if secret.encode() in p.read_bytes()]
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


def test_points_that_fail_and_limits_that_are_met(study) -> None:
    """Exit status 1, time and memory beyond what Slurm gives: each an outcome, none a failed job. Half of a job's
    minute is a reserve, and the next point of each job may take longer: another job takes it, and no
    attempt has failed."""
    toy = study(
        design={"size": 6},
        retries=0,
        objective={"command": "{python} objective.py", "time_limit": 90},
        resources={"evaluate": {"mem_mb": 1000, "runtime": 1}},
    )
    toy.actions(p0_0="exit", p0_2=300.0, p0_4="memory")
    output = toy.run()
    toy.lawful(6, p0_0="failed", p0_2="timeout", p0_4="out_of_memory")
    assert sum(toy.events("start").values()) == 6
    left = "leaves the rest of its work to another job: no time for another point; 1 evaluated by this job."
    assert [output.count(words) for words in (left, "Trying to restart job", "Error in")] == [
        3,
        3,
        0,
    ]


def test_limits_grow_and_a_point_whose_jobs_always_die_is_lost(study, cluster: Cluster) -> None:
    """Limits grow with each attempt where asked. The batch merges without the lost point."""
    before = len(cluster.records())
    toy = study(
        design={"size": 2},
        points_per_job=1,
        retries=1,
        escalation=2.0,
        resources={"evaluate": {"mem_mb": 800, "runtime": 5}},
    )
    toy.actions(
        p0_0="memory", p0_1="never"
    )  # 900 MB for an objective that is given 400, then 1,200
    toy.start()
    first = toy.job_of("0-1")
    cluster.run("scancel", "--quiet", "--signal=KILL", str(first))
    cluster.cancel(toy.job_of("0-1", after=first))
    toy.end()
    toy.lawful(2, p0_1="lost")
    assert toy.events("start") == {"0-0": 2, "0-1": 2}
    jobs = [r for r in cluster.records()[before:] if int(r["JobId"]) in toy.jobs_of("0-0")]
    assert [r["TimeLimit"] for r in jobs] == ["5", "10"]
    assert ["mem=800M" in jobs[0]["Tres"], "mem=1600M" in jobs[1]["Tres"]] == [True, True]


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


def test_nodes_go_away_cannot_start_a_job_or_hang(study, cluster: Cluster) -> None:
    """Each of three jobs has a node of its own. That of the first is given up while its evaluation goes on: it
    starts on another node. That of the second comes back and cannot start it, so Slurm holds it until
    somebody lets it go; here another one takes its place. Slurm does not hear of the end of the third,
    whose node's daemon hangs; the outcomes say it."""
    toy = study(points_per_job=1, resources={"evaluate": {"mem_mb": 1000, "threads": 4}})
    toy.actions(p0_1="go-1", p0_2="go-2", p0_3="go-3")
    toy.start()
    jobs = [toy.job_of(f"0-{k}") for k in (1, 2, 3)]
    where = {job: cluster.node_of(job) for job in jobs}
    toy.until(lambda: toy.jobs().keys() == where.keys(), "the other job ends")
    cluster.stop(where[jobs[0]], signal.SIGKILL)
    cluster.set_node(where[jobs[0]], "down")
    toy.until(lambda: toy.jobs().get(jobs[0]) != "R", "Slurm gives the job up")
    toy.until(lambda: toy.hurry() or toy.jobs().get(jobs[0]) == "R", "it runs again")
    assert cluster.node_of(jobs[0]) not in where.values()
    toy.let_go("go-1")
    toy.until(lambda: jobs[0] not in toy.jobs(), "it ends")
    assert toy.events("start")["0-1"] == 1
    cluster.set_node(where[jobs[1]], "down")
    cluster.run("scontrol", "update", f"jobid={jobs[1]}", "starttime=now")
    toy.until(lambda: toy.events("start")["0-2"] == 2, "the point starts again")
    toy.let_go("go-2")
    pid = int((cluster.folder / "pid" / where[jobs[2]]).read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        toy.let_go("go-3")
        toy.end()
    finally:
        os.kill(pid, signal.SIGCONT)
    toy.lawful(4)


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
