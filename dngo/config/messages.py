"""Explains what is wrong with a configuration: where, which key, and what would be right."""

from __future__ import annotations

import datetime
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core.core_schema import ErrorType

from dngo.config.upgrade import MOVED
from dngo.storage.text import visible

Lines = dict[tuple[str, ...], str]  # "file:line" of each key, by the path of keys to it
Sections = list[type[BaseModel]]
# The possible types of a place, by the kind of the section around it.
Kinds = dict[str, type[BaseModel]]

ENDS = ("bounds", "range", "limits", "interval")  # of a parameter, elsewhere in one key
# Common names for things that have another name here.
OTHER_NAMES = {
    "float": "uniform range real double number numeric continuous loguniform log_uniform normal",
    "int": "integer whole discrete randint quniform",
    "categorical": "choice choices category categories enum options select",
    "boolean": "bool flag switch",
    "fixed": "constant const",
    "ordinal": "ordered",
    "low": "min minimum lower lb bounds range interval",
    "high": "max maximum upper ub",
    "choices": "options categories items",
    "log": "scale log_scale logscale",
    "default": "initial init start",
    "time_limit": "timeout walltime",
    "space": "parameters params bounds search_space",
    "command": "cmd run script shell program executable",
    "direction": "goal mode sense metric minimize maximize",
    "acquisition": "method algorithm strategy optimizer",
    "points_at_once": "parallel n_jobs workers max_parallel concurrency",
    "iterations": "n_iter rounds n_trials num_trials max_trials max_evals n_calls budget",
    "batch_size": "n_points batch q",
    "design": "n_startup_trials n_initial_points n_init initial_design",
    "objective": "loss value score result cost metric fitness function",
    "lcb": "ucb",
    "mcei": "ei qei logei qlogei qnei qlognei",
    "active_if": "condition conditions when depends_on parent",
    "early_stopping": "pruner pruning stopper",
    "resources": "slurm sbatch partition account queue",
    "thompson": "ts",
    "gp": "gaussian_process",
    "status": "state",
}
ALL_FIXED = (
    "every parameter is fixed: there is nothing to search; a range is {type: float, low: 0, high: 1}, "
    "in Python (0, 1)"
)
# How mappings are written, for those who write a list.
MAPPINGS = {
    "objectives": "{error: minimize, speed: maximize}",
    "space": "{x: {type: float, low: 0, high: 1}}",
}
# What a place must hold, by pydantic's type of the error.
WANTED: dict[str, Callable[[Mapping[str, Any]], str]] = {
    **dict.fromkeys(("string_type", "string_sub_type", "string_unicode"), lambda c: "text"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), lambda c: "an integer"),
    "int_parsing_size": lambda c: "an integer of fewer digits",
    **dict.fromkeys(("float_type", "float_parsing"), lambda c: "a number"),
    "finite_number": lambda c: "a finite number",
    **dict.fromkeys(("bool_type", "bool_parsing"), lambda c: "true or false"),
    "list_type": lambda c: "a list",
    **dict.fromkeys(
        ("dict_type", "mapping_type", "model_type", "model_attributes_type"),
        lambda c: "a mapping of keys to values",
    ),
    "literal_error": lambda c: _one_of(_quoted(c["expected"])),
    "greater_than": lambda c: f"greater than {as_yaml(c['gt'])}",
    "greater_than_equal": lambda c: f"{as_yaml(c['ge'])} or greater",
    "less_than": lambda c: f"less than {as_yaml(c['lt'])}",
    "less_than_equal": lambda c: f"{as_yaml(c['le'])} or less",
}
UNKNOWN = ("extra_forbidden", "invalid_key")  # errors whose place ends with the unknown key


class Located(ValueError):
    """A mistake between keys. It has the path of the key that should change."""

    def __init__(self, loc: tuple[str, ...], message: str):
        super().__init__(message)
        self.loc = loc


@dataclass
class _Mistake:
    """One wrong place, with all errors from pydantic: one for each type that the place may have.

    here: the sections that it may hold.
    chosen: the tag of the section around it.
    union: the types that each kind of that section has there.
    """

    keys: list[str]
    here: Sections
    chosen: tuple[str, str]
    union: Kinds
    items: list[Any] = field(default_factory=list)

    @property
    def of_a_type(self) -> bool:
        """Whether only the type of the value is wrong."""
        return all(item["type"] in WANTED and "[key]" not in item["loc"] for item in self.items)


def short(value: Any, limit: int = 60) -> str:
    """A value for a message: one line of bounded length, without control characters."""
    text = value if isinstance(value, str) else repr(value)
    text = visible(" ".join(text[: 4 * limit].split()))
    return text if len(text) <= limit else text[:limit] + "..."


def nearest(word: str, known: Iterable[Any]) -> str:
    """A question with the known word that was probably meant; empty if no word is near."""
    words = [str(k) for k in known]
    meant = [k for k in words if word.lower() in OTHER_NAMES.get(k, "").split()]
    same = [k for k in words if word.lower() == k.lower()]
    close = meant or same or difflib.get_close_matches(word[:100], words, n=1, cutoff=0.5)
    log = " with log: true" if meant == ["float"] and "log" in word.lower() else ""
    return f"; did you mean {close[0]!r}{log}?" if close else ""


def threshold_form(text: str) -> str:
    """How to write a constraint that was written as text, "ok <= 3"; empty for other texts."""
    found = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*([<>])=?\s*(\S+)\s*", text)
    return f'{{{found[1]}: "{found[2]}= {found[3]}"}}' if found else ""


def explain(error: ValidationError, root: type[BaseModel], lines: Lines, source: str) -> list[str]:
    """One line for each mistake: file and line, key, what would be right.

    root: the model that was validated.
    lines: the place of each key.
    source: the file, for keys without a place.
    """
    mistakes: dict[tuple[str, ...], _Mistake] = {}
    for item in error.errors(include_url=False):
        cause = (item.get("ctx") or {}).get("error")
        if isinstance(cause, Located):
            mistake = _Mistake(list(cause.loc), [], ("", ""), {})
        else:
            mistake = _placed(item["loc"], root, unknown=item["type"] in UNKNOWN)
        mistakes.setdefault(tuple(mistake.keys), mistake).items.append(item)
    found = set()
    for path, mistake in mistakes.items():
        if mistake.of_a_type and any(k[: len(path)] == path and k != path for k in mistakes):
            continue  # another possible type fits, except for a value inside it
        place = place_of(path, lines, source)
        name = ".".join(short(k) for k in path) or "configuration"
        found.add((_order(place), f"{place}: {name}: {_message(mistake)}"))
    return [line for _, line in sorted(found)]


def first_of(error: ValidationError) -> str:
    """The first mistake in a document that is no configuration: its place, and what is wrong."""
    item = error.errors(include_url=False)[0]
    keys = [str(part) for part in item["loc"]]
    return f"{'.'.join(keys)}: {_message(_Mistake(keys, [], ('', ''), {}, [item]))}"


def place_of(key: tuple[str, ...], lines: Lines, source: str) -> str:
    """The place of a key, or of the nearest section around it."""
    known = (key[:n] for n in range(len(key), -1, -1))
    return next((lines[k] for k in known if k in lines), source)


def _order(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return (file, int(line)) if line.isdecimal() else (place, 0)


def tag(section: type[BaseModel]) -> tuple[str, str]:
    """The key that distinguishes a section from others in its place, such as ("kind", "gp").

    Two empty words if there is no such key.
    """
    for name in ("kind", "type"):
        field = section.model_fields.get(name)
        if field is not None and len(get_args(field.annotation)) == 1:
            return name, get_args(field.annotation)[0]
    return "", ""


def sections(annotation: Any) -> Sections:
    """The models that a field of this annotation may hold, also as values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in sections(part)]


def _placed(loc: tuple[Any, ...], root: type[BaseModel], *, unknown: bool) -> _Mistake:
    """The mistake at one of pydantic's places. Such a place also names the branch of each union.

    unknown: whether no section has the last key.
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
        elif part.startswith("dict["):
            mapping = True  # of the types that the key may have
        elif here and re.fullmatch(r"(?!(str|int|float|bool)$)\w+", part):
            keys.append(part)  # of a kind from another package
    keys += [str(p) for p in loc[-1:]] if unknown else []
    return _Mistake(keys, here, chosen, union)


def _message(mistake: _Mistake) -> str:
    """What is wrong in one place, and what would be right."""
    item = mistake.items[0]
    keys_are_names = mistake.keys[:1] in (["space"], ["constraints"])
    kind, context, given = item["type"], item.get("ctx") or {}, item.get("input")
    if isinstance(given, datetime.date):
        return f"{given.isoformat()} is a date in YAML; write it in quotes if it is a word"
    if isinstance(context.get("error"), Exception):
        return str(context["error"])
    if kind in UNKNOWN:
        return _unknown_key(mistake)
    if kind == "missing":
        return "is missing and must be given"
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _wrong_tag(mistake, context["discriminator"].strip("'"), context.get("tag"))
    if kind == "model_type" and ".".join(mistake.keys) in MOVED:
        return f"is a section now; what it was is {MOVED['.'.join(mistake.keys)]} now"
    if kind == "string_pattern_mismatch" or ("[key]" in item["loc"] and keys_are_names):
        return _wrong_name(mistake.keys, given, is_key="[key]" in item["loc"])
    if kind in ("too_short", "string_too_short"):
        return _too_few(mistake.keys, context["min_length"], given)
    if kind in ("too_long", "string_too_long"):
        return f"has {len(given)} items, but may have at most {context['max_length']}"
    wanted = [i for i in mistake.items if i["type"] in WANTED]
    if wanted:
        return _unlike(mistake, wanted, given)
    of_pydantic = get_args(ErrorType)
    return f"cannot be {shown(given)}" if kind in of_pydantic else str(item["msg"])


def _unlike(mistake: _Mistake, items: list[Any], given: Any) -> str:
    """What a value must be, and how to write it if only the form is wrong."""
    kinds = {item["type"] for item in items}
    wanted = list(dict.fromkeys(WANTED[i["type"]](i.get("ctx") or {}) for i in items))
    if "model_attributes_type" in kinds:
        wanted = ["a mapping with a type, as {type: float, low: 0, high: 1}"]
    must = (
        f"must be {', or '.join(wanted) if any(' or ' in w for w in wanted) else _either(wanted)}"
    )
    if given is None:
        word = "; null and ~ are words in quotes" if "string_type" in kinds else ""
        return f"is empty, but {must}{word}"
    hint = ""
    if "literal_error" in kinds:
        expected = [i["ctx"]["expected"] for i in items if i["type"] == "literal_error"]
        hint = nearest(str(given), _quoted(" ".join(expected)))
    elif "model_type" in kinds and mistake.here and isinstance(given, str | int | float):
        kind, first = tag(mistake.here[0])[0], next(iter(mistake.here[0].model_fields))
        must = (
            f"must be a kind, or {wanted[0]}"
            if kind
            else f"{must}, as {{{first}: {as_yaml(given)}}}"
        )
    elif "list_type" in kinds and isinstance(given, str | int | float):
        hint = f"; a list of one is [{short(given)}]"
    elif kinds == {"string_type"} and isinstance(given, str | int | float):
        hint = f"; in quotes it is text: {as_yaml(given)!r}"
    elif isinstance(given, str) and re.match(r"\s*[\d.]+\s*[A-Za-z]+\s*$", given):
        hint = "; leave out the unit"
    if isinstance(given, list) and (right := MAPPINGS.get(".".join(mistake.keys))):
        must = f"{must}, as {right}"
    if mistake.keys[-1:] == ["time_limit"] and isinstance(given, str):
        hint = "; write seconds, without a unit"
    return f"{must}, not {shown(given)}{hint}"


def _wrong_tag(mistake: _Mistake, name: str, given: Any) -> str:
    """The message for a section without a kind, or with an unknown one."""
    kinds = [tag(m)[1] for m in mistake.here]
    if given is None or given == "None":
        return f"needs a {name}: {_either(kinds)}"
    return f"{name} must be {_one_of(kinds)}, not {short(given)}{nearest(str(given), kinds)}"


def _wrong_name(keys: list[str], given: Any, *, is_key: bool) -> str:
    """How to write a name, if it has characters that are not allowed."""
    if is_key and threshold_form(keys[-1]):
        return (
            f"a constraint with a threshold is written {threshold_form(keys[-1])}; what parameters must "
            "keep stands in space_constraints"
        )
    if is_key:
        return (
            "a name has letters, digits and _, does not start with a digit, and has at most 64 "
            "characters"
        )
    if keys == ["study"]:
        return "a name has letters, digits, '_', '.' and '-', at most 100 characters"
    if keys[-1] == "callable":
        module, _, function = str(given).rpartition(":")
        dotted = module.removesuffix(".py").strip("./").replace("/", ".")
        right = f"{dotted}:{function}"
        hint = f"; did you mean {right!r}?" if re.fullmatch(r"[\w.]+:\w+", right) else ""
        return f"must be module:function, not {shown(given)}{hint}"
    return (
        "must be duration, or the name of a number that the objective reports in its metadata (letters, "
        f"digits and _), not {shown(given)}"
    )


def _too_few(keys: list[str], least: int, given: Any) -> str:
    if isinstance(given, list) and len(given) == 1:
        return f"needs at least {least} values; for one write {{type: fixed, value: {as_yaml(given[0])}}}"
    if least == 1:
        return "is empty; " + ("name a parameter" if keys == ["space"] else "give it a value")
    return f"needs at least {least} values, but has {len(given)}"


def _unknown_key(mistake: _Mistake) -> str:
    """The current place of a key, or the kinds that have it; otherwise the nearest known key."""
    (*path, key), here, chosen, union = mistake.keys, mistake.here, mistake.chosen, mistake.union
    moved = MOVED.get(".".join(mistake.keys))
    if moved and not any(key in m.model_fields for m in union.values()):
        return f"is {moved} now"
    inside = next((place for m in here if (place := _inside(key, m))), "")
    if inside:
        return f"belongs to another section: {'.'.join((*path, inside))}"
    having = {kind: place for kind, m in union.items() if (place := _inside(key, m))}
    if having:
        place = min(having.values())
        return (
            f"does nothing where {chosen[0]} is {chosen[1]}; it is for {chosen[0]} "
            f"{_either(having)}{'' if place == key else f', as {place}'}"
        )
    if key.isdecimal():
        return "unknown key; is this a decimal comma? Numbers have a point, as 0.5"
    known = sorted({name for model in here for name in model.model_fields})
    if key in ENDS and {"low", "high"} <= set(known):
        return "unknown key; write low: 0 and high: 1"
    return f"unknown key{nearest(key, known) or '; known here: ' + ', '.join(known)}"


def _inside(key: str, model: type[BaseModel]) -> str:
    """Where a model or one of its sections has a key, such as "networks.steps"; empty if nowhere."""
    if key in model.model_fields:
        return key
    inner = ((n, m) for n, f in model.model_fields.items() for m in sections(f.annotation))
    return next((f"{name}.{key}" for name, m in inner if key in m.model_fields), "")


# ---- words --------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A value for a message: text in quotes, other values as in YAML."""
    if isinstance(value, str):
        return repr(short(value))
    if isinstance(value, Mapping):
        return "a mapping of keys to values"
    if isinstance(value, bool | int | float | list) or value is None:
        return as_yaml(value)
    return f"a value of type {type(value).__name__}"


def as_yaml(value: Any) -> str:
    """A value as in YAML, on one line of bounded length; text is not quoted."""
    return short(_yaml(value))


def _yaml(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_yaml(each) for each in value[:100])}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _quoted(expected: str) -> list[str]:
    """The words in pydantic's list "'a', 'b' or 'c'"."""
    return re.findall(r"'([^']*)'", expected)


def _one_of(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"one of {', '.join(words)}"


def _either(words: Iterable[str]) -> str:
    """Words as "a, b or c"."""
    *head, last = words
    return f"{', '.join(head)} or {last}" if head else last
