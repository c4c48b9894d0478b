"""How another reader understands a configuration: Snakemake reads a workflow's files as YAML 1.1.

There, `no` is false, `010` is 8, `1:30` is 90 and `1e-3` is text. In a study's own file, YAML 1.2,
the first three are words, and `1e-3` is a number. If a study is a module, it gets what Snakemake
has read. If the two readers differ about a number, it counts as the study's own file would read it.
Any other difference is refused, with a message that says what to write.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo.config.messages import short, shown
from dngo.config.model import Config
from dngo.config.reading import validate
from dngo.errors import UserError

if TYPE_CHECKING:
    from yaml.nodes import Node

Keys = tuple[Any, ...]
MISSING = object()


@dataclass(frozen=True)
class Twofold:
    """A word in a file to which the two readers give different values.

    keys: its place in the document; if the word is a key, it comes last.
    """

    place: str
    keys: Keys
    word: str
    is_key: bool
    old: Any
    new: Any

    @property
    def is_number(self) -> bool:
        """Whether it is a number that the old reader reads as text."""
        return isinstance(self.old, str) and isinstance(self.new, int | float)


def as_meant(document: Mapping[str, Any], files: Sequence[str | Path]) -> Mapping[str, Any]:
    """A study's configuration as Snakemake has read it, but with the values that the study itself
    would read.

    files: the files from which it may come.
    Raises UserError, one line, for a word that has another value in the study.
    """
    found = [each for file in files for each in _twofold(Path(file), document)]
    if not found:
        return document
    base = _with_numbers(document, [each for each in found if each.is_number])
    words = [each for each in found if not each.is_number]
    other = _with(base, words)
    old, new = _valid(base), _valid(other)
    if old is not None and old != new:
        for each in words:
            if new is None or _differ(old, new, each):
                key = ".".join(short(str(k)) for k in each.keys)
                raise UserError(
                    f"{each.place}: {key}: {each.word} is {shown(each.old)} to Snakemake, which reads YAML "
                    f"1.1; write {shown(each.old)}, or {each.word!r} in quotes if it is a word"
                )
    return base if new is None else other


def _with_numbers(document: Mapping[str, Any], numbers: list[Twofold]) -> Mapping[str, Any]:
    """The document with numbers instead of text wherever a number is allowed."""
    every = _with(document, numbers)
    if _valid(every) is not None or _valid(document) is None:
        return every
    for each in numbers:  # one of them is in a place for text, such as `environment`
        one = _with(document, [each])
        document = document if _valid(one) is None else one
    return document


def _with(document: Mapping[str, Any], found: list[Twofold]) -> dict[str, Any]:
    """A copy with the new reader's values instead of the old reader's."""
    made = copy.deepcopy(dict(document))
    for each in sorted(found, key=lambda each: (each.is_key, -len(each.keys))):
        inside = _at(made, each.keys[:-1])
        if each.is_key:
            # Keep the key's place, since people see the order of the parameters.
            renamed = {each.new if _same(k, each.old) else k: v for k, v in inside.items()}
            inside.clear()
            inside.update(renamed)
        else:
            inside[each.keys[-1]] = each.new
    return made


def _differ(old: Config, new: Config, each: Twofold) -> bool:
    """Whether two configurations have different values in a word's place."""
    before, after = (_at(config.model_dump(), each.keys) for config in (old, new))
    return before is MISSING or after is MISSING or before != after


def _valid(document: Mapping[str, Any]) -> Config | None:
    try:
        return validate(document)
    except UserError:
        return None


def _twofold(file: Path, document: Mapping[str, Any]) -> Iterator[Twofold]:
    """The words of a file that are in the document and that the two readers read differently."""
    import yaml
    from ruamel.yaml import YAML, YAMLError

    new_reader = YAML(typ="safe", pure=True)
    try:
        root = yaml.compose(file.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return  # Snakemake has read something else
    for path, node, is_key in _plain(root, ()):
        # The document may be a section of the file. Then the path begins later.
        rests = [path[n:] for n in range(len(path)) if _at(document, path[n:]) is not MISSING]
        if not rests:
            continue
        try:
            old, new = yaml.safe_load(node.value), new_reader.load(node.value)
        except (YAMLError, yaml.YAMLError, ValueError):
            continue
        here = (keys for keys in rests if is_key or _same(_at(document, keys), old))
        keys = next(here, None)
        if keys and not _same(old, new):
            place = f"{file}:{node.start_mark.line + 1}"
            yield Twofold(place, keys, node.value, is_key, old, new)


def _plain(node: Node | None, path: Keys) -> Iterator[tuple[Keys, Any, bool]]:
    """The words without quotes below a node, with their keys, and whether each is a key itself."""
    import yaml

    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag.endswith(":merge"):
                yield from _plain(value, path)
            elif isinstance(key, yaml.ScalarNode):
                is_text = key.style or key.tag.endswith(":str")
                name = key.value if is_text else yaml.safe_load(key.value)
                if not is_text:
                    yield (*path, name), key, True
                yield from _plain(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield from _plain(value, (*path, i))
    elif isinstance(node, yaml.ScalarNode) and not node.style:
        yield path, node, False


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _at(document: Any, keys: Keys) -> Any:
    for key in keys:
        listed = isinstance(document, list) and isinstance(key, int) and key < len(document)
        if not listed and not (isinstance(document, Mapping) and key in document):
            return MISSING
        document = document[key]
    return document
