"""Options that benchmarks have in common: keys of the configuration, and published systems."""

from __future__ import annotations

import argparse
from typing import Any

import yaml
from pydantic import ValidationError

from dngo.config.presets import whole
from dngo.kinds import Kinds
from dngo.presets import PRESETS


def add_settings(parser: argparse.ArgumentParser, flag: str, section: str) -> None:
    """An option that takes keys of a section of the configuration, as often as it is given."""
    parser.add_argument(
        flag,
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help=f"keys of `{section}`",
    )


def add_preset(parser: argparse.ArgumentParser, **how: Any) -> None:
    """An option that takes a published system, by one word."""
    text = "a published system (docs/presets.md)"
    parser.add_argument("--preset", choices=PRESETS.names(), help=text, **how)


def of_preset(name: str | None, section: str) -> dict[str, Any]:
    """A section of a preset, as `settings_of` takes it; empty without one."""
    return {} if name is None else dict(whole(name)[section])


def settings_of(
    parser: argparse.ArgumentParser, kinds: Kinds, pairs: list[str], **otherwise: Any
) -> Any:
    """Settings by KEY=VALUE, over others; a mistake ends the program with a line."""
    given = dict(otherwise)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"{pair}: is to be KEY=VALUE")
        given[key] = yaml.safe_load(value)
    try:
        return kinds(**given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        parser.error("; ".join(wrong))
    except ValueError as error:
        parser.error(str(error))
