"""What administrators, colleagues and the user's own shell do to jobs in the middle of a study."""

from __future__ import annotations

import json
import re
import shutil
import time

from .cluster import Cluster

# What an objective does that handles a signal: that of one point here.
LISTENS = """import os, signal
if os.environ["DNGO_ID"] == "0-6":
    signal.signal(signal.SIGUSR1, lambda *_: open("heard", "w").close())
"""
# For each Python of a job: another process soon counts as dead if its heart does not beat.
IMPATIENT = """import sys
if any("bare.py" in word for word in sys.orig_argv):
    from dngo.storage import claim
    claim.SILENCE, claim.BEAT = 5, 1
"""


def test_an_admin_changes_jobs_that_run(study, cluster: Cluster) -> None:
    """One is cancelled, one is queued again and again, which is said, one is held, which is said with how to
    release it, one gets less time, one a name by which `squeue` does not list it any more, and two a signal to
    the batch shell, as `slurm_extra: --signal=B:USR1@200` sends it before the end of a job."""
    toy = study(points_per_job=1, design={"size": 9}, retries=9, hurried=True)
    path = toy.folder / "objective.py"
    path.write_text(LISTENS + path.read_text())
    toy.actions(**{f"p0_{k}": "go" for k in range(1, 9)})
    toy.start()
    jobs = [toy.job_of(f"0-{k}") for k in range(1, 8)]
    cancelled, requeued, held, short, renamed, heard, deaf = map(str, jobs)
    cluster.run("scancel", "--quiet", cancelled)
    cluster.run("scontrol", "requeuehold", held)
    cluster.run("scontrol", "update", f"jobid={short}", "endtime=now+2")
    cluster.run("scontrol", "update", f"jobid={renamed}", "name=mine")
    for job in (heard, deaf):
        cluster.run("scancel", "--batch", "--signal=USR1", job)
    toy.until((toy.folder / "heard").exists, "the objective hears it")
    toy.says(f"scontrol release {held}")
    cluster.run("scontrol", "release", held)
    while f"queued job {requeued} again 3 times: it is preempted, or" not in toy.log():
        started = len(toy.jobs_of("0-2"))
        cluster.run("scontrol", "requeue", requeued)
        time.sleep(2)  # a node refuses a job that it gave up in the same second
        toy.until(lambda n=started: toy.hurry() or len(toy.jobs_of("0-2")) > n, "it runs again")
    toy.until(lambda: f"`squeue` does not list job {renamed}" in toy.log(), "it is said")
    again = ("0-1", "0-3", "0-4")
    toy.until(
        lambda: toy.hurry() or all(toy.events("start")[p] == 2 for p in again), "all run again"
    )
    toy.let_go()
    output = toy.end()
    toy.lawful(9)
    starts = toy.events("start")
    assert {p for p in starts if starts[p] > 1} == {*again, "0-2"}
    assert output.count("again 3 times") == 1
    assert f"Slurm job {cancelled} on node " in output and "Error in" not in output


def test_a_suspended_job_keeps_its_time_and_its_point(study, cluster: Cluster, monkeypatch) -> None:
    """Neither its own limit nor the job's counts the time in which Slurm let other jobs run. Snakemake was killed
    meanwhile: on another node only a job's silence would show that it is dead."""
    toy = study(
        points_per_job=1,
        objective={"command": "{python} objective.py", "time_limit": 15},
        retries=0,
        hurried=True,
    )
    (toy.folder / "sitecustomize.py").write_text(IMPATIENT)
    path = cluster.environment.get("PYTHONPATH", "")
    monkeypatch.setitem(cluster.environment, "PYTHONPATH", f"{toy.folder}:{path}".rstrip(":"))
    toy.actions(p0_1="go", p0_2="go")
    toy.start()
    suspended, stopped = (str(toy.job_of(point)) for point in ("0-1", "0-2"))
    cluster.run("scontrol", "suspend", suspended)
    cluster.run("scancel", "--signal=STOP", "--full", stopped)
    toy.says("SUSPENDED")
    toy.kill()
    (claim,) = (toy.results / "pending" / "0" / "claims").glob("1")
    owner = json.loads(claim.read_text())
    assert owner["job"] == suspended
    claim.write_text(json.dumps({**owner, "host": "elsewhere"}))
    toy.start()
    log = toy.results / "logs" / "evaluate" / "0" / "1.log"
    toy.until(lambda: "waiting" in log.read_text(), "another job finds the point taken")
    time.sleep(20)
    assert toy.events("start")["0-1"] == 1
    cluster.run("scontrol", "resume", suspended)
    cluster.run("scancel", "--signal=CONT", "--full", stopped)
    time.sleep(3)
    toy.let_go()
    toy.end()
    toy.lawful(4)
    assert sum(toy.events("start").values()) == 4


def test_a_site_and_a_shell_with_ways_of_their_own(study, cluster, commands, monkeypatch) -> None:
    """The user looks at another partition, has questions asked, and waits for jobs. Snakemake runs in a job, as
    where nothing may run on a login node: its own limits are no limits of its jobs. Slurm's commands greet. A
    controller whose disk was full, and one that did not know the user for a moment, refuse in unknown words."""
    words = (
        "I/O error writing script/environment to file",
        "Invalid user id",
        "Could not establish a configuration source",
    )
    refused = " ".join(f'"{text}"' for text in words)
    commands.replace(
        "sbatch",
        'echo "Welcome to cluster 12345!"\n'
        'case " $* " in *" --test-only "*) exec "$real" "$@" ;; esac\n'
        f"for text in {refused}; do\n"
        f'  mkdir "{commands.folder}/$(echo $text | cut -c1-5)" 2>/dev/null || continue\n'
        '  echo "sbatch: error: Batch job submission failed: $text" >&2; exit 1\ndone\n'
        'exec "$real" "$@"',
    )
    commands.replace("squeue", 'echo "Closed on 2026-12-01|see|our|page|!"; exec "$real" "$@"')
    toy = study(points_per_job=1, retries=0, hurried=True)
    toy.actions(p0_1="exit")
    options = {
        "SQUEUE_PARTITION": "other",
        "SQUEUE_USERS": "nobody",
        "SQUEUE_STATES": "PD",
        "SQUEUE_FORMAT": "%i",
        "SCANCEL_INTERACTIVE": "1",
        "SBATCH_WAIT": "1",
        "SBATCH_EXPORT": "NONE",
        "SLURM_JOB_ID": "4711",
        "SLURM_JOBID": "4711",
        "SLURM_NTASKS": "1",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_TIMELIMIT": "1",
    }
    with monkeypatch.context() as shell:
        for name, value in options.items():
            shell.setitem(cluster.environment, name, value)
        output = toy.run()
    toy.lawful(4, p0_1="failed")
    assert sum(toy.events("start").values()) == 4
    assert "Slurm takes no job now, trying again: sbatch: error" in output
    commands.restore("squeue")
    run = re.search(r"SLURM run ID: (\S+)", output)[1]
    jobs = cluster.run("squeue", "--noheader", "--states=all", f"--name={run}").splitlines()
    assert len(jobs) == 4, "each job is submitted once"


def test_a_user_edits_cancels_and_deletes(study, cluster: Cluster) -> None:
    """The configuration is edited while jobs run. All are cancelled, those that run and those that wait: each starts
    again, and what had ended is kept. Snakemake's folder is deleted, with the logs of jobs that wait, and with
    the note that jobs read."""
    toy = study(
        design={"size": 6},
        batch_size=2,
        points_per_job=1,
        iterations=1,
        retries=1,
        resources={"evaluate": {"mem_mb": 1000, "threads": 4}},  # each fills a node: two wait
    )
    toy.actions(**{f"p0_{k}": "go" for k in range(1, 6)})
    toy.start()
    toy.until(lambda: toy.events("start").total() >= 5, "some run, and one has ended")
    toy.until(lambda: sorted(toy.jobs().values()) == ["PD", "R", "R", "R", "R"], "one waits")
    good = (toy.folder / "config.yaml").read_text()
    (toy.folder / "config.yaml").write_text("study: [\n")
    jobs = set(toy.jobs())
    cluster.run("scancel", "--user=root")
    toy.until(lambda: not jobs & set(toy.jobs()), "all are gone")
    toy.until(lambda: sorted(toy.jobs().values()) == ["PD", "R", "R", "R", "R"], "one waits again")
    toy.until(lambda: toy.events("start").total() >= 9, "four run again")
    shutil.rmtree(toy.folder / ".snakemake", ignore_errors=True)
    # Slurm records the end of a job before the signal reaches it: until then it would see "go".
    toy.let_go()
    toy.end()
    (toy.folder / "config.yaml").write_text(good)
    toy.lawful(8)
    starts = toy.events("start")
    assert starts["0-0"] == 1 and max(starts.values()) == 2 and starts.total() == 12
