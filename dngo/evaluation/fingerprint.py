"""What an objective is, as far as that can be told without starting it: its words, and its files.

A study learns from all its evaluations as if they were of one function. Whether they were is the user's to
know; that the command or the content of its script changed in between is recorded with each iteration.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from dngo.config import CONFIG_VERSION, Objective, upgrade
from dngo.config.placeholders import filled, names, words_of
from dngo.evaluation.obstacles import is_interpreter
from dngo.redaction import redacted_command
from dngo.storage.files import at_home

MOST = 2**26  # bytes of a file that is read; of a larger one the size must do


def fingerprint(objective: Objective) -> dict[str, Any]:
    """The objective as it stands: "command" or "callable", and "files", a SHA-256 digest for each.

    "config": the version of the configuration, which says how the command is read.
    Files are named as the command names them: a study that is moved with its script stays the same.
    Interpreters and programs that are found in PATH are left out, and modules that are installed.
    """
    folder = Path(objective.working_directory or ".")
    if objective.callable:
        module = objective.callable.partition(":")[0].replace(".", "/")
        names = [f"{module}.py", f"{module}/__init__.py"]
        return {"callable": objective.callable, "files": _digests(folder, names)}
    files = _digests(folder, _named(objective))
    return {
        "command": redacted_command(objective.command),
        "files": files,
        "config": CONFIG_VERSION,
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What of an objective has changed, in words; nothing where nothing is known of before."""
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
        f"{name} has another content" for name in sorted(old.keys() & new) if old[name] != new[name]
    ]


def command_of(known: dict[str, Any]) -> str | list[str] | None:
    """The command of a fingerprint as it is written now, None if there is none.

    Without secrets, which earlier releases recorded: two commands that differ in these alone are one.
    """
    document = {"objective": {"command": redacted_command(known.get("command"))}}
    version = known.get("config", 2)  # before, a fingerprint did not say
    return upgrade(document, version, "objective")["objective"]["command"]


def _named(objective: Objective) -> list[str]:
    """The words of a command that may be files of the user's own."""
    try:
        words = words_of(objective.command or [])
    except ValueError:
        return []
    return [
        filled(word, str)
        for i, word in enumerate(words)
        if not names(word)
        and not (i == 0 and ("/" not in word or is_interpreter(word)))
        and (i == 0 or not word.startswith("/") or Path(word).suffix)
    ]


def _digests(folder: Path, names: list[str]) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            path = folder / at_home(name, folder)
            if not path.is_file():
                continue
            size = path.stat().st_size
            if size > MOST:
                found[name] = f"{size} bytes"
                continue
            with open(path, "rb") as stream:
                found[name] = hashlib.file_digest(stream, "sha256").hexdigest()
        except (
            OSError,
            ValueError,
        ):  # a word that no file could be called, or one that cannot be read
            continue
    return found
