"""Files damaged at random: no traceback, no hang, no leak (`tests/fuzz.py`; `make fuzz` goes on for hours)."""

from __future__ import annotations

import os
from pathlib import Path

import fuzz
import pytest

from dngo.errors import UserError
from dngo.study.batches import copy

SECONDS = float(os.environ.get("DNGO_FUZZ_SECONDS", "3"))
SEED = int(os.environ.get("DNGO_FUZZ_SEED", "0"))


@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_what_is_damaged_is_one_clear_line(target: str) -> None:
    counts = fuzz.run(target, SECONDS, SEED)
    assert counts["files"] > 0
    assert counts["faults"] == 0


def test_a_pipe_in_place_of_a_surrogate_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "surrogate.h5")
    with pytest.raises(UserError, match=r"surrogate.h5: it is no regular file; remove it"):
        copy(tmp_path / "surrogate.h5", tmp_path / "copy.h5")
    assert not (tmp_path / "copy.h5").exists()
