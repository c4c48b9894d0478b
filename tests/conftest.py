"""What the tests share."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from toy import Toy

HERE = Path(__file__).parent

# Tests that were started with a shell's `&` ignore SIGINT, and so would all that they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What takes longest begins first, or a worker would be left with it at the end.
LONGEST = (
    "slurm/test_study.py",  # mostly waits, as do all tests of that folder
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
