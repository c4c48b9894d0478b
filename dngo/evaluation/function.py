"""A Python function as an objective: from a script or a notebook, a lambda or a method.

The function is not stored or sent. Its process is forked once, and each evaluation is a fork of
that fork (`dngo.evaluation.start`). So each evaluation has its limits, and may exit or be killed
without harm. Changes that it makes in its process are lost with the process. Some functions cannot
run in a fork, for example with a GPU open. They are called in the process itself (`Inline`).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import json
import os
import random
import re
import signal
import site
import socket
import sys
import sysconfig
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from threadpoolctl import threadpool_info, threadpool_limits

from dngo import reporting
from dngo.batch import STOPPED, Outcome, Proposal
from dngo.elsewhere import of_a_trial
from dngo.errors import UserError
from dngo.evaluation import start
from dngo.evaluation.call import CALLS, called, document_of, takes_a_mapping, write_report
from dngo.evaluation.chunk import Around
from dngo.evaluation.command import check_environment
from dngo.evaluation.document import judge
from dngo.evaluation.identity import identity, inner, not_compared
from dngo.evaluation.run import Runner, prepare_folder
from dngo.evaluation.starter import Starter
from dngo.evaluation.supervision import Interrupted
from dngo.outcomes import Verdict
from dngo.storage.digest import digest

MAIN = "__main__"


@dataclass(frozen=True)
class Function:
    """A function, and what dngo knows about it.

    call: returns the function's value at a point.
    name: "module:function", as in `objective.callable`; the module is `__main__` if other processes
    cannot import it.
    folder: the folder of its module, None if the module is installed.
    source: SHA-256 of its text, by its name; empty if the text is unknown. Archives of earlier
    releases know no more of a function.
    identity: SHA-256 of each of its parts (`dngo.evaluation.identity`).
    """

    call: Callable[[dict[str, Any]], Any]
    name: str
    folder: str | None = None
    source: dict[str, str] = field(default_factory=dict)
    identity: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Any, always: Collection[str], names: Collection[str]) -> Function:
        """The function as a study evaluates it. names: all parameters. always: those that are in
        every point.

        Raises UserError if the function cannot be called with them.
        """
        if not callable(function):
            program = "; a program is run by dngo init and dngo run, in a shell"
            raise UserError(
                f"the objective must be a function, not {type(function).__name__}"
                f"{program if isinstance(function, str) else ''}"
            )
        if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
            raise UserError(
                "the objective must return its value: it may neither be async nor yield; in a function "
                "around it, asyncio.run(...) awaits it"
            )
        if not takes_a_mapping(function, names):
            _check(function, always, names)
        elif word := of_a_trial(inner(function)):
            raise UserError(
                f"the objective asks a trial of Optuna ({word}); here the space is declared before, "
                f"as {{{next(iter(names))!r}: (0, 1)}}, and the objective takes its parameters by name: "
                f"{', '.join(names)}"
            )
        call = functools.partial(called, function, names=tuple(names))

        name, folder = _place(inner(function))
        source = _source(inner(function), name.partition(":")[2])
        return cls(call, name, folder, source, _as_it_began(identity(function)))


def default_name(function: Any) -> str:
    """The name of a study of a function that was given none.

    Raises UserError unless a later call can tell this function from others of its name.
    """
    named = getattr(inner(function), "__name__", "")
    if named == "<lambda>":
        raise UserError(
            "a lambda has no name for its study: write name='...', or name=None for a study that "
            "lasts as long as this process"
        )
    for part in not_compared(identity(function)):
        raise UserError(
            f"{named}: a later call cannot tell this function from another one of its name, since "
            f"{part}: write name='...' for a study of this function alone"
        )
    return re.sub(r"\W+", "_", named).strip("_") or "study"


# What calls in this process have made of functions (a counter, a cache), and what they were before.
_CHANGED: dict[str, dict[str, str]] = {}


def note_calls(function: Any, before: Function) -> None:
    """Note that calls in this process may have changed what a function reads: it is still the same."""
    if (now := identity(function)) != before.identity:
        _CHANGED[digest(now)] = before.identity


def _as_it_began(parts: dict[str, str]) -> dict[str, str]:
    return _CHANGED.get(digest(parts), parts)


def _check(function: Any, always: Collection[str], names: Collection[str]) -> None:
    """Raise UserError if a function does not take the parameters as its arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C: its arguments are unknown
        return
    words = f"{getattr(inner(function), '__name__', 'the objective')}{signature}"
    try:
        signature.bind_partial(**dict.fromkeys(names))
        signature.bind(**dict.fromkeys(always))
    except TypeError as error:
        missing = re.search("'(.+)'", str(error))
        hint = ""
        if missing and missing[1] in names and missing[1] not in always:
            hint = f"; {missing[1]} is not in every point (active_if): give it a default"
        raise UserError(
            f"{words}: {error}{hint}; its arguments are the parameters of the space, by name "
            f"({', '.join(names)}), or one for all of them, as a mapping"
        ) from None


def _place(function: Any) -> tuple[str, str | None]:
    """Where a function can be imported from: "module:function", and the folder of the module."""
    named = re.sub(r"\W+", "_", function.__name__).strip("_") or "function"
    module = sys.modules.get(function.__module__ or "")
    name = getattr(module, "__name__", MAIN)
    if function.__qualname__ != function.__name__ or not function.__name__.isidentifier():
        return f"{MAIN}:{named}", None  # a lambda, or a function inside another one
    file = getattr(module, "__file__", None)
    if name == MAIN and module is not None and file is not None:
        spec = getattr(module, "__spec__", None)  # of python -m
        name = spec.name if spec else Path(file).stem
    if file is None or not all(part.isidentifier() for part in name.split(".")):
        return f"{MAIN}:{named}", None
    depth = name.count(".") + (Path(file).name == "__init__.py")
    folder = Path(file).resolve().parents[depth]
    installed = {sysconfig.get_path(n) for n in ("stdlib", "purelib", "platlib")}
    is_installed = str(folder) in {*installed, *site.getsitepackages(), site.getusersitepackages()}
    return f"{name}:{named}", None if is_installed else str(folder)


def _source(function: Any, name: str) -> dict[str, str]:
    try:
        text = inspect.getsource(function)
    except (OSError, TypeError):
        return {}
    return {f"the text of {name}": hashlib.sha256(text.encode()).hexdigest()}


class Forking(Starter):
    """Starts a function in forks of this process.

    They have the state of the process when this object is made.

    among_others: other threads of this process may evaluate at the same time. Then a fork closes what
    it got from them: it would keep their pipes open.
    """

    def __init__(
        self, call: Callable[[dict[str, Any]], Any], *, among_others: bool = False
    ) -> None:
        super().__init__()
        self._call, self._among_others = call, among_others
        self._begin()

    def close(self) -> None:
        """End the process that forks."""
        self._control = None
        self._end()

    def _begin(self) -> socket.socket:
        control, theirs = socket.socketpair()
        parent, threaded = os.getpid(), psutil.Process().num_threads() > 1
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            # The fork lacks the caller's threads, and calls none of their code.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            try:
                control.close()
                if self._among_others:
                    _close_all_but(theirs.fileno())
                _limit_threads("1", threaded)  # of most forks: once, and not in each of them
                start.serve(theirs, parent, functools.partial(_become, self._call, threaded))
            finally:
                os._exit(0)
        theirs.close()
        # A fork shares the memory of its process: a page takes memory of its own only once it
        # changes. Pages of files count only once the fork reads them.
        held = psutil.Process().memory_info()
        self.base = float(held.rss - getattr(held, "shared", 0))
        self._control = control
        self._end = weakref.finalize(self, _end, control, pid)
        return control


def _close_all_but(descriptor: int) -> None:
    for number in map(int, os.listdir("/dev/fd")):
        if number > 2 and number != descriptor:
            with contextlib.suppress(OSError):
                os.close(number)


def _end(control: socket.socket, pid: int) -> None:
    with contextlib.suppress(OSError):
        control.shutdown(socket.SHUT_RDWR)  # another fork may hold a copy of it
    control.close()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _become(
    call: Callable[[dict[str, Any]], Any], threaded: bool, request: dict[str, Any], report: int
) -> None:
    """The work of a fork: call the function, write its report, and end.

    threaded: whether the forked process had threads.
    """
    signal.set_wakeup_fd(-1)
    for number in (*start.IGNORED, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.close(report)
    # In a notebook, the old streams would write to its page. The new ones close nothing: the function may
    # begin a study of its own, whose forks replace them once more.
    own = [open(i, mode, closefd=False) for i, mode in enumerate("rww")]  # noqa: SIM115
    sys.stdin, sys.stdout, sys.stderr = own
    reporting.forget()
    code = 1
    try:
        if os.environ.get("OMP_NUM_THREADS") != "1":
            _limit_threads(os.environ.get("OMP_NUM_THREADS", ""), threaded)
        _seed(int(os.environ["DNGO_SEED"]))
        write_report(call(json.load(sys.stdin)))
        code = 0
    except BaseException as error:
        _print(error)
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _limit_threads(number: str, threaded: bool) -> None:
    """Use this number of threads, or one if libraries would wait for threads that a fork lacks.

    OpenMP (in torch and scikit-learn) keeps threads that it has used, and waits for them. With one
    thread it needs none.
    """
    share = int(number) if number.isdigit() else None
    if threaded and "openmp" in {found["user_api"] for found in threadpool_info()}:
        threadpool_limits(1, "openmp")
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # MKL calls it
        threadpool_limits(share, "blas")
    else:
        threadpool_limits(share)


def _print(error: BaseException) -> None:
    """Print a function's traceback on standard error, with its own frames only."""
    own = error.__traceback__
    while own is not None and own.tb_frame.f_code.co_filename in (__file__, CALLS):
        own = own.tb_next
    lines = "".join(traceback.format_exception(type(error), error, own)).splitlines()
    if lines[-1] != (last := _last_line(error)):  # a message of several lines
        lines.append(last)
    print("\n".join(lines), file=sys.stderr)


def _last_line(error: BaseException) -> str:
    """An exception as one line."""
    if isinstance(error, SystemExit):
        return f"SystemExit: the function called sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}".strip().replace("\n", " ").removesuffix(":")


def _seed(seed: int) -> None:
    """Seed the global generators for an evaluation. Otherwise all forks would draw the same numbers."""
    random.seed(seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(seed)


@contextlib.contextmanager
def _variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process for a while."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@dataclass(frozen=True)
class Inline(Around):
    """Evaluates a function in this process, without limits. If the process ends, so does the evaluation.

    evaluator: knows a point's files, and the outcomes that earlier starts left.
    """

    evaluator: Runner
    call: Callable[[dict[str, Any]], Any]

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        """The outcome of one call; raises Interrupted at Ctrl-C."""
        runner, began, clock = self.evaluator, time.time(), time.monotonic()
        check_environment(runner.objective)
        before = signal.getsignal(signal.SIGINT)
        with contextlib.suppress(ValueError):  # not the main thread
            signal.signal(signal.SIGINT, signal.default_int_handler)
        course = runner.course(proposal, began=clock)
        with contextlib.suppress(OSError):
            prepare_folder(runner.files_of(proposal).places, proposal)
        try:
            with course.heard(), _variables(runner.objective.environment):
                result = self.call(dict(proposal.parameters))
        except KeyboardInterrupt:
            raise Interrupted from None
        except (Exception, SystemExit) as error:
            verdict = Verdict("failed", _last_line(error))
        else:
            verdict = judge(document_of(result).encode(), "", runner.constraints)
        finally:
            with contextlib.suppress(ValueError):
                signal.signal(signal.SIGINT, before)
        ended = time.monotonic() - clock
        if course.heeded:
            verdict = Verdict(STOPPED, str(course.decision), verdict.fields)
        verdict = course.said(verdict)
        return runner.outcome(proposal, verdict, attempts, began, time.time(), ended)
