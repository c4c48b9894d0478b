"""`dngo add | tell | skip | note | retry | bound | stop`: people enter points, outcomes and notes into
a study, change a bound, or stop its run."""

from __future__ import annotations

import argparse
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo.commands.common import (
    add_meaning,
    add_study,
    meaning_of,
    named_values,
    say_left_out,
    study_of,
)
from dngo.errors import UserError

if TYPE_CHECKING:
    from dngo.entering import Source
    from dngo.study import Study


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    add = _command(commands, "add", _add, "put your own points first in the next batch")
    _given(add, "a point: NAME=VALUE ...")

    tell = _command(commands, "tell", _tell, "enter outcomes that were measured elsewhere")
    _given(tell, "a point (or id=7-12) and its outcome: NAME=VALUE ... objective=VALUE")
    tell.add_argument(
        "--objective", default="objective", help="the objective's column; default: objective"
    )
    tell.add_argument("--skip-invalid", action="store_true", help="leave out rows with mistakes")

    skip = _command(commands, "skip", _skip, "withdraw a point before it is evaluated")
    skip.add_argument(
        "point", help="a proposal in flight, such as 7-12, or the name that `dngo add` printed"
    )
    skip.add_argument("--reason", required=True, help="the reason, which is stored with the point")

    note = _command(commands, "note", _note, "write a note or a tag on a point or on the study")
    note.add_argument("text", nargs="?", default="", help="the note; without it: list all notes")
    note.add_argument("--point", default="", help="a proposal, such as 7-12; default: the study")
    note.add_argument("--tag", nargs="+", action="extend", default=[], help="words to find it by")

    bound = _command(commands, "bound", _bound, "change the bound of a constraint")
    bound.add_argument("name", help="the constraint, a number that the objective reports")
    bound.add_argument("bound", help="in quotes, such as '<= 320'")

    stop = commands.add_parser("stop", help="end the run of a study once what runs has ended")
    add_study(stop)
    stop.set_defaults(run=_stop)
    stop.add_argument("--reason", default="", help="the reason, which the run prints")

    retry = commands.add_parser("retry", help="evaluate failed points again, as further rows")
    retry.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    retry.add_argument(
        "--failed", action="store_true", required=True, help="the points that failed"
    )
    retry.add_argument(
        "--since", type=int, default=0, metavar="ITER", help="only points from this iteration on"
    )
    retry.add_argument(
        "--message", default="", metavar="TEXT", help="only points whose messages contain this text"
    )
    retry.add_argument("--results", help="folder of the studies, if not the configured one")
    retry.set_defaults(run=_retry)


def _command(commands: Any, name: str, run: Any, words: str) -> Any:
    command = commands.add_parser(name, help=words)
    command.add_argument("--config", default="config.yaml", help="default: config.yaml")
    command.add_argument("--results", help="folder of the studies, if not the configured one")
    command.set_defaults(run=run)
    return command


def _given(command: Any, words: str) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "file", nargs="?", help="CSV, Parquet, an Optuna study, another program's file"
    )
    which.add_argument("--set", nargs="+", metavar="NAME=VALUE", help=words)
    add_meaning(command)


def _source(
    study: Study, arguments: argparse.Namespace, kind: str, objective: str | None = None
) -> Source:
    from dngo.entering import Source

    if arguments.file is not None and "=" in arguments.file and not Path(arguments.file).exists():
        raise UserError(f"{arguments.file}: values stand after --set: --set {arguments.file}")
    if arguments.file is not None:
        meaning = meaning_of(arguments)
        source = Source.of_file(study, Path(arguments.file), kind, objective, meaning)
        if source.said:
            print(f"{source.name}: {source.said}")
        say_left_out(source.name, source.left_out)
        return source
    for option in ("study", "ignore", "columns", "status"):
        if getattr(arguments, option):
            raise UserError(f"--{option}: works only with a file; leave it out")
    values = named_values("--set", arguments.set)
    _check_names(study, values, objective)
    return Source.of_values([values], kind, "--set")


def _check_names(study: Study, values: dict[str, str], objective: str | None) -> None:
    """Raise UserError for an unknown name of --set. Without an objective, only parameters are known."""
    from dngo.config.messages import nearest
    from dngo.exchange.names import PARAMETER, ColumnNames
    from dngo.outcomes import NAMES

    names = ColumnNames.of(study.config, objective)
    known = list(names.parameters)
    if objective is not None:
        known += [*names.constraints, *NAMES, "id"]
    for name, value in values.items():
        with contextlib.suppress(ValueError):
            if names.meaning(name, values)[0] == PARAMETER or objective is not None:
                continue
        raise UserError(
            f"--set {name}={value}: must be NAME=VALUE, with a name of "
            f"{', '.join(known)}{nearest(name, known)}"
        )


def _add(arguments: argparse.Namespace) -> int:
    from dngo.acting import when
    from dngo.entering import add

    study = study_of(arguments)
    entries = add(study, _source(study, arguments, "user"))
    for entry in entries:
        values = ", ".join(f"{k} = {v}" for k, v in entry.parameters.items())
        print(f"{entry.name}: {values}")
    print("\n".join(when(study, len(entries), "evaluated at the head of", arguments.config)))
    return 0


def _tell(arguments: argparse.Namespace) -> int:
    from dngo.acting import when
    from dngo.entering import tell

    study = study_of(arguments)
    source = _source(study, arguments, "imported", arguments.objective)
    told = tell(study, source, objective=arguments.objective, skip_invalid=arguments.skip_invalid)
    say_left_out(source.name, told.skipped)
    say_left_out(f"{source.name}: pictures", told.pictures)
    for name in told.concluded:
        print(f"{name}: already has its outcome")
    if told.waiting:
        print("\n".join(when(study, len(told.waiting), "known to", arguments.config)))
    return 0


def _skip(arguments: argparse.Namespace) -> int:
    from dngo.entering import skip

    skip(study_of(arguments), arguments.point, arguments.reason)
    print(f"{arguments.point}: withdrawn")
    return 0


def _note(arguments: argparse.Namespace) -> int:
    from dngo.entering import check_there, note
    from dngo.report.left import noted
    from dngo.study import entries

    study = study_of(arguments)
    if arguments.text or arguments.tag:
        notes = [note(study, arguments.text, point=arguments.point, tags=arguments.tag)]
    else:
        if arguments.point:
            check_there(study, arguments.point)
        notes = [n for n in entries.notes(study.archive) if arguments.point in ("", n.point)]
    print("\n".join(noted(notes)) or "There is no note yet")
    return 0


def _bound(arguments: argparse.Namespace) -> int:
    from dngo.acting import change_bound

    path = Path(arguments.config)
    print(change_bound(path, study_of(arguments), arguments.name, arguments.bound))
    return 0


def _stop(arguments: argparse.Namespace) -> int:
    from dngo.acting import stop

    print(stop(study_of(arguments), arguments.reason))
    return 0


def _retry(arguments: argparse.Namespace) -> int:
    from dngo.acting import when
    from dngo.retry import retry

    study = study_of(arguments)
    entries = retry(study, since=arguments.since, message=arguments.message)
    ids = [entry.origin["repeats"] for entry in entries]
    print(f"To be evaluated again: {', '.join(ids[:10])}{', ...' if len(ids) > 10 else ''}")
    print("\n".join(when(study, len(entries), "evaluated at the head of", arguments.config)))
    return 0
