"""`dngo figure`: figures for a paper."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dngo.commands.common import named_values


def register(commands: Any) -> None:
    """Add the command to the parser."""
    figure = commands.add_parser("figure", help="draw a figure for a paper, as PDF, SVG or PNG")
    figure.add_argument(
        "kind",
        choices=("course", "edf", "ranks"),
        help="course: the best value so far; edf: the share of evaluations that reached a value; ranks: "
        "each parameter against the rank of the objective",
    )
    figure.add_argument(
        "studies",
        nargs="*",
        metavar="STUDY",
        default=["config.yaml"],
        help="configurations, archives, or their folders; default: config.yaml",
    )
    figure.add_argument("--output", required=True, help="a new file: .pdf, .svg or .png")
    figure.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="NAME=TEXT",
        help="the label at the axis of a parameter or of objective: 'objective=Delay (ms)'",
    )
    figure.add_argument(
        "--width", type=float, default=88.0, help="the width in mm; default: 88, a column"
    )
    figure.set_defaults(run=_figure)


def _figure(arguments: argparse.Namespace) -> int:
    from dngo.report.compare import read
    from dngo.report.paper import write

    output = Path(arguments.output)
    labels = named_values("--label", arguments.label)
    write(arguments.kind, read(arguments.studies), output, labels, arguments.width)
    print(f"{output}: written")
    return 0
