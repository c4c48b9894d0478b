"""Identifies an objective without starting it, by its words and its files.

A study treats all its evaluations as those of one function. Only the user knows whether that is
true. Each iteration records whether the command or its script has changed. Evaluations may write to
files that the command names, such as a log; only code must not change.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dngo.config import CONFIG_VERSION, Objective, upgrade
from dngo.config.placeholders import filled, names, without_brackets, words_of
from dngo.evaluation.identity import OF_PYTHON, PYTHON, VERSION
from dngo.evaluation.obstacles import SCRIPTS, is_interpreter, script_of
from dngo.redaction import redacted_command
from dngo.storage.digest import digest_file
from dngo.storage.files import at_home

TEXT = "the text of "  # a function's, among the files
MOST = 2**26  # bytes; of a larger file only the size is compared


def fingerprint(objective: Objective, needs: Sequence[str] = ()) -> dict[str, Any]:
    """The objective as it is now: "command" or "callable", and "files" with a SHA-256 digest for each.
    A function of this process also has "function", the digests of its parts, and its "python".

    needs: further files, as a configuration has them. "config": the version of the configuration,
    which says how the command is read. Files have their names in the command, or relative to its
    working folder. So a study may be moved with its files. Interpreters, programs from PATH and
    installed modules are left out.
    """
    folder = Path(objective.working_directory or ".")
    needed = _digests(folder, _from(folder, needs), MOST)
    if objective.callable:
        files = {**needed, **_digests(folder, _modules(objective.callable)), **objective.source}
        found: dict[str, Any] = {"callable": objective.callable, "files": files}
        if objective.function:
            found |= {"function": objective.function, "python": PYTHON}
        return found
    files = {**needed, **_digests(folder, _named(objective))}
    return {
        "command": redacted_command(objective.command),
        "files": files,
        "config": CONFIG_VERSION,
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The changes of an objective, as texts.

    If the earlier objective is unknown, there are no changes.
    """
    if not before:
        return []
    old, new = before.get("files", {}), now.get("files", {})
    if before.get("function") and now.get("function"):
        found = _other_parts(before, now)
        # Its parts stand for its name, its text and the file of its module.
        apart = [n for n in new if n.startswith(TEXT)] + _modules(str(now["callable"]))
        old = {n: sha for n, sha in old.items() if n not in apart}
    else:
        words = [{**each, "command": command_of(each)} for each in (before, now)]
        found = [
            f"objective.{key} was {words[0].get(key)!r} and is {words[1].get(key)!r}"
            for key in ("command", "callable")
            if words[0].get(key) != words[1].get(key)
        ]
    return found + [
        f"{name} has changed" for name in sorted(old.keys() & new) if old[name] != new[name]
    ]


def _modules(name: str) -> list[str]:
    """The files that may hold the module of a callable."""
    module = name.partition(":")[0].replace(".", "/")
    return [f"{module}.py", f"{module}/__init__.py"]


def other_function(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """How a function of this process differs from the one of an earlier fingerprint, as texts.

    A package of another version does not make another function: packages are updated in the course
    of a study. `differences` names it.
    """
    return [text for text in _other_parts(before, now) if not text.startswith(VERSION)]


def _other_parts(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The parts of a function that differ from an earlier fingerprint's, as texts.

    Where only the text of the earlier one is known, or another Python ran it, the texts are compared.
    """
    if not now.get("function"):
        return []
    old, new = before.get("function") or {}, now["function"]
    is_same_python = before.get("python") == now["python"]
    if not old or not is_same_python:
        texts = [each.get("files", {}) for each in (before, now)]
        names = [n for n in texts[1] if n.startswith(TEXT) and n in texts[0]]
        found = [f"{n} has changed" for n in names if texts[0][n] != texts[1][n]]
        if not old:
            return found
        old, new = (
            {n: d for n, d in each.items() if not n.startswith(OF_PYTHON)} for each in (old, new)
        )
    else:
        found = []
    return found + [
        f"{n} {_change(n, old.get(n), new.get(n))}"
        for n in sorted({*old, *new})
        if old.get(n) != new.get(n)
    ]


def _change(name: str, old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return "is new" if old is None else "is gone"
    return f"was {old} and is {new}" if name.startswith(VERSION) else "has changed"


def without(known: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A fingerprint without some of its files."""
    if "files" not in known:
        return known
    left_out = set(names)
    return {**known, "files": {n: sha for n, sha in known["files"].items() if n not in left_out}}


def data_of(objective: Objective, needs: Sequence[str] = ()) -> dict[str, float]:
    """The files of the fingerprint that are not code, each with its time in seconds since 1970.

    Code means the program itself, the script of an interpreter, and files that are programs by
    their name or mode.
    """
    folder, words = Path(objective.working_directory or "."), _words(objective)
    code_named, found = {words[0], script_of(words)} if words else set(), {}
    for name in [*_named(objective), *_from(folder, needs)]:
        with contextlib.suppress(OSError, ValueError):
            path = folder / at_home(name, folder)
            status = path.stat()
            code = name in code_named or path.suffix in SCRIPTS or status.st_mode & 0o111
            if path.is_file() and not code:
                found[name] = status.st_mtime
    return found


def command_of(known: dict[str, Any]) -> str | list[str] | None:
    """The command of a fingerprint in today's form, None if it has none.

    Earlier releases recorded secrets; they are removed here. So commands that differ only in
    secrets are the same.
    """
    document = {"objective": {"command": redacted_command(known.get("command"))}}
    version = known.get("config", 2)  # earlier fingerprints did not say
    return upgrade(document, version, "objective")["objective"]["command"]


def _words(objective: Objective) -> list[str]:
    try:
        return without_brackets(words_of(objective.command or []))
    except ValueError:
        return []


def _named(objective: Objective) -> list[str]:
    """The words of a command that may be the user's files."""
    return [
        filled(word, str)
        for i, word in enumerate(_words(objective))
        if not names(word)
        and not (i == 0 and ("/" not in word or is_interpreter(word)))
        and (i == 0 or not word.startswith("/") or Path(word).suffix)
    ]


def _from(folder: Path, paths: Sequence[str]) -> list[str]:
    """The names of some paths, relative to a folder."""
    return [os.path.relpath(path, folder) for path in paths]


def _digests(folder: Path, names: list[str], most: float = math.inf) -> dict[str, str]:
    """The digest of each file.

    A file of more than `MOST` bytes gets its size instead, and so does each file after `most` bytes
    in all.
    """
    found = {}
    for name in names:
        try:
            path = folder / at_home(name, folder)
            if not path.is_file():
                continue
            size = path.stat().st_size
            most -= size
            if size > MOST or most < 0:
                found[name] = f"{size} bytes"
                continue
            found[name] = digest_file(path)
        except (OSError, ValueError):  # not a file's name, or an unreadable file
            continue
    return found
