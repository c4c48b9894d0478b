"""`dngo init`, `dngo run`: begin a study in an empty folder, and run it."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from typing import Any


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    init = commands.add_parser("init", help="write a configuration and an objective that runs")
    init.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    init.add_argument("--study", help="the name of the study; default: the folder's name")
    init.add_argument("--direction", choices=("minimize", "maximize"), help="default: minimize")
    init.add_argument(
        "--objectives",
        metavar="NAME,NAME:maximize",
        help="several objectives by name; each is minimised unless you say otherwise",
    )
    init.add_argument(
        "--parameter",
        action="append",
        dest="parameters",
        metavar="WORDS",
        help="'x 0 1', 'rate 1e-4 1 log', 'layers 1 8', 'kind a,b,c', 'momentum 0 1 if kind=a'; one "
        "option for each",
    )
    init.add_argument(
        "--constraint",
        action="append",
        dest="constraints",
        metavar="WORDS",
        help="'heat <= 350', or 'converged' for true or false; one option for each",
    )
    init.add_argument(
        "--objective", help="the command that evaluates a point; default: objective.py"
    )
    init.add_argument("--yes", action="store_true", help="ask no questions, even in a terminal")
    init.set_defaults(run=_init)

    run = commands.add_parser(
        "run",
        help="run a study, or go on with it",
        usage="dngo run [CONFIG] [--results FOLDER] [-- OPTION OF SNAKEMAKE ...]",
        epilog="dngo run my.yaml -- --profile slurm; -- -n shows what would run; -- --cores 4",
    )
    run.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    run.add_argument("--results", help="folder of the studies, if not the configured one")
    run.set_defaults(run=_run)


def _init(arguments: argparse.Namespace) -> int:
    from rich.prompt import Prompt

    from dngo.errors import UserError
    from dngo.init import begin, parameter, taken_as_whole

    path, prompt = Path(arguments.config), Prompt.ask
    names = ("study", "direction", "parameters", "constraints", "objective", "objectives")
    given = {n: getattr(arguments, n) for n in names}
    if arguments.objectives and arguments.direction:
        raise UserError(
            "--direction: each of --objectives has its own direction, such as speed:maximize"
        )
    asks = sys.stdin.isatty() and not arguments.yes
    try:
        files = begin(path, given, prompt if asks else None)
    except EOFError:
        raise UserError(
            "init: the input ended before the last question; nothing was written"
        ) from None
    for file in files:
        print(f"{file}: written")
    for line in filter(None, (taken_as_whole(*parameter(p)) for p in arguments.parameters or ())):
        print(line)
    named = "" if arguments.config == "config.yaml" else f" {shlex.quote(arguments.config)}"
    print(f"Next: dngo check{named}, then dngo run{named}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from dngo.workflow.start import command

    words = command(Path(arguments.config), arguments.results, arguments.snakemake)
    sys.stdout.flush()
    os.execv(words[0], words)  # from here on, signals and the exit status are Snakemake's
