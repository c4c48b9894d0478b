"""Where a stage ran, and with which software.

It is recorded with every batch; the optimiser never reads it.
"""

from __future__ import annotations

import functools
import getpass
import importlib.metadata
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from dngo.rules import current
from dngo.version import __version__

PACKAGES = ("snakemake", "numpy", "scipy", "torch", "h5py", "pydantic")
# Only these environment variables are recorded, since others may hold secrets.
VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "SLURM_JOB_ID",
    "SLURM_JOB_PARTITION",
    "SLURM_CLUSTER_NAME",
)


def workflow_folder() -> Path:
    """The folder of the Snakefile: the top of the repository, which a wheel has in dngo/workflow/root."""
    package = Path(__file__).resolve().parent
    packed = package / "workflow" / "root"
    return packed if packed.exists() else package.parent


def user() -> str:
    """The name of this process's user, "user NUMBER" if it has none, as in some containers."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"user {os.getuid()}" if hasattr(os, "getuid") else "unknown"


def who() -> dict[str, Any]:
    """The person, the host and the time. They are stored with people's entries."""
    return {"by": f"{user()}@{socket.gethostname()}", "time": time.time()}


def environment() -> dict[str, Any]:
    """Versions, commit, machine and threads of this process, and the digest of the rules in use."""
    return {
        "dngo": __version__,
        "commit": dict(_commit()),
        "rules": current().digest,
        "packages": dict(_versions()),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "cpu": _cpu(),
        "kernels": kernels(),
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "host": socket.gethostname(),
        "time": time.time(),
        "threads": [
            {k: pool[k] for k in ("internal_api", "num_threads")} for pool in threadpool_info()
        ],
        "profile": os.environ.get("DNGO_PROFILE", ""),
        "variables": {k: os.environ[k] for k in VARIABLES if k in os.environ},
    }


@functools.cache
def _versions() -> dict[str, str]:
    """The versions of the relevant packages that are installed."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def kernels() -> dict[str, str]:
    """The kernels that each loaded numerical library has chosen for this processor.

    Other kernels give other last bits. `torch` is asked only if it is imported already.
    """
    import numpy as np

    blas = {
        f"{p['internal_api']} {p['architecture']}" for p in threadpool_info() if "architecture" in p
    }
    simd = np.show_config(mode="dicts").get("SIMD Extensions", {})  # type: ignore[union-attr]
    found = {"blas": ", ".join(sorted(blas)), "numpy": " ".join(simd.get("found", []))}
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.backends.cpu.get_cpu_capability()
    return found


def another_processor(made: dict[str, Any]) -> str | None:
    """A text that says how the processor of a stage's environment differs from this one; "" if it
    does not.

    None if unknown: earlier releases did not record it.
    """
    if "kernels" not in made:
        return None
    then = {"cpu": made.get("cpu", ""), **made["kernels"]}
    here = {"cpu": _cpu(), **kernels()}
    # Compare only libraries that were loaded then and are loaded now.
    return "; ".join(
        f"{name} was {then[name]} and is {here[name]}"
        for name in then
        if then[name] and here.get(name) and then[name] != here[name]
    )


@functools.cache
def _commit() -> dict[str, Any]:
    """The package's git commit, and whether its files differ from it; empty outside a checkout.

    Asked once: what this process has loaded stays as it is.
    """
    folder = Path(__file__).resolve().parent
    if workflow_folder() != folder.parent:
        return {}  # a wheel, perhaps in an environment inside some other repository

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.strip()

    try:
        return {"id": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain", "."))}
    except (OSError, subprocess.SubprocessError):
        return {}


@functools.cache
def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def typed() -> str:
    """The command `dngo` for the user's shell: its whole path if no environment is activated.

    make uses a path of its own. In DNGO_SHELL_PATH it passes the path of the shell in which it was
    typed.
    """
    beside = Path(sys.executable).with_name("dngo")
    found = shutil.which("dngo", path=os.environ.get("DNGO_SHELL_PATH"))
    return shlex.quote(str(beside)) if found is None and beside.exists() else "dngo"
