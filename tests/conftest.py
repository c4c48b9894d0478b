"""What the tests share."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import synthetic
from mine import Mine
from toy import Toy

from dngo.study import Study

HERE = Path(__file__).parent

# Tests that were started with a shell's `&` ignore SIGINT, and so would all that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# make says where its user's shell looks. No test is typed there: it is as one that knows nothing of make.
os.environ.pop("DNGO_SHELL_PATH", None)

# What takes longest begins first, or a worker would be left with it at the end.
LONGEST = (
    "slurm/test_study.py",  # mostly waits, as do all tests of that folder
    "slurm/test_interrupted.py",
    "slurm/test_silence.py",
    "test_workflow_stopped.py",
    "test_workflow.py",
    "test_module.py",
    "test_entering.py",
    "test_exchange.py",
    "test_exchange_crate.py",
    "test_examples.py",
    "test_example_captions.py",
    "test_old_archives.py",
    "test_set_up.py",
    "test_faults.py",
    "slurm/test_cluster.py",
    "test_fuzz.py",
    "test_course.py",
    "test_provenance.py",
    "test_acquisition_kinds.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files in the order in which workers (`make test`) are to take them up."""
    order = {HERE / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path, len(order)))


@pytest.fixture
def toy(tmp_path: Path):
    """A function that makes a toy study."""

    def make(*, iterations: int = 2, batch_size: int = 6, sleep: float = 0.0) -> Toy:
        return Toy(tmp_path / "toy", iterations=iterations, batch_size=batch_size, sleep=sleep)

    return make


@pytest.fixture
def mine(tmp_path: Path) -> Mine:
    return Mine(tmp_path)


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Study:
    """80 points in four iterations."""
    return synthetic.study(tmp_path_factory.mktemp("small"), iterations=3, size=20)
