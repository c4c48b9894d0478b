"""When the batches of a study were fitted, proposed and evaluated."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dngo.archive.reading import reading


@dataclass(frozen=True)
class Course:
    """The times of one iteration, in seconds since 1970.

    learnt: the number of first iterations that its model learnt from.
    fitted: when its fit began, NaN without one. proposed: when its batch was there.
    started, finished: (n,), of its evaluations, without those that have no times.
    """

    learnt: int
    fitted: float
    proposed: float
    started: np.ndarray
    finished: np.ndarray


def read_courses(path: Path, iterations: Iterable[int]) -> dict[int, Course]:
    """The courses of some merged iterations, by their numbers."""
    found = {}
    with reading(path) as file:
        outcomes = file["outcomes"]
        for t in iterations:
            group = file[f"iterations/{t}"]
            first = int(group.attrs["first_row"])
            rows = slice(first, first + int(group.attrs["rows"]))
            started, finished = outcomes["started"][rows], outcomes["finished"][rows]
            timed = np.isfinite(started) & np.isfinite(finished) & (finished > started)
            model = group.get("surrogate")
            found[t] = Course(
                learnt=int(group.attrs["training_iterations"]),
                fitted=_time(model.attrs.get("environment")) if model is not None else math.nan,
                proposed=_time(group.attrs["environment"]),
                started=started[timed],
                finished=finished[timed],
            )
    return found


def _time(environment: Any) -> float:
    """When a stage ran, by its record; NaN if that does not say it."""
    time = json.loads(environment or "{}").get("time", math.nan)
    return float(time) if isinstance(time, int | float) else math.nan
