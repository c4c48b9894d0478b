"""`dngo.minimize(..., executor=client)` on a real Dask: a worker that is killed, and a run that is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from evaluating_elsewhere import counted
from toy import QUICK_STUDY
from waiting import until

import dngo
from dngo.archive import read_table, verify

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
pytestmark = pytest.mark.full

# Its workers are processes, which Dask's nanny starts again when they die.
PROGRAM = """
import dngo
from distributed import Client, LocalCluster
from evaluating_elsewhere import slowly
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            for worker in client.run(__import__("os").getpid).values():
                print(worker, flush=True)
            dngo.minimize(slowly, {space!r}, 8, name="s", folder={folder!r}, executor=client, **{quick!r})
"""


@pytest.fixture
def dask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, distributed: Any) -> Path:
    """The folder of a study that Dask evaluates."""
    monkeypatch.setenv("DNGO_TEST_RUNS", str(tmp_path / "runs.txt"))
    here = str(Path(__file__).parent)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([here, os.environ.get("PYTHONPATH", "")]))
    return tmp_path


def runs(folder: Path) -> Counter[str]:
    path = folder / "runs.txt"
    return Counter(path.read_text().splitlines() if path.exists() else [])


def ended(folder: Path) -> dict[str, int]:
    """How often each point has run whose outcome is on disk. None of them may run again."""
    study = folder / "s"
    found = {f"{p.parents[1].name}-{p.stem}" for p in study.glob("pending/*/outcomes/*.json")}
    if (study / "archive.h5").exists():
        table = read_table(study / "archive.h5")
        found |= {f"{t}-{s}" for t, s in zip(table.iteration, table.slot, strict=True)}
    return {point: runs(folder)[point] for point in found}


def started(folder: Path, request: pytest.FixtureRequest) -> subprocess.Popen[str]:
    """The program, in a session of its own."""
    text = PROGRAM.format(space=SPACE, folder=str(folder), quick=QUICK_STUDY)
    (folder / "program.py").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "program.py"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def end() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    request.addfinalizer(end)
    return process


def lawful(folder: Path) -> None:
    path = folder / "s" / "archive.h5"
    assert len(read_table(path)) == 8 and verify(path) == []
    assert set(read_table(path).status) == {"ok"}
    assert len(runs(folder)) == 8


def test_a_killed_worker_loses_nothing_and_repeats_nothing_that_has_ended(
    dask: Path, request: pytest.FixtureRequest
) -> None:
    process = started(dask, request)
    assert process.stdout is not None
    worker = int(process.stdout.readline())
    until(lambda: ended(dask), process)
    before = ended(dask)
    os.kill(worker, signal.SIGKILL)
    assert process.wait(600) == 0
    lawful(dask)
    now = runs(dask)
    assert {point: now[point] for point in before} == before


def test_a_killed_run_finds_what_its_workers_ended(
    dask: Path, request: pytest.FixtureRequest
) -> None:
    process = started(dask, request)
    until(lambda: ended(dask), process)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(600)
    before = ended(dask)
    again = started(dask, request)
    assert again.wait(600) == 0
    lawful(dask)
    now = runs(dask)
    assert {point: now[point] for point in before} == before


def test_a_client_in_this_process(dask: Path, distributed: Any) -> None:
    """Threads of one process, as in a notebook: their forks keep nothing of each other's."""
    options = {"n_workers": 1, "threads_per_worker": 4, "dashboard_address": None}
    with (
        distributed.LocalCluster(processes=False, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        study = dngo.minimize(
            counted, SPACE, 12, name="s", folder=dask, executor=client, **QUICK_STUDY
        )
    assert len(study.table()) == 12 and sorted(runs(dask).values()) == [1] * 12
