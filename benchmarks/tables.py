"""Which measured tables are older than the code that they measure.

    python benchmarks/tables.py             # all of them, the oldest code first
    python benchmarks/tables.py --strict    # exit status 1 if one is older

Below each measured table a line says the commit that it was measured on, the version of then, and what it
measures: "Measured at `d8120f8` (0.1.0): `dngo/acquisition`, `dngo/surrogates`." A table is older than the
code where a commit after that one changed what it measures; whether the change matters is for a reader
to say. Needs the repository's history.
"""

from __future__ import annotations

import argparse
import math
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GIT = ("git", "-C", str(ROOT))
MEASURED = re.compile(r"Measured at `([0-9a-f]{7,40})` \(([^)]+)\): (`[^`]+`(?:, `[^`]+`)*)\.")


@dataclass(frozen=True)
class Table:
    """Where a table stands, what it was measured on, and what of."""

    place: str
    commit: str
    version: str
    paths: tuple[str, ...]

    def changes(self) -> int | None:
        """Commits since then that changed what it measures; None if the commit is not in the history."""
        if subprocess.run([*GIT, "cat-file", "-e", self.commit], capture_output=True).returncode:
            return None
        return int(git("rev-list", "--count", f"{self.commit}..HEAD", "--", *self.paths))


def git(*arguments: str) -> str:
    """What git prints; raises SystemExit with its words if it fails."""
    done = subprocess.run([*GIT, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def tables(page: str) -> Iterator[Table]:
    """The measured tables of a page, in order."""
    text = (ROOT / page).read_text()
    for match in MEASURED.finditer(text.replace("\n", " ")):
        line = text.count("\n", 0, match.start()) + 1
        commit, version, paths = match.groups()
        yield Table(f"{page}:{line}", commit, version, tuple(re.findall("`([^`]+)`", paths)))


def main() -> None:
    """Print a line for each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--strict", action="store_true", help="exit status 1 if one is older")
    arguments = parser.parse_args()
    pages = git("ls-files", "*.md").split()
    known = [(table.changes(), table) for page in pages for table in tables(page)]
    for changes, table in sorted(
        known, key=lambda each: -math.inf if each[0] is None else -each[0]
    ):
        since = f"{changes:4} commits since" if changes else "as it is"
        since = "commit not found" if changes is None else since
        print(
            f"{since:18} {table.commit} ({table.version})  {table.place}  {', '.join(table.paths)}"
        )
    old = sum(changes != 0 for changes, _ in known)
    print(f"{old} of {len(known)} tables are older than the code that they measure")
    sys.exit(int(arguments.strict and old > 0))


if __name__ == "__main__":
    main()
