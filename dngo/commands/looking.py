"""`dngo status`, `watch`, `serve`, `report`: the state and the results of a study."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dngo.commands.common import add_study, page_at, study_of
from dngo.errors import UserError


def register(commands: Any) -> None:
    """Add the commands to the parser."""

    def add(name: str, run: Callable[[argparse.Namespace], int], words: str) -> Any:
        command = commands.add_parser(name, help=words)
        add_study(command)
        command.set_defaults(run=run)
        return command

    status = add("status", _status, "print the state of a study, while it runs or afterwards")
    status.add_argument("--json", action="store_true", help="print JSON")
    watch = add("watch", _watch, "show the state of a study, live, until it is done")
    watch.add_argument("--interval", type=float, default=2.0, help="seconds; default: 2")
    serve = add(
        "serve",
        _serve,
        "show the report in a browser, refreshed during the run; for a folder, all studies "
        "below it",
    )
    serve.add_argument(
        "--act",
        action="store_true",
        help="let the page add and withdraw points, write notes, change a bound, and stop the run",
    )
    serve.add_argument("--port", type=int, default=8000, help="default: 8000; 0: any free one")
    report = add("report", _report, "print the results of a study")
    report.add_argument("--html", help="also write the report to this HTML file")


def _status(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.report import format_status, status

    study = study_of(arguments)
    with reading(study.archive) if study.archive.exists() else contextlib.nullcontext():
        data = status(study)
    print(json.dumps(data, indent=1) if arguments.json else format_status(data))
    return 0


def _watch(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from dngo.report.watch import watch

    if arguments.interval <= 0:
        raise UserError(f"--interval: {arguments.interval:g} is not a number of seconds above 0")
    with contextlib.suppress(KeyboardInterrupt):
        watch(study_of(arguments), interval=arguments.interval, console=Console())
    return 0


def _serve(arguments: argparse.Namespace) -> int:
    import signal

    from dngo.acting import Acts
    from dngo.locate import file_at, is_archive
    from dngo.report.many import Many
    from dngo.report.serve import Server, Shown

    def ended(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    place = Path(arguments.study)
    alone = not place.is_dir() or any((place / n).is_file() for n in ("archive.h5", "config.yaml"))
    study = study_of(arguments) if alone else None
    may, shown = arguments.act, None
    if study is not None:
        file = file_at(place, arguments.results)
        config = None if is_archive(file) else file
        shown = Shown(study, Acts(study, config) if may else None)
    try:
        server = Server(shown or Many(place, Acts if may else None), arguments.port)
    except (OSError, OverflowError) as error:
        raise UserError(f"port {arguments.port}: {error}; try --port 0") from None
    signal.signal(signal.SIGTERM, ended)
    try:
        with server:
            name = f"Study {study.config.study}" if study else f"Studies below {place}"
            print(f"{name}: open {server.address}", flush=True)
            what = "the study" if study else "them"
            if may:
                what = f"{what}, and can change {what}"
            print(f"Anyone with this address sees {what}; Ctrl-C ends the server", flush=True)
            server.serve_forever()
    except KeyboardInterrupt:
        print("Ended; the address no longer works", flush=True)
    # A thread may still work on a page. If the interpreter ended meanwhile, it could hang.
    os._exit(0)


def _report(arguments: argparse.Namespace) -> int:
    from dngo.archive import reading
    from dngo.report import summary
    from dngo.report.data import View

    study = study_of(arguments)
    if study.header() is None:
        raise UserError(f"{study.archive}: there is no archive yet; `dngo run` begins the study")
    title = f"Study {study.config.study}"
    with reading(study.archive), page_at(arguments.html, title) as page:
        view = View.now(study) if page else None
        print(summary(study, view))
        if page:
            from dngo.report.page import study_page

            page.write_text(study_page(study, view=view), encoding="utf-8")
    return 0
