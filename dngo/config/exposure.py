"""What looks like a secret in a configuration, which is stored in the archive and published with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dngo.config.messages import Lines, place_of
from dngo.config.model import Config
from dngo.redaction import form_of, is_secret, redacted_command

STORED = "what stands here is stored in the archive, and published with it"
WAY = "and set the variable in the shell that you run the study from"


def exposures(config: Config, lines: Lines, source: str) -> tuple[str, ...]:
    """A line for each place: where it stands, and what to do instead. None has the secret in it."""
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
            f"has what looks like a secret in it, and {STORED}; besides, every user of a machine sees the "
            "words of a command. Have the program read a variable, as API_TOKEN, write "
            f"objective.environment_from: [API_TOKEN], {WAY}",
        )
    document = config.model_dump(mode="json", exclude={"objective"})
    for key in _formed(document, ()):
        yield key, f"looks like a secret, and {STORED}; put another word in its place"


def _formed(value: Any, key: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The keys of texts that are secrets by their form."""
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
