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
from toy import QUICK_STUDY
from waiting import until

import dngo
from dngo.archive import read_table, verify

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}


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
        study = dngo.minimize(
            counted, SPACE, 8, name="s", folder=noted, executor=executor, **QUICK_STUDY
        )
        # The same call goes on, and has nothing left to do.
        dngo.minimize(counted, SPACE, 8, name="s", folder=noted, executor=executor, **QUICK_STUDY)
    lawful(study, noted, 8)
    hosts = set(study.table().status)
    assert hosts == {"ok"}


def test_limits_and_failures_are_as_in_a_process_of_our_own(noted: Path) -> None:
    limits = {"objective": {"time_limit": 1.0}, "stop": {"failures": 0}}
    with ProcessPoolExecutor(2) as executor:
        study = dngo.create("s", SPACE, folder=noted, **QUICK_STUDY, **limits)
        study.optimize(sleeps, 2, executor=executor)
        assert list(study.table().status) == ["timeout"] * 2
        study = dngo.create("t", SPACE, folder=noted, **QUICK_STUDY, **limits)
        study.optimize(fails, 2, executor=executor)
    table = study.table()
    assert list(table.status) == ["failed"] * 2 and "ValueError: no" in table.message[0]


def test_failures_that_look_like_a_mistake_stop_the_run(noted: Path) -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(dngo.Halted, match="NameError"):
        dngo.minimize(wrong, SPACE, 6, name="s", folder=noted, executor=executor, **QUICK_STUDY)


def test_a_pool_whose_worker_was_killed_says_so_and_the_same_call_goes_on(noted: Path) -> None:
    (noted / "kill").touch()
    given = {"name": "s", "folder": noted, **QUICK_STUDY}
    with (
        ProcessPoolExecutor(2) as executor,
        pytest.raises(dngo.UserError, match=r"workers are gone.*the same call goes on"),
    ):
        dngo.minimize(ends_its_worker, SPACE, 8, executor=executor, **given)
    done = runs(noted)
    (noted / "kill").unlink(missing_ok=True)
    with ProcessPoolExecutor(2) as executor:
        study = dngo.minimize(ends_its_worker, SPACE, 8, executor=executor, **given)
    assert len(read_table(study.path)) == 8 and verify(study.path) == []
    now = runs(noted)
    assert set(now.values()) == {1} and all(now[point] == 1 for point in done)


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
        study = dngo.minimize(
            counted,
            SPACE,
            4,
            name="s",
            folder=noted,
            workers=2,
            executor=Flaky(threads, 2),
            **QUICK_STUDY,
        )
        lawful(study, noted, 4)
        with pytest.raises(dngo.UserError, match=r"failed \d times: .*the worker is gone"):
            dngo.minimize(
                counted,
                SPACE,
                4,
                name="t",
                folder=noted,
                workers=2,
                executor=Flaky(threads, 100),
                **QUICK_STUDY,
            )


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
    study = dngo.minimize(counted, SPACE, 4, name="s", folder=noted, executor=away, **QUICK_STUDY)
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
        dngo.minimize(counted, SPACE, 4, name="s", folder=tmp_path, executor=executor)


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


class Twice:
    """A future that says twice that it is done."""

    def __init__(self, future: Future[Any]):
        self._future, self.result, self.done = future, future.result, future.done

    def add_done_callback(self, call: Any) -> None:
        call(self)
        call(self)


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
        (lambda own, future: Twice(future), ""),
    ],
)
def test_an_executor_that_gives_back_something_else(change: Any, words: str, noted: Path) -> None:
    given = {"name": "s", "folder": noted, **QUICK_STUDY}
    with pytest.raises(dngo.UserError, match=words) if words else contextlib.nullcontext():
        dngo.minimize(counted, SPACE, 4, executor=Odd(change), **given)
    study = dngo.minimize(counted, SPACE, 4, executor=Odd(lambda own, future: future), **given)
    lawful(study, noted, 4)


def test_a_function_that_cannot_be_sent(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1) as executor, pytest.raises(dngo.UserError, match="a module that"):
        dngo.minimize(
            lambda x, y: x, SPACE, 2, name="s", folder=tmp_path, executor=executor, **QUICK_STUDY
        )


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
    text = PROGRAM.format(space=SPACE, folder=str(noted), quick=QUICK_STUDY)
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
