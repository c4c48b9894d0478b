"""Messages that say why a command cannot be started, and what to do about it.

Nothing here starts a program. Words for a shell and missing scripts are looked for before every
start, since their programs would run and fail at every point. The rest explains errors of the
system; `dngo check` finds them before a run.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from dngo.config.placeholders import names, options
from dngo.storage.text import shown

_OPERATOR = re.compile(r"&&|\|\|?|;|&|[0-9&]?>>?(&[0-9]|[^=].*)?|<|<<<?")
_BUILTINS = {".", "alias", "cd", "export", "module", "set", "source", "ulimit"}
_INTERPRETER = re.compile(r"python[0-9.]*|bash|sh|dash|zsh|Rscript|julia|perl|ruby|node")
SCRIPTS = {".py", ".sh", ".bash", ".R", ".r", ".jl", ".pl", ".rb", ".js"}
_VALUE = re.compile(r"(^|=)(~(/\S*)?|\$([A-Za-z_]\w*|\{\w+\})(/\S*)?)$")
_FLAG = re.compile(r"--?[A-Za-z][\w-]*")
_PLAIN = re.compile(r"[\w@%+=:,./-]+")  # to a shell, one word that means itself
_WHERE = "; paths start from objective.working_directory, or else from the configuration's folder"


def shell_word(words: list[str]) -> str:
    """Why a command line needs a shell; "" if it does not."""
    found = next((word for word in words if _OPERATOR.fullmatch(word)), "")
    return (
        (
            f"{_no_shell(found)} (or write the command as a list of words, if the program needs "
            "this sign)"
        )
        if found
        else ""
    )


def missing_script(words: list[str], folder: Path, path: str | None) -> str:
    """A message if an interpreter's script does not exist; "" otherwise.

    folder: where the command starts. path: its variable PATH, where shells look too.
    """
    name = script_of(words)
    places = [folder, *map(Path, (path or "").split(os.pathsep))]
    if not name or any((place / name).exists() for place in places):
        return ""
    return (
        f"{words[0]!r} would run {name!r}, but there is no such file in {folder.absolute()}"
        f"{_unexpanded(name) or _WHERE}"
    )


def is_interpreter(program: str) -> bool:
    """Whether a program runs scripts, judged by its name."""
    return bool(_INTERPRETER.fullmatch(Path(program).name))


def script_of(words: list[str]) -> str:
    """The script that an interpreter runs; "" if the words are something else, or unclear."""
    if not is_interpreter(words[0]):
        return ""
    for word in words[1:]:
        if not word.startswith("-"):
            return word if Path(word).suffix in SCRIPTS else ""
        if not re.fullmatch("-[bBdEiIOPqsSuvx]+", word):  # Python's flags without a value
            return ""
    return ""


def obstacle(words: list[str], folder: Path, path: str | None) -> str:
    """Why the system cannot start a program, and what to do; "" if it can.

    folder, path: as in `missing_script`.
    """
    program = words[0]
    if "/" not in program:
        if shutil.which(program, path=os.defpath if path is None else path):
            return ""
        return f"no program of this name is in PATH; {_advice(program, folder)}"
    file = folder / program
    if not file.exists():
        at = "" if program.startswith("/") else f" at {os.path.abspath(file)}"
        return f"there is no such file{at}{_unexpanded(program) or _WHERE}"
    if file.is_dir():
        return "it is a folder"
    if not os.access(file, os.X_OK):
        return f"it is not executable: `chmod +x {file}`, or name its interpreter: 'bash {program}'"
    return _first_line(file)


def _no_shell(word: str) -> str:
    return (
        f"{word!r} is a word for a shell, but the command runs without one: use "
        "objective.working_directory for the folder and objective.environment for "
        "variables, or call a shell with command: [bash, -c, '...']"
    )


def _advice(program: str, folder: Path) -> str:
    if program in _BUILTINS or re.fullmatch(r"[A-Za-z_]\w*=.*", program):
        return _no_shell(program)
    if (folder / program).is_file():
        return f"for the file in {folder.absolute()} write './{program}'"
    return _unexpanded(program).removeprefix("; ") or (
        "give its whole path, or load its module: command: [bash, -lc, 'module load ... && "
        f"exec {program} ...']"
    )


def left_out(words: list[str], may_lack: Mapping[str, bool]) -> list[str]:
    """Lines about the options of parameters that are inactive at some points.

    may_lack: whether each such parameter is inactive at the point that is shown.
    """
    lines = []
    for part, is_option in options(words):
        named = [name for word in part for name in names(word) if name in may_lack]
        if is_option and named:
            here = "as here" if any(may_lack[name] for name in named) else "but not here"
            lines.append(
                f"Option: {' '.join(part)}: left out where {' or '.join(named)} is inactive, {here}"
            )
    flat = [word for part, is_option in options(words) for word in ([""] if is_option else part)]
    for before, word in itertools.pairwise(flat):
        found = re.fullmatch(r"(-[\w-]+=)?\{(\w+)\}", word)
        if not found or found[2] not in may_lack or not (found[1] or _FLAG.fullmatch(before)):
            continue
        option = word if found[1] else f"{before} {word}"
        lines.append(
            f"Warning: objective.command: where {found[2]} is inactive, {option} has no value; "
            f"[{option}] leaves it out there"
        )
    return lines


def for_a_shell(words: list[str]) -> str:
    """An argument in which only a shell would put a value; "" if there is none.

    That is not an error, since the program itself may do it.
    """
    is_shell = is_interpreter(words[0]) and any(re.fullmatch("-[a-z]*c", word) for word in words)
    found = next((word for word in words[1:] if _VALUE.search(word)), "")
    return (
        f"the program gets {found!r} as it is{_unexpanded(found)}" if found and not is_shell else ""
    )


def read_by_a_shell(words: list[str], texts: Mapping[str, Sequence[str]]) -> str:
    """A warning if a shell reads the text of a parameter as a part of its program; "" if none does.

    texts: the texts that each parameter can have, by its name.
    """
    if not re.fullmatch("bash|sh|dash|zsh", Path(words[0]).name):
        return ""
    place = next((i + 1 for i, w in enumerate(words) if re.fullmatch("-[a-z]*c", w)), len(words))
    for name in sorted(names(words[place])) if place < len(words) else ():
        for text in texts.get(name, ()):
            if not _PLAIN.fullmatch(text):
                return (
                    f"a shell will read {name} as a part of its program, for example {shown(text)}: "
                    f"hand it over as an argument, as in [{words[0]}, -c, 'run \"$1\"', run, '{{{name}}}']"
                )
    return ""


def _unexpanded(word: str) -> str:
    found = re.search(r"(^|(?<==))~|\$", word)
    return f"; no shell replaces {found[0]!r} by a value: write the value" if found else ""


def _first_line(file: Path) -> str:
    """A message if the first line of an executable file is wrong."""
    try:
        with open(file, "rb") as stream:
            line = stream.read(256).split(b"\n")[0]
    except OSError:
        return ""
    if not line.startswith(b"#!"):
        text = not line.startswith(b"\x7fELF") and b"\0" not in line
        return "it has no interpreter line: begin it with one, such as '#!/bin/sh'" if text else ""
    words = line[2:].decode("utf-8", "replace")
    interpreter = (words.split() or [""])[0]
    if words.endswith("\r"):
        return (
            "its lines end as on Windows, so the system finds no interpreter: `sed -i "
            f"'s/\\r$//' {file}`"
        )
    if not Path(interpreter).exists():
        return f"its first line names the interpreter {interpreter!r}, which does not exist"
    return ""
