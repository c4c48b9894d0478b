"""Tables in files. The first bytes of a file say which format it has."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from dngo.config import Config
from dngo.config.messages import nearest
from dngo.errors import UserError
from dngo.exchange import documents
from dngo.exchange.foreign import Meaning, shape_of, translated
from dngo.exchange.names import ColumnNames, unknown
from dngo.exchange.rows import FileRows, Row
from dngo.outcomes import SEVERAL
from dngo.storage.text import visible

NO_TABLE = (
    "is JSON; a table is CSV or Parquet, or say what its names mean, for example with "
    "--columns 'params.*' --objective value"
)
ROWS = 8192  # of a CSV table, in memory at once
# Files of other programs, by their first bytes.
OTHERS = {
    b"PK\x03\x04": "is a workbook or a zip file; save its table as CSV, or fork the archive of a crate",
    b"\xd0\xcf\x11\xe0": "is an old workbook; save its table as CSV",
    b"\x1f\x8b": "is compressed; unpack it first",
    b"\x89HDF": "is HDF5; `dngo fork` begins a study with an archive",
    **dict.fromkeys(
        (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"),
        "is a pickle, which nobody should open; save a table as CSV or Parquet",
    ),
}


def read(path: Path, config: Config, meaning: Meaning = Meaning()) -> FileRows:
    """The rows of a file; its first bytes say the format. Raises UserError."""
    form = _form(path)
    if form == "optuna":
        from dngo.exchange import optuna

        found = optuna.read(path, config, name=meaning.study)
        return _without(path, found, meaning.ignore)
    if form == "parquet":
        from dngo.exchange import parquet

        rows = parquet.read(path)
    elif form == "json":
        rows = documents.read(path)
    else:
        rows = list(csv_rows(path))
    columns = {key for row in rows for key in row.values}
    shape = shape_of(columns, meaning)
    if shape is not None:
        return _without(
            path, translated(path, rows, shape, config, meaning), meaning.ignore, columns
        )
    if form == "json":
        raise UserError(f"{path}: {NO_TABLE}")
    return _without(path, FileRows(form, rows), meaning.ignore)


def in_parts(path: Path, config: Config, meaning: Meaning = Meaning()) -> Iterator[FileRows]:
    """The same in parts.

    A CSV table with our names comes some rows at a time; an empty one is one part without rows.
    """
    rows = csv_rows(path) if _form(path) == "csv" else iter(())
    part = list(itertools.islice(rows, ROWS))
    if not part or shape_of({key for row in part for key in row.values}, meaning) is not None:
        yield read(path, config, meaning)
        return
    while part:
        yield _without(path, FileRows("csv", part), meaning.ignore)
        part = list(itertools.islice(rows, ROWS))


def _without(
    path: Path, table: FileRows, ignore: Collection[str], others: Collection[str] = ()
) -> FileRows:
    """The rows of a file, without the ignored columns. others: columns that are known too."""
    if not ignore:
        return table
    there = {key for row in table.rows for key in row.values} | {*others}
    for column in ignore:
        if column not in there:
            known = sorted(map(str, there))
            raise UserError(f"--ignore {column}: {path} has no such column{nearest(column, known)}")
    rows = [
        replace(row, values={k: v for k, v in row.values.items() if k not in ignore})
        for row in table.rows
    ]
    return replace(table, rows=rows)


def _form(path: Path) -> str:
    """The format that the first bytes of a file say; raises UserError if it is unknown."""
    try:
        with path.open("rb") as stream:
            start = stream.read(64)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if start.startswith(b"PAR1"):
        return "parquet"
    if start.startswith((b"SQLite format 3\0", b'{"op_code"')):
        return "optuna"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith((b"[", b"{")):
        return "json"
    for begins, why in OTHERS.items():
        if text.startswith(begins):
            raise UserError(f"{path}: {why}")
    return "csv"


def csv_rows(path: Path) -> Iterator[Row]:
    """The rows of a CSV file; raises UserError."""
    from dngo.exchange import csv_table

    return csv_table.rows_of(path)


def _in_metadata(rows: list[Row], names: Collection[str]) -> str:
    """A hint if the metadata of an export have some of these names; "" otherwise."""
    found = [n for n in names if any(f'"{n}":' in str(row.get("metadata")) for row in rows)]
    if not found:
        return ""
    return (
        f"; its metadata have {', '.join(found)}: `dngo fork` begins a study with the archive, and takes "
        "new objectives, constraints and parameters from there"
    )


def check_columns(
    path: Path, rows: list[Row], config: Config, objective: str | None, *, by_id: bool = False
) -> None:
    """Raise UserError unless each column means something, and there is one for each parameter.

    objective: the name of its column, if the column is required.
    by_id: whether a column of ids may replace the parameters.
    """
    there = {name for row in rows for name in row.values}
    if config.objectives and objective is not None:
        if objective != "objective":
            raise UserError(
                f"--objective {objective}: the study has {', '.join(config.directions)}"
            )
        lacking = [n for n in config.directions if not {n, f"objective_{n}", SEVERAL} & there]
        if rows and lacking:
            names = ", ".join(lacking)
            raise UserError(
                f"{path}: has no column for the objectives {names}{_in_metadata(rows, lacking)}"
            )
    elif rows and objective is not None and objective not in there:
        names = ", ".join(sorted(there))[:300]
        raise UserError(
            f"{path}: has no column {objective!r}; name the objective's column with "
            f"--objective; the columns are {names}"
        )
    if objective is not None and objective in config.space:
        raise UserError(f"--objective {objective}: is a parameter")
    needed = [c.name for c in config.search_space.columns if not c.conditions]
    missing = [n for n in needed if not {n, f"parameter_{n}"} & there]
    if rows and missing and not (by_id and "id" in there):
        raise UserError(
            f"{path}: has no column for the parameters {', '.join(missing)}; every "
            "parameter needs a column, with its name in the configuration"
            f"{_in_metadata(rows, missing)}"
        )
    held = [n for n in config.constraints if not {n, f"constraint_{n}", f"number_{n}"} & there]
    if held and objective is not None and not by_id and (hint := _in_metadata(rows, held)):
        raise UserError(f"{path}: has no column for the constraints {', '.join(held)}{hint}")
    for name, why in unknown(ColumnNames.of(config, objective), rows).items():
        raise UserError(
            f"{path}: {why}; `--ignore {visible(shlex.quote(name))}` leaves the column out"
        )
