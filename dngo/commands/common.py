"""What several commands have in common."""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dngo.study import Study


def study_of(arguments: argparse.Namespace) -> Study:
    """The study that `config` and `--results` mean."""
    from dngo.locate import find_study

    overrides = {"results": arguments.results} if arguments.results else {}
    return find_study([arguments.config], overrides)


def finite(value: Any) -> Any:
    """The same with null for NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {k: finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [finite(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
