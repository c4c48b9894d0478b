"""Text from outside: reads it as a number, or makes it storable in all our formats.

HDF5 cannot store NUL, and UTF-8 cannot store half of a surrogate pair.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any

_WHOLE = re.compile("[+-]?[0-9]{1,300}")
_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)", re.I | re.A
)

LOST = "\ufffd"  # replaces a character that cannot be stored, as in every decoder


def join_pairs(text: str) -> str:
    """Text in which surrogate pairs have become characters. (JSON writes an emoji in ASCII as such
    a pair.)"""
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return text  # a half is left over: `fault` says so


def fault(text: str) -> str:
    """Why a text cannot be stored; empty if it can be."""
    if "\0" in text:
        return "contains the character NUL, which no archive can hold"
    if any("\ud800" <= c <= "\udfff" for c in text):
        return "contains half of a surrogate pair, which is no character"
    return ""


def storable(text: str) -> str:
    """The text with `LOST` instead of characters that cannot be stored."""
    if text.isascii():
        return text.replace("\0", LOST)
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", LOST)


def composed(text: str) -> str:
    """A text in which a letter with its accents is one character, if there is such a character."""
    return unicodedata.normalize("NFC", text)


def one_line(text: str, limit: int) -> str:
    """Text from outside as one line of a message. Nothing in it moves the terminal's cursor."""
    line = " ".join(storable(text[: 4 * limit]).split())
    return "".join(c if c.isprintable() else LOST for c in line)[:limit]


def number_in(text: str) -> int | float | None:
    """A text as a number, which may be NaN or infinity; None if the text is something else.

    It reads numbers as all programs write them. A whole number keeps all its digits. Only Python
    would also read `1_000` and the digits of other scripts.
    """
    word = text.strip(" \t\n\r\f\v")  # only ASCII: other programs do not skip other blanks
    if _WHOLE.fullmatch(word):
        return int(word)
    return float(word) if _NUMBER.fullmatch(word) else None


def visible(text: str) -> str:
    """A line with control characters made visible, as programmers write them. Nothing moves the
    cursor."""
    escaped = (
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in storable(text)
    )
    return "".join(escaped)


def value_text(value: Any) -> str:
    """A value of a parameter or an outcome for people. Nothing in it moves the cursor.

    A number has six digits. A large one has more, down to its fourth decimal: energies differ there.
    """
    if not isinstance(value, float):
        return visible(str(value))
    whole = len(f"{abs(value):.0f}") if 1.0 <= abs(value) < 1e10 else 0
    return f"{value:.{min(max(6, whole + 4), 10)}g}"


def cell(value: Any) -> str:
    """A value in a table; a dash for none, and for one that is not a number."""
    return "-" if value is None or value != value else value_text(value)


def shown(value: Any, limit: int = 60) -> str:
    """A value to quote in a message: one line of bounded length, with control characters made
    visible."""
    text: Any = value
    if isinstance(value, str | bytes):
        text = value[: limit + 1]
    elif isinstance(value, int) and value.bit_length() > 256:  # Python refuses to write all digits
        return "an integer of more than 77 digits"
    try:
        text = " ".join(repr(text).split())
    except Exception:  # a user's class may raise anything
        text = f"<{type(value).__name__}>"
    text = text if len(text) <= limit + 2 else f"{text[:limit]}..."
    return storable(
        text.replace("\\u0000", LOST)
    )  # JSON's way to write NUL, which must not be read back


def storable_tree(value: Any, depth: int) -> Any:
    """A JSON document in which every text, also every key, can be stored.

    Raises ValueError if it is nested deeper than `depth`, which not every reader would survive.
    """
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict | list) and depth <= 0:
        raise ValueError("is nested too deeply")
    if isinstance(value, dict):
        return {storable(str(k)): storable_tree(v, depth - 1) for k, v in value.items()}
    if isinstance(value, list):
        return [storable_tree(v, depth - 1) for v in value]
    return value
