"""Files damaged at random: no traceback, no hang, no leak (`tests/fuzz.py`; `make fuzz` goes on for hours)."""

from __future__ import annotations

import os

import fuzz
import pytest

SECONDS = float(os.environ.get("DNGO_FUZZ_SECONDS", "8"))
SEED = int(os.environ.get("DNGO_FUZZ_SEED", "0"))


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_what_is_damaged_is_one_clear_line(target: str) -> None:
    counts = fuzz.run(target, SECONDS, SEED)
    assert counts["files"] > 0
    assert counts["faults"] == 0
