"""`dngo.minimize(..., executor=...)`: anything with `submit` evaluates, and each point has one outcome."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from evaluating_elsewhere import counted, ends_its_worker, fails, sleeps, wrong
from waiting import until

import dngo
from dngo.archive import read_table, verify

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
QUICK: dict[str, Any] = {"acquisition": "random"}


def minimize(function: Any, points: int, folder: Path, executor: Any, **more: Any) -> Any:
    given = {"name": "s", "folder": folder, "executor": executor, **QUICK, **more}
    return dngo.minimize(function, SPACE, points, **given)


def runs(folder: Path) -> Counter[str]:
    """How often each point was evaluated to its end, by the lines that the function wrote."""
    path = folder / "runs.txt"
    return Counter(path.read_text().splitlines() if path.exists() else [])


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the function notes its calls, in a worker as well."""
    monkeypatch.setenv("DNGO_TEST_RUNS", str(tmp_path / "runs.txt"))
    return tmp_path


def lawful(study: Any, folder: Path, points: int) -> None:
    assert len(read_table(study.path)) == points
    assert verify(study.path) == []
    assert sorted(runs(folder).values()) == [1] * points


@pytest.mark.parametrize("kind", [ProcessPoolExecutor, ThreadPoolExecutor])
def test_an_executor_of_python_evaluates_each_point_once(kind: Any, noted: Path) -> None:
    with kind(2) as executor:
        study = minimize(counted, 8, noted, executor)
        minimize(counted, 8, noted, executor)  # the same call goes on, and has nothing left to do
    lawful(study, noted, 8)
    assert set(study.table().status) == {"ok"}


def test_limits_and_failures_are_as_in_a_process_of_our_own(noted: Path) -> None:
    limits = {"objective": {"time_limit": 1.0}, "stop": {"failures": 0}}
    with ProcessPoolExecutor(2) as executor:
        study = dngo.create("s", SPACE, folder=noted, **QUICK, **limits)
        study.optimize(sleeps, 2, executor=executor)
        assert list(study.table().status) == ["timeout"] * 2
        study = dngo.create("t", SPACE, folder=noted, **QUICK, **limits)
        study.optimize(fails, 2, executor=executor)
    table = study.table()
    assert list(table.status) == ["failed"] * 2 and "ValueError: no" in table.message[0]


def test_failures_that_look_like_a_mistake_stop_the_run(noted: Path) -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(dngo.Halted, match="NameError"):
        minimize(wrong, 6, noted, executor)


def test_a_pool_whose_worker_was_killed_says_so_and_the_same_call_goes_on(noted: Path) -> None:
    (noted / "kill").touch()
    with (
        ProcessPoolExecutor(2) as executor,
        pytest.raises(dngo.UserError, match=r"workers are gone.*the same call goes on"),
    ):
        minimize(ends_its_worker, 8, noted, executor)
    done = runs(noted)
    (noted / "kill").unlink(missing_ok=True)
    with ProcessPoolExecutor(2) as executor:
        study = minimize(ends_its_worker, 8, noted, executor)
    lawful(study, noted, 8)
    assert set(done) <= set(runs(noted))


class Flaky:
    """An executor whose workers die without a word, now and then."""

    def __init__(self, executor: ThreadPoolExecutor, deaths: int):
        self._executor, self._deaths = executor, deaths

    def submit(self, function: Any, *words: Any) -> Future[Any]:
        if self._deaths > 0:
            self._deaths -= 1
            future: Future[Any] = Future()
            future.set_exception(OSError("the worker is gone"))
            return future
        return self._executor.submit(function, *words)


def test_a_point_whose_worker_died_goes_to_another(noted: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        study = minimize(counted, 4, noted, Flaky(threads, 2), workers=2)
        lawful(study, noted, 4)
        with pytest.raises(dngo.UserError, match=r"failed \d times: .*the worker is gone"):
            minimize(counted, 4, noted, Flaky(threads, 100), workers=2, name="t")


class Away:
    """A worker that does not see the study's folder."""

    _max_workers = 1

    def submit(self, function: Any, document: str, *words: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(document.replace(self.hidden, "/nowhere"), *words))
        return future


def test_a_worker_that_does_not_see_the_study_sends_its_outcome(noted: Path) -> None:
    away = Away()
    away.hidden = str(noted)  # type: ignore[attr-defined]
    study = minimize(counted, 4, noted, away)
    lawful(study, noted, 4)


@pytest.mark.parametrize(
    ("executor", "words"),
    [
        (object(), "object has no `submit`"),
        (Flaky(None, 0), "does not say how many workers"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_executor(executor: Any, words: str, tmp_path: Path) -> None:
    with pytest.raises(dngo.UserError, match=words):
        minimize(counted, 4, tmp_path, executor)


class Odd:
    """An executor that changes what it gives back. first: the result of its first call."""

    _max_workers = 2

    def __init__(self, change: Any):
        self._change, self.first = change, None

    def submit(self, function: Any, *words: Any) -> Any:
        future: Future[Any] = Future()
        result = function(*words)
        self.first = self.first or result
        future.set_result(result)
        return self._change(self, future)


def gives(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda own, future: 3, "its `submit` returned 3, but must return a future"),
        (lambda own, future: gives(None), "as the result of 0-0 it gave None"),
        (lambda own, future: gives(own.first), r"as the result of 0-1 it gave Outcome\("),
    ],
)
def test_an_executor_that_gives_back_something_else(change: Any, words: str, noted: Path) -> None:
    with pytest.raises(dngo.UserError, match=words):
        minimize(counted, 4, noted, Odd(change))
    study = minimize(counted, 4, noted, Odd(lambda own, future: future))
    lawful(study, noted, 4)


def test_a_function_that_cannot_be_sent(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(dngo.UserError, match="a module that"):
        minimize(lambda x, y: x, 2, tmp_path, executor)


PROGRAM = """
import sys
from concurrent.futures import ProcessPoolExecutor
import dngo
from evaluating_elsewhere import slowly
if __name__ == "__main__":
    with ProcessPoolExecutor(2) as executor:
        dngo.minimize(slowly, {space!r}, 8, name="s", folder={folder!r}, executor=executor, **{quick!r})
"""


def _end_all(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_run_finds_what_its_workers_ended(
    noted: Path, number: int, request: pytest.FixtureRequest
) -> None:
    """They go on to the outcome that they write; a new run waits for them, and repeats nothing."""
    text = PROGRAM.format(space=SPACE, folder=str(noted), quick=QUICK)
    (noted / "program.py").write_text(textwrap.dedent(text))
    words = [sys.executable, str(noted / "program.py")]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path}
    process = subprocess.Popen(
        words, env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )
    request.addfinalizer(lambda: _end_all(process.pid))  # workers of a killed pool never end
    until(lambda: len(runs(noted)) >= 1, process)
    os.kill(process.pid, number)
    process.wait(600)
    ended = {p.parents[1].name + "-" + p.stem for p in noted.glob("s/pending/*/outcomes/*.json")}
    before = {point: n for point, n in runs(noted).items() if point in ended}
    subprocess.run(words, env=environment, check=True, timeout=600)
    assert len(read_table(noted / "s" / "archive.h5")) == 8
    assert verify(noted / "s" / "archive.h5") == []
    now = runs(noted)
    assert {point: now[point] for point in before} == before
    assert len(now) == 8
