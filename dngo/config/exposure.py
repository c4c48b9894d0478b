"""Finds what looks like a secret in a configuration.

The archive stores the configuration, so both are published.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dngo.config.messages import Lines, place_of
from dngo.config.model import Config
from dngo.redaction import form_of, is_secret, redacted_command

STORED = "the archive stores this key, and is published with it"
WAY = "and set the variable in the shell that runs the study"


def exposures(config: Config, lines: Lines, source: str) -> tuple[str, ...]:
    """A line for each place: where it is, and what to do instead. No line shows the secret."""
    return tuple(
        f"{place_of(key, lines, source)}: {'.'.join(key)}: {what}" for key, what in _found(config)
    )


def _found(config: Config) -> Iterator[tuple[tuple[str, ...], str]]:
    objective = config.objective
    for name, value in objective.environment.items():
        if is_secret(name, value):
            yield (
                ("objective", "environment", name),
                f"looks like a secret, and {STORED}; remove it, write objective.environment_from: "
                f"[{name}], {WAY}",
            )
    if redacted_command(objective.command) != objective.command:
        yield (
            ("objective", "command"),
            f"seems to contain a secret, and {STORED}; every user of a machine can also see "
            "the words of a command. Let the program read a variable, for example "
            f"API_TOKEN, write objective.environment_from: [API_TOKEN], {WAY}",
        )
    document = config.model_dump(mode="json", exclude={"objective"})
    for key in _formed(document, ()):
        yield key, f"looks like a secret, and {STORED}; use another word"


def _formed(value: Any, key: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys of texts that have the form of a secret."""
    if isinstance(value, str):
        if form_of(value):
            yield key
        return
    items = (
        value.items()
        if isinstance(value, Mapping)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, item in items:
        yield from _formed(item, (*key, str(name)))
