"""`dngo fork`: begins a study of a changed space, or of another name, with an old study's evaluations."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo import archive
from dngo.commands.common import named_values, say_left_out, study_of
from dngo.errors import UserError

if TYPE_CHECKING:
    from dngo.study import Study


def register(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "fork", help="begin a study of a changed space with the evaluations of an old one"
    )
    command.add_argument(
        "old",
        metavar="OLD",
        help="the old study's configuration, its archive, or the folder of either",
    )
    command.add_argument(
        "--config", help="the configuration of the new study, which must have another name"
    )
    command.add_argument(
        "--name",
        help="instead of a configuration: the name of a study that differs in nothing else, in the "
        "folder of the old one or in RESULTS",
    )
    command.add_argument("--results", help="folder of the studies, if not the configured one")
    command.add_argument(
        "--with",
        nargs="+",
        action="extend",
        default=[],
        dest="values",
        metavar="NAME=VALUE",
        help="the value of a new parameter at all earlier points; default: what their metadata say, or "
        "else the parameter's default",
    )
    command.add_argument(
        "--objective",
        default="",
        metavar="NAME",
        help="among several objectives, the name of the one that the old study has without a name",
    )
    command.set_defaults(run=_fork)


def _fork(arguments: argparse.Namespace) -> int:
    from dngo.exchange.fork import fork
    from dngo.locate import archive_at

    if (arguments.config is None) == (arguments.name is None):
        raise UserError("fork: give --config FILE or --name NAME: one of them says what is begun")
    old = archive_at(arguments.old)
    study = study_of(arguments) if arguments.config else _renamed(old, arguments)
    found = fork(study, old, named_values("--with", arguments.values), arguments.objective)
    say_left_out(str(old), found.skipped)
    counts = ", ".join(f"{n} {status}" for status, n in found.outcomes.items())
    print(f"{study.archive}: iteration 0 is {old}: {counts}; {len(found.skipped)} left out")
    if found.said:
        print(found.said)
    for name, n in found.unknown.items():
        print(f"constraints.{name}: is unknown for {n} of them; they count as if it held")
    if list((old.parent / "pending").glob("*/proposals.json")):
        print(
            f"{old.parent}: has a batch in flight, which was not taken along; end its run "
            "first, or `dngo tell` the new study its outcomes later"
        )
    _say_waiting(old)
    if arguments.config:
        print(f"Go on with: dngo run {arguments.config}")
    else:
        where = f", folder={arguments.results!r}" if arguments.results else ""
        print(
            f"Go on from Python with name={arguments.name!r}{where}, for example in dngo.minimize"
        )
    return 0


def _say_waiting(old: Path) -> None:
    """Print what people entered into the old study that no batch has taken in yet."""
    from dngo.study.paths import Paths

    waiting, taken = Paths(old.parent).waiting, archive.read_entered(old)
    left = [entry for entry in waiting.read() if entry.name not in taken]
    told = sum(entry.outcome is not None for entry in left)
    points = len(left) - told
    parts = [f"{points} point{'s' * (points > 1)} to evaluate"] if points else []
    parts += [f"{told} told outcome{'s' * (told > 1)}"] if told else []
    if parts:
        print(
            f"{waiting.path}: {' and '.join(parts)} wait there, and were not taken along; enter them into "
            "the new study too, with `dngo add` and `dngo tell`"
        )


def _renamed(old: Path, arguments: argparse.Namespace) -> Study:
    """A study of another name, and in `--results` if given, otherwise as the old one was last."""
    from dngo.config import validate
    from dngo.replay import configuration
    from dngo.study import Study

    header = archive.read_header(old)
    last = configuration(old, header.iterations - 1 if header else 0)
    folder = old.absolute().parent
    beside = folder.parent if folder.name == last.study else folder
    results = arguments.results or str(beside)
    given = {**last.stored(), "study": arguments.name, "results": results}
    return Study(validate(given, source="fork", is_archived=True))
