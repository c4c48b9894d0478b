"""A kernel that really kills for memory: it takes the objective, and the supervisor says what it was."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from evaluating import RUNNER, Share
from needs import MACHINE, missing

from dngo.batch import Proposal, find_outcome

LIMIT = 400 * 2**20


@pytest.fixture
def memory() -> Iterator[Path]:
    """A control group with little memory and no swap, where this user may make one."""
    v1 = Path("/sys/fs/cgroup/memory")
    folder = (v1 if v1.is_dir() else Path("/sys/fs/cgroup")) / f"dngo-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
        limit = folder / ("memory.limit_in_bytes" if v1.is_dir() else "memory.max")
        limit.write_text(str(LIMIT))
    except OSError as error:
        if folder.exists():
            folder.rmdir()
        missing(f"{MACHINE}lets this user make no control group of memory: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


def test_a_kill_by_the_kernel_is_out_of_memory(tmp_path: Path, memory: Path) -> None:
    """The job is in the group, as a scheduler puts it there; all but the objective survive."""
    share = Share(tmp_path, 1)
    code = "hog = [bytearray(b'1' * 2**24) for _ in range(200)]; print(len(hog))"
    objective = {"command": [sys.executable, "-c", code], "memory_mb": 8000}
    inside = f'echo $$ > {memory}/cgroup.procs; exec "$@"'
    words = [sys.executable, "-c", RUNNER, str(tmp_path), json.dumps(objective)]
    done = subprocess.run(["bash", "-c", inside, "-", *words], check=False)
    assert done.returncode == 0
    point = Proposal(0, 0, {"x": 1}, "test")
    outcome = find_outcome(share.outcome_file(point), point)
    assert outcome is not None
    assert (outcome.status, outcome.attempts) == ("out_of_memory", 1)
    assert outcome.message == "killed by the kernel: out of memory"
    assert not os.path.exists(tmp_path / "claims" / "0")
