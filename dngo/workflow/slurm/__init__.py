"""The place of our Slurm executor in Snakemake, and the versions of the plugin that it fits.

`executor` has the executor: a subclass of that of snakemake-executor-plugin-slurm.
It takes the plugin's place under the plugin's name, `slurm`, when a run is planned. A plugin under a
name of its own would be worse: Snakemake finds plugins among the installed top-level packages only, and
so none in an editable installation nor in a clone used with conda; and it derives the names of a
plugin's options from the plugin's name, so that the `slurm-...` lines of a user's profile would be
accepted and ignored.
"""

from __future__ import annotations

import signal
from importlib import metadata
from threading import current_thread, main_thread
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

PACKAGE = "snakemake-executor-plugin-slurm"
# What pyproject.toml asks for too. tests/test_slurm_executor.py fails where the plugin has changed in what
# our executor replaces or calls.
AT_LEAST, BELOW = (2, 8), (2, 9)


def register() -> None:
    """Have Snakemake use our executor where the profile says `executor: slurm`.

    A version of the plugin that it does not fit is an error only of runs that use it.
    """
    plugin: Any = ExecutorPluginRegistry().plugins.get("slurm")
    if plugin is None:
        return
    installed = metadata.version(PACKAGE)
    if AT_LEAST <= tuple(int(x) for x in installed.split(".")[:2]) < BELOW:
        from dngo.workflow.slurm.executor import Executor

        plugin.executor = Executor
    else:
        plugin.executor = _refusing(installed)


def listen(workflow: Any) -> None:
    """Have SIGTERM end a run on Slurm within seconds: called when a run begins."""
    executor: Any = getattr(workflow.scheduler, "_executor", None)
    if hasattr(executor, "terminate") and current_thread() is main_thread():
        signal.signal(signal.SIGTERM, executor.terminate)


def _refusing(installed: str) -> type:
    wanted = f">={'.'.join(map(str, AT_LEAST))},<{'.'.join(map(str, BELOW))}"

    class Refusing:
        def __init__(self, *_: Any):
            raise WorkflowError(
                f"{PACKAGE} {installed} is installed, and this version of dngo fits {wanted}: "
                f"pip install '{PACKAGE}{wanted}'"
            )

    return Refusing
