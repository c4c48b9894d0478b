"""The command line: `dngo check | status | watch | serve | report | compare | verify | ...`."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dngo import __version__
from dngo.commands import best, entering, forking
from dngo.errors import UserError
from dngo.exchange import FORMATS
from dngo.space import Space

OTHER_VERSION = 3  # exit status of a replay that only another release can do


def main(argv: list[str] | None = None) -> int:
    """Run one command; a user's mistake is one line on standard error and exit status 1."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # objectives say things that no terminal can show
            stream.reconfigure(errors="backslashreplace")
    parser = _parser()
    words, own = _split(sys.argv[1:] if argv is None else argv)
    arguments = parser.parse_args(words, argparse.Namespace(snakemake=own))
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
    except OSError as error:
        print(f"{error.filename or arguments.command}: {error.strerror or error}", file=sys.stderr)
        return 1


START = """\
a study of your own, in an empty folder:
  dngo init          write config.yaml and objective.py; then put your computation into the latter
  dngo check         is the configuration valid, how many evaluations will it take?
  dngo run           run it, or go on with it after whatever stopped it
  dngo report        what it found

`dngo COMMAND --help` says more. Completion in bash, this once and from the next login on:
  source <(dngo --print-completion bash)
  dngo --print-completion bash > ~/.local/share/bash-completion/completions/dngo
"""


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The words for `dngo run`, and those for Snakemake, which follow `--`."""
    if words[:1] != ["run"] or "--" not in words:
        return words, []
    at = words.index("--")
    return words[:at], words[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    import shtab

    parser = argparse.ArgumentParser(
        prog="dngo",
        description="Bayesian optimisation of objectives that cost minutes to days, with Snakemake.",
        epilog=START,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"dngo {__version__}")
    shtab.add_argument_to(parser, help="for a shell; see below")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")

    _add_starts(commands)
    _add_configurations(commands)
    _add_studies(commands)
    best.register(commands)
    entering.register(commands)
    forking.register(commands)
    _add_archives(commands)
    return parser


def _add_starts(commands: Any) -> None:
    """Commands that begin a study and run it."""
    init = commands.add_parser("init", help="write a configuration and an objective that runs")
    init.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    init.add_argument("--study", help="its name; default: the folder's")
    init.add_argument("--direction", choices=("minimize", "maximize"), help="default: minimize")
    init.add_argument(
        "--parameter",
        action="append",
        dest="parameters",
        metavar="WORDS",
        help="'x 0 1', 'rate 1e-4 1 log', 'layers 1 8', 'kind a,b,c'; one option for each",
    )
    init.add_argument(
        "--objective", help="the command that evaluates a point; default: objective.py"
    )
    init.add_argument("--yes", action="store_true", help="ask nothing, also in a terminal")
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


def _add_configurations(commands: Any) -> None:
    """Commands that are given a configuration, and begin or check a study."""
    check = commands.add_parser("check", help="is a configuration valid, and can it be run?")
    check.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    check.add_argument(
        "--run",
        dest="trial",
        action="store_true",
        help="evaluate one point, outside any study, and show it",
    )
    page = check.add_mutually_exclusive_group()
    page.add_argument("--schema", action="store_true", help="print the JSON schema and exit")
    page.add_argument("--keys", action="store_true", help="print docs/configuration.md and exit")
    page.add_argument(
        "--defaults",
        action="store_true",
        help="print the file, each key that is commented out with its default, and exit",
    )
    check.set_defaults(run=_check)

    start = commands.add_parser("import", help="begin a study with evaluations made before")
    start.add_argument("file", help="CSV, Parquet, or an Optuna study (SQLite, journal)")
    start.add_argument("--config", default="config.yaml", help="default: config.yaml")
    start.add_argument("--results", help="folder of the studies, if not the configured one")
    start.add_argument("--objective", default="objective", help="its column; default: objective")
    start.add_argument("--study", help="which of several Optuna studies in the file")
    start.add_argument("--skip-invalid", action="store_true", help="leave out rows with mistakes")
    start.set_defaults(run=_import)


def _add_studies(commands: Any) -> None:
    """Commands that look at the study of a configuration."""

    def add(name: str, run: Callable[[argparse.Namespace], int], words: str) -> Any:
        command = commands.add_parser(name, help=words)
        command.add_argument(
            "config", nargs="?", default="config.yaml", help="default: config.yaml"
        )
        command.add_argument("--results", help="folder of the studies, if not the configured one")
        command.set_defaults(run=run)
        return command

    status = add("status", _status, "how a study stands, while it runs or afterwards")
    status.add_argument("--json", action="store_true", help="print JSON")
    watch = add("watch", _watch, "how a study stands, live, until it is done")
    watch.add_argument("--interval", type=float, default=2.0, help="seconds; default: 2")
    serve = add("serve", _serve, "the report in a browser, refreshed as it runs")
    serve.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free one")
    report = add("report", _report, "print what a study found")
    report.add_argument("--html", help="write the report, too, as this HTML file")


def _add_archives(commands: Any) -> None:
    """Commands that need nothing but archives."""
    compare = commands.add_parser("compare", help="studies side by side")
    compare.add_argument("studies", nargs="+", metavar="STUDY", help="archives, or their folders")
    compare.add_argument("--json", action="store_true", help="print JSON")
    compare.add_argument("--html", help="write the curves, too, as this HTML file")
    compare.set_defaults(run=_compare)

    verify = commands.add_parser("verify", help="check that no value of an archive was altered")
    verify.add_argument("archive", help="an archive.h5")
    verify.set_defaults(run=_verify)

    replay = commands.add_parser("replay", help="derive archived batches again and compare")
    replay.add_argument("archive", help="an archive.h5")
    replay.add_argument("--iteration", type=int, help="only this one; all of them if left out")
    replay.set_defaults(run=_replay)

    audit = commands.add_parser("audit", help="why a point was proposed, and what came of it")
    audit.add_argument("archive", help="an archive.h5")
    which = audit.add_mutually_exclusive_group(required=True)
    which.add_argument("--proposal", help="its id, as 7-123")
    which.add_argument("--all", action="store_true", help="a table of all of them, as CSV")
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.set_defaults(run=_audit)

    export = commands.add_parser("export", help="write an archive in another program's format")
    export.add_argument("archive", help="an archive.h5")
    export.add_argument("--format", required=True, choices=FORMATS)
    export.add_argument("--output", required=True, help="a file; for ro-crate a folder or a .zip")
    export.add_argument(
        "--author", help="who ran it, for ro-crate: name, or 'name <ORCID address>'"
    )
    export.add_argument(
        "--license", help="of the data, for ro-crate: https://spdx.org/licenses/..."
    )
    export.set_defaults(run=_export)


def _init(arguments: argparse.Namespace) -> int:
    from rich.prompt import Prompt

    from dngo.init import begin

    path, prompt = Path(arguments.config), Prompt.ask
    given = {n: getattr(arguments, n) for n in ("study", "direction", "parameters", "objective")}
    asks = sys.stdin.isatty() and not arguments.yes
    for file in begin(path, given, prompt if asks else None):
        print(f"{file}: written")
    named = "" if arguments.config == "config.yaml" else f" {arguments.config}"
    print(f"Next: dngo check{named}, then dngo run{named}")
    return 0


def _run(arguments: argparse.Namespace) -> int:
    from dngo.workflow.start import command

    words = command(Path(arguments.config), arguments.results, arguments.snakemake)
    sys.stdout.flush()
    os.execv(words[0], words)  # so signals and the exit status are Snakemake's


def _check(arguments: argparse.Namespace) -> int:
    from dngo.config import keys, load, schema, with_defaults
    from dngo.locate import find_study

    if arguments.schema or arguments.keys:
        print(schema() if arguments.schema else keys(), end="")
        return 0
    config = load([arguments.config])
    if arguments.defaults:
        print(with_defaults(Path(arguments.config).read_text(encoding="utf-8")), end="")
        return 0
    study = find_study([arguments.config])
    space = config.search_space
    points = config.design_size + config.iterations * config.batch_size
    size = "infinitely many points" if space.size == float("inf") else f"{space.size:g} points"
    print(f"{arguments.config}: valid")
    print(f"Study {config.study}: {config.objective.direction} over {space.k} parameters ({size})")
    print(
        f"Up to {points} evaluations: a design of {config.design_size}, then {config.iterations} "
        f"batches of {config.batch_size}, {config.points_per_job} to a job"
    )
    print(f"Results in {study.folder}")
    if config.space_constraints:
        print(f"Known constraints: {len(config.space_constraints)}; {_feasible(space)}")
    _warn_of_time(config)
    if config.transfer:
        from dngo.archive import transfer

        # A study that has begun has its own copy, and its sources may be gone.
        if study.archive.exists():
            sources = transfer.recorded(study.archive)
        else:
            sources = transfer.read(config.transfer, space, config.thresholds, beside=study.beside)
        for earlier in sources:
            print(f"Learns from {earlier}")
    return _check_start(study, trial=arguments.trial)


def _check_start(study: Any, *, trial: bool) -> int:
    """Look at the study as it stands, at the objective, and at one evaluation of it if asked to."""
    from dngo.check import page, resolve, standing, try_point

    begun = standing(study)
    if begun:
        print(begun)
    print(f"Objective: {resolve(study.config)}")
    if not trial:
        return 0
    found = try_point(study)
    print(f"\n{page(found)}")
    return 0 if found.outcome.ran else 1


def _feasible(space: Space) -> str:
    """How much of a space keeps its known constraints; raises UserError if nothing is found."""
    space.feasible.find()
    share = space.feasible.share()
    if any(c.gap is not None for c in space.conditions):
        return "what keeps an equality is drawn directly"
    return f"about {share:.2g} of the space keeps them" if share else "less than 1e-4 of the space"


def _warn_of_time(config: Any) -> None:
    """Say so where a job may not have time for all of its points."""
    minutes, seconds = config.resources.evaluate.get("runtime"), config.objective.time_limit
    if seconds is None or not isinstance(minutes, int | float) or config.points_at_once == "auto":
        return
    needed = -(-config.points_per_job // config.points_at_once) * seconds / 60
    if needed > minutes:
        print(
            f"Warning: the points of a job may take {needed:.0f} minutes (points_per_job x "
            f"objective.time_limit), and resources.evaluate.runtime is {minutes:g}: further jobs go on"
        )


def _study(arguments: argparse.Namespace):
    from dngo.locate import find_study

    overrides = {"results": arguments.results} if arguments.results else {}
    return find_study([arguments.config], overrides)


def _status(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.report import format_status, status

    study = _study(arguments)
    with reading(study.archive) if study.archive.exists() else contextlib.nullcontext():
        data = status(study)
    print(json.dumps(data, indent=1) if arguments.json else format_status(data))
    return 0


def _report(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.report import summary

    study = _study(arguments)
    if study.header() is None:
        raise UserError(f"{study.archive}: there is no archive yet; `dngo run` begins the study")
    with reading(study.archive):
        print(summary(study))
        if arguments.html:
            from dngo.report.page import write_page

            write_page(study, Path(arguments.html))
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from dngo.report.watch import watch

    if arguments.interval <= 0:
        raise UserError(f"--interval: {arguments.interval:g} is not a number of seconds above 0")
    with contextlib.suppress(KeyboardInterrupt):
        watch(_study(arguments), interval=arguments.interval, console=Console())
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    from dngo.report.serve import Server

    study = _study(arguments)
    try:
        server = Server(study, arguments.port)
    except (OSError, OverflowError) as error:
        raise UserError(f"port {arguments.port}: {error}; try --port 0") from None
    print(f"{server.address} shows study {study.config.study}; Ctrl-C ends it", flush=True)
    with server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from dngo.report.compare import document, read, rows, text
    from dngo.storage.files import replacing

    views = read(arguments.studies)
    found = rows(views)
    print(json.dumps(_finite(found), indent=1) if arguments.json else text(found), end="")
    if arguments.html:
        with replacing(Path(arguments.html)) as temporary:
            temporary.write_text(document(views), encoding="utf-8")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from dngo.archive import verify

    problems = verify(Path(arguments.archive))
    for problem in problems:
        print(f"{arguments.archive}: {problem}")
    if not problems:
        print(f"{arguments.archive}: every value has the digest that was recorded")
    return 1 if problems else 0


def _replay(arguments: argparse.Namespace) -> int:
    from dngo.archive import chain_problems, reading
    from dngo.replay import replay
    from dngo.workflow.job import bar

    path = Path(arguments.archive)
    found = set()
    with reading(path) as file:
        for problem in chain_problems(file)[:1]:
            raise UserError(f"{path}: {problem}; replay an untouched copy")
        every = range(int(file.attrs["iterations"]))
        for t in every if arguments.iteration is None else [arguments.iteration]:
            with bar(f"iteration {t}") as progress:
                verdict = replay(path, t, progress=progress)
            print(verdict, flush=True)
            found.add(verdict.verdict)
    return 1 if "different" in found else OTHER_VERSION if "another version" in found else 0


def _audit(arguments: argparse.Namespace) -> int:
    import csv

    from dngo.archive import reading
    from dngo.audit import audit, audit_all, page

    path = Path(arguments.archive)
    with reading(path):
        if not arguments.all:
            data = audit(path, arguments.proposal)
            print(json.dumps(_finite(data), indent=1) if arguments.json else page(data))
            return 0
        rows = audit_all(path)
    if arguments.json:
        print(json.dumps(_finite(rows), indent=1))
        return 0
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(sys.stdout, names)
    writer.writeheader()
    writer.writerows(rows)
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.exchange import export

    path, output = Path(arguments.archive), Path(arguments.output)
    given = {"author": arguments.author, "license": arguments.license}
    options = {name: value for name, value in given.items() if value is not None}
    if options and arguments.format != "ro-crate":
        raise UserError(f"--{next(iter(options))} is for --format ro-crate")
    with reading(path):
        export(path, output, arguments.format, **options)
    print(f"{output}: {arguments.format} of {path}")
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from dngo.exchange.warm_start import warm_start

    study = _study(arguments)
    found = warm_start(
        study,
        Path(arguments.file),
        objective=arguments.objective,
        name=arguments.study,
        skip_invalid=arguments.skip_invalid,
    )
    for place, reason in found.skipped.items():
        print(f"{arguments.file}: {place}: left out: {reason}", file=sys.stderr)
    counts = ", ".join(f"{n} {status}" for status, n in found.outcomes.items())
    print(f"{study.archive}: iteration 0 is {arguments.file}: {counts}")
    print(f"Go on with: dngo run {arguments.config}")
    return 0


def _finite(value: Any) -> Any:
    """The same with null for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


if __name__ == "__main__":
    sys.exit(main())
