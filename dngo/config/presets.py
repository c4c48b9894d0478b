"""A preset's keys as defaults for a user's keys, and the keys that the user has changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dngo.config.model import Config
from dngo.presets import PRESETS, find_preset

MINIMAL = {"study": "a", "objective": {"command": "a"}, "space": {"x": {"type": "boolean"}}}
KINDS = ("surrogate", "acquisition")  # sections that may be given by their kind alone


def spread(document: Mapping[str, Any]) -> dict[str, Any]:
    """A user's document with its preset's keys as defaults.

    Unchanged if it names no preset, or an unknown one. Validation reports unknown ones.
    """
    preset = find_preset(document.get("preset"))
    found: dict[str, Any] = {}
    if preset is not None:
        merge(found, preset.document)
    merge(found, {k: _section(k, v) for k, v in document.items()} if found else document)
    return found


def _section(key: str, value: Any) -> Any:
    """A section as a mapping. If it names no kind, it gets the preset's kind."""
    return {"kind": value} if key in KINDS and isinstance(value, str) else value


def merge(into: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Add keys; sections of the same kind are merged key by key; later keys replace earlier ones."""
    for key, value in new.items():
        before = into.get(key)
        if isinstance(value, Mapping) and isinstance(before, dict) and _alike(before, value):
            merge(before, value)
        elif isinstance(value, Mapping):
            into[key] = {}
            merge(into[key], value)
        else:
            into[key] = value


def _alike(before: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether two sections may have the same kind. Another kind has other keys."""
    return before.get("kind", new.get("kind")) == new.get("kind", before.get("kind"))


def missing(document: Mapping[str, Any]) -> dict[str, str]:
    """Keys that a preset needs but the user has not given, each with its purpose."""
    preset = find_preset(document.get("preset"))
    needs = {} if preset is None else preset.needs
    return {key: what for key, what in needs.items() if not document.get(key)}


def whole(name: str) -> dict[str, Any]:
    """All keys of the sections that a preset sets, for a study without further keys."""
    preset = PRESETS.find(name)
    resolved = Config.model_validate(spread({**MINIMAL, "preset": name})).model_dump(mode="json")
    return {key: resolved[key] for key in Config.model_fields if key in preset.document}


def departures(config: Config) -> list[str]:
    """Keys of a study that differ from its preset, such as "surrogate.warp"."""
    if config.preset is None:
        return []
    return list(_differing(whole(config.preset), config.model_dump(mode="json"), ""))


def _differing(wanted: Mapping[str, Any], found: Mapping[str, Any], path: str) -> Iterator[str]:
    if wanted.get("kind") != found.get("kind"):
        yield f"{path}kind"
        return
    for key, value in wanted.items():
        if isinstance(value, Mapping):
            yield from _differing(value, found[key], f"{path}{key}.")
        elif found[key] != value and value is not None:
            yield f"{path}{key}"
