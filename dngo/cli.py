"""The command line: the common part of all commands. Each command is in a module of `dngo.commands`."""

from __future__ import annotations

import argparse
import io
import os
import sys

from dngo.commands import (
    archives,
    best,
    checking,
    drawing,
    entering,
    forking,
    importing,
    looking,
    starting,
)
from dngo.commands.parsing import EXAMPLE, Parser
from dngo.errors import UserError
from dngo.storage.files import cannot_be_written
from dngo.storage.patience import in_words
from dngo.storage.processes import end_at_once
from dngo.version import __version__

# In the order of the help, a line for each: a recipe of CONTRIBUTING.md adds one.
GROUPS = (
    starting,
    checking,
    importing,
    looking,
    best,
    drawing,
    entering,
    forking,
    archives,
)

# At the end of the help of a command that brings no text of its own (`epilog`).
EXAMPLES = {
    "init": "dngo init --parameter 'rate 1e-5 1 log' --parameter 'kind adam,sgd'",
    "check": "dngo check my.yaml --run",
    "import": "dngo import old.csv --config my.yaml",
    "status": "dngo status results/my",
    "watch": "dngo watch my.yaml",
    "serve": "dngo serve my.yaml --act",
    "report": "dngo report results/my --html report.html",
    "best": "dngo best results/my --top 5 --by model",
    "figure": "dngo figure course results/my --output course.pdf",
    "add": "dngo add --config my.yaml --set rate=0.01 layers=3",
    "tell": "dngo tell --config my.yaml --set id=7-12 objective=4.1",
    "skip": "dngo skip 7-12 --reason 'the reactor is down'",
    "note": "dngo note 'a leak' --point 7-12 --tag leak",
    "bound": "dngo bound heat '<= 320' --config my.yaml",
    "stop": "dngo stop my.yaml --reason 'the reactor is down'",
    "retry": "dngo retry --failed my.yaml --since 3",
    "fork": "dngo fork results/old --config new.yaml --with momentum=0",
    "compare": "dngo compare results/a results/b --html both.html",
    "verify": "dngo verify results/my",
    "replay": "dngo replay results/my --iteration 3",
    "audit": "dngo audit results/my --proposal 7-12",
    "track": "dngo track results/my --to mlflow --at sqlite:///mlflow.db --follow",
    "export": "dngo export results/my --format csv --output my.csv",
}


def main(argv: list[str] | None = None) -> int:
    """Run one command; a user's mistake is one line on standard error and exit status 1."""
    if argv is None:
        end_at_once()
    for stream in (sys.stdout, sys.stderr):
        # Objectives may print text that a terminal cannot show.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    words, own = _split(sys.argv[1:] if argv is None else argv)
    arguments = parser.parse(words, argparse.Namespace(snakemake=own))
    if arguments.command is None:
        parser.print_help()
        return 2
    try:
        return arguments.run(arguments)
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except KeyboardInterrupt:
        print(f"{arguments.command}: ended by Ctrl-C", file=sys.stderr)
        return 130
    except OSError as error:
        print(_in_words(error, arguments.command), file=sys.stderr)
        return 1


def _in_words(error: OSError, command: str) -> str:
    """What the system refused, in one line. If a file cannot be created, the line names its folder."""
    if isinstance(error, PermissionError) and isinstance(error.filename, str):
        folder = os.path.dirname(os.path.abspath(error.filename))
        if cannot_be_written(folder) and not os.path.lexists(error.filename):
            return f"{folder}: nothing can be written there ({error.strerror})"
    return in_words(error) or f"{error.filename or command}: {error.strerror or error}"


START = """\
a study of your own, in an empty folder:
  dngo init          write config.yaml and objective.py; then put your computation into objective.py
  dngo check         is the configuration valid, how many evaluations will it take?
  dngo run           run it, or go on with it after a stop
  dngo report        what it found

`dngo COMMAND --help` says more. Completion in bash, for this shell and from the next login on:
  source <(dngo --print-completion bash)
  dngo --print-completion bash > ~/.local/share/bash-completion/completions/dngo
"""


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words for `dngo run`, and the words for Snakemake after `--`."""
    if words[:1] != ["run"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _parser() -> Parser:
    import shtab

    parser = Parser(
        prog="dngo",
        description="Bayesian optimisation of objectives that cost minutes to days, with Snakemake.",
        epilog=START,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dngo {__version__}")
    shtab.add_argument_to(parser, help="print the completion for a shell; see below")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    for group in GROUPS:
        group.register(commands)
    for each in commands._choices_actions:
        command = commands.choices[each.dest]
        what = each.help or ""
        command.description = f"{what[:1].upper()}{what[1:]}."
        if each.dest in EXAMPLES:
            command.epilog = f"{EXAMPLE}{EXAMPLES[each.dest]}"
    return parser
