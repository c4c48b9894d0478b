"""A disk that is full, with the log on it: what was paid for is written once there is room."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from needs import mounted
from toy import Toy

from dngo.batch import Outcome, Proposal, read_outcomes, write_outcomes
from dngo.config import Objective
from dngo.evaluation.chunk import evaluate
from dngo.evaluation.run import Files, Runner
from dngo.storage.patience import patiently
from dngo.workflow import job as module


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    with mounted(tmp_path / "disk", "-o", "size=512k") as folder:
        yield folder


def fill(disk: Path) -> Path:
    """Take all that is left; what is to be removed for room again."""
    path = disk / "filler"
    with open(path, "ab", buffering=0) as stream:
        try:
            while True:
                stream.write(bytes(4096))
        except OSError:
            return path


def room_after(filler: Path, seconds: float) -> None:
    threading.Timer(seconds, filler.unlink).start()


def test_patience_outlives_a_log_on_the_same_disk(disk: Path, monkeypatch) -> None:
    """As a job has it: standard output is its log, and the log is where the outcomes are."""
    monkeypatch.setattr(module, "load_study", lambda config: None)
    snakemake = SimpleNamespace(
        log=[str(disk / "job.log")], rule="evaluate", wildcards=[], config={}
    )
    outcomes = [Outcome(0, 0, "d", "ok", 1.0, metadata={"long": "x" * 10_000})]
    with module.job(snakemake):
        filler = fill(disk)
        room_after(filler, 2.0)
        print("x" * 10_000)
        write_outcomes(disk / "outcome.json", outcomes)
        print("there is room again")
    assert repr(read_outcomes(disk / "outcome.json")) == repr(outcomes)
    assert "there is room again" in (disk / "job.log").read_text()


def test_an_evaluation_on_a_disk_that_fills_up_is_run_once(disk: Path) -> None:
    runs = disk.parent / "runs"
    for name in ("outcomes", "claims"):
        (disk / name).mkdir()
    files = Files(disk / "work", disk / "out", disk / "err")
    filler = disk / "filler"
    command = (
        f"echo . >> {runs}; head -c 1000000 /dev/zero > {filler}; yes output | head -c 50000; "
        "echo; echo 0.5"
    )
    runner = Runner(Objective(command=["bash", "-c", command]), ["x"], {}, lambda p: files)
    threading.Thread(
        target=lambda: (_wait_for(runs), time.sleep(3), filler.unlink()), daemon=True
    ).start()
    (outcome,) = evaluate(
        [Proposal(0, 0, {"x": 1}, "test")],
        lambda p: disk / "outcomes" / "0.json",
        lambda p: disk / "claims" / "0",
        [runner],
        archived=lambda p: None,
    )
    assert (outcome.status, outcome.objective) == ("ok", 0.5)
    assert runs.read_text() == ".\n"
    assert os.path.exists(disk / "outcomes" / "0.json")


def _wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.05)


@pytest.mark.full
def test_a_run_on_a_disk_that_is_full_for_a_while_goes_on(tmp_path: Path) -> None:
    """Twice, from a merge on: while a model is fitted, and while the report is written."""
    with mounted(tmp_path / "disk", "-o", "size=60m") as disk:
        study = Toy(disk / "toy", iterations=1, batch_size=4, sleep=0.0)
        (study.folder / "runs.txt").touch()
        run = study.start("--cores", "2")
        for moment in ("iterations/0/receipt.json", "iterations/1/receipt.json"):
            while not (study.results / moment).exists():
                assert run.poll() is None
                time.sleep(0.005)
            end = time.monotonic() + 12
            while time.monotonic() < end:
                filler = fill(disk)  # again, for what others have removed
                assert run.poll() is None
                time.sleep(0.05)
            filler.unlink()
        told, _ = run.communicate()
        assert run.returncode == 0, told
        assert not re.search(r"Traceback|Error|^ *File ", told, re.M), told
        assert set(study.evaluations().values()) == {1} and len(study.evaluations()) == 12
        for name in ("done", "report/summary.txt", "report/report.html", "report/scores.csv"):
            assert (study.results / name).stat().st_size


def test_a_full_disk_in_the_words_of_hdf5_is_waited_for() -> None:
    """A flush of HDF5 that fails raises RuntimeError, without the system's number."""
    errors = [
        RuntimeError("Disable slist on flush dest failure failed (errno = 28, error message)")
    ]

    def merge() -> None:
        if errors:
            raise errors.pop()

    patiently(merge, what="merging", patience=5)
    assert not errors
    errors.append(RuntimeError("another mistake"))
    with pytest.raises(RuntimeError, match="another mistake"):
        patiently(merge, what="merging", patience=5)
