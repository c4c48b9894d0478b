"""What some tests need and `make test` does not install. Each is one fixture, which skips and says in one line
what is missing and how to get it.

With `--nothing-missing` (continuous integration, where all of it is installed) such a skip is an error. What no
package brings, as a graphics card, is skipped there too.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import limited
import pytest
import refusing

# How a reason begins that no package can mend.
MACHINE = "this machine "


# What packages bring. A test that uses one of these is in the second run of continuous integration.
INSTALLED = {
    *("chromium", "xfoil", "rsync", "gcc", "cluster_session", "accounts", "grid_engine"),
    *("slurm_errors", "distributed", "mlflow"),
}


def missing(reason: str) -> NoReturn:
    pytest.skip(reason)


def _program(names: str, packages: str) -> Callable[[], None]:
    @pytest.fixture(scope="session")
    def found() -> None:
        gone = [name for name in names.split() if shutil.which(name) is None]
        if gone:
            missing(f"no {' and no '.join(gone)} here: apt-get install {packages}")

    return found


chromium = _program("chromium chromedriver", "chromium chromium-driver")
xfoil = _program("xfoil", "xfoil")
rsync = _program("rsync", "rsync")
gcc = _program("gcc", "gcc")
setpriv = _program("setpriv", "util-linux, and run the tests as root")


@pytest.fixture(scope="session")
def distributed() -> ModuleType:
    """Dask, which may come by PYTHONPATH as well."""
    try:
        return importlib.import_module("distributed")
    except ImportError:
        missing("no Dask here: pip install distributed")


@pytest.fixture(scope="session")
def mlflow() -> ModuleType:
    """MLflow's client and its database; it may come by PYTHONPATH as well."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    try:
        return importlib.import_module("mlflow")
    except ImportError:
        missing("no MLflow here: pip install mlflow-skinny")


@pytest.fixture(scope="session")
def root(setpriv: None) -> None:
    if os.geteuid():
        missing(f"{MACHINE}runs the tests as another user than root")


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A new file system of its own at this folder."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", *options, "dngo-test", str(folder)]
    if shutil.which("mount") is None or subprocess.run(words, capture_output=True).returncode:
        missing(f"{MACHINE}lets this user mount no file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture(scope="session")
def refused_calls() -> None:
    if not refusing.works():
        missing(f"{MACHINE}has no filter of system calls that the tests know")


@pytest.fixture
def group() -> Iterator[limited.Group]:
    """A control group with a limit on its processes."""
    with limited.group() as found:
        if found is None:
            missing(f"{MACHINE}lets this user make no control group of processes")
        yield found


@pytest.fixture(scope="session")
def gpu() -> None:
    import torch

    if not torch.cuda.is_available():
        missing(f"{MACHINE}has no GPU")


@pytest.fixture(scope="session")
def no_gpu() -> None:
    import torch

    if torch.cuda.is_available():
        missing(f"{MACHINE}has a GPU")


@pytest.fixture(scope="session")
def slurm_errors() -> dict[int, str]:
    """Slurm's own table of errors, by code."""
    folders = ("/usr/lib/x86_64-linux-gnu/slurm-wlm", "/usr/lib64/slurm", "/usr/lib/slurm")
    found = [p for folder in folders if (p := Path(folder) / "libslurmfull.so").exists()]
    if not found:
        missing("no library of Slurm here: apt-get install slurm-client")
    library = ctypes.CDLL(str(found[0]))
    library.slurm_strerror.restype = ctypes.c_char_p
    said = {n: library.slurm_strerror(n).decode() for n in [*range(1000, 1100), *range(1800, 9300)]}
    return {n: text for n, text in said.items() if not text.startswith("Unknown error")}


@pytest.fixture(scope="session")
def history() -> None:
    """The commits that tables name."""
    words = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--is-shallow-repository"]
    if subprocess.run(words, capture_output=True, text=True).stdout.strip() != "false":
        missing("not a whole repository: git fetch --unshallow")
