"""What a run shows on the terminal: a bar, a line for each batch, and messages for the user."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import termios
from pathlib import Path

import numpy as np
import pytest
import synthetic
from toy import Toy, once_each, planned

from dngo import archive
from dngo.report.data import View
from dngo.report.live import merged_batches, promised
from dngo.report.text import batch_lines
from dngo.units import Units

BATCH = re.compile(r"^ +(\d) +(\d+) +(\d+)% ", re.M)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm"}
# As most users have it: text that nobody reads is found in the buffers at the end.
BUFFERED = {k: v for k, v in ENVIRONMENT.items() if k != "PYTHONUNBUFFERED"}


def on_terminal(toy: Toy, *options: str) -> str:
    """What a terminal is sent by a run."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(ours, (30, 120))
    process = subprocess.Popen(
        toy.command(*options), cwd=toy.folder, stdout=theirs, stderr=theirs, env=ENVIRONMENT
    )
    os.close(theirs)
    sent = b""
    while True:
        try:
            sent += os.read(ours, 65536)
        except OSError:  # the last one has closed it
            break
    os.close(ours)
    assert process.wait() == 0, sent
    return sent.decode()


def snakemake_log(toy: Toy) -> str:
    return max((toy.folder / ".snakemake" / "log").glob("*.log")).read_text()


@pytest.mark.full
def test_a_run_is_a_line_a_batch_and_snakemake_keeps_its_log(brief) -> None:
    study = brief(points_per_job=8)
    study.configure(iterations=1, batch_size=4, extra="acquisition: random\n")
    plan = study.snakemake("--dry-run")
    assert "rule evaluate:" in plan and planned(plan)["evaluate"] == 2
    output = study.snakemake()
    assert "\x1b" not in output and "\r" not in output
    assert [found[:2] for found in BATCH.findall(output)] == [("0", "8"), ("1", "4")]
    table = archive.read_table(study.archive)
    failed = int((table.status == "failed").sum())
    told = re.findall(r"^ {11}(\d) failed: .*this corner does not work", output, re.M)
    assert sum(map(int, told)) == failed
    assert "Best point" in output and "Complete log(s):" in output
    assert len(output.splitlines()) < 40 and "rule evaluate" not in output
    whole = snakemake_log(study)
    assert whole.count("rule evaluate:") == 2 and "Best point" in whole


@pytest.mark.full
def test_a_terminal_has_a_bar_that_goes_away_and_the_same_lines(brief) -> None:
    study = brief(iterations=0, points_per_job=8, sleep=0.6)
    sent = on_terminal(study, "--cores", "1")
    bars = re.findall(r"\rtoy [^\r]*?(\d) of 8 in 00:\d\d; ", sent)
    assert len(set(bars)) >= 3
    assert re.search(r"iteration 0: \d of 8 evaluated, 1 running", sent)
    # What stays on the screen: in each line only the text after the last return to its start
    # counts.
    lines = [line.rpartition("\r")[2] for line in sent.replace("\r\n", "\n").split("\n")]
    screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", "\n".join(lines))
    assert not re.search(r"^toy ", screen, re.M) and len(BATCH.findall(screen)) == 1


@pytest.mark.full
def test_errors_are_always_shown_and_all_where_that_is_asked_for(brief) -> None:
    study = brief(iterations=0, batch_size=4)
    program = study.folder / "objective.py"
    mended = program.read_text()
    (study.folder / "config.yaml").write_text(
        (study.folder / "config.yaml").read_text().replace("{python} objective.py", "progam")
    )
    output = study.snakemake("--cores", "1", check=False)
    assert "Error in rule evaluate" in output and "logs/evaluate/0/" in output
    assert "objective.command: 'progam' cannot be started: No such file or directory" in output
    assert output.count("evaluate: objective.command") <= 2, "the others are not tried"
    assert "stopped early" in output and "Traceback" not in output
    assert "Select jobs to execute" not in output
    assert not list(study.results.glob("pending/0/outcomes/*"))
    study.configure(iterations=0, batch_size=4)
    assert program.read_text() == mended
    output = study.snakemake("--verbose")
    assert "rule evaluate:" in output and "Select jobs to execute" in output
    once_each(study, 8)


@pytest.mark.parametrize(("helped", "status"), [("", 120), ("atexit.register(outlive_readers)", 3)])
def test_text_that_nobody_reads_changes_no_exit_status(helped, status) -> None:
    program = (
        "import atexit, sys; from dngo.workflow.course import outlive_readers\n"
        f"{helped}\n"
        "input(); print('half a line', end='', file=sys.stderr); print('and more'); sys.exit(3)"
    )
    read, write = os.pipe()
    command = [sys.executable, "-c", program]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=write, stderr=write, env=BUFFERED
    )
    os.close(write)
    os.close(read)
    process.communicate(b"\n")
    assert process.returncode == status


@pytest.mark.full
def test_a_pipe_that_is_closed_ends_no_run(brief) -> None:
    study = brief(iterations=0, points_per_job=8)
    read, write = os.pipe()
    process = subprocess.Popen(
        study.command(), cwd=study.folder, stdout=write, stderr=write, env=BUFFERED
    )
    os.close(write)
    with os.fdopen(read) as stream:  # closed after Snakemake's own first line, before any of ours
        assert "profile" in stream.readline()
    assert process.wait(200) == 0, snakemake_log(study)
    assert set(study.evaluations().values()) == {1} and len(study.evaluations()) == 8
    assert len(archive.read_table(study.archive)) == 8
    assert "100%" in snakemake_log(study)


def test_the_line_of_a_batch_says_what_the_report_says(tmp_path: Path) -> None:
    study = synthetic.study(tmp_path, iterations=2, size=12)
    view = View.of(study.archive)
    found = merged_batches(study, range(3))
    for batch in found:
        rows = np.flatnonzero(view.table.iteration == batch.iteration)
        assert batch.points == len(rows)
        assert batch.best == pytest.approx(view.best_so_far[rows[-1]], nan_ok=True)
        assert sum(count for count, _ in batch.messages) == view.failed[rows].sum()
        assert batch_lines(batch)[1].split()[:2] == [str(batch.iteration), str(len(rows))]


def test_what_is_still_to_gain_is_the_best_point_s_expected_improvement() -> None:
    rng = np.random.default_rng(1)
    mean, deviation, feasibility = rng.normal(size=3), rng.uniform(0.1, 1, 3), rng.uniform(size=3)
    draws = rng.normal(mean, deviation, (200_000, 3))
    gains = np.maximum(0.2 - draws, 0).mean(axis=0) * feasibility
    assert promised(Units(1.0), 0.2, mean, deviation, feasibility) == pytest.approx(
        gains.max(), rel=0.02
    )
    assert np.isnan(promised(Units(1.0), np.nan, mean, deviation, feasibility))
