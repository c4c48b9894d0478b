"""What the tests share."""

from __future__ import annotations

import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import hypothesis
import needs
import pytest
import synthetic
from mine import Mine
from needs import (  # noqa: F401
    chromium,
    distributed,
    gcc,
    gpu,
    group,
    history,
    mlflow,
    no_gpu,
    refused_calls,
    root,
    rsync,
    setpriv,
    slurm_errors,
    xfoil,
)  # fmt: skip
from toy import BRIEF, Toy

from dngo.study import Study

HERE = Path(__file__).parent

# Tests that were started with a shell's `&` ignore SIGINT, and so would all that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Some containers set this. Then each process that a test starts would compile the package anew.
# Without it pytest would also rewrite the assertions of every file anew, in each of its workers.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# However slow the machine is just now. What draws more says so itself.
hypothesis.settings.register_profile(
    "dngo", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow], max_examples=50
)
hypothesis.settings.load_profile("dngo")

# make passes on the PATH of its user's shell. Tests run as in a shell that knows nothing of make.
os.environ.pop("DNGO_SHELL_PATH", None)

# The longest files come first, so that no worker is left with one at the end. Every third file is
# from slurm/: these tests mostly wait, and meanwhile other workers keep two cores busy.
LONGEST = (
    "slurm/test_interrupted.py",
    "test_workflow_stopped.py",
    "test_workflow.py",
    "slurm/test_study.py",
    "test_module.py",
    "test_fronts.py",
    "test_entrances.py",
    "slurm/test_silence.py",
    "test_exchange.py",
    "test_examples.py",
    "slurm/test_admins.py",
    "test_faults.py",
    "test_full_disk.py",
    "slurm/test_bad_nodes.py",
    "test_entering.py",
    "test_set_up.py",
    "slurm/test_accounting.py",
    "test_old_archives.py",
    "test_run_from_anywhere.py",
    "slurm/test_other_schedulers.py",
    "test_acquisition_kinds.py",
    "test_from_python.py",
    "test_archive_safety.py",
    "test_course.py",
    "test_fuzz.py",
    "test_provenance.py",
    "test_example_captions.py",
    "test_exchange_crate.py",
    "test_publishing.py",
    "test_overwriting.py",
    "test_surrogates_bohamiann.py",
    "test_identity.py",
    "test_units.py",
    "test_report.py",
    "test_archive_surrogates.py",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--nothing-missing",
        action="store_true",
        help="a test that is skipped for want of a package is an error",
    )


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "full: not in the quick run (`make test`): whole studies through processes, and long searches",
        "needs: may be skipped in the quick run for want of a program",
    ):
        config.addinivalue_line("markers", line)


# What the quick run leaves out or may skip is in a file that says one of these words.
REST = re.compile("|".join([r"mark\.full", *sorted(needs.INSTALLED)]))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """In the rest of the run, files without any of it: each worker would import them all."""
    one = collection_path.parent == HERE and collection_path.name.startswith("test_")
    rest = config.option.markexpr == "full or needs"
    return True if one and rest and not REST.search(collection_path.read_text()) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which workers are to take them up, and what is not in the quick run."""
    for item in items:
        if item.path.parent != HERE:  # of a real Slurm
            item.add_marker(pytest.mark.full)
        if needs.INSTALLED & set(item.fixturenames):  # type: ignore[attr-defined]
            item.add_marker(pytest.mark.needs)
            if item.path.parent == HERE and not REST.search(item.path.read_text()):
                raise pytest.UsageError(f"{item.path}: name there what {item.name} needs")
    order = {HERE / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo) -> Any:
    report = yield
    if report.skipped and item.config.getoption("--nothing-missing"):
        _, _, reason = report.longrepr
        if needs.MACHINE not in reason:
            report.outcome, report.longrepr = "failed", f"nothing may be missing here: {reason}"
    return report


@pytest.fixture
def toy(tmp_path: Path):
    """A function that makes a toy study."""

    def make(*, iterations: int = 2, batch_size: int = 6, sleep: float = 0.0, **more: Any) -> Toy:
        sizes = {"iterations": iterations, "batch_size": batch_size}
        return Toy(tmp_path / "toy", **sizes, sleep=sleep, **more)

    return make


@pytest.fixture
def brief(toy):
    """A function that makes a toy study whose runs write no reports."""

    def make(**given) -> Toy:
        study = toy(**given)
        study.without = BRIEF
        return study

    return make


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a test, as the one in which everything is typed."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def mine(tmp_path: Path) -> Mine:
    return Mine(tmp_path)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory) -> Study:
    return synthetic.study(tmp_path_factory.mktemp("made"), iterations=3, size=20)


@pytest.fixture(scope="module")
def small(made_once: Study, tmp_path_factory) -> Study:
    """80 points in four iterations, in a folder of this file's own."""
    results = tmp_path_factory.mktemp("small")
    shutil.copytree(made_once.folder, results / made_once.config.study)
    return Study(made_once.config.model_copy(update={"results": str(results)}))
