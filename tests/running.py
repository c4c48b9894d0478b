"""Programs that tests run to their end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def ran(words: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[str]:
    """A program that has ended, with what it said."""
    return subprocess.run(words, capture_output=True, text=True, **{"check": False, **options})
