"""From YAML files and the command line to a `Config`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from dngo.config.exposure import exposures
from dngo.config.messages import Lines, explain, nearest, place_of, short, shown
from dngo.config.model import Config
from dngo.config.paths import from_folder
from dngo.config.placeholders import KNOWN, misplaced, names, shell_variables, words_of
from dngo.config.presets import merge, missing, spread
from dngo.errors import UserError
from dngo.objects import Reference, trust
from dngo.space.parameters import ARCHIVED
from dngo.storage.files import is_hdf5
from dngo.storage.text import number_in

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

MAX_NODES, MAX_DEPTH = 100_000, 200
PROGRAMS = (".py", ".ipynb", ".sh", ".R", ".jl", ".m")
# What the YAML reader says, and what the user can do.
CURES = {
    r"'\\t'": "begin lines with spaces, never with a tab",
    r"character '(.)' that cannot start": r"a word that begins with \1 must stand in quotes",
    "mapping values are not allowed": "a text with a colon and a space in it must stand in quotes",
    "could not find expected ':'": "an earlier line has no `key: value` with a space after the colon",
    "unexpected end of stream": "a quote is opened and not closed",
    "expected <block end>": "this line is not indented like the lines around it",
    "for the tag '!": "a word that begins with ! must stand in quotes",
    "(undefined alias .*)": r"\1: a word that begins with * must stand in quotes",
    "expected ',' or": "a bracket is opened and not closed",
}


def load(
    paths: Sequence[str | Path],
    overrides: Mapping[str, Any] | None = None,
    *,
    place: str = "--config",
) -> Config:
    """Read, merge and validate configuration files; later ones override earlier ones.

    overrides: values that replace those of the files;
    place: where they come from, for errors. Relative paths become relative to the current folder:
    `results` lies beside the first file, unless it is an override.
    Raises UserError with one line for each mistake: file, line, key, what would be right.
    """
    merged: dict[str, Any] = {}
    lines: Lines = {}
    for path in paths:
        data, places = _read(Path(path))
        merge(merged, data)
        lines.update(places)
    if overrides:
        merge(merged, overrides)
        for key in overrides:
            lines[(key,)] = place
    source = str(paths[0]) if paths else place
    config = resolved(merged, lines=lines, source=source)
    check_placeholders(config, lines, source)
    # What a user's own file names may be imported; what an archive names may not.
    for section in (config.surrogate, config.acquisition):
        if isinstance(section, Reference):
            trust(section)
    folder = Path(paths[0]).parent if paths else Path()
    return from_folder(config, folder, lines, source, typed="results" in (overrides or {}))


def resolved(document: Mapping[str, Any], *, lines: Lines | None = None, source: str) -> Config:
    """A `Config` from what a user wrote, whose preset stands for the keys that it sets.

    lines, source: as in `validate`. Raises UserError with one line for each mistake.
    """
    for key, what in missing(document).items():
        place = place_of(("preset",), lines or {}, source)
        raise UserError(f"{place}: preset: {document['preset']} needs the key {key}: {what}")
    config = validate(spread(document), lines=lines, source=source)
    if config.acquisition.missing_package:
        place = place_of(("acquisition",), lines or {}, source)
        raise UserError(f"{place}: acquisition.sampler: {config.acquisition.missing_package}")
    config._exposed = exposures(config, lines or {}, source)
    return config


def validate(
    data: Any,
    *,
    lines: Lines | None = None,
    source: str = "configuration",
    is_archived: bool = False,
) -> Config:
    """A `Config` from plain data. `lines` has the place of each key, for errors.

    is_archived: the data come from an archive. Its space may be one that a new configuration must
    not have.
    Raises UserError with one line for each mistake.
    """
    try:
        config = Config.model_validate(data, context=ARCHIVED if is_archived else None)
    except ValidationError as error:
        raise UserError("\n".join(explain(error, Config, lines or {}, source))) from None
    if mistaken := [
        f"{place_of(key, lines or {}, source)}: {'.'.join(map(short, key))}: must be a number, not "
        f"{shown(value)}"
        for key, value in _counted(data, config.model_dump(), ())
    ]:
        raise UserError("\n".join(mistaken))
    return config


def _counted(given: Any, found: Any, key: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Values in a document that only look like numbers, by their keys: true, and '1_000'."""
    word = isinstance(given, str) and not isinstance(found, bool) and number_in(given) is None
    if isinstance(found, int | float) and (
        word or (isinstance(given, bool) and given is not found)
    ):
        yield key, given
    elif isinstance(given, Mapping) and isinstance(found, Mapping):
        for name in (n for n in given if n in found):
            yield from _counted(given[name], found[name], (*key, str(name)))
    elif isinstance(given, list) and isinstance(found, list):
        for i, pair in enumerate(zip(given, found, strict=False)):
            yield from _counted(*pair, (*key, str(i)))


def with_line(error: UserError, path: str | Path) -> UserError:
    """The same error. Each line gets the file and the line of its key."""
    places = _read(Path(path))[1]

    def placed(line: str) -> str:
        found = re.match(r"(objective|needs|transfer|space|constraints)(\.\w+)*(?=: )", line)
        key = tuple(found[0].split(".")) if found else ()
        return f"{place_of(key, places, str(path))}: {line}" if found else line

    return UserError("\n".join(placed(line) for line in str(error).splitlines()))


def check_placeholders(config: Config, lines: Lines, source: str) -> None:
    """Raise UserError if a placeholder of the command is not a parameter, or is a shell's variable.

    It also raises UserError for an option in brackets that could not be left out.
    """
    command = config.objective.command
    place = f"{place_of(('objective', 'command'), lines, source)}: objective.command"
    try:
        words = words_of(command or [])
    except ValueError:
        raise UserError(
            f"{place}: a quote is opened and not closed; give a list of words"
        ) from None
    if wrong := misplaced(words):
        raise UserError(f"{place}: {wrong}")
    known = [*config.space, *sorted(KNOWN)]
    for word in words:
        for name in names(word):
            if name not in known:
                like = [other for other in known if len(other) < 2 * len(name)]
                raise UserError(
                    f"{place}: {{{name}}} is not a parameter"
                    f"{nearest(name, like) or '; known: ' + ', '.join(known)}; "
                    f"{{{{{name}}}}} leaves {{{name}}} to the program"
                )
        for name in shell_variables(word):
            raise UserError(
                f"{place}: ${{{name}}} would be $ and the value of {name}; write {{{name}}} "
                f"for the value alone, or ${{{{{name}}}}} for a shell's variable"
            )


def _read(path: Path) -> tuple[dict[str, Any], Lines]:
    """The mapping in a YAML 1.2 file, and the lines of its keys.

    There, 1e-3 is a number and `no` a word.
    """
    from ruamel.yaml import YAML, YAMLError  # a job of a study reads no YAML

    if path.suffix in PROGRAMS:
        raise UserError(f"{path}: is a program; `dngo init` writes a configuration that names it")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UserError(
            f"{path}: there is no such file; name the configuration, or let `dngo init` write one"
        ) from None
    except IsADirectoryError:
        raise UserError(
            f"{path}: is a folder; name the configuration in it (a study that was begun in Python goes on "
            "by the same call there)"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        if is_hdf5(path):
            raise UserError(f"{path}: is an archive; name the study's configuration") from None
        raise UserError(f"{path}: cannot be read as text ({error})") from None
    # The reader's time grows with the square of the depth.
    steps = (1 if sign in "[{" else -1 for sign in re.findall(r"[][{}]", text))
    if max(accumulate(steps), default=0) > MAX_DEPTH:
        raise UserError(
            f"{path}: has brackets in more than {MAX_DEPTH} others; not a usable configuration"
        )
    yaml = YAML(typ="safe", pure=True)
    lines: Lines = {}
    try:
        node = yaml.compose(text)
        data = None
        if node is not None:
            _index_lines(node, (), path, lines, [MAX_NODES])
            data = yaml.constructor.construct_document(node)
    except YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise UserError(f"{place}: not valid YAML: {_in_words(problem)}") from None
    except (RecursionError, ValueError, KeyError) as error:
        raise UserError(f"{path}: {short(str(error), 120)}; not a usable configuration") from None
    if not isinstance(data, dict):
        kind = "empty" if data is None else "a list" if isinstance(data, list) else "text"
        raise UserError(f"{path}: must be a mapping of keys to values, but is {kind}")
    return data, lines


def _in_words(problem: str) -> str:
    """The YAML reader's complaint, and what would be right, if that is known."""
    for said, cure in CURES.items():
        if found := re.search(said, problem):
            return short(found.expand(cure), 120)
    return short(problem, 120)


def _check_word(node: Node, key: tuple[str, ...], path: Path) -> None:
    """Refuse words that YAML reads as a type that no key uses."""
    meaning = {"timestamp": "a date", "value": "a sign of its own", "merge": "a sign of its own"}
    kind = str(node.tag).rpartition(":")[2]
    found, right = (meaning.get(kind) if isinstance(node.value, str) else None), ""
    # YAML 1.1, YAML 1.2 and Python read these words differently.
    if kind in ("int", "float") and re.match(r"[+-]?0[0-9]|.*_", node.value):
        plain = re.sub(r"(?<![0-9.])0+(?=[0-9])", "", node.value.replace("_", ""))
        found, right = "a number", f"; write {plain} if it is meant to be one"
    if found:
        place = f"{path}:{node.start_mark.line + 1}: {'.'.join(map(short, key)) or 'configuration'}"
        raise UserError(
            f"{place}: {short(node.value)} is {found} in YAML; write it in quotes if it is "
            f"a word{right}"
        )


def _index_lines(
    node: Node, key: tuple[str, ...], path: Path, lines: Lines, budget: list[int]
) -> None:
    """Note the line of every key. A repeated key, or a flood of aliases, is an error."""
    budget[0] -= 1
    if budget[0] < 0:
        raise UserError(f"{path}: has more than {MAX_NODES} nodes; not a usable configuration")
    _check_word(node, key, path)
    lines.setdefault(key, f"{path}:{node.start_mark.line + 1}")
    for i, item in enumerate(node.value if isinstance(node.value, list) else ()):
        if not isinstance(item, tuple):  # of a sequence
            _index_lines(item, (*key, str(i)), path, lines, budget)
            continue
        name, value = (*key, str(item[0].value)), item[1]
        place = f"{path}:{item[0].start_mark.line + 1}"
        if not isinstance(item[0].value, str):
            raise UserError(f"{place}: a key must be a word; write it in quotes if it is one")
        if not (_merges(item[0]) and isinstance(value.value, list)):
            _check_word(item[0], key, path)
        if name in lines:
            inside = ".".join(short(part) for part in name)
            raise UserError(f"{place}: {inside}: this key is given twice; remove one of them")
        lines[name] = place
        _index_lines(value, name, path, lines, budget)


def _merges(key: Node) -> bool:
    """Whether a key is `<<`, which inserts the keys of another mapping."""
    return str(key.tag).endswith(":merge")
