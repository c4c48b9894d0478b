"""A few faults at random moments in a small study (`benchmarks/faults.py` does hundreds)."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from running import ran
from toy import ROOT

pytestmark = pytest.mark.full


@pytest.mark.usefixtures("gcc")  # a library through which calls fail is built
@pytest.mark.parametrize("sort", ["disk", "stale"])
def test_nothing_is_lost_and_nothing_repeated_when_calls_fail(tmp_path: Path, sort: str) -> None:
    """Kills at random moments: tests/test_workflow_stopped.py."""
    (tmp_path / "config.yaml").write_text("omit-from: [report, conclude, progress]\n")
    done = ran(
        [sys.executable, str(ROOT / "benchmarks" / "faults.py"), f"--{sort}", "2", "--seed", "5"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "SNAKEMAKE_PROFILE": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    row = json.loads(done.stdout.splitlines()[0])
    assert row["archived"] == row["ended"] + len(row["not_ok"]) == 18
    assert row["archive"] == "intact"
