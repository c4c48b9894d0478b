"""CSV: a line for each proposal, the numbers with all their digits, empty where nothing applies."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, TextIO

from dngo.audit import audit_all
from dngo.errors import UserError
from dngo.exchange.rows import Row, known
from dngo.space.parameters import text
from dngo.storage.files import handing_out


def write(archive: Path, output: Path) -> None:
    """Write every proposal of an archive with its reasons and its outcome."""
    with (
        handing_out(output) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        write_rows(audit_all(archive), stream)


def write_rows(rows: list[dict[str, Any]], stream: TextIO) -> None:
    """Write rows as `dngo.audit.audit_all` has them, with a header."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.writer(stream)
    writer.writerow(names)
    for row in rows:
        cells = [known(row.get(name)) for name in names]
        writer.writerow(["" if cell is None else text(cell) for cell in cells])


def read(path: Path) -> list[Row]:
    """The rows of a CSV file with a header; raises UserError if it is not one."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            names = next(reader, [])
            twice = next((name for name in names if name and names.count(name) > 1), None)
            if twice is not None:
                raise UserError(f"{path}: has two columns called {twice!r}; leave one of them out")
            rows = []
            for cells in reader:
                if len(cells) not in (0, len(names)):
                    raise UserError(
                        f"{path}:{reader.line_num}: has {len(cells)} cells under {len(names)} "
                        "columns; values with commas need quotes"
                    )
                if cells:
                    values = {n: c for n, c in zip(names, cells, strict=True) if n or c}
                    rows.append(Row(f"line {reader.line_num}", values))
            return rows
    except (csv.Error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read as CSV ({error})") from None
