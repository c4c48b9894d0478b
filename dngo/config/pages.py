"""Pages that are generated from the configuration's model: its JSON schema, the page of all keys,
defaults.

A test compares each page with its file, and names the command that writes the file again.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML

from dngo.config.messages import sections, tag
from dngo.config.model import Config
from dngo.config.presets import MINIMAL, spread, whole

# The possible models of a section, each with the name of its kind.
Kinds = list[tuple[str, type[BaseModel]]]

HEAD = """# Every key of a study's configuration

Written by `dngo check --keys`: change the models in `dngo`, not this page. If a key has no default,
its description says what happens without it. `config.yaml` shows the keys in use.
"""
# The lines after it list the preset's keys. They are written again each time.
STANDS_FOR = "# ---- preset: "
# A key with a value, commented out or not, and its remark.
KEY = re.compile(
    r"^(?P<indent> *)(?P<mark># )?(?P<inner> *)(?P<key>\w+):(?P<value> .*?)?(?P<note> +#.*)?$"
)


def schema() -> str:
    """The JSON schema of `Config`, as `config.schema.json` holds it."""
    return json.dumps(Config.model_json_schema(), indent=2, sort_keys=True) + "\n"


def keys() -> str:
    """The page of all keys, section by section and kind by kind, as Markdown."""
    return "\n".join([HEAD, *_section("", [("", Config)])])


def _section(path: str, models: Kinds) -> Iterator[str]:
    """A heading, the kinds of a section, its keys, and the sections inside."""
    if path:
        yield f"## `{path}`\n"
        for model in dict.fromkeys(m for _, m in models):
            yield _head(model, [label for label, m in models if m is model])
        yield ""
    rows: dict[tuple[str, str], list[str]] = {}
    inner: dict[str, Kinds] = {}
    for label, model in models:
        properties = model.model_json_schema()["properties"]
        for name, field in model.model_fields.items():
            found = [(tag(m)[1] or label, m) for m in sections(field.annotation)]
            if found:
                known = inner.setdefault(name, [])
                known.extend(pair for pair in found if pair not in known)
            elif name != tag(model)[0]:
                rows.setdefault((name, _row(properties[name])), []).append(label)
    labels = [label for label, _ in models]
    of = any(labels)
    yield "| key | of | values | default | |" if of else "| key | values | default | |"
    yield "| --- | --- | --- | --- | --- |" if of else "| --- | --- | --- | --- |"
    for (name, row), having in rows.items():
        having = ["all"] if having == labels else having
        yield f"| `{name}` | {', '.join(having)} | {row} |" if of else f"| `{name}` | {row} |"
    yield ""
    for name, kinds in inner.items():
        yield from _section(f"{path}.{name}" if path else name, kinds)


def _head(model: type[BaseModel], labels: list[str]) -> str:
    """The description of a kind, or of a section that differs between kinds."""
    name, kind = tag(model)
    text = " ".join((model.__doc__ or "").split())
    if kind:
        return f"- **`{name}: {kind}`**: {text}"
    return f"- {', '.join(labels)}: {text}" if any(labels) else text


def _row(property: dict[str, Any]) -> str:
    default = f"`{_flow(property['default'])}`" if property.get("default") is not None else ""
    text = " ".join(property.get("description", "").split())
    return " | ".join((_values(property), default, text)).replace("\\|", "|")


def _values(property: dict[str, Any]) -> str:
    """The values that a key may have, from its JSON schema."""
    if "anyOf" in property:
        found = (_values(each) for each in property["anyOf"] if each.get("type") != "null")
        return " or ".join(dict.fromkeys(found))
    if "enum" in property:
        return ", ".join(f"`{value}`" for value in property["enum"])
    bounds = [
        f"{word} {property[name]:,.15g}"
        for name, word in (
            ("minimum", "≥"),
            ("exclusiveMinimum", ">"),
            ("maximum", "≤"),
            ("exclusiveMaximum", "<"),
        )
        if name in property
    ]
    words = {"array": "list", "object": "mapping", "string": "text", "boolean": "`true`, `false`"}
    kinds = property.get("type", "value")
    named = [str(words.get(k, k)) for k in (kinds if isinstance(kinds, list) else [kinds])]
    return " ".join((" or ".join(named), ", ".join(bounds))).strip()


# ---- defaults that are commented out ------------------------------------------------------------


def with_defaults(text: str) -> str:
    """A configuration file. Each key that is commented out shows its default.

    A comment counts as a key if the section around it has this key: `# retries: 2 # what it is`.
    With a preset, the defaults are its values, and all its keys follow at the end, as comments.
    """
    text = text.partition(STANDS_FOR)[0].rstrip() + "\n"
    preset = (YAML(typ="safe", pure=True).load(text) or {}).get("preset")
    chosen = {} if preset is None else {"preset": preset}
    defaults = Config.model_validate(spread(MINIMAL | chosen)).model_dump(mode="json")
    lines: list[str] = []
    path: list[tuple[int, Any]] = [(-1, defaults | {"preset": None})]
    for line in text.splitlines():
        found = KEY.match(line)
        if found:
            column = len(found["indent"]) + len(found["inner"])
            while path[-1][0] >= column:
                path.pop()
            section = path[-1][1]
            if isinstance(section, dict) and found["key"] in section:
                value = section[found["key"]]
                path.append((column, value))
                if found["mark"] and found["value"]:
                    line = _shown(found, value)
            elif not found["mark"]:
                path.append((column, None))
        lines.append(line)
    return "\n".join([*lines, *(_stands_for(preset) if preset is not None else ())]) + "\n"


def _stands_for(preset: str) -> list[str]:
    """The keys of a preset as comments, section by section."""
    stream = io.StringIO()
    yaml = YAML()
    yaml.representer.add_representer(
        type(None),
        lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null"),
    )
    yaml.dump(whole(preset), stream)
    head = f"{STANDS_FOR}{preset} "
    return ["", head.ljust(100, "-"), "", *(f"# {line}" for line in stream.getvalue().splitlines())]


def _shown(found: re.Match[str], value: Any) -> str:
    """A commented key with its default. Its remark stays in its column."""
    line = f"{found['indent']}# {found['inner']}{found['key']}: {_flow(value)}"
    note = (found["note"] or "").lstrip()
    column = found.end() - len(note) if note else 0
    return f"{line.ljust(column - 1)} {note}".rstrip()


def _flow(value: Any) -> str:
    """A value as YAML on one line."""
    return as_yaml(value, flow=True, width=10_000).removesuffix("\n").removesuffix("\n...")


def as_yaml(document: Any, *, flow: bool | None = False, width: int = 80) -> str:
    """Plain data as YAML. flow: all on one line; None: only what is innermost."""
    stream, yaml = io.StringIO(), YAML()
    yaml.default_flow_style, yaml.width = flow, width
    yaml.dump(document, stream)
    return stream.getvalue()
