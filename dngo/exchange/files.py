"""Tables in files, of whichever format their beginning says they are."""

from __future__ import annotations

import hashlib
from pathlib import Path

from dngo.config import Config
from dngo.errors import UserError
from dngo.exchange.rows import Row


def read(path: Path, config: Config, name: str | None = None) -> tuple[str, list[Row]]:
    """The format of a file, told by how it begins, and its rows."""
    try:
        with path.open("rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if start.startswith(b"PAR1"):
        from dngo.exchange import parquet

        return "parquet", parquet.read(path)
    if start.startswith((b"SQLite format 3\0", b'{"op_code"')):
        from dngo.exchange import optuna

        direction, constraints = config.objective.direction, config.constraints
        names = list(constraints)
        return "optuna", optuna.read(path, name=name, direction=direction, constraints=names)
    from dngo.exchange import csv_table

    return "csv", csv_table.read(path)


def sha256(path: Path) -> str:
    """The digest of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def check_columns(path: Path, rows: list[Row], config: Config, objective: str | None) -> None:
    """Raise UserError unless there is a column for each parameter, and for the objective if named."""
    there = {name for row in rows for name in row.values}
    if rows and objective is not None and objective not in there:
        names = ", ".join(sorted(there))[:300]
        raise UserError(
            f"{path}: has no column {objective!r}; name the objective's with --objective, of {names}"
        )
    needed = [c.name for c in config.search_space.columns if not c.conditions]
    missing = [n for n in needed if not {n, f"parameter_{n}"} & there]
    if rows and missing:
        raise UserError(
            f"{path}: has no column for the parameters {', '.join(missing)}; every parameter needs "
            "one, called as in the configuration"
        )
