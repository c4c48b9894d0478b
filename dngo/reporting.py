"""What a Python objective reports and asks while it runs. Both calls do nothing if no study evaluates it.

It needs nothing but Python's own library, so that a program in any environment may have a copy of it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# For a function that its study calls in its own process: what takes a line, and what answers.
_here: (
    tuple[Callable[[dict[str, Any]], None], Callable[[], bool], Path | None, Path | None] | None
) = None


def progress(step: float, value: Any, constraints: Mapping[str, Any] | None = None) -> None:
    """Report how far the evaluation has come, and its objective there.

    step: a number that rises, as of epochs. value: in the objective's units; NaN of one that diverged.
    constraints: those of the study that are known by now, by name: numbers, true or false.
    Raises TypeError, ValueError for a step or a value that is no number.
    """
    line: dict[str, Any] = {"step": float(step), "objective": float(value)}
    if constraints:
        line["constraints"] = {
            name: held if isinstance(held, bool) else float(held)
            for name, held in constraints.items()
        }
    if _here is not None:
        _here[0](line)
    elif path := os.environ.get("DNGO_PROGRESS"):
        # On a full disk this line is lost, but not the evaluation.
        with contextlib.suppress(OSError), open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def should_stop() -> bool:
    """Whether the study wants this evaluation to end now: write a checkpoint, and return or raise.

    What a function returns after True does not count as the objective: its run was stopped.
    """
    if _here is not None:
        return _here[1]()
    path = os.environ.get("DNGO_STOP")
    if not path or not os.path.exists(path):
        return False
    with contextlib.suppress(OSError), open(f"{path}.heeded", "w"):
        pass
    return True


def checkpoint() -> Path | None:
    """A folder that follows the point from fidelity to fidelity, and from start to start after a kill.

    Empty at first. Write what a later evaluation should go on from, and rename it into place: a kill
    may come at any time. Read what is there, and begin anew if nothing is: folders are removed once there
    are many.
    None where no study evaluates the function, or no folder can be made.
    """
    found = _here[2] if _here is not None else os.environ.get("DNGO_CHECKPOINT")
    if not found:
        return None
    path = Path(found)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return path


def workdir() -> Path:
    """The evaluation's own folder, which no other evaluation writes to, and which is removed at its end.

    A picture that lies there is kept if the metadata name it: {"image": "plot.png"}. The current folder
    where no study evaluates the function.
    """
    found = _here[3] if _here is not None else os.environ.get("DNGO_WORKDIR")
    return Path(found) if found else Path.cwd()


@contextlib.contextmanager
def heard(
    say: Callable[[dict[str, Any]], None],
    ask: Callable[[], bool],
    folder: Path | None = None,
    own: Path | None = None,
) -> Iterator[None]:
    """During a block, have these functions take progress lines and answer the question, in this process.

    folder: of the point's checkpoint. own: of the evaluation.
    """
    global _here
    before, _here = _here, (say, ask, folder, own)
    try:
        yield
    finally:
        _here = before
