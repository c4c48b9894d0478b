"""Identifies an objective without starting it, by its words and its files.

A study treats all its evaluations as those of one function. Only the user knows whether that is
true. Each iteration records whether the command or its script has changed. Evaluations may write to
files that the command names, such as a log; only code must not change.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dngo.config import CONFIG_VERSION, Objective, upgrade
from dngo.config.placeholders import filled, names, words_of
from dngo.evaluation.obstacles import SCRIPTS, is_interpreter, script_of
from dngo.redaction import redacted_command
from dngo.storage.files import at_home

MOST = 2**26  # bytes; of a larger file only the size is compared


def fingerprint(objective: Objective, needs: Sequence[str] = ()) -> dict[str, Any]:
    """The objective as it is now: "command" or "callable", and "files" with a SHA-256 digest for each.

    needs: further files, as a configuration has them. "config": the version of the configuration,
    which says how the command is read. Files have their names in the command, or relative to its
    working folder. So a study may be moved with its files. Interpreters, programs from PATH and
    installed modules are left out.
    """
    folder = Path(objective.working_directory or ".")
    needed = _digests(folder, _from(folder, needs), MOST)
    if objective.callable:
        module = objective.callable.partition(":")[0].replace(".", "/")
        names = [f"{module}.py", f"{module}/__init__.py"]
        files = {**needed, **_digests(folder, names), **objective.source}
        return {"callable": objective.callable, "files": files}
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
    words = [{**each, "command": command_of(each)} for each in (before, now)]
    found = [
        f"objective.{key} was {words[0].get(key)!r} and is {words[1].get(key)!r}"
        for key in ("command", "callable")
        if words[0].get(key) != words[1].get(key)
    ]
    old, new = before.get("files", {}), now.get("files", {})
    return found + [
        f"{name} has changed" for name in sorted(old.keys() & new) if old[name] != new[name]
    ]


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
        return words_of(objective.command or [])
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
            with open(path, "rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
        except (
            OSError,
            ValueError,
        ):  # not a file's name, or an unreadable file
            continue
    return found
