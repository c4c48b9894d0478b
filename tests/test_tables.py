"""Measured tables say what they were measured on, and pages say what the tables do."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
from running import ran

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
FILES = sorted(RESULTS.glob("*.csv"))
REPORT, TRIED = ((ROOT / "benchmarks" / name).read_text() for name in ("README.md", "tried.md"))
sys.path.insert(0, str(ROOT / "benchmarks"))
import tables  # noqa: E402


def script(name: str) -> bool:
    """Whether a script is here, or at one of the commits that the report names for those that are gone."""
    (sentence,) = re.findall(r"A script\s+that is gone is (at commit [^:]*):", REPORT)
    commits = re.findall(r"`(\w+)`", sentence)
    there = (["git", "-C", ROOT, "cat-file", "-e", f"{c}:benchmarks/{name}"] for c in commits)
    return (ROOT / "benchmarks" / name).is_file() or any(
        subprocess.run(words, capture_output=True).returncode == 0 for words in there
    )


def test_scripts_that_have_gone_can_be_had(history: None) -> None:
    heads = [path.read_text()[:2000] for path in FILES]
    named = set(re.findall(r"benchmarks/(\w+\.py)", "".join(heads)))
    named |= set(re.findall(r"`(\w+\.py)`", REPORT))
    assert len(named) > 20
    assert not [name for name in named if not script(name)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_results_file_says_its_version_and_its_command(path: Path) -> None:
    comments, _ = tables.read(path)
    assert tables.IN_FILE.match(path.read_text())
    assert re.match(r"command: .*python .*benchmarks/(\w+)\.py", comments[1])
    rows = list(csv.reader(path.read_text().splitlines()[len(comments) :]))
    assert len(rows) > 2 and {len(row) for row in rows} == {len(rows[0])}
    assert len(set(rows[0])) == len(rows[0]) and all(rows[0])


def test_comments_name_rows_of_what_was_tried() -> None:
    # A heading, or the first cell of a row.
    titles = re.findall(r"^(?:##+ (.*)|\| ([A-Z][^|]*) \|.*)$", TRIED, re.MULTILINE)
    sections = ["".join(title).lower() for title in titles]
    named = []
    for path in sorted((ROOT / "dngo").rglob("*.py")):
        text = re.sub(r"\n\s*#? ?", " ", path.read_text())
        named += re.findall(r"benchmarks/tried\.md, ([\w' ]+)", text)
    assert len(named) > 8
    assert not [name for name in named if not any(s.startswith(name.strip()) for s in sections)]


def test_the_report_is_short_and_names_every_results_file() -> None:
    """A visitor reads 120 lines of results."""
    assert len(REPORT.splitlines()) <= 120
    assert len(FILES) > 20
    assert not [path.name for path in FILES if f"`{path.name}`" not in REPORT]
    named = re.findall(r"`(\w+\.csv)`", REPORT + TRIED)
    assert not set(named) - {path.name for path in FILES} - {"emulator.csv", "results.csv"}


def test_the_report_counts_as_the_files_do() -> None:
    rows = re.findall(r"\| (\d+) of (\d+) \| ([\d.,∞]+) \|.*`(\w+\.csv)` \|$", REPORT, re.MULTILINE)
    compared = {path.name for path in FILES if "dngo" in tables.read(path)[1][0]}
    assert {row[3] for row in rows} == compared
    for wins, of, factor, name in rows:
        found = tables.first(RESULTS / name)
        assert (int(wins), int(of)) == found[:2], name
        assert float(factor.replace(",", "").replace("∞", "inf")) == pytest.approx(
            found[2], rel=0.04
        ), name
    every = [tables.first(RESULTS / row[3]) for row in rows]
    headline = f"first on {sum(one[0] for one in every)} of {sum(one[1] for one in every)} "
    assert headline in "\n".join(REPORT.splitlines()[:20])


def test_a_headline_stands_in_one_place() -> None:
    # docs/costs.md had 0.88 for Ackley, and the report 0.56.
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        rows = re.findall(r"^\|.*(?:TuRBO|CMA-ES|Ackley).*\|$", page.read_text(), re.MULTILINE)
        assert not rows, page.name


def test_the_command_lists_the_tables_that_are_older_than_their_code(history: None) -> None:
    done = ran([sys.executable, ROOT / "benchmarks" / "tables.py"])
    assert done.returncode == 0, done.stderr
    for path in FILES:
        assert f"benchmarks/results/{path.name}:1 " in done.stdout
    assert "tables are older" in done.stdout and "commit not found" not in done.stdout


def test_a_table_that_is_older_than_the_release_must_be_listed(
    history: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    listed = tmp_path / "older.txt"
    monkeypatch.setattr(tables, "OLDER", listed)
    release = tables.last_release()
    older = [table.name for table in tables.tables() if table.changes(release)]
    assert older
    listed.write_text("# known\n" + "\n".join(older))
    assert tables.check_release() == 0
    listed.write_text("\n".join(name for name in older if name != older[0]))
    capsys.readouterr()
    assert tables.check_release() == 1
    assert f"{older[0]}: older than {release}" in capsys.readouterr().out
