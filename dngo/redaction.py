"""Recognises what looks like a secret, by its name or its form, and replaces it in what is stored
and published.

It guesses, and prefers to hide too much. No computation depends on these texts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

REDACTED = "[redacted]"

# Words in names: of secrets; of things that describe or hold secrets; of keys that open something,
# unlike keys of a table.
_SECRET = re.compile(
    r"\w*(token|secret|password|passwd|passphrase|credentials?|apikey)|secrets|passwords|pwd|keys?|pat"
)
_TOLD = re.compile(
    "columns?|count|dir|field|file|folder|length|limit|name|path|size|timeout|ttl|type|uri|url"
)
_OPENING = re.compile("access|account|api|auth|encryption|license|private|secret|signing|ssh")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_HARMLESS = re.compile(
    r"|[01]|true|false|yes|no|on|off|none|null|\[redacted\]|[$].*|\{\w+\}", re.I | re.S
)
_PATH = re.compile(r"(~|\.{0,2})(/[\w.@ +-]+)+/?")

# Tokens of common services, each with the text at its beginning.
_TOKENS = (
    r"gh[pousr]_[A-Za-z0-9]{20,}",
    r"github_pat_\w{20,}",
    r"glpat-[\w-]{16,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"sk-[\w-]{20,}",
    r"(?:AKIA|ASIA)[A-Z0-9]{16}",
    r"xox[abeoprs]-[\w-]{10,}",
    r"AIza[\w-]{30,}",
    r"pypi-[\w-]{40,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"dop_v1_[a-f0-9]{40,}",
    r"glsa_\w{30,}",
    r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
)
_TOKEN = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(_TOKENS)})")
_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S
)
# The text before a secret, and the secret itself.
_PLACED = (
    re.compile(r"([\w+.-]://[^\s/:@'\"]*:)([^\s/@'\"]+)(?=@)"),
    re.compile(
        r"([?&](?:access_token|api_?key|auth|key|password|secret|sig|signature|token)=)([^\s&'\"]+)",
        re.I,
    ),
    re.compile(r"(\b(?:Bearer|Basic)\s+)((?=\S*\d)[\w.~+/=-]{16,})"),
)
# Every secret contains one of these. Most texts do not, so this check is fast.
_SIGN = re.compile(
    r"gh[pousr]_|github_pat_|glpat-|hf_|sk-|AKIA|ASIA|xox|AIza|pypi-|npm_|dop_v1_|glsa_|eyJ|PRIVATE KEY|://|[?&]"
    r"|Bearer|Basic"
)
_OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]*)(=|\s+(?!-))(?:'([^']*)'|\"([^\"]*)\"|(\S+))")
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)(=)(?:'([^']*)'|\"([^\"]*)\"|([^\s;&|'\"]+))")


def is_secret(name: str, value: str) -> bool:
    """Whether a variable of this name and this value looks like a secret."""
    return form_of(value) or (_is_named(name) and not _is_harmless(name, value))


def form_of(value: str) -> bool:
    """Whether a text contains a secret, judged by its form: a known token, a URL with a password."""
    return redacted(value) != value


def redacted(text: str) -> str:
    """A text without secrets, judged by their form."""
    if not _SIGN.search(text):
        return text
    text = _KEY.sub(REDACTED, _TOKEN.sub(REDACTED, text))
    for pattern in _PLACED:
        text = pattern.sub(lambda found: found[1] + _hidden(found[2]), text)
    return text


def each_text(value: Any, change: Callable[[str], str], depth: int = 300) -> Any:
    """A JSON document with every text in it changed, also its keys.

    Values deeper than `depth` are left out; only a forged archive has them.
    """
    if isinstance(value, str):
        return change(value)
    if not isinstance(value, Mapping | list):
        return value
    if depth <= 0:
        return REDACTED
    if isinstance(value, Mapping):
        return {change(str(k)): each_text(v, change, depth - 1) for k, v in value.items()}
    return [each_text(v, change, depth - 1) for v in value]


def redacted_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables without the values that look like secrets."""
    return {n: REDACTED if is_secret(n, v) else v for n, v in variables.items()}


def redacted_command(command: Any) -> Any:
    """A command (a text or words) without secrets: after --token, in TOKEN=..., in a URL."""
    if isinstance(command, str):
        return _redacted_line(command)
    if not isinstance(command, Sequence):
        return command
    words, hidden = [], ""
    for word in map(str, command):
        if hidden and not word.startswith("-") and not _is_harmless(hidden, word):
            words.append(REDACTED)
        else:
            words.append(_redacted_line(word))
        hidden = word if word.startswith("-") and "=" not in word and _is_option(word) else ""
    return words


def redacted_objective(objective: Mapping[str, Any]) -> dict[str, Any]:
    """The section `objective` of a configuration, without secrets, to store it."""
    found = dict(objective)
    if found.get("environment"):
        found["environment"] = redacted_environment(found["environment"])
    if found.get("command"):
        found["command"] = redacted_command(found["command"])
    return found


def redacted_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved configuration without secrets, to store it.

    The study's identity (`Config.identity`) stays as it is.
    """
    return {**config, "objective": redacted_objective(config["objective"])}


def _redacted_line(text: str) -> str:
    for pattern, is_name in ((_OPTION, _is_option), (_ASSIGNED, _is_named)):
        text = pattern.sub(lambda found, is_name=is_name: _without_value(found, is_name), text)  # type: ignore[misc]
    return redacted(text)


def _without_value(found: re.Match[str], is_name: Any) -> str:
    name, between = found[1], found[2]
    value = next(part for part in found.groups()[2:] if part is not None)
    if not is_name(name) or _is_harmless(name, value):
        return found[0]
    return f"{name}{between}{shlex.quote(REDACTED) if between != '=' else REDACTED}"


def _hidden(value: str) -> str:
    return value if _HARMLESS.fullmatch(value) else REDACTED


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORDS.findall(name)]


def _is_named(name: str) -> bool:
    """Whether a variable's name says that it is a secret: API_TOKEN, PGPASSWORD, AWS_ACCESS_KEY_ID."""
    words = _words(name)
    if not words or _TOLD.fullmatch(words[-1]) or words in (["pwd"], ["oldpwd"]):
        return False
    return any(_SECRET.fullmatch(word) for word in words)


def _is_option(name: str) -> bool:
    """Whether an option's name says that it is a secret: --token, --api-key.

    A plain --key often means a table's key.
    """
    words = _words(name)
    if words[-1:] in (["key"], ["keys"]):
        return len(words) > 1 and bool(_OPENING.fullmatch(words[-2]))
    return bool(words) and bool(_SECRET.fullmatch(words[-1]))


def _is_harmless(name: str, value: str) -> bool:
    """Whether a value is harmless: it is empty, yes or no, or a path; for a name with "key", also a
    number.
    """
    if _HARMLESS.fullmatch(value) or _PATH.fullmatch(value):
        return True
    return value.isdecimal() and len(value) < 7 and not re.search("pass|pwd|secret", name, re.I)


class Mask:
    """Removes known secret values from the output of a program.

    secrets: their names and values. A short value or a number is not removed, since results could
    contain it.
    """

    SHORTEST = 6

    def __init__(self, secrets: Mapping[str, str]):
        known = {v: n for n, v in secrets.items() if len(v) >= self.SHORTEST and not _is_number(v)}
        self.values = {
            v.encode("utf-8", "surrogateescape"): f"[{n}]".encode() for v, n in known.items()
        }
        longest_first = sorted(self.values, key=len, reverse=True)
        self.pattern = re.compile(b"|".join(map(re.escape, longest_first))) if self.values else None

    def take_out(self, data: bytes) -> bytes:
        """Bytes in which each secret is replaced by its name."""
        return self.pattern.sub(lambda found: self.values[found[0]], data) if self.pattern else data

    def begun(self, data: bytes) -> int:
        """How many bytes at the end may be the beginning of a secret."""
        lengths = (
            n
            for v in self.values
            for n in range(min(len(v) - 1, len(data)), 0, -1)
            if data.endswith(v[:n])
        )
        return max(lengths, default=0)

    def text(self, text: str) -> str:
        """The same for text. It also removes what has the form of a secret."""
        if self.pattern is not None:
            data = self.take_out(text.encode("utf-8", "surrogatepass"))
            text = data.decode("utf-8", "surrogatepass")
        return redacted(text)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def secrets_of(environment: Mapping[str, str], names: Iterable[str] = ()) -> dict[str, str]:
    """The secret variables of a program: variables with these names, and others that look like
    secrets.
    """
    return {n: v for n, v in environment.items() if n in names or is_secret(n, v)}
