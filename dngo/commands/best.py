"""`dngo best`: the best points of a study, on the terminal and as files."""

from __future__ import annotations

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

from dngo.commands.common import add_study
from dngo.errors import UserError
from dngo.storage.files import handing_out


def register(commands: Any) -> None:
    """Add the command to the parser."""
    command = commands.add_parser("best", help="the best points, by outcome and by the surrogate")
    add_study(command)
    command.add_argument("--top", type=int, default=1, metavar="K", help="so many; default: 1")
    command.add_argument(
        "--by",
        choices=("observed", "model"),
        help="by the outcome, or by what the surrogate expects, a deviation worse, which heeds noise;"
        " default: both",
    )
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument(
        "--output",
        metavar="FOLDER",
        help="write the parameters of each point there, as the objective is given them: RANK-ID.json",
    )
    command.set_defaults(run=_best)


def _best(arguments: argparse.Namespace) -> int:
    from dngo.api import Best, open_study

    if arguments.top < 1:
        raise UserError("--top: is to be 1 or more")
    if arguments.output and arguments.by is None:
        raise UserError("--output: say by what the points are ranked: --by observed, or --by model")
    session = open_study(arguments.study, results=arguments.results)
    found: dict[str, list[Best]] = {}
    if arguments.by != "model":
        found["observed"] = session.top(arguments.top, "observed")
    if arguments.by == "model" or (arguments.by is None and session.has_model):
        found["model"] = session.top(arguments.top, "model")
    if arguments.output:
        _write(Path(arguments.output), found[arguments.by])
    if arguments.json:
        print(json.dumps({by: [_record(one) for one in best] for by, best in found.items()}))
        return 0
    titles = {"observed": "By the outcome", "model": "By the surrogate, which heeds noise"}
    for by, best in found.items():
        print(f"{titles[by]}:")
        for rank, one in enumerate(best, start=1):
            print(f"  {rank}. {_line(one)}")
            print(
                "     " + ", ".join(f"{k}={v}" for k, v in one.parameters.items() if v is not None)
            )
    return 0


def _line(one: Any) -> str:
    line = f"proposal {one.id}: {one.objective:.6g}"
    if one.evaluations > 1:
        line += f", the best of {one.evaluations} evaluations; {one.average:.6g} on average"
    if one.std == one.std:
        line += f"; by the surrogate {one.mean:.6g} ± {1.96 * one.std:.2g} (95 %)"
    return line


def _record(one: Any) -> dict[str, Any]:
    """Plain data; null where there is no model."""
    fields = {
        name: getattr(one, name) for name in ("objective", "average", "mean", "std", "feasibility")
    }
    return {
        "id": one.id,
        "parameters": one.parameters,
        "evaluations": one.evaluations,
        **{name: value if value == value else None for name, value in fields.items()},
    }


def _write(folder: Path, best: list[Any]) -> None:
    """A file for each point; raises UserError, before any is written, rather than replace one."""
    with contextlib.ExitStack() as stack:
        for rank, one in enumerate(best, start=1):
            path = folder / f"{rank}-{one.id}.json"
            temporary = stack.enter_context(handing_out(path))
            temporary.write_text(json.dumps(one.parameters, indent=2) + "\n", encoding="utf-8")
