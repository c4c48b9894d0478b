"""What the tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from toy import Toy


@pytest.fixture
def toy(tmp_path: Path):
    """A function that makes a toy study."""

    def make(*, iterations: int = 2, batch_size: int = 6, sleep: float = 0.0) -> Toy:
        return Toy(tmp_path / "toy", iterations=iterations, batch_size=batch_size, sleep=sleep)

    return make
