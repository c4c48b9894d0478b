"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import Toy


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Side by side (`-n 2`) the tests of a file stay together, and so do all that share the cluster."""
    for item in items:
        place = item.path.parent.name
        item.add_marker(pytest.mark.xdist_group(place if place == "slurm" else item.path.name))


@pytest.fixture
def toy(tmp_path: Path):
    """A function that makes a toy study."""

    def make(*, iterations: int = 2, batch_size: int = 6, sleep: float = 0.0) -> Toy:
        return Toy(tmp_path / "toy", iterations=iterations, batch_size=batch_size, sleep=sleep)

    return make
