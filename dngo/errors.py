"""The one exception that means "the user can mend this": a single clear line, never a traceback."""

from __future__ import annotations


class UserError(Exception):
    """A mistake in a configuration, an archive or a command line; its text says what would be right."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it."""
        return [f"{type(self).__name__}: {self}"]
