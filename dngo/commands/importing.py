"""`dngo import`: begin a study with evaluations made before."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dngo.commands.common import add_meaning, meaning_of, say_left_out, study_of


def register(commands: Any) -> None:
    """Add the command to the parser."""
    start = commands.add_parser("import", help="begin a study with evaluations made before")
    start.add_argument("file", help="CSV, Parquet, an Optuna study, or a file of another program")
    start.add_argument("--config", default="config.yaml", help="default: config.yaml")
    start.add_argument("--results", help="folder of the studies, if not the configured one")
    start.add_argument(
        "--objective", default="objective", help="the objective's column; default: objective"
    )
    start.add_argument("--skip-invalid", action="store_true", help="leave out rows with mistakes")
    add_meaning(start)
    start.set_defaults(run=_import)


def _import(arguments: argparse.Namespace) -> int:
    from dngo.exchange.warm_start import warm_start

    study = study_of(arguments)
    found = warm_start(
        study,
        Path(arguments.file),
        meaning=meaning_of(arguments),
        skip_invalid=arguments.skip_invalid,
    )
    if found.said:
        print(f"{arguments.file}: {found.said}")
    say_left_out(arguments.file, found.skipped)
    say_left_out(f"{arguments.file}: pictures", found.pictures)
    counts = ", ".join(f"{n} {status}" for status, n in found.outcomes.items())
    left_out = f"; {len(found.skipped)} left out" if found.skipped else ""
    print(f"{study.archive}: iteration 0 is {arguments.file}: {counts}{left_out}")
    print(f"Go on with: dngo run {arguments.config}")
    return 0
