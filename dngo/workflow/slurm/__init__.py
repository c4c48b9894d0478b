"""How our Slurm executor gets into Snakemake, and the plugin's versions that it fits.

The module `executor` holds it: a subclass of the executor in snakemake-executor-plugin-slurm. When
a run is planned, it replaces the plugin under the plugin's name, `slurm`. A plugin with a new name
would be worse for two reasons. Snakemake finds plugins among the installed top-level packages only.
It would find none in an editable installation, or in a clone used with conda. It also derives the
names of options from the plugin's name. The `slurm-...` lines of a user's profile would then be
accepted and ignored.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import metadata
from threading import current_thread, main_thread
from typing import Any

from snakemake_interface_common.exceptions import WorkflowError
from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

from dngo.workflow.words import CHECK

PACKAGE = "snakemake-executor-plugin-slurm"
# The same as in pyproject.toml. Our executor replaces and calls parts of the plugin;
# tests/test_slurm_executor.py fails if one of them has changed.
AT_LEAST, BELOW = (2, 8), (2, 9)


def register() -> None:
    """Have Snakemake use our executor where the profile says `executor: slurm`.

    If the executor does not fit the plugin's version, only runs that use it fail.
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


def is_asked() -> bool:
    """Whether `dngo check --cluster` started this Snakemake. Then nothing of the study may run."""
    return CHECK in os.environ


def listen(workflow: Any) -> None:
    """Called when a run begins. From then on, SIGTERM ends a run on Slurm within seconds.

    A check ends before that, with our executor: another one would run the study.
    """
    if is_asked():
        sys.exit(
            "dngo check --cluster: the profile does not say `executor: slurm`; nothing was started"
        )
    executor: Any = getattr(workflow.scheduler, "_executor", None)
    if hasattr(executor, "terminate") and current_thread() is main_thread():
        signal.signal(signal.SIGTERM, executor.terminate)


def _refusing(installed: str) -> type:
    wanted = f">={'.'.join(map(str, AT_LEAST))},<{'.'.join(map(str, BELOW))}"

    class Refusing:
        def __init__(self, *_: Any):
            raise WorkflowError(
                f"{PACKAGE} {installed} is installed, but this version of dngo needs "
                f"{wanted}: pip install '{PACKAGE}{wanted}'"
            )

    return Refusing
