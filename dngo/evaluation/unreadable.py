"""Says why a printed line is no report, if the reason is obvious."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence

from dngo.storage.text import number_in, shown

LONGEST = 2000  # characters to look at
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[ -/]*[@-~]")
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(e[+-]?[0-9]+)?", re.I | re.A)
_FORTRAN = re.compile(r"[+-]?[0-9]*\.?[0-9]*D[+-]?[0-9]+", re.I | re.A)
_STARS = re.compile(r"\*+")
_OBJECT = re.compile(r"[A-Za-z_][\w.]*\(.*\)")
_LIST = re.compile(r"\[.*\]|\(.*\)")


def is_report(text: str) -> bool:
    """Whether a line is a number or a mapping, whatever its content."""
    if number_in(text) is not None:
        return True
    try:
        return text.lstrip().startswith("{") and isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def why(line: str, before: Sequence[str] = ()) -> str:
    """Why a line is no report, and how to correct it; "" if that is not obvious.

    before: the lines printed before it.
    """
    if len(line) <= LONGEST and (found := _why(line.strip())):
        return found
    earlier = next((text for text in reversed(before) if is_report(text[:LONGEST])), None)
    if earlier is not None:
        return f"the line {shown(earlier.strip(), 30)} before it can be read: print the result last"
    return ""


def why_file(text: str) -> str:
    """The same for the content of `{outcome}`."""
    lines = text[:LONGEST].strip().splitlines()
    if len(lines) < 2:
        return _why(text.strip()) if len(text) <= LONGEST else ""
    found = next((line for line in lines if is_report(line)), None)
    return "" if found is None else f"it must hold only {shown(found.strip(), 30)}"


def _why(line: str) -> str:
    bare = _COLOUR.sub("", line)
    if bare != line:
        more = "" if is_report(bare) else _why(bare)
        return f"print it without the codes for colours{more and f'; {more}'}"
    if _COMMA.fullmatch(line):
        return f"numbers have a decimal point: {line.replace(',', '.')}"
    if _FORTRAN.fullmatch(line) and number_in(re.sub("d", "e", line, flags=re.I)) is not None:
        return f"write the exponent of a number with e: {re.sub('d', 'e', line, flags=re.I)}"
    if _STARS.fullmatch(line):
        return "Fortran prints stars where a number is too wide for its format: use a wider one"
    if _OBJECT.fullmatch(line):
        return "Python prints an object in this way; print(float(x)) prints the number alone"
    if _LIST.fullmatch(line):
        return "print the number alone, without brackets"
    if line.startswith("{"):
        return _mapping(line)
    if line.endswith("}"):
        return "only the last line is read: print the mapping on one line, or write it to {outcome}"
    if _number_of_python(line):
        return "a number has digits 0 to 9, without marks between them"
    if re.search(r"[0-9]", line) and any(number_in(word) is not None for word in _words(line)):
        return "print the number alone, without words beside it"
    return ""


def _words(line: str) -> list[str]:
    return re.split(r"[\s=:%]+", line)


def _mapping(line: str) -> str:
    try:
        end = json.JSONDecoder(strict=False).raw_decode(line)[1]
        return f"nothing may follow the mapping, but {shown(line[end:].strip(), 30)} does"
    except (ValueError, RecursionError):
        pass
    if not line.endswith("}"):
        return "the mapping does not end"
    try:
        if isinstance(ast.literal_eval(line), dict):
            return "Python prints a mapping in this way; print(json.dumps(x)) prints JSON"
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass
    return "JSON has names and text in double quotes, true, false and null"


def _number_of_python(line: str) -> bool:
    try:
        float(line)
    except ValueError:
        return False
    return number_in(line) is None
