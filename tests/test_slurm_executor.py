"""Our Slurm executor and the plugin under it: what tests/slurm cannot show, or not soon enough."""

from __future__ import annotations

import hashlib
import inspect
import os
import subprocess
from pathlib import Path

import pytest
import snakemake_executor_plugin_slurm as plugin
from snakemake_executor_plugin_slurm import job_cancellation, submit_string, utils
from toy import Toy

from dngo.workflow import slurm
from dngo.workflow.slurm_executor import Executor, Refusal

# What the executor replaces, and what it calls or is called by, as in the plugin's version 2.8.0.
SURFACE = {
    plugin.Executor.__init__: "387fdecad579",
    plugin.Executor.__post_init__: "a2516401a2d4",
    plugin.Executor.shutdown: "67e48b94f0bc",
    plugin.Executor.clean_old_logs: "9740e6f23b44",
    plugin.Executor.additional_general_args: "5e6fbdad41fa",
    plugin.Executor.run_jobs: "237137067302",
    plugin.Executor._submit_job: "9220e03682ba",
    plugin.Executor._report_job_error_threadsafe: "bccc14fdfb49",
    plugin.Executor.run_job: "d8a8af5d4605",
    plugin.Executor.check_active_jobs: "a15ec905e07e",
    plugin.Executor.cancel_jobs: "fa5264a51538",
    plugin.Executor.get_account_arg: "f49dd1922c96",
    submit_string.get_submit_command: "8ec37eca0a8f",
    job_cancellation.cancel_slurm_jobs: "33dc592a8e67",
    utils.delete_empty_dirs: "d77d8f9cd368",
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
    own = {name for name in vars(Executor) if callable(getattr(Executor, name))}
    replaced = {name for name in own if hasattr(plugin.Executor, name)}
    assert replaced - {"__doc__", "__init_subclass__"} >= {
        "__post_init__", "additional_general_args", "cancel_jobs", "check_active_jobs",
        "clean_old_logs", "get_account_arg", "print_job_error", "run_job",
        "_report_job_error_threadsafe",
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
        timeout=120,
    )
    assert result.returncode == 1
    assert "snakemake-executor-plugin-slurm 3.1.0 is installed" in result.stderr
    assert "fits >=2.8,<2.9" in result.stderr
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
        ("sbatch: error: something that nobody has seen", False, ""),
    ],
)  # fmt: skip
def test_a_refusal_is_read(words: str, passes: bool, key: str) -> None:
    message = f"SLURM sbatch failed. The error message was '{words}'.\n    sbatch call:\n   x\n"
    assert Refusal.read(message) == Refusal(" ".join(words.split()), passes, key)
