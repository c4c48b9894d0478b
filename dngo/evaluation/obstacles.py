"""What keeps a command from being started, in words, and what to do about it.

Nothing here starts anything. Words for a shell and missing scripts are looked for before every start,
since their programs would run and fail at every point. The rest explains errors of the system, and `dngo
check` says it beforehand.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

_OPERATOR = re.compile(r"&&|\|\|?|;|&|[0-9&]?>>?(&[0-9]|[^=].*)?|<|<<<?")
_BUILTINS = {".", "alias", "cd", "export", "module", "set", "source", "ulimit"}
_INTERPRETER = re.compile(r"python[0-9.]*|bash|sh|dash|zsh|Rscript|julia|perl|ruby|node")
SCRIPTS = {".py", ".sh", ".bash", ".R", ".r", ".jl", ".pl", ".rb", ".js"}
_VALUE = re.compile(r"(^|=)(~(/\S*)?|\$([A-Za-z_]\w*|\{\w+\})(/\S*)?)$")
_WHERE = "; paths count from objective.working_directory, or else from the configuration's folder"


def shell_word(words: list[str]) -> str:
    """What is wrong with a command line that was written for a shell; "" if nothing is."""
    found = next((word for word in words if _OPERATOR.fullmatch(word)), "")
    return f"{_no_shell(found)} (or a list of words, if it is to stand there)" if found else ""


def missing_script(words: list[str], folder: Path, path: str | None) -> str:
    """What is wrong where an interpreter is given a script that is not there; "" if nothing is.

    folder: where it starts.  path: its variable PATH, where shells look too.
    """
    name = script_of(words)
    places = [folder, *map(Path, (path or "").split(os.pathsep))]
    if not name or any((place / name).exists() for place in places):
        return ""
    return (
        f"{words[0]!r} is to run {name!r}, and there is no such file in {folder.absolute()}"
        f"{_unexpanded(name) or _WHERE}"
    )


def is_interpreter(program: str) -> bool:
    """Whether a program is one that runs scripts, by its name."""
    return bool(_INTERPRETER.fullmatch(Path(program).name))


def script_of(words: list[str]) -> str:
    """The script that an interpreter is to run; "" where the words are no such thing, or unclear."""
    if not is_interpreter(words[0]):
        return ""
    for word in words[1:]:
        if not word.startswith("-"):
            return word if Path(word).suffix in SCRIPTS else ""
        if not re.fullmatch("-[bBdEiIOPqsSuvx]+", word):  # flags of Python's that have no value
            return ""
    return ""


def obstacle(words: list[str], folder: Path, path: str | None) -> str:
    """Why the system would not start a program, and what to do; "" if it would.

    folder, path: as `missing_script` has them.
    """
    program = words[0]
    if "/" not in program:
        if shutil.which(program, path=os.defpath if path is None else path):
            return ""
        return f"there is no program of this name in PATH; {_advice(program, folder)}"
    file = folder / program
    if not file.exists():
        at = "" if program.startswith("/") else f" at {os.path.abspath(file)}"
        return f"there is no such file{at}{_unexpanded(program) or _WHERE}"
    if file.is_dir():
        return "it is a folder"
    if not os.access(file, os.X_OK):
        return (
            f"it is not executable: `chmod +x {file}`, or name its interpreter, as 'bash {program}'"
        )
    return _first_line(file)


def _no_shell(word: str) -> str:
    return (
        f"{word!r} is a word for a shell, and there is none: objective.working_directory says where "
        "the command starts, objective.environment has variables, and a shell of your own is "
        "command: [bash, -c, '...']"
    )


def _advice(program: str, folder: Path) -> str:
    if program in _BUILTINS or re.fullmatch(r"[A-Za-z_]\w*=.*", program):
        return _no_shell(program)
    if (folder / program).is_file():
        return f"for the file in {folder.absolute()} write './{program}'"
    return _unexpanded(program).removeprefix("; ") or (
        "give its whole path, or load what has it: "
        f"command: [bash, -lc, 'module load ... && exec {program} ...']"
    )


def for_a_shell(words: list[str]) -> str:
    """The argument of a program that only a shell would replace by a value; "" if there is none.

    That is no error, since the program may do it itself.
    """
    is_shell = is_interpreter(words[0]) and any(re.fullmatch("-[a-z]*c", word) for word in words)
    found = next((word for word in words[1:] if _VALUE.search(word)), "")
    return (
        f"{found!r} is given to the program as it is{_unexpanded(found)}"
        if found and not is_shell
        else ""
    )


def _unexpanded(word: str) -> str:
    found = re.search(r"(^|(?<==))~|\$", word)
    return f"; no shell puts a value in place of {found[0]!r}: write it out" if found else ""


def _first_line(file: Path) -> str:
    """What is wrong with the beginning of a file that may be executed."""
    try:
        with open(file, "rb") as stream:
            line = stream.read(256).split(b"\n")[0]
    except OSError:
        return ""
    if not line.startswith(b"#!"):
        text = not line.startswith(b"\x7fELF") and b"\0" not in line
        return "it has no interpreter line: let it begin with one, as '#!/bin/sh'" if text else ""
    words = line[2:].decode("utf-8", "replace")
    interpreter = (words.split() or [""])[0]
    if words.endswith("\r"):
        return (
            f"its lines end as on Windows, so no interpreter is found: `sed -i 's/\\r$//' {file}`"
        )
    if not Path(interpreter).exists():
        return f"its first line names the interpreter {interpreter!r}, which does not exist"
    return ""
