"""Our Slurm executor and the plugin under it: what tests/slurm cannot show, or not soon enough."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from running import ran
from snakemake.iocontainers import Wildcards
from snakemake.settings.types import DeploymentMethod
from snakemake_executor_plugin_slurm import submit_string, utils, validation
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage
from toy import ROOT, Toy, advance
from waiting import until

from dngo.config import Objective, load
from dngo.evaluation.limits import Bounds, Limits
from dngo.report.live import benchmark_seconds
from dngo.study import Study
from dngo.workflow import bare, slurm
from dngo.workflow.dag import Dag
from dngo.workflow.slurm import jobs
from dngo.workflow.slurm.calls import Calls
from dngo.workflow.slurm.executor import Executor
from dngo.workflow.slurm.nodes import MOST, SUSPECT, Nodes
from dngo.workflow.slurm.reasons import AGAIN, PATIENCE, STAYS_FOR, Queue, Row, key_of, minutes
from dngo.workflow.slurm.submission import DENIED, Submitter
from dngo.workflow.words import CANNOT_BEGIN, ENDED

# What the executor replaces, and what it calls or is called by, as in the plugin's version 2.8.0.
SURFACE = {
    plugin.Executor.__init__: "387fdecad579",
    plugin.Executor.__post_init__: "a2516401a2d4",
    plugin.Executor.shutdown: "67e48b94f0bc",
    plugin.Executor.clean_old_logs: "9740e6f23b44",
    plugin.Executor.additional_general_args: "5e6fbdad41fa",
    plugin.Executor.run_jobs: "237137067302",
    plugin.Executor._submit_job: "9220e03682ba",
    plugin.Executor.run_job: "d8a8af5d4605",
    plugin.Executor.check_active_jobs: "a15ec905e07e",
    plugin.Executor.cancel_jobs: "fa5264a51538",
    plugin.Executor.get_account_arg: "f49dd1922c96",
    plugin.Executor.get_partition_arg: "55c3a67244db",
    RealExecutor.format_job_exec: "309fc84b3aa2",
    RemoteExecutor._wait_for_jobs: "7b4ab4f49ea0",
    RemoteExecutor.sleep: "47fa6b8f83bd",
    submit_string.get_submit_command: "8ec37eca0a8f",
    utils.delete_empty_dirs: "d77d8f9cd368",
    utils.get_job_wildcards: "132f1042d49d",
    utils.set_gres_string: "4fd3bc7c49c8",
    validation.validate_or_get_slurm_job_id: "347d6c2ec85e",
    validation.validate_slurm_extra: "503955619f0b",
}


def test_the_plugin_is_as_the_executor_expects_it() -> None:
    """Where this fails, read what changed in the functions named, mend the executor, run tests/slurm."""
    changed = [
        f'{function.__qualname__}: "{found}"'
        for function, digest in SURFACE.items()
        if (found := hashlib.sha256(inspect.getsource(function).encode()).hexdigest()[:12])
        != digest
    ]
    assert not changed, "\n".join(changed)


def test_another_version_of_the_plugin_is_refused_in_one_line(tmp_path: Path) -> None:
    installed = tmp_path / f"{slurm.PACKAGE.replace('-', '_')}-3.1.0.dist-info"
    installed.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {slurm.PACKAGE}\nVersion: 3.1.0\n"
    (installed / "METADATA").write_text(metadata)
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    options = ("--executor", "slurm", "--jobs", "2", "--slurm-status-command", "squeue")
    result = ran(toy.command(*options), cwd=toy.folder, env={**os.environ, "PYTHONPATH": path})
    assert result.returncode == 1
    assert "snakemake-executor-plugin-slurm 3.1.0 is installed" in result.stderr
    assert "needs >=2.8,<2.9" in result.stderr
    assert "Traceback" not in result.stderr
    assert not toy.runs.exists()


# As a real Slurm 22.05 with accounting, QOS limits and EnforcePartLimits=NO printed them.
NEVER = {
    "QOSMaxWallDurationPerJobLimit": "runtime",
    "QOSMaxCpuMinutesPerJobLimit": "runtime",
    "PartitionTimeLimit": "runtime",
    "QOSMaxCpuPerJobLimit": "threads",
    "QOSMinCpuNotSatisfied": "threads",
    "QOSMaxMemoryPerJob": "mem_mb",
    "MaxMemPerLimit": "mem_mb",
    "QOSMaxNodePerJobLimit": "nodes or slurm_partition",
    "PartitionNodeLimit": "nodes or slurm_partition",
    "Job's account not permitted to use this partition (acc allows foo not root)": "slurm_account",
    "Job's QOS not permitted to use this partition (qq allows brief not normal)": "qos",
    # And as its documentation calls them.
    "AssocMaxWallDurationPerJobLimit": "runtime",
    "AssocMaxCpuPerJobLimit": "threads",
    "AssocMaxMemPerJob": "mem_mb",
    "AssocMaxGRESPerJob": "gpu",
    "AssocMaxNodePerJobLimit": "nodes or slurm_partition",
    "BadConstraints": "constraint, threads or mem_mb",
    "InvalidAccount": "slurm_account",
    "InvalidQOS": "qos",
    "DependencyNeverSatisfied": "slurm_extra",
}
WAITS = [
    "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
    "ReqNodeNotAvail, UnavailableNodes:node1", "PartitionDown", "PartitionInactive", "Licenses",
    "Reservation", "QOSMaxCpuPerUserLimit", "QOSGrpCpuLimit", "AssocGrpCpuLimit", "QOSMaxJobsPerUserLimit",
    "AssocGrpCPUMinutesLimit", "AssocMaxJobsLimit", "JobHeldUser", "JobHeldAdmin",
]  # fmt: skip


@pytest.mark.parametrize("reason", NEVER)
def test_a_reason_that_never_passes_ends_the_run_with_its_key(reason: str) -> None:
    assert key_of(reason) == NEVER[reason]
    queue, rows = Queue("run"), {"7": Row("PENDING", reason)}
    assert queue.never(rows, 0.0) == {}  # not before it has held for a while
    assert queue.never({"7": Row("PENDING", "Priority")}, STAYS_FOR) == {}
    assert queue.never(rows, STAYS_FOR) == {}
    assert queue.never(rows, 2 * STAYS_FOR) == {"7": NEVER[reason]}
    assert queue.hear(rows, AGAIN) == []  # it is the refusal that is told


@pytest.mark.parametrize("reason", WAITS)
def test_what_jobs_wait_for_is_said_once_and_waited_for(reason: str) -> None:
    queue, others = Queue("run"), {"9": Row("RUNNING", "None")}
    rows = others | {"7": Row("PENDING", reason), "8": Row("PENDING", reason)}
    assert key_of(reason) == ""
    early = queue.hear(rows, 0.0)
    assert bool(early) == ("Held" in reason)
    said = early + queue.hear(rows, PATIENCE) + queue.hear(rows, PATIENCE + 10)
    assert len(said) == 1
    assert "2 jobs" in said[0] and reason in said[0]
    assert len(queue.hear(rows, PATIENCE + AGAIN)) == 1
    assert queue.never(rows, 10 * AGAIN) == {}


def test_held_jobs_are_told_with_what_lets_them_go() -> None:
    rows = {n: Row("PENDING", "JobHeldUser") for n in ("7", "8")}
    (said,) = Queue("run").hear(rows, 0.0)
    assert "scontrol release 7,8" in said


def test_a_job_that_is_queued_again_and_again_is_named_more_and_more_rarely() -> None:
    queue, said = Queue("run"), []
    for now in range(13):
        for state in ("RUNNING", "COMPLETING", "PENDING", "PENDING"):
            said += queue.hear({"7": Row(state), "9": Row("RUNNING")}, now)
    assert [re.findall(r"job 7 again (\d+) times", words) for words in said] == [
        ["3"],
        ["6"],
        ["12"],
    ]


@pytest.mark.parametrize("state", ["CONFIGURING", "SUSPENDED", "STOPPED"])
def test_a_state_in_which_nothing_goes_on_is_told(state: str) -> None:
    queue, rows = Queue("run"), {"7": Row(state, "None")}
    assert queue.hear(rows, 0.0) == []
    assert state in queue.hear(rows, PATIENCE)[0]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        ("30:00", 30),
        ("1:00:00", 60),
        ("2-00:00:00", 2880),
        ("infinite", float("inf")),
        ("45", 0.75),
    ],
)
def test_a_time_limit_is_read(limit: str, expected: float) -> None:
    assert minutes(limit) == expected


def test_a_node_is_avoided_at_once_and_left_out_after_some_jobs() -> None:
    nodes = Nodes()
    nodes.began("evaluate", "good")
    for number in range(MOST):
        assert nodes.left_out == {}
        nodes.failed(number, "bad")
        said = nodes.died("bad", "exit status 127", now=0.0)
        assert len(said) == (number in (0, MOST - 1))
        assert all("bad" in message and "exit status 127" in message for message in said)
        assert nodes.excluded("another", 1.0) == {"bad"}
        assert nodes.excluded(number, 2 * SUSPECT) == {"bad"}
        assert nodes.others("evaluate", 1.0)
        assert not nodes.others("fit", 1.0)
    assert nodes.excluded("another", 2 * SUSPECT) == {"bad"}
    nodes.forget(0)
    assert nodes.excluded(0, 1.0) == {"bad"}  # what is left out stays out
    assert nodes.died("bad", "exit status 1", now=2.0) == []
    assert "bad" in nodes.none_left
    # Where one job died it is tried again later, or at once, where there is no other.
    nodes = Nodes()
    nodes.died("bad", "exit status 127", now=0.0)
    assert (nodes.bad(1.0), nodes.bad(2 * SUSPECT)) == ({"bad"}, set())
    nodes.forget("job")
    assert nodes.bad(1.0) == set()


def test_a_run_of_which_nothing_begins_anywhere_ends() -> None:
    nodes = Nodes()
    for number in range(MOST):
        assert not nodes.hopeless
        nodes.died(f"n{number}", "exit status 2", now=0.0)
    assert all(f"n{number} (exit status 2)" in nodes.hopeless for number in range(MOST))
    nodes.began("evaluate", "n9")
    assert not nodes.hopeless


def rule_of(stage: str, **more: Any) -> SimpleNamespace:
    """A stage's rule, as far as the executor looks at it."""
    path = ROOT / "rules" / f"{stage}.smk"
    return SimpleNamespace(name=stage, snakefile=path, script=f"../scripts/{stage}.py", **more)


def command_of(study: Study, *jobs: dict[str, Any]) -> str:
    """The command of a job that runs stages."""
    found = study.config.resolved()
    parts = [
        SimpleNamespace(
            rule=rule_of(job["stage"], module_globals={"config": json.loads(found)}),
            wildcards=Wildcards(fromdict=job["wildcards"]),
            input=job.get("input", []),
            output=[job["output"]],
            log=[study.folder / "logs" / f"{job['stage']}.log"],
            benchmark=job.get("benchmark"),
        )
        for job in jobs
    ]
    whole = SimpleNamespace(
        is_group=lambda: True,
        toposorted=[[part] for part in parts],
        resources={"runtime": 5, "mem_mb": 2000},
        threads=1,
    )
    return bare.command(whole, study.folder, sys.executable, 5)


def run_bare(study: Study, *jobs: dict[str, Any]) -> None:
    """Run a job's command as sbatch does, from any folder.

    Its words suit any scheduler, unless a path has such a sign: HTCondor drops single quotes and wants Python
    first, LSF puts it in double quotes, Flux splits it.
    """
    command = command_of(study, *jobs)
    assert command.startswith(f"{sys.executable} ")
    assert "'" in str(study.folder) or not set("'\"$`\\") & set(command)
    done = ran(["sh", "-c", bare.holding(command)], cwd="/")
    assert done.returncode == 0, done.stderr


def test_a_job_that_cannot_begin_says_so_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare, "HOLD", 0)
    for command, status in (
        (f"/nowhere/python -P {__file__}", 127),
        (f"{sys.executable} -P /nowhere", 1),
    ):
        done = ran(["sh", "-c", bare.holding(command)])
        assert done.returncode == status
        assert done.stdout == f"{CANNOT_BEGIN} (exit status {status})\n"
        log = tmp_path / "log"
        log.write_text(done.stdout)
        assert (
            jobs.cannot_begin(SimpleNamespace(aux={"slurm_logfile": log}))
            == f"exit status {status}"
        )


def study_of(toy: Toy) -> Study:
    config = load([toy.folder / "config.yaml"])
    return Study(config.model_copy(update={"results": str(toy.results.parent)}))


def plain(toy: Toy, objective: str) -> Study:
    """The study of a toy whose objective is this program, without a constraint and without networks."""
    (toy.folder / "objective.py").write_text(objective)
    text = (toy.folder / "config.yaml").read_text().replace("constraints: [small]\n", "")
    text = text.replace("surrogate: {networks: {steps: 50, epochs: 1}, ", "surrogate: {kind: gp, ")
    assert "kind: gp" in text
    (toy.folder / "config.yaml").write_text(text)
    return study_of(toy)


def second_chunk(toy: Toy, objective: str) -> tuple[Study, dict[str, Any]]:
    """The study of a toy whose objective is this program, and the job of its design's second chunk."""
    study, proposals = plain(toy, objective), toy.results / "iterations" / "0" / "proposals.json"
    study.propose(0, None, proposals)
    output = toy.results / "iterations" / "0" / "outcomes" / "1.json"
    wildcards = {"iteration": "0", "chunk": "1"}
    job = {"stage": "evaluate", "wildcards": wildcards, "input": [proposals], "output": output}
    return study, job


def test_the_command_of_a_job_evaluates_its_chunk(tmp_path: Path) -> None:
    """Snakemake's threads and temporary folder are set."""
    toy = Toy(tmp_path / "a study's", iterations=0, batch_size=2, sleep=0.0)
    study, job = second_chunk(
        toy,
        'import os; print(int(os.environ["OMP_NUM_THREADS"] == "1" and "TMPDIR" in os.environ))',
    )
    run_bare(study, job)
    outcomes = json.loads(job["output"].read_text())["outcomes"]
    assert [(o["slot"], o["status"], o["objective"]) for o in outcomes] == [
        (slot, "ok", 1.0) for slot in (4, 5, 6, 7)
    ]


def test_a_job_that_fits_and_proposes_proposes_what_two_would(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "one", iterations=1, batch_size=4, sleep=0.0)
    study = plain(toy, "import json, sys; print(json.load(sys.stdin)['x'] ** 2)")
    advance(study, 0)
    shutil.copytree(toy.results, tmp_path / "two" / "toy")
    two = Study(study.config.model_copy(update={"results": str(tmp_path / "two")}))
    advance(two, 1, merge=False)
    folder, costs = study.iteration(1), toy.results / "benchmarks"
    surrogate, wildcards = folder / "surrogate.h5", {"iteration": "1"}
    fit = {"stage": "fit", "wildcards": wildcards, "input": [study.iteration(0) / "receipt.json"]}
    propose = {"stage": "propose", "wildcards": wildcards, "input": [surrogate]}
    run_bare(
        study,
        {**fit, "output": surrogate, "benchmark": costs / "fit.tsv"},
        {**propose, "output": folder / "proposals.json", "benchmark": costs / "propose.tsv"},
    )
    assert study.batch(1).proposals == two.batch(1).proposals
    assert 0 < benchmark_seconds(costs / "propose.tsv") < 100
    assert 0 < benchmark_seconds(costs / "fit.tsv") < 100


@pytest.mark.parametrize(
    "asked",
    ["", "model", "conda", "files", "tmpdir", "group", "threads", "script", "other", "precommand"],
)
def test_a_job_that_asks_for_more_has_a_snakemake(asked: str) -> None:
    usage = set(SharedFSUsage.all())
    workflow = SimpleNamespace(
        deployment_settings=SimpleNamespace(
            deployment_method={DeploymentMethod.CONDA} if asked == "conda" else set()
        ),
        storage_settings=SimpleNamespace(
            shared_fs_usage=usage - {SharedFSUsage.INPUT_OUTPUT} if asked == "files" else usage
        ),
        remote_execution_settings=SimpleNamespace(
            precommand="true" if asked == "precommand" else None
        ),
    )
    temporary = SimpleNamespace(raw="/scratch" if asked == "tmpdir" else "system_tmpdir")
    stages = {"model": ["fit", "propose"], "group": ["evaluate", "evaluate"], "other": ["merge"]}
    stages["threads"] = stages["model"]
    parts = [
        SimpleNamespace(
            is_group=lambda: False,
            is_shadow=False,
            rule=rule_of(stage, resources={"tmpdir": temporary}),
            threads=1 + n * (asked == "threads"),
        )
        for n, stage in enumerate(stages.get(asked, ["evaluate"]))
    ]
    if asked == "script":
        parts[0].rule.script = "my.py"
    group = SimpleNamespace(is_group=lambda: True, toposorted=[[part] for part in parts])
    assert bare.is_bare(workflow, group if len(parts) > 1 else parts[0]) == (asked in ("", "model"))


# ---- the end of a run, and jobs that Slurm no longer lists -----------------------------------------


def program(folder: Path, name: str, text: str) -> None:
    """A program of this name in a folder."""
    (folder / name).write_text(f"#!/bin/sh\n{text}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An executor at the end of its run, with commands of Slurm that note how they are called."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    program(tmp_path, "scancel", f'echo "$@" >> {tmp_path}/cancelled')
    program(tmp_path, "squeue", f"cat {tmp_path}/rows")
    said: list[str] = []
    executor = object.__new__(Executor)
    executor.run_uuid, executor._submitted_job_clusters = "run", set()
    executor.calls = Calls(said.append)
    executor.logger = SimpleNamespace(warning=said.append, info=said.append)
    executor._submitter = object.__new__(Submitter)
    executor._submitter.calls = executor.calls
    return SimpleNamespace(
        executor=executor, said=said, rows=tmp_path / "rows", cancelled=tmp_path / "cancelled"
    )


GO_ON = "Jobs that run go on. The same command will collect their outcomes."


@pytest.mark.parametrize(
    ("rows", "terminated", "called", "said"),
    [
        ("7|COMPLETING\n8|CANCELLED\n", False, "--quiet 7 8", []),  # whatever their name is
        ("7|RUNNING\n8|PENDING\n", False, "--quiet 7 8",
            ["Slurm did not cancel 2 of 2 jobs, and they go on: `scancel 7 8`"]),
        ("7|RUNNING\n8|CANCELLED\n", True, "--quiet --state=PENDING 7 8", [GO_ON]),
    ],
)  # fmt: skip
def test_jobs_are_cancelled_by_number_and_those_that_go_on_are_said(
    ending: Any, monkeypatch, rows: str, terminated: bool, called: str, said: list[str]
) -> None:
    monkeypatch.setattr("dngo.workflow.slurm.executor.GOODBYE", 1.5)
    ending.rows.write_text(rows)
    if terminated:
        ending.executor._terminated = True
    ending.executor._cancel(["7", "8"])
    assert ending.cancelled.read_text().splitlines()[0] == called and ending.said == said


def test_a_cluster_that_does_not_answer_at_the_end_is_said(
    ending: Any, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr("dngo.workflow.slurm.executor.GOODBYE", 0.5)
    program(tmp_path, "scancel", "sleep 60")
    ending.rows.write_text("")
    ending.executor._cancel(["7"])
    assert "did not confirm" in ending.said[0] and "`scancel --quiet 7`" in ending.said[0]


@pytest.mark.parametrize(
    ("last", "how"),
    [
        ("dngo: this job has ended (exit status 130)", "exit status 130"),
        ("slurmstepd: error: *** JOB 12 ON node3 CANCELLED AT 2026-11-27T17:00:00 ***", "CANCELLED"),
        ("slurmstepd: error: *** JOB 12 ON n3 CANCELLED AT 2026-11-27T17:00:00 DUE TO TIME LIMIT ***",
            "CANCELLED DUE TO TIME LIMIT"),
        ("dngo: this job has begun", ""),
        ("dngo: this job has ended (exit status 1)\ndngo: this job has begun", ""),  # queued again
    ],
)  # fmt: skip
def test_the_end_of_a_job_is_read_from_its_log(tmp_path: Path, last: str, how: str) -> None:
    log = tmp_path / "log"
    log.write_text(f"dngo: this job has begun\n{last}\n")
    assert jobs.ending(SimpleNamespace(aux={"slurm_logfile": log})) == how


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("echo 'JobId=7 JobState=RUNNING'", "RUNNING"),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", ""),
        ("echo 'slurm_load_jobs error: Access/permission denied' >&2; exit 1", DENIED),
        ("echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1", None),
    ],
)
def test_a_controller_that_refuses_is_no_silent_one(
    ending: Any, tmp_path: Path, answer: str, state: str | None
) -> None:
    program(tmp_path, "scontrol", answer)
    assert ending.executor._submitter.state("7") == state


# ---- what Slurm gave a job -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "minutes_"), [("", 5), ("1060", 1), ("1300", 5), ("9000", 5), ("NONE", 5)]
)
def test_a_job_keeps_the_time_that_slurm_gave(
    monkeypatch: pytest.MonkeyPatch, end: str, minutes_: float
) -> None:
    for name, value in (("ID", "7"), ("START_TIME", "1000"), ("END_TIME", end)):
        monkeypatch.setenv(f"SLURM_JOB_{name}", value)
    monkeypatch.setattr(bare, "_elapsed", lambda: 2.0)
    found = bare.job_limits(None, SimpleNamespace(runtime=5, mem_mb=2000))
    assert 0.5 * 60 * minutes_ - 2 <= found["seconds"] <= 0.95 * 60 * minutes_
    assert ("cut" in found) == (minutes_ < 5)
    if "cut" in found:
        assert found["cut"] == "Slurm gave it 1 of the 5 minutes in resources.evaluate.runtime"
        end = Bounds.of(Objective(command="true"), Limits.from_now(found)).out_of_time()
        assert end.message == f"stopped: its job ran out of time ({found['cut']})"


WAITS = """
import os, signal, time
heard = []
if {handles}:
    signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
if os.environ["DNGO_ID"] == "0-4":
    open("waits", "w").close()
    end = time.monotonic() + 60
    while time.monotonic() < end and not (heard if {handles} else os.path.exists("go")):
        time.sleep(0.02)
print(len(heard))
"""


@pytest.mark.parametrize("handles", [True, False])
def test_a_signal_to_the_batch_shell_reaches_the_objectives_that_handle_it(
    tmp_path: Path, handles: bool
) -> None:
    """As `--signal=B:USR1@200` sends it. An objective without a handler does not notice."""
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    study, job = second_chunk(toy, WAITS.format(handles=handles))
    shell = subprocess.Popen(
        ["sh", "-c", bare.holding(command_of(study, job))],
        env={**os.environ, "SLURM_JOB_ID": "7"},
        stderr=subprocess.PIPE,
        text=True,
    )
    until((toy.folder / "waits").exists)
    shell.send_signal(signal.SIGUSR1)
    (toy.folder / "go").touch()
    _, log = shell.communicate()
    assert shell.returncode == 0 and ENDED in log
    outcomes = json.loads(job["output"].read_text())["outcomes"]
    assert [(o["slot"], o["status"], o["objective"]) for o in outcomes] == [
        (4, "ok", float(handles)), (5, "ok", 0.0), (6, "ok", 0.0), (7, "ok", 0.0)
    ]  # fmt: skip


class Stored(str):
    """An output that travels through a storage, as Snakemake describes it."""

    is_storage = True
    storage_object: Any


@pytest.mark.parametrize("there", [True, False, None])
def test_an_output_in_a_storage_is_looked_for_there(tmp_path: Path, there: bool | None) -> None:
    """None: the storage is away."""
    asked = []

    def exists() -> bool:
        asked.append(1)
        if there is None:
            raise ConnectionError
        return there

    output = Stored(tmp_path / "0/a.json")
    output.storage_object = SimpleNamespace(exists=exists)
    part = SimpleNamespace(
        is_group=lambda: False, output=[output], products=lambda include_logfiles: [output]
    )
    job = SimpleNamespace(job=part, aux={})
    assert jobs.is_complete(job) == bool(there) and asked == [1]
    executor = object.__new__(Executor)
    executor.active_jobs = [job]
    assert not executor._is_written() and asked == [1], "nobody looks each second"


@pytest.mark.parametrize("reason", ["None", "Priority", "Resources", "BeginTime"])
def test_a_full_queue_is_told_where_nothing_runs(reason: str) -> None:
    queue, rows = Queue("run"), {"7": Row("PENDING", reason)}
    assert queue.hear(rows | {"9": Row("RUNNING", "None")}, 0.0) == []
    assert queue.hear(rows, 1.0) == []
    (said,) = queue.hear(rows, 1.0 + PATIENCE)
    assert "1 job in Slurm's queue and none running" in said
    assert reason == "None" or reason in said
    assert queue.hear(rows | {"9": Row("RUNNING", "None")}, 2 * AGAIN) == []


def test_another_release_under_a_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After `git checkout` in the course of it, no import fits any more."""
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    dag, said = Dag(study_of(toy)), []
    monkeypatch.setattr(
        "dngo.workflow.dag.logger", SimpleNamespace(error=said.append, info=said.append)
    )
    monkeypatch.setitem(sys.modules, "dngo.report", None)
    dag.end(success=False)
    (line,) = said
    assert "files of dngo have changed since this run began" in line and "status" in line
    assert "Traceback" not in line
