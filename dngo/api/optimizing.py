"""Optimise a Python function on this machine, with the stages of the workflow.

Other processes of this machine, or this process, evaluate the points of a batch. This process makes
fits and proposals. Each outcome goes to disk at once. If this process is killed, the same call goes
on.
"""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import threading
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dngo import inward
from dngo.api.executing import evaluate, workers_of
from dngo.api.stages import claimed, next_batch, whole
from dngo.batch import Batch, Outcome
from dngo.check import check_needs
from dngo.errors import UserError
from dngo.evaluation.chunk import Evaluator
from dngo.evaluation.function import Forking, Function, Inline, note_calls
from dngo.evaluation.journal import Watched
from dngo.evaluation.limits import Limits
from dngo.evaluation.slots import Slot, slots
from dngo.evaluation.supervision import Interrupted, StopSignal
from dngo.storage.text import value_text
from dngo.study import Study

GOES_ON = "outcomes so far are kept, and the same call goes on"


def optimize(
    study: Study,
    function: Any,
    evaluations: int,
    *,
    workers: int | None,
    executor: Any,
    batch_size: int | None,
    progress: bool | None,
) -> Study:
    """Evaluate a function until the study has this many evaluations. Returns the study as it ran.

    workers: evaluations side by side, each in its own process; 0: one after another in this
    process; None: 1, or the number of the executor.
    executor: where to evaluate instead (`dngo.api.executing`).
    batch_size: points in a batch; None: the study's batch size, or else the number of workers.
    progress: whether to show a bar; None: on a terminal and in a notebook, and elsewhere a line for
    each batch.
    Raises UserError, KeyboardInterrupt.
    """
    if workers is None:
        workers = 1 if executor is None else workers_of(executor)
    evaluations, workers = whole("evaluations", evaluations), whole("workers", workers)
    _check(study, evaluations, workers, here=executor is None)
    space = study.config.space
    always = [name for name, parameter in space.items() if not parameter.active_if]
    found = Function.of(function, always, list(space))
    study = _set_up(study, found, max(1, workers), batch_size, evaluations)
    with contextlib.ExitStack() as stack:
        # Fork before any thread starts, since a fork would lack it.
        here = workers > 0 and executor is None
        forks = stack.enter_context(contextlib.closing(Forking(found.call))) if here else None
        stack.enter_context(claimed(study))
        if changed := study.begin():
            _say(
                f"{study.folder}: {changed}; earlier evaluations stay; another `name` begins another study"
            )
        seen = "ipykernel" in sys.modules or sys.stderr.isatty()
        bar = stack.enter_context(_Bar(study, evaluations, seen if progress is None else progress))
        lines = _Lines(study, shown=progress is None and not seen)
        run = _Run(study, found, forks, workers, bar, executor)
        if progress is not False and (done := _rows(study)) > evaluations:
            _say(
                f"{study.folder}: has {done} evaluations; {evaluations} is the total that was asked for"
            )
        if not workers:
            stack.callback(note_calls, function, found)
        try:
            while run.goes_on(evaluations):
                lines.tell()
            lines.tell(at_once=True)
        except KeyboardInterrupt:  # at any moment; at worst a fit is done again
            raise KeyboardInterrupt(GOES_ON) from None
    return study


def _check(study: Study, evaluations: int, workers: int, *, here: bool) -> None:
    """Raise UserError for numbers that cannot be, or for a limit that could not act. here: no executor
    evaluates."""
    if evaluations < 1 or workers < 0:
        raise UserError(
            "evaluations must be 1 or more, and workers 0 or more (0: in this process); all processors "
            "are workers=os.cpu_count()"
        )
    for key in ("time_limit", "memory_mb"):
        if here and not workers and getattr(study.config.objective, key) is not None:
            raise UserError(
                f"objective.{key}: workers=0 calls the function in this process, which no limit stops; "
                "leave the limit out, or let workers be 1 or more"
            )


def _set_up(
    study: Study, found: Function, workers: int, batch_size: int | None, evaluations: int
) -> Study:
    """The study with the function as its objective, and with its batch sizes."""
    config = study.config
    objective = config.objective.model_copy(
        update={"command": None, "callable": found.name, "working_directory": found.folder}
    )
    objective._source, objective._function = found.source, found.identity
    size = config.batch_size if "batch_size" in config.model_fields_set else workers
    size = size if batch_size is None else whole("batch_size", batch_size)
    if size < 1:
        raise UserError(f"batch_size must be 1 or more, not {size}")
    first = config.design.size
    if first is None:
        first = max(size, min(2 * (study.space.k + 1), math.ceil(evaluations / 2)))
    rows = _rows(study)
    left = evaluations - max(rows, min(first, evaluations))
    changes: dict[str, Any] = {
        "objective": objective,
        "batch_size": size,
        "design": config.design.model_copy(update={"size": min(first, evaluations)}),
        "iterations": max(1, study.merged())
        - 1
        - study.unchosen()
        + max(0, math.ceil(left / size)),
        "points_per_job": size,
        "points_at_once": workers,
    }
    if config.batches_in_flight != "auto":
        # One batch runs at a time, so that the next one learns from all its outcomes.
        changes["batches_in_flight"] = 1
    return Study(config.model_copy(update=changes), study.beside, study.asked)


def _say(line: str) -> None:
    """Print a line. If its reader has gone, the run goes on without it."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def _rows(study: Study) -> int:
    header = study.header()
    return header.rows if header else 0


@dataclass(frozen=True)
class _Run:
    """One call of `optimize`. forks: None if this process calls the function, or an executor does."""

    study: Study
    function: Function
    forks: Forking | None
    workers: int
    bar: _Bar
    executor: Any = None

    def goes_on(self, evaluations: int) -> bool:
        """Evaluate and merge the batches in flight, or else the next batch. Returns False at the end."""
        study = self.study
        flying = study.in_flight(study.merged())
        left = evaluations - _rows(study)
        if not flying and left <= 0:
            return False
        check_needs(study.config)
        if not flying:
            self.bar.propose()
            t = study.merged()
            batch = next_batch(study, t, min(study.config.batch_size_of(t), left))
            if batch.ended:
                self.bar.end(batch.ended)
                return False
            flying = [batch]
        batch = flying[0]
        self.bar.says("evaluate")
        self._evaluate(batch)
        study.merge(batch.iteration, study.iteration(batch.iteration) / "receipt.json")
        return True

    def _evaluate(self, batch: Batch) -> None:
        """Evaluate a batch. Raises KeyboardInterrupt at Ctrl-C; SIGTERM keeps its effect."""
        with StopSignal.for_a_while():
            try:
                if self.executor is not None:
                    call = self.function.call
                    return evaluate(self.study, batch, self.executor, call, self.bar.add)
                return self.study.evaluate_here(batch.iteration, self._evaluators(batch))
            except Interrupted:
                number = StopSignal.number
        if number == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)
        raise KeyboardInterrupt

    def _evaluators(self, batch: Batch) -> list[Evaluator]:
        judge = self.study.judge(batch)
        limit, found = self.study.config.stop.failures, []
        for slot in self._slots():
            runner = self.study.runner(slot, judge)
            evaluator: Evaluator = Inline(runner, self.function.call)
            if self.forks is not None:
                evaluator = replace(runner, starter=self.forks)
            found.append(Watched(evaluator, self.study.journal, limit, self.bar.add))
        return list[Evaluator](found)

    def _slots(self) -> list[Slot]:
        threads = max(1, (os.cpu_count() or 1) // max(1, self.workers))
        shares = slots(max(1, self.workers), threads, Limits())
        # Other processes work here too.
        return [replace(share, cpus=frozenset()) for share in shares]


class _Bar:
    """A bar with the progress and the best value of a run."""

    def __init__(self, study: Study, evaluations: int, shown: bool):
        self._study, self._sign = study, inward.sign(study.config)
        self._best, self._lock = math.inf, threading.Lock()
        done = self._look()
        done += sum(outcome is not None for _, outcome in study.evaluations(study.merged()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the notebook lacks widgets and shows text instead
            from tqdm.auto import tqdm

            self._bar = tqdm(
                total=max(evaluations, done),
                initial=done,
                desc=study.config.study,
                disable=not shown,
                unit="evaluation",
            )

    def _look(self) -> int:
        """Take the best value from the archive; the number of its evaluations."""
        if not self._study.merged():
            return 0
        table = self._study.table()
        values = self._sign * table.objective[table.counting(self._study.config.ladder)]
        self._best = float(np.fmin.reduce(values, initial=math.inf))  # NaN: there are several
        return len(table)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def propose(self) -> None:
        """Show that a batch is being chosen, and what the earlier ones found."""
        if self._study.config.ladder is not None:
            self._look()
        self.says("fit and propose")

    def says(self, what: str) -> None:
        """Show what the run is doing now."""
        best = "" if math.isinf(self._best) else f"best {value_text(self._sign * self._best)}, "
        self._bar.set_postfix_str(f"{best}{what}")

    def add(self, outcome: Outcome) -> None:
        """Count an outcome. Any thread may call it."""
        with self._lock:
            # With a fidelity, which outcomes count is known once their batch is merged.
            if outcome.status == "ok" and self._study.config.ladder is None:
                self._best = min(self._best, self._sign * outcome.objective)
            self.says("evaluate")
            self._bar.update()

    def end(self, reason: str) -> None:
        """Say why no further batch follows."""
        self._bar.write(f"no further batch: {reason}", file=sys.stderr)


class _Lines:
    """A line for each batch, as `dngo run` prints, where nobody sees a bar: in the log of a job."""

    PAUSE = 10.0  # least seconds between two looks at the archive

    def __init__(self, study: Study, *, shown: bool):
        self._study, self._shown = study, shown
        self._told, self._due, self._has_head = study.merged(), time.monotonic() + self.PAUSE, False

    def tell(self, *, at_once: bool = False) -> None:
        """Print what was merged since the last time, unless that was a moment ago."""
        merged = self._study.merged() if self._shown else self._told
        if merged == self._told or (time.monotonic() < self._due and not at_once):
            return
        from dngo.report.live import merged_batches
        from dngo.report.text import batch_lines

        for batch in merged_batches(self._study, range(self._told, merged)):
            head, *lines = batch_lines(batch)
            for line in lines if self._has_head else [head, *lines]:
                _say(line)
            self._has_head = True
        self._told, self._due = merged, time.monotonic() + self.PAUSE
