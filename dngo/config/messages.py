"""What is wrong with a configuration, in words: where, which key, and what would be right."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from dngo.config.upgrade import MOVED

Lines = dict[tuple[str, ...], str]  # "file:line" of each key, by the path of keys to it
Sections = list[type[BaseModel]]
# What may stand in a place, by the kind of the section around it.
Kinds = dict[str, type[BaseModel]]


class Located(ValueError):
    """A mistake between keys, with the path of the key that should change."""

    def __init__(self, loc: tuple[str, ...], message: str):
        super().__init__(message)
        self.loc = loc


def short(value: Any, limit: int = 60) -> str:
    """A value as it is quoted in a message: one line of bounded length."""
    text = value if isinstance(value, str) else repr(value)
    text = " ".join(text[: 4 * limit].split())
    return text if len(text) <= limit else text[:limit] + "..."


def nearest(word: str, known: Iterable[Any]) -> str:
    """A question after the known word that was meant; empty if none is near."""
    close = difflib.get_close_matches(word[:100], [str(k) for k in known], n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def explain(error: ValidationError, root: type[BaseModel], lines: Lines, source: str) -> list[str]:
    """One line for each mistake: file and line, key, what would be right.

    root: the model that was validated.  lines: where each key stands.  source: the file, for keys
    that stand nowhere.
    """
    found = set()
    for item in error.errors(include_url=False):
        loc = item["loc"]
        cause = (item.get("ctx") or {}).get("error")
        if isinstance(cause, Located):
            loc = cause.loc
        keys, here, chosen, kinds = _place(loc, root, unknown=item["type"] == "extra_forbidden")
        known = (tuple(keys[:n]) for n in range(len(keys), -1, -1))
        place = next((lines[k] for k in known if k in lines), source)
        name = ".".join(short(k) for k in keys) or "configuration"
        found.add(f"{place}: {name}: {_message(item, keys, here, chosen, kinds)}")
    return sorted(found)


def tag(section: type[BaseModel]) -> tuple[str, str]:
    """What tells a section from others in its place, as ("kind", "gp"); two empty words if nothing."""
    for name in ("kind", "type"):
        field = section.model_fields.get(name)
        if field is not None and len(get_args(field.annotation)) == 1:
            return name, get_args(field.annotation)[0]
    return "", ""


def sections(annotation: Any) -> Sections:
    """The models that a field of this annotation may hold, those of a mapping's values included."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in sections(part)]


def _place(
    loc: tuple[Any, ...], root: type[BaseModel], *, unknown: bool
) -> tuple[list[str], Sections, tuple[str, str], Kinds]:
    """The keys that a user wrote on the way to a mistake, and the sections that may stand there.

    pydantic also names the branch of each union; that is dropped here. Then come the tag of the last
    branch, and what stands in this place in every branch.  unknown: whether the last key is one that
    no section has.
    """
    keys: list[str] = []
    here: Sections = [root]
    chosen, union = ("", ""), Kinds()
    mapping = False
    for part in loc[:-1] if unknown else loc:
        fields = [m.model_fields[part] for m in here if part in m.model_fields]
        if mapping or isinstance(part, int):
            keys.append(str(part))
            mapping = False
        elif fields:
            keys.append(part)
            here = [m for f in fields for m in sections(f.annotation)]
            inner = {kind: m.model_fields.get(part) for kind, m in union.items()}
            union = {k: m for k, f in inner.items() if f for m in sections(f.annotation)}
            mapping = any(get_origin(f.annotation) is dict for f in fields)
        elif any(part == tag(m)[1] for m in here):
            union = {tag(m)[1]: m for m in here}
            here = [union[part]]
            chosen = tag(here[0])
        elif not re.search(r"^(str|int|float|bool)$|\[", part):
            keys.append(part)
    return (keys + [str(p) for p in loc[-1:]] if unknown else keys), here, chosen, union


def _message(
    item: Any, keys: list[str], here: Sections, chosen: tuple[str, str], union: Kinds
) -> str:
    kind, context, given = item["type"], item.get("ctx") or {}, item.get("input")
    if kind == "extra_forbidden":
        return _unknown_key(keys, here, chosen, union)
    if kind == "missing":
        return "is missing and must be given"
    if kind == "union_tag_not_found":
        name = context["discriminator"].strip("'")
        return f"needs a {name}: {_either(tag(m)[1] for m in here)}"
    if kind == "union_tag_invalid":
        name, kinds = context["discriminator"].strip("'"), [tag(m)[1] for m in here]
        hint = nearest(str(context["tag"]), kinds)
        return f"{name} must be one of {', '.join(kinds)}, not {short(context['tag'])}{hint}"
    if kind == "model_type":
        if ".".join(keys) in MOVED:
            return f"is a section now: {MOVED['.'.join(keys)]} is what it was"
        return f"must be a mapping of keys to values, not {short(given)}"
    if kind == "literal_error":
        kinds = re.findall(r"'([^']*)'", context.get("expected", ""))
        return f"must be one of {', '.join(kinds)}, not {short(given)}{nearest(str(given), kinds)}"
    if kind == "value_error":
        return str(context.get("error", item["msg"]))
    if kind == "string_pattern_mismatch":
        if "[key]" in item["loc"]:
            return "a name has letters, digits and _, starts with no digit, at most 64 characters"
        if keys[0] == "study":
            return "a name has letters, digits, '_', '.' and '-', at most 100 characters"
        if keys[-1] == "callable":
            return f"must be module:function, not {short(given)}"
    text = item["msg"]
    text = text[:1].lower() + text[1:]
    if isinstance(given, str | int | float | bool | list | None):
        text += f", and is {short(given)}" if isinstance(given, str) else f", not {short(given)}"
    return text


def _unknown_key(keys: list[str], here: Sections, chosen: tuple[str, str], union: Kinds) -> str:
    """Where a key stands now, or which kinds have it; else the nearest key that is known."""
    *path, key = keys
    moved = MOVED.get(".".join(keys))
    if moved and not any(key in m.model_fields for m in union.values()):
        return f"is {moved} now"
    inside = next((place for m in here if (place := _inside(key, m))), "")
    if inside:
        return f"stands in a section of its own: {'.'.join((*path, inside))}"
    having = {kind: place for kind, m in union.items() if (place := _inside(key, m))}
    if having:
        place = min(having.values())
        return (
            f"does nothing where {chosen[0]} is {chosen[1]}; it is for {chosen[0]} "
            f"{_either(having)}{'' if place == key else f', as {place}'}"
        )
    known = sorted({name for model in here for name in model.model_fields})
    return f"unknown key{nearest(key, known) or '; known here: ' + ', '.join(known)}"


def _inside(key: str, model: type[BaseModel]) -> str:
    """Where a model has a key, itself or in a section of it, as "networks.steps"; empty if nowhere."""
    if key in model.model_fields:
        return key
    inner = ((n, m) for n, f in model.model_fields.items() for m in sections(f.annotation))
    return next((f"{name}.{key}" for name, m in inner if key in m.model_fields), "")


def _either(words: Iterable[str]) -> str:
    """Words as "a, b or c"."""
    *head, last = words
    return f"{', '.join(head)} or {last}" if head else last
