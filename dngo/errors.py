"""Exceptions for mistakes that the user can correct: one clear line, never a traceback."""

from __future__ import annotations

import shlex
from pathlib import Path


class UserError(Exception):
    """A mistake in a configuration, an archive or a command line; its text says what would be right."""

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows."""
        return [f"{type(self).__name__}: {self}"]


class AlteredArchive(UserError):
    """The values of the archive at `path` are not those that were written."""

    def __init__(self, path: Path, problem: str):
        named = shlex.quote(str(path))
        super().__init__(
            f"{path}: was altered after dngo wrote it ({problem}); put a good copy in its place; "
            f"dngo verify {named} says all that differs; without a copy, take its values into a new "
            f"study: dngo export {named} --altered --format csv --output values.csv, then dngo import"
        )
        self.path = path
