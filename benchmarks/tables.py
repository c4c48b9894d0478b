"""Which measured tables are older than the code that they measure, and how often this package is first.

    python benchmarks/tables.py             # all of them, the oldest code first
    python benchmarks/tables.py --release   # exit status 1 if one is older than the last release
    python benchmarks/tables.py --first     # on how many rows of a table this package is first

The tables are the CSV files of benchmarks/results/. Their comment lines begin with "#", and the first
says what was measured: "# measured at d8120f8 (0.1.0): dngo/acquisition, dngo/surrogates". A table on a
page has the same line below it: "Measured at `d8120f8` (0.1.0): `dngo/acquisition`, `dngo/surrogates`."

A table is older than the code where a later commit changed what it measures. It is older than the last
release where that release already holds such a commit. The release is the commit that dated it in
CHANGELOG.md. A reader says whether the change matters. Those that are known to be older than the release,
and not measured again yet, are lines of benchmarks/results/older.txt. Needs the repository's history.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
OLDER = RESULTS / "older.txt"
GIT = ("git", "-C", str(ROOT))
ON_PAGE = re.compile(r"Measured at `([0-9a-f]{7,40})` \(([^)]+)\): (`[^`]+`(?:, `[^`]+`)*)\.")
IN_FILE = re.compile(r"# measured at ([0-9a-f]{7,40}) \(([^)]+)\): (.+)")
DATED = r"^## [0-9]+\.[0-9.]+ \([0-9]{4}-"
NUMBER = re.compile(r"-?\d[\d.]*(?:e-?\d+)?")
# Columns of a comparison that are no method's value.
OTHER = re.compile(r"instance|rival|0\.2\.0|.* (?:sd|se|CPU s|found|one batch)")


@dataclass(frozen=True)
class Table:
    """Where a table stands, what it was measured on, and what of."""

    file: str
    line: int
    commit: str
    version: str
    paths: tuple[str, ...]

    @property
    def name(self) -> str:
        """What it is called in older.txt: a table that is measured again has another name."""
        return f"{self.file} {self.commit}"

    def changes(self, until: str = "HEAD") -> int | None:
        """Commits since then that changed what it measures; None if the commit is not in the history.

        A commit that was rebased may still lie in this clone, and will be missing in the next.
        """
        ancestor = [*GIT, "merge-base", "--is-ancestor", self.commit, "HEAD"]
        if subprocess.run(ancestor, capture_output=True).returncode:
            return None
        return int(git("rev-list", "--count", f"{self.commit}..{until}", "--", *self.paths))


def git(*arguments: str) -> str:
    """What git prints; raises SystemExit with its words if it fails."""
    done = subprocess.run([*GIT, *arguments], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def tables() -> Iterator[Table]:
    """All measured tables: files first, then those of the pages, in order."""
    for path in sorted(RESULTS.glob("*.csv")):
        name = str(path.relative_to(ROOT))
        found = IN_FILE.match(path.read_text())
        if not found:
            raise SystemExit(
                f"{name}: line 1: expected '# measured at COMMIT (VERSION): PATH, ...'"
            )
        yield Table(name, 1, found[1], found[2], tuple(found[3].split(", ")))
    for page in git("ls-files", "*.md").split():
        text = (ROOT / page).read_text()
        for match in ON_PAGE.finditer(text.replace("\n", " ")):
            line = text.count("\n", 0, match.start()) + 1
            paths = tuple(re.findall("`([^`]+)`", match[3]))
            yield Table(page, line, match[1], match[2], paths)


def read(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The comment lines of a results file, without their "#", and its rows."""
    lines = path.read_text().splitlines()
    comments = [line[1:].strip() for line in lines if line.startswith("#")]
    return comments, list(csv.DictReader(lines[len(comments) :]))


def first(path: Path) -> tuple[int, int, float]:
    """Rows of a comparison on which no rival is lower, all rows, and the median of best rival by ours.

    That is infinity where ours is the optimum in all. Raises KeyError if there is no column `dngo`.
    """
    rows = read(path)[1]
    wins, factors = 0, []
    for row in rows:
        rivals = [_number(row[name]) for name in list(row)[1:] if _is_rival(name)]
        ours, best = _number(row["dngo"]), min(rivals)
        wins += ours <= best
        if ours > 0:
            factors.append(best / ours)
    return wins, len(rows), statistics.median(factors or [math.inf])


def _is_rival(column: str) -> bool:
    return column == "best rival" or (column != "dngo" and not OTHER.fullmatch(column))


def _number(cell: str) -> float:
    """The value of a cell; infinity if a run did not end with one."""
    return float(cell) if NUMBER.fullmatch(cell) else math.inf


def known_as_older() -> set[str]:
    """The lines of older.txt."""
    lines = OLDER.read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def last_release() -> str:
    """The commit that dated the last release in the changelog: a clone may lack tags."""
    return git("log", "-1", "--format=%h", "-G", DATED, "--", "CHANGELOG.md")


def check_release() -> int:
    """Compare all tables with the last release; 1 if one is older than that and not listed."""
    release = last_release()
    older = {table.name for table in tables() if table.changes(release) != 0}
    known = known_as_older()
    for name in sorted(older - known):
        print(f"{name}: older than {release}: measure it again, or list it in {OLDER.name}")
    for name in sorted(known - older):
        print(f"{name}: not older than {release} any more: take it out of {OLDER.name}")
    print(f"{len(older)} tables are older than {release}, {len(older & known)} of them listed")
    return int(not older <= known)


def main() -> None:
    """Print a line for each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--release", action="store_true", help="compare with the last release")
    parser.add_argument("--first", action="store_true", help="count where this package is first")
    arguments = parser.parse_args()
    if arguments.release:
        sys.exit(check_release())
    if arguments.first:
        for path in sorted(RESULTS.glob("*.csv")):
            if "dngo" in read(path)[1][0]:
                wins, of, factor = first(path)
                print(f"{path.name}: first on {wins} of {of}, median factor {factor:.2g}")
        return
    known = [(table.changes(), table) for table in tables()]
    for changes, table in sorted(
        known, key=lambda each: -math.inf if each[0] is None else -each[0]
    ):
        since = f"{changes:4} commits since" if changes else "as it is"
        since = "commit not found" if changes is None else since
        place = f"{table.file}:{table.line}"
        print(f"{since:18} {table.commit} ({table.version})  {place}  {', '.join(table.paths)}")
    old = sum(changes != 0 for changes, _ in known)
    print(f"{old} of {len(known)} tables are older than the code that they measure")


if __name__ == "__main__":
    main()
