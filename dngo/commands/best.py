"""`dngo best`: the best points of a study, on the terminal and as files."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dngo.commands.common import add_study
from dngo.errors import UserError
from dngo.storage.files import handing_out
from dngo.storage.text import value_text, visible
from dngo.units import Units

if TYPE_CHECKING:
    from dngo.api import Session


def register(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser(
        "best", help="print the best points, by outcome and by the surrogate"
    )
    add_study(command)
    command.add_argument(
        "--prefer",
        metavar="NAME=WEIGHT,...",
        help="with several objectives: the best point of the front by these weights: error=2,flops=1",
    )
    command.add_argument(
        "--top", type=int, default=1, metavar="K", help="the number of points; default: 1"
    )
    command.add_argument(
        "--by",
        choices=("observed", "model"),
        help="rank by the outcome, or by the surrogate's prediction, made worse by one "
        "deviation (this takes noise into account); default: both",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--output",
        metavar="FOLDER",
        help="write the parameters of each point to this folder, as the objective gets them: "
        "RANK-ID.json",
    )
    command.set_defaults(run=_best)


def _best(arguments: argparse.Namespace) -> int:
    from dngo.api import Best, open_study
    from dngo.report.best import waver
    from dngo.report.uncertain import left_out

    if arguments.top < 1:
        raise UserError("--top: must be 1 or more")
    session = open_study(arguments.study, results=arguments.results)
    if session.config.has_several:
        return _front(session, arguments)
    if arguments.prefer is not None:
        raise UserError("--prefer: works with several objectives, but the study has one")
    if arguments.output and arguments.by is None:
        raise UserError("--output: say how to rank the points: --by observed, or --by model")
    found: dict[str, list[Best]] = {}
    if arguments.by != "model":
        found["observed"] = session.top(arguments.top, "observed")
    if arguments.by == "model" or (arguments.by is None and session.has_model):
        found["model"] = session.top(arguments.top, "model")
    if arguments.output:
        chosen = [(one.id, one.parameters) for one in found[arguments.by]]
        _write(Path(arguments.output), chosen)
    if arguments.json:
        print(json.dumps({by: [_record(one) for one in best] for by, best in found.items()}))
        return 0
    titles = {
        "observed": "By the outcome",
        "model": "By the surrogate, "
        + (
            "over where inputs waver"
            if waver(session._view.config)
            else "which takes noise into account"
        ),
    }
    for by, best in found.items():
        print(f"{titles[by]}:")
        for rank, one in enumerate(best, start=1):
            print(f"  {rank}. {_line(one)}")
            print(
                "     "
                + ", ".join(
                    f"{k}={visible(str(v))}" for k, v in one.parameters.items() if v is not None
                )
            )
        for line in left_out(session._view) if by == "model" else ():
            print(f"  {line}")
    return 0


def _front(session: Session, arguments: argparse.Namespace) -> int:
    """The front as rows, or only its preferred point."""
    from rich.console import Console
    from rich.table import Table

    from dngo.report.front import weights_of
    from dngo.report.text import BY_MODEL

    if arguments.top != 1:
        raise UserError("--top: no point of a front is better than another; --prefer chooses one")
    if arguments.by == "model":
        raise UserError("--by: where noise is reported, the front is by the model; leave --by out")
    view = session._view_of_front()
    front, rows = view.front, list(range(len(view.front.rows)))
    if arguments.prefer is not None:
        rows = [front.preferred(weights_of(arguments.prefer, view.directions))]
    parameters = view.space.to_parameters(view.table.v[front.rows])
    ids = [view.id(int(row)) for row in front.rows]
    if arguments.output:
        _write(Path(arguments.output), [(ids[i], parameters[i]) for i in rows])
    if arguments.json:
        document = front.document(ids, parameters)
        document["points"] = [document["points"][i] for i in rows]
        print(json.dumps(document))
        return 0
    table = Table(box=None, padding=(0, 2))
    heads = ["proposal", *view.directions, *parameters[0], ""]
    for j, head in enumerate(heads):
        table.add_column(
            head, justify="left" if j in (0, len(heads) - 1) else "right", overflow="fold"
        )
    for i in rows:
        values = [*front.objectives(i).values(), *parameters[i].values()]
        knee = "knee" if i == front.knee else ""
        table.add_row(ids[i], *map(_cell, values), knee)
    console = Console(soft_wrap=True, width=20 * len(heads), color_system=None)
    console.print(table)
    reference = ", ".join(f"{name} {value_text(value)}" for name, value in front.reference.items())
    print(f"hypervolume {value_text(front.hypervolume)}, from {reference}")
    if front.by == "model":
        print(BY_MODEL)
    return 0


def _cell(value: Any) -> str:
    return "" if value is None else value_text(value)


def _line(one: Any) -> str:
    line = f"proposal {one.id}: {value_text(one.objective)}"
    if one.evaluations > 1:
        line += f", the best of {one.evaluations} evaluations; {value_text(one.average)} on average"
    if one.std == one.std:
        margin = Units(1.0, one.log).margin(one.mean, one.std)
        line += f"; by the surrogate {value_text(one.mean)} {margin} (95 %)"
    return line


def _record(one: Any) -> dict[str, Any]:
    """Plain data; null without a model."""
    fields = {
        name: getattr(one, name) for name in ("objective", "average", "mean", "std", "feasibility")
    }
    return {
        "id": one.id,
        "parameters": one.parameters,
        "evaluations": one.evaluations,
        **{name: value if value == value else None for name, value in fields.items()},
    }


def _write(folder: Path, best: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """Write a file for each point, with its id and parameters.

    If a file exists already, raises UserError before it writes any.
    """
    with contextlib.ExitStack() as stack:
        for rank, (name, parameters) in enumerate(best, start=1):
            path = folder / f"{rank}-{name}.json"
            temporary = stack.enter_context(handing_out(path))
            temporary.write_text(json.dumps(parameters, indent=2) + "\n", encoding="utf-8")
