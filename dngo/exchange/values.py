"""Points and outcomes that a user passes in Python: dicts, proposals, data frames."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from dngo.batch import Proposal
from dngo.errors import UserError
from dngo.exchange.names import PARAMETER, ColumnNames, unknown
from dngo.exchange.points import points_of
from dngo.exchange.rows import Row, known
from dngo.space import Space
from dngo.storage.plain import scalar
from dngo.storage.text import shown


def natural_points(space: Space, points: Any, constraints: Collection[str] = ()) -> np.ndarray:
    """The natural values of a user's points: (n, k). Raises UserError for a point outside the space.

    constraints: names that may also be there; they are ignored.
    """
    given = (
        # A row of `study.table()` holds metadata as well; they are no part of the point.
        {k: v for k, v in row.items() if k in space.parameters or not k.startswith("metadata_")}
        for row in records(points)
    )
    rows = [Row(f"point {i}", row) for i, row in enumerate(given, start=1)]
    for why in unknown(ColumnNames(space.parameters, constraints), rows).values():
        raise UserError(why)
    found, problems = points_of(space, rows)
    for i, why in problems.items():
        raise UserError(f"{rows[i].place}: {why}")
    return space.from_parameters(found)


def records(points: Any, *, named: bool = False) -> list[dict[str, Any]]:
    """Points as a list of dicts; raises UserError for anything else.

    points: a proposal, its id, a dict, several of these, or a DataFrame.
    named: whether an id may stand for its proposal.
    """
    if isinstance(points, Proposal | str | Mapping):
        points = [points]
    elif hasattr(points, "to_dict") and hasattr(points, "columns"):
        return _of_frame(points)
    elif hasattr(points, "to_dict"):  # a row of a DataFrame
        points = [points.to_dict()]
    _check_order("points", points)
    try:
        some = list(points)
    except TypeError:
        some = [points]
    return [_record(point, named) for point in some]


def _of_frame(frame: Any) -> list[dict[str, Any]]:
    """The rows of a DataFrame, where NaN is an empty cell."""
    names = [str(column) for column in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the table has two columns called {name!r}; leave one of them out")
    rows = frame.to_dict("records")
    return [{str(k): None if known(v) is None else v for k, v in row.items()} for row in rows]


def _record(point: Any, named: bool) -> dict[str, Any]:
    if isinstance(point, Proposal):
        values = {f"{PARAMETER}{name}": value for name, value in point.parameters.items()}
        return {"id": point.id, **values} if named else values
    if isinstance(point, str) and named:
        return {"id": point}
    if isinstance(point, Mapping):
        return {str(name): value for name, value in point.items()}
    which = "a proposal or its id" if named else "a proposal"
    raise UserError(f"a point is a dict such as {{'x': 0.5}}, or {which}, and not {shown(point)}")


def _check_order(name: str, values: Any) -> None:
    """Refuse a set: its values have no order."""
    if isinstance(values, set | frozenset):
        raise UserError(f"{name}: a set has no order; give a list")


def _values(objective: Any) -> list[Any]:
    """The values of an objective as a list, even a single one.

    Later code refuses values that are not numbers.
    """
    found = scalar(objective)
    _check_order("objective", found)
    if isinstance(found, str | bytes | Mapping):
        return [found]
    try:
        return list(found)
    except TypeError:
        return [found]


def with_outcomes(
    rows: Sequence[dict[str, Any]], objective: Any, outcome: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Rows with the reported values added: an objective for each row, and other values for all rows.

    objective: a number for each row, or a mapping with everything that was reported.

    Raises UserError if a row already has such a value, or if the numbers of objectives and rows
    differ.
    """
    values = _values(objective) if objective is not None else [None] * len(rows)
    if len(values) != len(rows):
        several = "; several objectives of one point are a dict by name" if len(rows) == 1 else ""
        raise UserError(
            f"the number of points is {len(rows)}, but the objective has {len(values)} values{several}"
        )
    found = []
    for row, value in zip(rows, values, strict=True):
        said = scalar(value)
        if isinstance(said, Mapping):  # everything that the function returned
            given = {str(name): of for name, of in said.items()}
        else:
            given = {} if objective is None else {"objective": value}
        twice = next((name for name in given if name in outcome), None)
        beside = {**given, **outcome}
        twice = twice or next((name for name in beside if name in row), None)
        if twice is not None:
            raise UserError(
                f"{twice}: is given in a point and as an argument as well; give it once"
            )
        found.append({**row, **beside})
    return found
