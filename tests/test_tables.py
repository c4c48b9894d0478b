"""Measured tables say what they were measured on."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("page", "least"), [("README.md", 10), ("rules.md", 3)])
def test_every_table_of_the_benchmarks_says_its_version(page: str, least: int) -> None:
    text = (ROOT / "benchmarks" / page).read_text()
    heads = len(re.findall(r"^\|(?: -+ \|)+$", text, re.MULTILINE))
    tails = len(
        re.findall(r"^\|.*\|\n\nMeasured at `[0-9a-f]{7,}` \([\d.]+\): `", text, re.MULTILINE)
    )
    assert heads == tails > least


def test_the_command_lists_the_tables_that_are_older_than_their_code() -> None:
    # A shallow clone lacks the commits.
    shallow = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    if subprocess.run(shallow, capture_output=True, text=True).stdout.strip() != "false":
        pytest.skip("needs the repository's history")
    done = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "tables.py"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "benchmarks/README.md" in done.stdout and "tables are older" in done.stdout
    assert "commit not found" not in done.stdout
