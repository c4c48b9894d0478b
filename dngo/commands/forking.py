"""`dngo fork`: begins a study of a changed space with the evaluations of an old study."""

from __future__ import annotations

import argparse
from typing import Any

from dngo.commands.common import named_values, say_left_out, study_of


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
        "--config",
        required=True,
        help="the configuration of the new study, which must have another name",
    )
    command.add_argument("--results", help="folder of the studies, if not the configured one")
    command.add_argument(
        "--with",
        nargs="+",
        action="extend",
        default=[],
        dest="values",
        metavar="NAME=VALUE",
        help="the value of a new parameter at all earlier points; default: the parameter's default",
    )
    command.set_defaults(run=_fork)


def _fork(arguments: argparse.Namespace) -> int:
    from dngo.exchange.fork import fork
    from dngo.locate import archive_at

    study = study_of(arguments)
    old = archive_at(arguments.old)
    found = fork(study, old, named_values("--with", arguments.values))
    say_left_out(str(old), found.skipped)
    counts = ", ".join(f"{n} {status}" for status, n in found.outcomes.items())
    print(f"{study.archive}: iteration 0 is {old}: {counts}; {len(found.skipped)} left out")
    for name, n in found.unknown.items():
        print(f"constraints.{name}: is unknown for {n} of them; they count as if it held")
    if list((old.parent / "pending").glob("*/proposals.json")):
        print(
            f"{old.parent}: has a batch in flight, which was not taken along; end its run "
            "first, or `dngo tell` the new study its outcomes later"
        )
    print(f"Go on with: dngo run {arguments.config}")
    return 0
