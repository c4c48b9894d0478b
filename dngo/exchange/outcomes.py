"""Rows of a table as outcomes."""

from __future__ import annotations

from typing import Any

from dngo.batch import Outcome
from dngo.config import Config
from dngo.exchange.names import ColumnNames, said_in
from dngo.exchange.rows import Row
from dngo.outcomes import judge
from dngo.storage.digest import digest_parameters

SOURCE = "imported"


class Reader:
    """Reads the rows of a table as outcomes of a study. objective: what its column is called."""

    def __init__(self, config: Config, objective: str):
        self.names, self.reported = ColumnNames.of(config, objective), config.reported

    def outcome(self, slot: int, parameters: dict[str, Any], row: Row) -> Outcome:
        """The outcome that a row states; raises ValueError if the row contradicts itself."""
        verdict = judge(said_in(row, self.names, self.reported), self.reported)
        return Outcome(
            iteration=0,
            slot=slot,
            parameters_digest=digest_parameters(parameters),
            status=verdict.status,
            message=verdict.message,
            attempts=0,  # none of them in this row
            **verdict.fields,
        )
