"""The exception for mistakes that the user can correct: one clear line, never a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in a configuration, an archive or a command line; its text says what would be right."""

    def _render_traceback_(self) -> list[str]:
        """The lines that a notebook shows."""
        return [f"{type(self).__name__}: {self}"]
