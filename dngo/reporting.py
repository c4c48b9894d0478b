"""Lets a Python objective report progress, and ask whether to stop. Both calls do nothing outside a
study.

It needs only Python's own library, so a program in any environment may use a copy of it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# What takes a line, what answers whether to stop, the checkpoint's folder, and the evaluation's own.
_Heard = tuple[Callable[[dict[str, Any]], None], Callable[[], bool], Path | None, Path | None]
# For functions that run in the study's own process, by thread: two studies may run in two threads.
_heard: dict[int, _Heard] = {}


def _here() -> _Heard | None:
    """Of the function in this thread, or of the only one, which may have begun this thread."""
    known = _heard.get(threading.get_ident())
    others = [*_heard.values()]
    return known or (others[0] if len(others) == 1 else None)


def progress(step: float, value: Any, constraints: Mapping[str, Any] | None = None) -> None:
    """Report the current step of the evaluation, and its objective there.

    step: a number that increases, such as the epoch.
    value: in the objective's units; NaN or None if it diverged. Of several objectives a mapping,
    {"error": 0.31, "size": 5}.
    constraints: the study's constraints that are known now, by name: numbers, true or false.
    Raises TypeError, ValueError for a step or a value that is not a number.
    """
    line: dict[str, Any] = {"step": float(step)}
    if isinstance(value, Mapping):
        line["objectives"] = {str(name): _number(each) for name, each in value.items()}
    else:
        line["objective"] = _number(value)
    if constraints:
        line["constraints"] = {
            name: held if isinstance(held, bool) else float(held)
            for name, held in constraints.items()
        }
    if (here := _here()) is not None:
        here[0](line)
    elif path := os.environ.get("DNGO_PROGRESS"):
        # On a full disk this line is lost, but not the evaluation.
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _number(value: Any) -> float:
    try:
        return math.nan if value is None else float(value)
    except TypeError:
        kind = type(value).__name__
        raise TypeError(
            f"dngo.progress takes a number, or of several objectives a mapping of names to numbers: {kind}"
        ) from None


def should_stop() -> bool:
    """Whether the study wants this evaluation to end now: write a checkpoint, and return or raise.

    After True, the function's return value does not count as the objective, since its run was
    stopped.
    """
    if (here := _here()) is not None:
        return here[1]()
    path = os.environ.get("DNGO_STOP")
    if not path or not os.path.exists(path):
        return False
    with contextlib.suppress(OSError), open(f"{path}.heeded", "w"):
        pass
    return True


def checkpoint() -> Path | None:
    """A folder that follows the point from fidelity to fidelity, and from start to start after a kill.

    It is empty at first. Write the state from which a later evaluation should go on, and rename the
    file into place, since a kill may come at any time. Read the state if it is there, and otherwise
    begin again: dngo removes folders if there are many. None if no study evaluates the function, or
    if no folder can be made.
    """
    found = here[2] if (here := _here()) is not None else os.environ.get("DNGO_CHECKPOINT")
    if not found:
        return None
    path = Path(found)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path


def workdir() -> Path:
    """The evaluation's own folder. No other evaluation writes to it, and dngo removes it at the end.

    A picture in it is kept if the metadata name it: {"image": "plot.png"}. If no study evaluates
    the function, this is the current folder.
    """
    found = here[3] if (here := _here()) is not None else os.environ.get("DNGO_WORKDIR")
    return Path(found) if found else Path.cwd()


@contextlib.contextmanager
def heard(
    say: Callable[[dict[str, Any]], None],
    ask: Callable[[], bool],
    folder: Path | None = None,
    own: Path | None = None,
) -> Iterator[None]:
    """During a block, pass progress lines and the question of `should_stop` to these functions, in
    this thread.

    folder: of the point's checkpoint. own: the evaluation's folder.
    """
    thread = threading.get_ident()
    before, _heard[thread] = _heard.get(thread), (say, ask, folder, own)
    try:
        yield
    finally:
        if before is None:
            del _heard[thread]
        else:
            _heard[thread] = before


def forget() -> None:
    """In a fork: what was heard belongs to evaluations of the process that forked."""
    _heard.clear()
