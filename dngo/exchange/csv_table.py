"""CSV: a line for each proposal, the numbers with all their digits, empty where nothing applies.

A spreadsheet runs text that begins like a formula. Here such text gets an apostrophe before it, which
marks text in spreadsheets. Reading the table back removes it.
"""

from __future__ import annotations

import csv
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from dngo.archive import flat_columns
from dngo.errors import UserError
from dngo.exchange.rows import Row, check_cells, check_names, known
from dngo.space.parameters import text
from dngo.storage.files import handing_out
from dngo.storage.text import visible

# A spreadsheet runs such text, also if it has East Asia's wide signs. Text that already begins with
# our mark is marked again.
FORMULA = re.compile(r"'*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
# Such characters move the cursor of a terminal, change its colours, or turn the direction of a text.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SEPARATED = ["sep=", ""]  # the line `sep=,`
MOST_OF_CELL = 2**28  # bytes
# Only a table from `write_table` has all of these columns.
OURS = {"id", "source", "num_pending", "runner_up", "attempts"}


def write(archive: Path, output: Path) -> None:
    """Write every proposal of an archive with its reasons and its outcome."""
    with (
        handing_out(output) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        write_table(archive, stream)


def write_table(archive: Path, stream: TextIO) -> None:
    """Write a header, and a line for each proposal of an archive.

    Few rows are in memory at once. On a terminal nothing in a text moves the cursor: control
    characters are written as programmers write them.
    """
    writer = csv.writer(stream if stream is not sys.stdout else _Terminal(stream))
    for i, columns in enumerate(flat_columns(archive)):
        if i == 0:
            writer.writerow(columns)
        writer.writerows(zip(*map(_cells, columns.values()), strict=True))


class _Terminal:
    """A stream that makes control characters visible, except for tabs and the ends of lines."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a line of the table."""
        end = "\r\n" if text.endswith("\r\n") else ""
        body = text.removesuffix(end)
        return self._stream.write(CONTROL.sub(lambda c: visible(c[0]), body) + end)


def _cells(values: list[Any]) -> list[str]:
    """A column as text: what `_cell` makes of each value, for most columns at once."""
    kinds = set(map(type, values)) - {type(None)}
    if kinds == {int} or (kinds == {float} and not any(v in (math.inf, -math.inf) for v in values)):
        return ["" if v is None or v != v else repr(v) for v in values]
    if kinds == {str}:
        cells = {v: _cell(v) for v in set(values)}
        return [cells[v] for v in values]
    return [_cell(known(v)) for v in values]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else text(value)


def _as_it_was(cell: str) -> str:
    """The text of a cell that `_cell` wrote, without the apostrophe."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell[1:]) else cell


def read(path: Path) -> list[Row]:
    """The rows of a CSV file with a header; raises UserError if it is not one."""
    return list(rows_of(path))


def rows_of(path: Path) -> Iterator[Row]:
    """The same, one after another."""
    csv.field_size_limit(MOST_OF_CELL)  # metadata may be large
    line = 1
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            # A spreadsheet may name the separator in a first line.
            names = next((n for n in reader if any(n) and n != SEPARATED), [])
            names = [name.strip() for name in names]
            _check_header(path, names)
            ours = set(names) >= OURS
            count = 0
            for cells in reader:
                check_cells(path, count * len(names))
                line = reader.line_num
                if len(cells) not in (0, len(names)):
                    raise UserError(
                        f"{path}:{line}: has {len(cells)} cells under {len(names)} columns; "
                        "values with commas need quotes"
                    )
                if ours:
                    cells = [_as_it_was(cell) for cell in cells]
                if any(
                    cell and not cell.isspace() for cell in cells
                ):  # spreadsheets end with empty rows
                    values = {n: c for n, c in zip(names, cells, strict=True) if n or c}
                    count += 1
                    yield Row(f"line {line}", values)
    except UnicodeDecodeError:
        raise UserError(_no_text(path)) from None
    except csv.Error as error:
        why = {
            "unexpected end of data": "a quote is opened and not closed",
            f"field larger than field limit ({MOST_OF_CELL})": "a cell is too large",
        }.get(str(error), f"is not CSV: {error}")
        raise UserError(f"{path}: after line {line}: {why}") from None


def _check_header(path: Path, names: list[str]) -> None:
    if len(names) == 1:
        for sign, word in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
            if sign in names[0]:
                raise UserError(
                    f"{path}: its cells are separated by {word}; save it with commas and decimal points"
                )
    check_names(path, names)
    if "\0" in "".join(names):
        raise UserError(_no_text(path))


def _no_text(path: Path) -> str:
    """A message that names the line that cannot be read."""
    content = path.read_bytes()
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        return f"{path}:{line}: is not written in UTF-8; save it as CSV in UTF-8"
    if b"\0" in content:
        return f"{path}: is not CSV; save it as CSV in UTF-8"
    return f"{path}: the file changed while it was read"
