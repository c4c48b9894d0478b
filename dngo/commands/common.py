"""Parts that several commands share."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo.errors import AlteredArchive, UserError

if TYPE_CHECKING:
    from dngo.exchange.foreign import Meaning
    from dngo.study import Study

SHOWN = 20  # rows that are left out and named


def add_study(command: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that only reads a study's archive."""
    command.add_argument(
        "study",
        nargs="?",
        default="config.yaml",
        help="a configuration, an archive.h5, or the folder of either; default: config.yaml",
    )
    command.add_argument("--results", help="folder of the studies, if not the configured one")


def archive_of(arguments: argparse.Namespace, *, as_it_is: bool = False) -> Path:
    """The archive that the arguments of `add_study` name. as_it_is: also if it was altered."""
    from dngo.locate import archive_at

    try:
        return archive_at(arguments.study, arguments.results)
    except AlteredArchive as error:
        if as_it_is:
            return error.path
        raise


def study_of(arguments: argparse.Namespace) -> Study:
    """The study that `config` and `--results` name, or else the arguments of `add_study`."""
    if "config" not in arguments:
        from dngo.api import open_study

        return open_study(arguments.study, results=arguments.results)._engine
    from dngo.locate import find_study

    overrides = {"results": arguments.results} if arguments.results else {}
    return find_study([arguments.config], overrides)


def page_at(path: str | None, title: str) -> AbstractContextManager[Path | None]:
    """A temporary path for a page that will be at `path`, None if there is no `path`.

    Raises UserError at once if it would replace anything but an earlier page with the same title.
    """
    if path is None:
        return nullcontext()
    from dngo.storage.files import handing_out_page

    return handing_out_page(Path(path), title)


def add_meaning(command: argparse.ArgumentParser) -> None:
    """Add the options that say what the columns of a file mean."""
    command.add_argument("--study", help="which of several Optuna studies in the file")
    command.add_argument(
        "--columns",
        default="",
        metavar="PATTERN",
        help="the parameters' columns in another program's table, for example 'params_*'",
    )
    command.add_argument(
        "--status", default="", metavar="COLUMN", help="its column of states, such as FINISHED"
    )
    command.add_argument(
        "--ignore",
        nargs="+",
        action="extend",
        default=[],
        metavar="COLUMN",
        help="columns of the file to leave out",
    )


def meaning_of(arguments: argparse.Namespace) -> Meaning:
    """What the options of `add_meaning` say, and --objective."""
    from dngo.exchange.foreign import Meaning

    return Meaning(
        getattr(arguments, "objective", "objective"),
        arguments.columns,
        arguments.status,
        arguments.study,
        arguments.ignore,
    )


def named_values(option: str, words: Sequence[str]) -> dict[str, str]:
    """The values of NAME=VALUE ...; raises UserError for other words, and for a repeated name."""
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise UserError(f"{option} {word}: must be NAME=VALUE")
        if name in values:
            raise UserError(
                f"{option} {word}: {name} is given twice; its first value was {values[name]!r}"
            )
        values[name] = value
    return values


def say_left_out(name: str, skipped: Mapping[str, str]) -> None:
    """Print on standard error what was left out of a file, and why. Each reason has one line."""
    places: dict[str, list[str]] = {}
    for place, why in skipped.items():
        places.setdefault(why, []).append(place)
    for i, (why, where) in enumerate(places.items()):
        if i == SHOWN:
            rest = sum(map(len, list(places.values())[SHOWN:]))
            print(f"... and {rest} more", file=sys.stderr)
            return
        which = f"{', '.join(where[:SHOWN])}{', ...' if len(where) > SHOWN else ''}"
        count = f" ({len(where)} in all)" if len(where) > 1 else ""
        print(f"{name}: {which}{count}: left out: {why}", file=sys.stderr)


def print_list(items: Iterable[Any]) -> None:
    """Print a list item by item, like `json.dumps` with an indent of 1."""
    between = "["
    for item in items:
        text = json.dumps(item, indent=1).replace("\n", "\n ")
        print(f"{between}\n {text}", end="")
        between = ","
    print("[]" if between == "[" else "\n]")


def finite(value: Any) -> Any:
    """The same data with null for NaN, since JSON has no NaN."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
