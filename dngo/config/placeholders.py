"""Braces in a command.

`{name}` is a value. `{{` and `}}` are braces, as in Python and Snakemake. Other single braces are
braces as well, as in `awk '{print $1}'`.

`[--name {name}]` is an option that is left out where the parameter is inactive. A bracket that does
not begin with an option, or that holds no value, is a bracket.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

# In addition to the names of the parameters.
RESERVED = {"parameters", "outcome", "workdir", "seed", "id", "python"}
# Newer placeholders. If a parameter has such a name, the parameter is meant.
KNOWN = RESERVED | {"progress", "checkpoint"}
Command = str | list[str]

_NAME = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
_BRACE = re.compile(r"\{\{|\{[A-Za-z_][A-Za-z0-9_]*\}|[{}]")
Piece = tuple[str, bool]  # a text, and whether it is the name of a value
# The first word of an option in brackets: `[--name`, `[-n`, `[--name=...`, `[-n{name}`.
_OPTION = re.compile(r"\[--?[A-Za-z][\w-]*($|=|\{)")
# The same as one word, which no program could read.
_QUOTED = re.compile(r"\[--?[A-Za-z][\w-]*\s.*\]", re.DOTALL)


def words_of(command: Command) -> list[str]:
    """The words of a command; raises ValueError for quotes that do not close."""
    return shlex.split(command) if isinstance(command, str) else list(command)


def names(word: str) -> list[str]:
    """The names of the values in a word."""
    return [text for text, is_name in _pieces(word) if is_name]


def used(command: Command) -> set[str]:
    """The names of the values in a command; empty if the command cannot be read."""
    try:
        return {name for word in words_of(command) for name in names(word)}
    except ValueError:
        return set()


def options(words: Sequence[str]) -> Iterator[tuple[list[str], bool]]:
    """The words of a command in their order, in parts; whether a part is an option in brackets.

    Such a part comes without its brackets.
    """
    at = 0
    while at < len(words):
        end = _end(words, at)
        if end is None:
            yield [words[at]], False
            at += 1
        else:
            part = list(words[at:end])
            part[0] = part[0][1:]
            part[-1] = part[-1][:-1]
            yield part, True
            at = end


def without_brackets(words: Sequence[str]) -> list[str]:
    """The words of a command that leaves no option out."""
    return [word for part, _ in options(words) for word in part]


def _end(words: Sequence[str], at: int) -> int | None:
    """The place behind the last word of an option in brackets; None if none begins here."""
    if not _OPTION.match(words[at]):
        return None
    end = next((i + 1 for i in range(at, len(words)) if words[i].endswith("]")), None)
    is_option = end is not None and any(names(word) for word in words[at:end])
    return end if is_option else None


def misplaced(words: Sequence[str]) -> str:
    """What is wrong with the first option in brackets that is not written as one; "" if all are."""
    for word in words:
        if _QUOTED.fullmatch(word) and names(word):
            apart = ", ".join(map(repr, word.split()))
            return f"{word!r} is one word, in which no program finds an option; write {apart}"
    for at, word in enumerate(words):
        if not _OPTION.match(word):
            continue
        rest = words[at : _end(words, at)]
        after = next((other for other in rest[1:] if _OPTION.match(other)), "")
        if after and not any(w.endswith("]") for w in rest[: rest.index(after)]):
            return f"{word!r} is not closed by ] before {after!r}"
        if not any(w.endswith("]") for w in rest) and any(map(names, rest)):
            return f"{word!r} is not closed: end the option with ]"
    return ""


def filled(word: str, value: Callable[[str], str]) -> str:
    """A word with each name replaced by its value."""
    return "".join(value(text) if is_name else text for text, is_name in _pieces(word))


def shell_variables(word: str) -> Iterator[str]:
    """The names in the form `${name}`. The user meant a shell's variable, or a value."""
    before = ""
    for text, is_name in _pieces(word):
        if is_name and before.endswith("$"):
            yield text
        before = "" if is_name else text


def doubled(command: Command) -> Command:
    """An old command, from before `{{` meant one brace, in today's form. It starts the same words."""
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
    """The pieces of a text, if a double brace means two braces."""
    for i, part in enumerate(_NAME.split(text)):
        yield part, i % 2 == 1


def _pieces(text: str) -> list[Piece]:
    """The pieces of a text.

    `{{` is one brace if `}}` closes it, or if nothing closes it. If a single `}` closes the first
    of the two, as in `{{x}: 1}`, they are two braces, as in all releases.
    """
    pairs: set[int] = set()  # places where `{{` means two braces
    while True:
        found, broken = _read(text, pairs)
        if broken is None:
            return _joined(found)
        pairs.add(broken)


def _read(text: str, pairs: set[int]) -> tuple[list[Piece], int | None]:
    """The pieces, and the first place where `{{` means two braces and is not in `pairs` yet."""
    found: list[Piece] = []
    opened: list[tuple[int, bool]] = []  # the place, and whether it is doubled
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
    """The pieces without empty ones. Neighbouring texts are joined."""
    joined: list[Piece] = []
    for text, is_name in pieces:
        if joined and not is_name and not joined[-1][1]:
            joined[-1] = (joined[-1][0] + text, False)
        elif text:
            joined.append((text, is_name))
    return joined
