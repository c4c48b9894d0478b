"""Jobs without a Snakemake in them, for other schedulers. Their Snakemake plugin must run a command.

The plugin still submits, asks and cancels in its own way. A job that needs a Snakemake still gets
one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from dngo.workflow import bare

# Each of them passes the command of a job to a shell, or as words to its scheduler.
PLUGINS = ("cluster-generic", "drmaa", "flux", "htcondor", "lsf", "sge")


def register() -> None:
    """Have Snakemake use these plugins with our jobs."""
    for name in PLUGINS:
        plugin: Any = ExecutorPluginRegistry().plugins.get(name)
        if plugin is not None and not issubclass(plugin.executor, _Bare):
            plugin.executor = type("Executor", (_Bare, plugin.executor), {})


class _Bare:
    """A base class that comes before the plugin's executor."""

    def format_job_exec(self: Any, job: Any) -> str:
        """The command of a job. It runs the stage itself, unless the job needs a Snakemake."""
        declared = self.workflow.remote_execution_settings.envvars
        if declared or not bare.is_bare(self.workflow, job):
            return str(super().format_job_exec(job))  # type: ignore[misc]
        patience = self.workflow.execution_settings.latency_wait
        command = bare.command(job, Path(self.tmpdir), self.get_python_executable(), patience)
        around = self.get_job_exec_prefix(job), command, self.get_job_exec_suffix(job)
        return " && ".join(filter(None, around))
