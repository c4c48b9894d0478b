"""What a command has in braces. `{name}` is a value; `{{` and `}}` are braces, as in Python and Snakemake.
Single braces that are no `{name}` are braces as well, as in `awk '{print $1}'`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

# Beside the names of the parameters.
RESERVED = {"parameters", "outcome", "workdir", "seed", "id", "python"}
# Later ones: in a study whose parameter is called so it is the parameter.
KNOWN = RESERVED | {"progress", "checkpoint"}
Command = str | list[str]

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BRACE = re.compile(r"\{\{|\{[A-Za-z_][A-Za-z0-9_]*\}|[{}]")
Piece = tuple[str, bool]  # text, and whether it is the name of a value


def words_of(command: Command) -> list[str]:
    """The words of a command; raises ValueError for quotes that do not close."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def names(word: str) -> list[str]:
    """The values that a word has a place for."""
    return [text for text, is_name in _pieces(word) if is_name]


def used(command: Command) -> set[str]:
    """The values that a command has a place for; empty for a command that cannot be read."""
    try:
        return {name for word in words_of(command) for name in names(word)}
    except ValueError:
        return set()


def filled(word: str, value: Callable[[str], str]) -> str:
    """A word with the value of each name in its place."""
    return "".join(value(text) if is_name else text for text, is_name in _pieces(word))


def shell_variables(word: str) -> Iterator[str]:
    """The names that stand as `${name}`: a shell's variable was meant, or a value."""
    before = ""
    for text, is_name in _pieces(word):
        if is_name and before.endswith("$"):
            yield text
        before = "" if is_name else text


def doubled(command: Command) -> Command:
    """A command that is older than `{{` and `}}`, as it is written now: it starts the same words."""
    try:
        words = words_of(command)
    except ValueError:
        return command
    if all(_pieces(word) == _joined(_single(word)) for word in words):
        return command
    if isinstance(command, list):
        return [_doubled(word) for word in command]
    return _doubled(command)


def _doubled(text: str) -> str:
    return "".join(
        f"{{{part}}}" if is_name else part.replace("{", "{{").replace("}", "}}")
        for part, is_name in _single(text)
    )


def _single(text: str) -> Iterator[Piece]:
    """The pieces of a text in which a double brace is two braces."""
    for i, part in enumerate(_NAME.split(text)):
        yield part, i % 2 == 1


def _pieces(text: str) -> list[Piece]:
    """The pieces of a text.

    `{{` is one brace if `}}` closes it, or nothing does. Where a single `}` closes the first of the
    two, as in `{{x}: 1}`, they are two braces, as in all releases.
    """
    pairs: set[int] = set()  # where `{{` are two braces
    while True:
        found, broken = _read(text, pairs)
        if broken is None:
            return _joined(found)
        pairs.add(broken)


def _read(text: str, pairs: set[int]) -> tuple[list[Piece], int | None]:
    """The pieces, and the first place of a `{{` that is two braces and not among the pairs yet."""
    found: list[Piece] = []
    opened: list[tuple[int, bool]] = []  # where, and whether it is doubled
    at = 0
    while match := _BRACE.search(text, at):
        found.append((text[at : match.start()], False))
        at, sign = match.end(), match[0]
        if sign == "{{" and match.start() in pairs:
            opened.append((match.start(), False))
            found.append(("{", False))
            at = match.start() + 1
        elif sign in ("{", "{{"):
            opened.append((match.start(), sign == "{{"))
            found.append(("{", False))
        elif sign != "}":
            found.append((sign[1:-1], True))
        else:
            where, is_doubled = opened.pop() if opened else (-1, True)
            if is_doubled and text.startswith("}", at):
                at += 1
            elif is_doubled and where >= 0:
                return found, where
            found.append(("}", False))
    found.append((text[at:], False))
    return found, None


def _joined(pieces: Iterator[Piece] | Sequence[Piece]) -> list[Piece]:
    """The pieces without empty ones, neighbouring text in one."""
    joined: list[Piece] = []
    for text, is_name in pieces:
        if joined and not is_name and not joined[-1][1]:
            joined[-1] = (joined[-1][0] + text, False)
        elif text:
            joined.append((text, is_name))
    return joined
