"""`dngo compare`, `verify`, `replay`, `audit`, `export`, `track`: what is made of archives."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path
from typing import Any

from dngo.commands.common import add_study, archive_of, finite, page_at, print_list, study_of
from dngo.errors import UserError
from dngo.exchange import EXPORTS
from dngo.plugins import Registry

# Exit statuses of a replay: only another release can do it, or only another processor can decide
# it.
OTHER_VERSION, OTHER_PROCESSOR = 3, 4
LOOK = 5.0  # seconds between looks at a study that is tracked
TABLES = ("csv", "parquet")  # exports without digests


def register(commands: Any) -> None:
    """Add the commands to the parser."""
    compare = commands.add_parser("compare", help="compare studies side by side")
    told = "configurations, archives, or their folders"
    compare.add_argument("studies", nargs="+", metavar="STUDY", help=told)
    compare.add_argument("--json", action="store_true", help="print JSON")
    compare.add_argument("--html", help="also write the curves to this HTML file")
    compare.set_defaults(run=_compare)

    verify = commands.add_parser("verify", help="check that no value of an archive was altered")
    add_study(verify)
    verify.set_defaults(run=_verify)

    replay = commands.add_parser("replay", help="derive archived batches again and compare")
    add_study(replay)
    replay.add_argument("--iteration", type=int, help="only this iteration; default: all")
    told = "a Python file that defines a surrogate or a gain of your own; it is imported"
    replay.add_argument("--objects", metavar="FILE", action="append", default=[], help=told)
    replay.set_defaults(run=_replay)

    audit = commands.add_parser(
        "audit", help="say why a point was proposed, and what its outcome was"
    )
    add_study(audit)
    which = audit.add_mutually_exclusive_group()
    which.add_argument(
        "--proposal",
        action="append",
        help="the id of a point, such as 7-123; several ids show the points side by side",
    )
    which.add_argument("--all", action="store_true", help="print all points as a CSV table")
    audit.add_argument("--json", action="store_true", help="print JSON")
    audit.set_defaults(run=_audit)

    _register_what_leaves(commands)


def _register_what_leaves(commands: Any) -> None:
    """Add the commands that hand a study to other programs."""
    export = commands.add_parser("export", help="write an archive in another program's format")
    add_study(export)
    export.add_argument("--format", required=True, choices=EXPORTS.names())
    export.add_argument(
        "--output", required=True, help="the file to write; for ro-crate a folder or a .zip"
    )
    export.add_argument(
        "--author", help="for ro-crate: who ran the study, a name or 'name <ORCID address>'"
    )
    export.add_argument(
        "--license", help="for ro-crate: the licence of the data, https://spdx.org/licenses/..."
    )
    export.add_argument(
        "--anonymous",
        action="store_true",
        help="leave out the names of hosts, people and home folders, and the pictures",
    )
    export.add_argument(
        "--altered",
        action="store_true",
        help="csv and parquet: also if another program altered the archive; says what differs",
    )
    export.set_defaults(run=_export)

    track = commands.add_parser("track", help="log each evaluation to an experiment tracker, once")
    add_study(track)
    track.add_argument(
        "--to", required=True, choices=Registry("dngo.trackers").names(), help="the tracker"
    )
    track.add_argument(
        "--at", default="", help="its address, such as http://host:5000 or sqlite:///mlflow.db"
    )
    track.add_argument("--follow", action="store_true", help="until the study is done")
    track.set_defaults(run=_track)


def _compare(arguments: argparse.Namespace) -> int:
    from dngo.report.compare import TITLE, document, read, rows, text

    views = read(arguments.studies)
    found = rows(views)
    with page_at(arguments.html, TITLE) as page:
        print(json.dumps(finite(found), indent=1) if arguments.json else text(found), end="")
        if page:
            page.write_text(document(views), encoding="utf-8")
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from dngo.archive import verify

    path = archive_of(arguments, as_it_is=True)
    problems = verify(path)
    for problem in problems:
        print(f"{path}: {problem}")
    if not problems:
        print(f"{path}: every value has its recorded digest")
    return 1 if problems else 0


def _replay(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.objects import use_file
    from dngo.replay import ELSEWHERE, replay
    from dngo.workflow.job import bar

    for file in arguments.objects:
        use_file(Path(file))
    path = archive_of(arguments)
    found = set()
    with reading(path) as file:
        every = range(int(file.attrs["iterations"]))
        for t in every if arguments.iteration is None else [arguments.iteration]:
            with bar(f"iteration {t}") as progress:
                verdict = replay(path, t, progress=progress)
            print(verdict, flush=True)
            found.add(verdict.verdict)
    statuses = {
        "different": 1,
        "another version": OTHER_VERSION,
        f"different{ELSEWHERE}": OTHER_PROCESSOR,
    }
    return next((status for verdict, status in statuses.items() if verdict in found), 0)


def _audit(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.audit import audit, audit_rows, page
    from dngo.exchange.csv_table import write_table

    study = str(arguments.study)
    if re.fullmatch(r"\d+-\d+", study) and not Path(study).exists():
        raise UserError(f"{study}: is a point; write `dngo audit STUDY --proposal {study}`")
    path = archive_of(arguments)
    if not (arguments.all or arguments.proposal):
        raise UserError(
            f"{path}: which point? --proposal 7-12 says why it was proposed, several --proposal stand side "
            "by side, and --all prints every point as CSV; `dngo best` names good ones"
        )
    with reading(path):
        if not arguments.all:
            if len(arguments.proposal) > 1:
                return _beside(path, arguments.proposal, arguments.json)
            data = audit(path, arguments.proposal[0])
            print(json.dumps(finite(data), indent=1) if arguments.json else page(data))
            return 0
        if arguments.json:
            print_list(finite(row) for row in audit_rows(path))
        else:
            write_table(path, sys.stdout)
    return 0


def _beside(path: Path, proposals: list[str], as_json: bool) -> int:
    """Print several points side by side; as JSON the audit of each."""
    from dngo.audit import audit
    from dngo.report.beside import beside, text

    if as_json:
        print_list(finite(audit(path, proposal)) for proposal in proposals)
    else:
        print(text(proposals, beside(path, proposals)), end="")
    return 0


def _track(arguments: argparse.Namespace) -> int:
    from dngo.exchange.tracking import Tracking
    from dngo.report.watch import ended

    study = study_of(arguments)
    tracking = Tracking(study, arguments.to, arguments.at)
    while True:
        over = ended(study) or not arguments.follow
        study.settle()
        if (count := tracking.update()) or over:
            print(f"{study.config.study}: {count} evaluations logged", flush=True)
        if over:
            return 0
        time.sleep(LOOK)


def _export(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading, verify
    from dngo.exchange import export

    altered = arguments.altered
    if altered and arguments.format not in TABLES:
        # Such a copy has digests, and would look as if dngo had written its values.
        raise UserError(f"--altered is for --format {' and '.join(TABLES)}")
    path, output = archive_of(arguments, as_it_is=altered), Path(arguments.output)
    given = {"author": arguments.author, "license": arguments.license}
    options = {name: value for name, value in given.items() if value is not None}
    if options and arguments.format != "ro-crate":
        raise UserError(f"--{next(iter(options))} is for --format ro-crate")
    with reading(path, as_it_is=altered):
        told = export(path, output, arguments.format, anonymous=arguments.anonymous, **options)
        problems = verify(path) if altered else []
    for problem in problems:
        print(f"{path}: {problem}", file=sys.stderr)
    print(f"{output}: {arguments.format} of {path}", *told, sep="\n  ")
    return 0
