"""Evaluate a function through somebody's executor: anything with `submit` as in `concurrent.futures`.

Examples are a `ProcessPoolExecutor`, a `dask.distributed.Client` and `mpi4py.futures`. A worker does
what a job of the workflow does: it claims the point in the study's folder, holds the evaluation to its
limits in a process of its own, and writes its one outcome there. So if this process dies, the next call
finds the outcomes of what ran meanwhile. A worker that does not see the folder sends its outcome back.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import queue
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

from dngo.batch import Batch, Outcome, Proposal, find_outcome
from dngo.errors import UserError
from dngo.evaluation.function import Forking
from dngo.evaluation.journal import Watched
from dngo.evaluation.limits import Limits
from dngo.evaluation.slots import Slot
from dngo.evaluation.supervision import StopSignal
from dngo.storage.text import shown
from dngo.study import Study, load_study

LOOK = 0.2  # seconds between looks at whether to stop
LEAVE = 5.0  # seconds that the end of a run waits for evaluations that were asked to stop
Call = Callable[[dict[str, Any]], Any]
_mine = threading.local()  # of a thread of a worker: see `_forks`


def workers_of(executor: Any) -> int:
    """How many evaluations an executor runs side by side; raises UserError if it does not say."""
    if not callable(getattr(executor, "submit", None)):
        raise UserError(
            f"executor: {type(executor).__name__} has no `submit`; give it a concurrent.futures executor, "
            "a dask.distributed.Client, or another object with `submit`"
        )
    known = getattr(executor, "_max_workers", None)
    if known is None and callable(ncores := getattr(executor, "ncores", None)):
        known = sum(ncores().values())
    if isinstance(known, int) and known > 0:
        return known
    raise UserError("executor: it does not say how many workers it has; write workers=")


def evaluate(
    study: Study, batch: Batch, executor: Any, call: Call, tell: Callable[[Outcome], None]
) -> None:
    """Evaluate the points of a batch that have no outcome yet, through an executor.

    tell: called with each outcome.
    Raises UserError for what stops the run, and Interrupted. What runs then goes on to its outcome.
    """
    StopSignal.listen()
    _Batch(study, executor, call, tell).run(batch)


class _Batch:
    def __init__(self, study: Study, executor: Any, call: Call, tell: Callable[[Outcome], None]):
        self.study, self.executor, self.call, self.tell = study, executor, call, tell
        self.run_name = str((study.run_claim.owner() or {}).get("token", ""))
        self.document = _document(study)
        self.running: dict[Any, Proposal] = {}
        self.ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.starts: dict[str, int] = {}

    def run(self, batch: Batch) -> None:
        for proposal in batch.longest_first(batch.evaluated):
            if find_outcome(self.study.paths.outcome_file(proposal), proposal) is None:
                self._submit(proposal)
        try:
            while self.running:
                StopSignal.heed()
                with contextlib.suppress(queue.Empty):
                    self._hear(self.ended.get(timeout=LOOK))
        finally:
            self._leave()

    def _submit(self, proposal: Proposal) -> None:
        number = self.starts[proposal.id] = self.starts.get(proposal.id, 0) + 1
        # The number also makes the call another one: Dask would return the result of an equal call.
        given = (self.document, proposal, self.call, self.run_name, number)
        try:
            future = self.executor.submit(evaluate_point, *given)
        except (BrokenExecutor, RuntimeError) as error:
            raise _broken(error) from None
        if not callable(getattr(future, "add_done_callback", None)):
            raise UserError(
                f"executor: its `submit` returned {shown(future)}, but must return a future as in "
                "concurrent.futures"
            )
        self.running[future] = proposal
        future.add_done_callback(self.ended.put)

    def _hear(self, future: Any) -> None:
        """Take in what a worker sent, or try again elsewhere."""
        proposal = self.running.pop(future, None)
        if proposal is None:  # it was heard before
            return
        try:
            outcome = future.result()
        except UserError:
            raise
        except BrokenExecutor as error:
            raise _broken(error) from None
        except (pickle.PicklingError, AttributeError, TypeError, ModuleNotFoundError) as error:
            raise UserError(
                f"executor: the function does not get to its workers ({error}); it must lie in a module "
                "that they can import, and dngo must be installed there"
            ) from None
        except Exception as error:  # the worker died, or was asked to stop
            # One more than the attempts at a point: the last one notes that it is lost.
            if self.starts[proposal.id] > 1 + self.study.config.retries:
                raise UserError(
                    f"executor: {proposal.id} failed {self.starts[proposal.id]} times: {error!r}"
                ) from None
            return self._submit(proposal)
        if not (isinstance(outcome, Outcome) and outcome.answers(proposal)):
            raise UserError(
                f"executor: as the result of {proposal.id} it gave {shown(outcome)}; a future must have "
                "the result of its own call"
            )
        self.tell(self.study.take_in(proposal, outcome))
        self.study.journal.heed(self.study.config.stop.failures)

    def _leave(self) -> None:
        """Cancel what has not begun, and give the rest a moment."""
        for future in self.running:
            future.cancel()
        until = time.monotonic() + LEAVE
        while not all(f.done() for f in self.running) and time.monotonic() < until:
            time.sleep(LOOK)


def _broken(error: Exception) -> UserError:
    return UserError(
        f"executor: its workers are gone ({error}); outcomes so far are kept: make another executor, and "
        "the same call goes on"
    )


def _document(study: Study) -> str:
    """The configuration for a worker, which may have another working folder."""
    config = study.config.model_copy(update={"results": str(study.folder.absolute().parent)})
    return config.resolved()


# ---- in a worker --------------------------------------------------------------------------------------


def evaluate_point(document: str, proposal: Proposal, call: Call, run: str, number: int) -> Outcome:
    """The outcome of a point, in a worker: the main thread of a process, or any thread.

    document: the study's configuration. run: the token of its run. number: of this start.
    """
    if threading.current_thread() is not threading.main_thread():
        return _evaluate(document, proposal, call, run)
    try:
        with StopSignal.for_a_while():
            try:
                return _evaluate(document, proposal, call, run)
            finally:
                stopped = StopSignal.number
    finally:
        if stopped == signal.SIGTERM:  # it was meant for this worker
            signal.raise_signal(signal.SIGTERM)


def _evaluate(document: str, proposal: Proposal, call: Call, run: str) -> Outcome:
    with _study(document, run) as (study, is_shared):
        stops = is_shared and study.config.early_stopping is not None
        judge = study.judge(study.batch(proposal.iteration)) if stops else None
        threads = str(study.config.resources.evaluate.get("threads", 1))
        runner = study.runner(Slot(Limits(), environment={"OMP_NUM_THREADS": threads}), judge)
        forks = _forks(call, run)
        evaluator = Watched(
            replace(runner, starter=forks), study.journal, study.config.stop.failures
        )
        return study.evaluate_point(proposal, evaluator, run)


def _forks(call: Call, run: str) -> Forking:
    """What starts the function in this thread: one for all points of a run. It ends with the thread."""
    if getattr(_mine, "run", None) != run:
        _mine.forks, _mine.run = Forking(call, among_others=True), run
    forks: Forking = _mine.forks
    return forks


@contextlib.contextmanager
def _study(document: str, run: str) -> Iterator[tuple[Study, bool]]:
    """The study, and whether this is its own folder; otherwise a temporary one stands for it."""
    study = _load(document)
    owner = study.run_claim.owner() or {}
    if owner.get("token") == run:
        yield study, True
        return
    with tempfile.TemporaryDirectory(prefix="dngo-") as folder:
        config = study.config.model_copy(update={"results": folder})
        yield Study(config), False


@lru_cache(maxsize=4)
def _load(document: str) -> Study:
    return load_study(json.loads(document))
