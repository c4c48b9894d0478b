"""Jobs without a Snakemake in them, for the schedulers of which Snakemake has a plugin that runs a command.

All else is the plugin's: how it submits, asks and cancels. Where a job must be a Snakemake it stays one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from dngo.workflow import bare

# Each hands the command of a job to a shell, or to its scheduler as words.
PLUGINS = ("cluster-generic", "drmaa", "flux", "htcondor", "lsf", "sge")


def register() -> None:
    """Have Snakemake use these plugins with jobs of our own."""
    for name in PLUGINS:
        plugin: Any = ExecutorPluginRegistry().plugins.get(name)
        if plugin is not None and not issubclass(plugin.executor, _Bare):
            plugin.executor = type("Executor", (_Bare, plugin.executor), {})


class _Bare:
    """Put before a plugin's executor."""

    def format_job_exec(self: Any, job: Any) -> str:
        """The command of a job: the stage itself, unless Snakemake has something to do there."""
        declared = self.workflow.remote_execution_settings.envvars
        if declared or not bare.is_bare(self.workflow, job):
            return str(super().format_job_exec(job))  # type: ignore[misc]
        patience = self.workflow.execution_settings.latency_wait
        command = bare.command(job, Path(self.tmpdir), self.get_python_executable(), patience)
        around = self.get_job_exec_prefix(job), command, self.get_job_exec_suffix(job)
        return " && ".join(filter(None, around))
