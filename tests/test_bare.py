"""On a machine that has nothing but Python, git and make, what needs more is skipped, in a line that says how to get it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import needs
import pytest
from running import ran

HERE = Path(__file__).parent


@pytest.mark.full
def test_what_needs_more_is_skipped_in_one_line_and_nothing_fails() -> None:
    names = "|".join(needs.INSTALLED)
    files = [path for path in HERE.rglob("test_*.py") if re.search(names, path.read_text())]
    # Packages of Python may be there for another test: no test is run a second time for that.
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "needs",
        "-q",
        "-p",
        "no:cacheprovider",
        "--setup-only",
    ]
    found = ran([HERE / "bare", *words, *files], cwd=HERE.parent)
    assert found.returncode == 0, found.stdout + found.stderr
    said = [line for line in found.stdout.splitlines() if line.startswith("SKIPPED")]
    missing = [line for line in said if needs.MACHINE not in line]
    for program in ("chromium", "xfoil", "rsync", "gcc"):
        assert any(re.search(rf"no {program}.*: apt-get install ", line) for line in missing), said
    assert all(re.search("(apt-get|pip) install |--install-only", line) for line in missing), said
