"""Parquet: a row for each proposal, every column with its type, null where nothing applies."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dngo import archive as archives
from dngo.errors import UserError
from dngo.exchange import package
from dngo.exchange.rows import Row, check_cells, check_names, known
from dngo.outcomes import is_time
from dngo.space.parameters import Number, Parameter, choices, text
from dngo.storage.files import handing_out

_INTEGERS = ("iteration", "slot", "num_pending", "attempts")
_TIMES = ("started", "finished")
_TEXTS = ("id", "status", "stage", "source", "origin", "host", "job", "message", "metadata")


def write(archive: Path, output: Path) -> None:
    """Write each proposal of an archive, its reasons and its outcome, one group of rows at a time."""
    pa, parquet = package("pyarrow"), package("pyarrow.parquet")
    space = archives.read_space(archive).parameters
    header = archives.read_header(archive)
    assert header is not None  # the header was read from it already
    says = {"study": header.identity["study"], "archive_digest": header.digest}
    # Arrow opens files by UTF-8 names only.
    with handing_out(output) as temporary, temporary.open("wb") as stream, ExitStack() as stack:
        writer = None
        for columns in archives.flat_columns(archive):
            arrays = {n: _array(pa, n, values, space) for n, values in columns.items()}
            table = pa.table(arrays).replace_schema_metadata(says)
            writer = writer or stack.enter_context(parquet.ParquetWriter(stream, table.schema))
            writer.write_table(table)


def _array(pa: Any, name: str, values: list[Any], space: Mapping[str, Parameter]) -> Any:
    """A column as Arrow has it, with its type."""
    kind = _kind(name, space)
    values = [known(value) for value in values]
    if kind == "string":
        values = [None if v is None else text(v) for v in values]
    elif kind == "bool":
        values = [None if v is None else bool(v) for v in values]
    elif name in _TIMES:
        values = [round(v * 1e6) if v is not None and is_time(v) else None for v in values]
    return pa.array(values, pa.timestamp("us", "UTC") if name in _TIMES else kind)


def _kind(name: str, space: Mapping[str, Parameter]) -> str:
    prefix, _, rest = name.partition("_")
    if prefix == "parameter" and rest in space:
        return _parameter_kind(space[rest])
    if prefix == "constraint":
        return "bool"
    return "int64" if name in _INTEGERS else "string" if name in _TEXTS else "float64"


def _parameter_kind(parameter: Parameter) -> str:
    if isinstance(parameter, Number):
        return "int64" if parameter.whole else "float64"
    kinds = {type(choice) for choice in choices(parameter)}
    largest = max((abs(c) for c in choices(parameter) if isinstance(c, int)), default=0)
    # Choices of several types share a column as text. So do integers too large for the column's
    # type.
    for kind, name, most in (({bool}, "bool", 1), ({int}, "int64", 2**63 - 1)):
        if kinds == kind and largest <= most:
            return name
    return "float64" if kinds <= {int, float} and largest <= 2**53 else "string"


def read(path: Path) -> list[Row]:
    """The rows of a Parquet file; raises UserError if it cannot be read."""
    pa, parquet = package("pyarrow"), package("pyarrow.parquet")
    try:
        with path.open("rb") as stream:
            # `read_table` would refuse two columns with one name in Arrow's words; we check the
            # names first.
            file = parquet.ParquetFile(stream)
            check_cells(path, file.metadata.num_rows * file.metadata.num_columns)
            table = file.read()
        check_names(path, table.schema.names)
        rows: list[dict[str, Any]] = table.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        raise UserError(f"{path}: cannot be read as Parquet ({reason})") from None
    return [Row(f"row {i}", values) for i, values in enumerate(rows, start=1)]
