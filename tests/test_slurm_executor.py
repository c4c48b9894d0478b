"""Our Slurm executor and the plugin under it: what tests/slurm cannot show, or not soon enough."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake.iocontainers import Wildcards
from snakemake.settings.types import DeploymentMethod
from snakemake_executor_plugin_slurm import submit_string, utils, validation
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.executors.remote import RemoteExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage
from toy import ROOT, Toy, advance

from dngo.config import load
from dngo.report.live import benchmark_seconds
from dngo.study import Study
from dngo.workflow import bare, slurm
from dngo.workflow.dag import Dag
from dngo.workflow.slurm import jobs
from dngo.workflow.slurm.executor import GLANCES, Executor
from dngo.workflow.slurm.nodes import MOST, SUSPECT, Nodes
from dngo.workflow.slurm.reasons import (
    AGAIN,
    PATIENCE,
    STAYS_FOR,
    Queue,
    Refusal,
    Row,
    key_of,
    minutes,
)
from dngo.workflow.slurm.submitting import Submitting
from dngo.workflow.words import CANNOT_BEGIN

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


def test_the_executor_replaces_what_the_plugin_has() -> None:
    own = {
        name
        for kind in (Executor, Submitting)
        for name in vars(kind)
        if callable(getattr(kind, name))
    }
    replaced = {name for name in own if hasattr(plugin.Executor, name)}
    assert replaced - {"__doc__", "__init_subclass__"} >= {
        "__post_init__", "additional_general_args", "cancel_jobs", "check_active_jobs",
        "clean_old_logs", "format_job_exec", "get_account_arg", "get_partition_arg", "print_job_error",
        "run_job", "run_jobs", "shutdown", "sleep",
    }  # fmt: skip


def test_another_version_of_the_plugin_is_refused_in_one_line(tmp_path: Path) -> None:
    installed = tmp_path / f"{slurm.PACKAGE.replace('-', '_')}-3.1.0.dist-info"
    installed.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: {slurm.PACKAGE}\nVersion: 3.1.0\n"
    (installed / "METADATA").write_text(metadata)
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    options = ("--executor", "slurm", "--jobs", "2", "--slurm-status-command", "squeue")
    result = subprocess.run(
        toy.command(*options),
        cwd=toy.folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "snakemake-executor-plugin-slurm 3.1.0 is installed" in result.stderr
    assert "needs >=2.8,<2.9" in result.stderr
    assert "Traceback" not in result.stderr
    assert not toy.runs.exists()


@pytest.mark.parametrize(
    ("words", "passes", "key"),
    [
        ("QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
         "accounting/QOS policy (job submit limit, user's size and/or time limits)", True, ""),
        ("sbatch: error: AssocGrpSubmitJobsLimit", True, ""),
        ("sbatch: error: Batch job submission failed: Required partition not available (inactive "
         "or drain)", True, ""),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
         "failure)", True, ""),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True, ""),
        ("sbatch: error: invalid partition specified: nowhere", False, "slurm_partition"),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition "
         "combination specified", False, "slurm_account"),
        ("sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
         False, "runtime"),
        ("sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job "
         "submission failed: Requested node configuration is not available", False, "mem_mb"),
        # What the plugin says, and Slurm of the same account.
        ("The given account chem appears to be invalid. Available accounts:\nlab", False, "slurm_account"),
        ("allocation failure: Invalid qos specification", False, "qos"),
        ("allocation failure: Invalid feature specification", False, "constraint"),
        ("allocation failure: Node count specification invalid", False, "nodes"),
        ("allocation failure: Invalid license specification", False, "slurm_extra"),
        ("sbatch: error: CPU count per node can not be satisfied", False, "threads"),
        ("sbatch: error: Batch job submission failed: Protocol authentication error", True, ""),
        ("sbatch: error: something that nobody has seen", False, ""),
    ],
)  # fmt: skip
def test_a_refusal_is_read(words: str, passes: bool, key: str) -> None:
    assert Refusal.read(words) == Refusal(" ".join(words.split()), passes, key)


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
USUAL = ["None", "Priority", "Resources", "BeginTime"]


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


@pytest.mark.parametrize("reason", USUAL)
def test_a_full_queue_is_told_where_nothing_runs(reason: str) -> None:
    queue, rows = Queue("run"), {"7": Row("PENDING", reason)}
    assert queue.hear(rows | {"9": Row("RUNNING", "None")}, 0.0) == []
    assert queue.hear(rows, 1.0) == []
    (said,) = queue.hear(rows, 1.0 + PATIENCE)
    assert "1 job in Slurm's queue and none running" in said
    assert reason == "None" or reason in said
    assert queue.hear(rows | {"9": Row("RUNNING", "None")}, 2 * AGAIN) == []


def test_held_jobs_are_told_with_what_lets_them_go() -> None:
    rows = {n: Row("PENDING", "JobHeldUser") for n in ("7", "8")}
    (said,) = Queue("run").hear(rows, 0.0)
    assert "scontrol release 7,8" in said


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


def test_a_node_on_which_one_job_died_is_tried_again_later() -> None:
    nodes = Nodes()
    nodes.died("bad", "exit status 127", now=0.0)
    assert nodes.bad(1.0) == {"bad"}
    assert nodes.bad(2 * SUSPECT) == set()
    nodes.forget("job")  # or at once, where there is no other
    assert nodes.bad(1.0) == set()


def test_a_run_of_which_nothing_begins_anywhere_ends() -> None:
    nodes = Nodes()
    for number in range(MOST):
        assert not nodes.hopeless
        nodes.died(f"n{number}", "exit status 2", now=0.0)
    assert all(f"n{number} (exit status 2)" in nodes.hopeless for number in range(MOST))
    nodes.began("evaluate", "n9")
    assert not nodes.hopeless


def test_a_run_listens_to_signals_before_it_waits_for_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For the study, too: another run may hold it."""
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    dag, heard = Dag(study_of(toy)), []
    monkeypatch.setattr(dag, "_listen", lambda: heard.append("listens"))
    monkeypatch.setattr(dag, "_begin", lambda: heard.append("begins"))
    dag.begin()
    assert heard == ["listens", "begins"]


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
    """Run a job's command as sbatch does, from any folder."""
    words = bare.holding(command_of(study, *jobs))
    done = subprocess.run(["sh", "-c", words], cwd="/", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_command_of_a_job_is_words_for_any_scheduler(tmp_path: Path) -> None:
    """HTCondor drops single quotes and wants Python first, LSF puts it in double quotes, Flux splits it."""
    toy = Toy(tmp_path / "toy", iterations=0, batch_size=2, sleep=0.0)
    study = study_of(toy)
    job = {
        "stage": "propose",
        "wildcards": {"iteration": "0"},
        "output": tmp_path / "proposals.json",
    }
    command = command_of(study, job)
    assert command.startswith(f"{sys.executable} ")
    assert not set("'\"$`\\") & set(command)
    run_bare(study, job)
    assert (tmp_path / "proposals.json").exists()


def test_a_job_that_cannot_begin_says_so_before_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bare, "HOLD", 0)
    for command, status in (
        (f"/nowhere/python -P {__file__}", 127),
        (f"{sys.executable} -P /nowhere", 1),
    ):
        done = subprocess.run(["sh", "-c", bare.holding(command)], capture_output=True, text=True)
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


def test_the_command_of_a_job_evaluates_its_chunk(tmp_path: Path) -> None:
    """Snakemake's threads and temporary folder are set."""
    toy = Toy(tmp_path / "a study's", iterations=0, batch_size=2, sleep=0.0)
    (toy.folder / "objective.py").write_text(
        'import os; print(int(os.environ["OMP_NUM_THREADS"] == "1" and "TMPDIR" in os.environ))'
    )
    text = (toy.folder / "config.yaml").read_text().replace("constraints: [small]\n", "")
    (toy.folder / "config.yaml").write_text(text)
    study, proposals = study_of(toy), toy.results / "iterations" / "0" / "proposals.json"
    study.propose(0, None, proposals)
    output = toy.results / "iterations" / "0" / "outcomes" / "1.json"
    wildcards = {"iteration": "0", "chunk": "1"}
    job = {"stage": "evaluate", "wildcards": wildcards, "input": [proposals], "output": output}
    run_bare(study, job)
    outcomes = json.loads(output.read_text())["outcomes"]
    assert [(o["slot"], o["status"], o["objective"]) for o in outcomes] == [
        (slot, "ok", 1.0) for slot in (4, 5, 6, 7)
    ]


def test_a_job_that_fits_and_proposes_proposes_what_two_would(tmp_path: Path) -> None:
    toy = Toy(tmp_path / "one", iterations=1, batch_size=4, sleep=0.0)
    study = study_of(toy)
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


def test_a_folder_whose_outputs_are_there_is_asked_about_a_few_times(tmp_path: Path) -> None:
    def job(*names: str) -> SimpleNamespace:
        output = [tmp_path / name for name in names]
        part = SimpleNamespace(
            is_group=lambda: False, output=output, products=lambda include_logfiles: output
        )
        return SimpleNamespace(job=part, aux={})

    executor = object.__new__(Executor)
    executor.active_jobs = [job(), job("0/a"), job("0/b"), job("1/a")]
    for name in ("0", "1"):
        (tmp_path / name).mkdir()
    assert not executor._is_written()
    (tmp_path / "0/a").touch()
    assert not executor._is_written()
    (tmp_path / "0/b").touch()
    assert [executor._is_written() for _ in range(GLANCES + 1)] == [True] * GLANCES + [False]
    (tmp_path / "1/a").touch()
    assert executor._is_written()
