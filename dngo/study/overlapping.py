"""How many batches are in flight with `batches_in_flight: auto`.

It is the least number that keeps the slots about as busy as any would. A larger one would cost quality,
since each batch in flight is a batch that the next one has not learnt from. Snakemake's plan is fixed
before a run, and lets MOST batches overlap. Durations show only in the run: after each merge the number is
decided anew, and a fit waits for its turn.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dngo import archive
from dngo.archive.pace import Course, read_courses
from dngo.config import Config
from dngo.study.records import Records

MOST = 3  # batches in flight
ENOUGH = 0.95  # of the share of busy slots that MOST batches would give
SEEN = 5  # the last iterations, whose times count
# Seconds of a fit with its proposals, and of a merge and two submissions, until some were seen. They
# matter where an evaluation takes less than a minute.
MODEL, WAITS = 8.0, 7.0


@dataclass(frozen=True)
class Pace:
    """What a batch takes, in seconds, or in any other unit.

    work: for how long it keeps its slots busy. between: how long its slots are then idle, if no other
    batch is in flight: until its last evaluation has ended, and the next batch has come.
    model: a fit and its proposals. One batch is proposed after another.
    """

    work: float
    between: float
    model: float = 0.0

    def busy(self, batches: int) -> float:
        """The share of the slots' time that is used, with so many batches in flight."""
        most = min(1.0, self.work / self.model) if self.model else 1.0
        return min(most, batches * self.work / (self.work + self.between))

    @property
    def batches(self) -> int:
        """The least number of batches in flight that keeps the slots busy."""
        enough = ENOUGH * self.busy(MOST)
        return next(k for k in range(1, MOST + 1) if self.busy(k) >= enough)


def overlap(records: Records, slots: int) -> int:
    """Decide how many batches the plan of a run lets overlap: 1, MOST, or as configured.

    slots: the most jobs that evaluate at the same time, on this machine or on the cluster.
    """
    records.slots = slots
    number = records.config.batches_in_flight
    if number == "auto":
        # With one slot no job of another batch can start before the last one of this batch has ended.
        number = 1 if slots <= 1 else _as_it_began(records) or MOST
    records.flying = number
    return number


def has_turn(records: Records, t: int) -> bool:
    """Whether the fit of iteration t, which the plan allows, is to begin now."""
    if records.config.batches_in_flight != "auto":
        return True
    merged = records.merged()
    if records.needed[1] != merged:
        pace = seen(records) or expected(records.config, records.slots)
        records.needed = pace.batches, merged
    return t - records.needed[0] < merged


def expected(config: Config, slots: int) -> Pace:
    """The pace of a study that has not begun, in durations of a job.

    Nobody knows these yet. The longest evaluation of a batch takes one more, and a fit at most one:
    evaluations take minutes to days.
    """
    jobs = math.ceil(config.batch_size / config.points_per_job)
    return Pace(work=max(1.0, jobs / slots), between=1.0)


def seen(records: Records) -> Pace | None:
    """The pace of the last iterations in the archive; None if it is not known."""
    merged = records.merged()
    if not merged:
        return None
    courses = read_courses(records.archive, range(max(0, merged - SEEN - MOST), merged))
    return pace_of(courses, records.config.batch_size)


def pace_of(courses: Mapping[int, Course], size: int) -> Pace | None:
    """The pace of batches of this many points, by the last courses that have a model.

    If there is none, by the design's evaluations. None if their times are not known.
    """
    timed = [c for _, c in sorted(courses.items()) if len(c.started)]
    known = [c for c in timed if math.isfinite(c.fitted)][-SEEN:]
    model, waits = MODEL, WAITS
    if known:
        model = max(0.0, float(np.mean([c.proposed - c.fitted for c in known])))
        # Both also contain waits for a slot. The shortest has the least of that.
        waits = max(0.0, min(float(np.min(c.started)) - c.proposed for c in known))
        waits += max(0.0, min(_wait(c, courses) for c in known))
    known = known or timed[-SEEN:]
    if not known:
        return None
    mean = float(np.mean(np.concatenate([c.finished - c.started for c in known])))
    longest = float(np.mean([np.max(c.finished - c.started) for c in known]))
    return Pace(
        work=size * mean / min(size, _most_at_once(known)),
        between=longest - mean + waits + model,
        model=model,
    )


def _wait(course: Course, courses: Mapping[int, Course]) -> float:
    """Seconds from the end of what a fit learnt from to its start; 0 if that is not known."""
    last = courses.get(course.learnt - 1)
    if last is None or not len(last.finished):
        return 0.0
    return course.fitted - float(np.max(last.finished))


def _most_at_once(courses: Sequence[Course]) -> int:
    """The most evaluations that ran at the same time."""
    started = np.concatenate([c.started for c in courses])
    finished = np.concatenate([c.finished for c in courses])
    # At equal times, ends come first.
    order = np.lexsort((np.repeat([1, 0], len(started)), np.concatenate([started, finished])))
    steps = np.repeat([1, -1], len(started))[order]
    return max(1, int(np.max(np.cumsum(steps))))


def _as_it_began(records: Records) -> int | None:
    """The number that a study began with, if its file does not name the key.

    So a study of an earlier release, whose default was 1, goes on as it was. A design that Python asked
    for does not count, since such batches always say a number.
    """
    if "batches_in_flight" in records.config.model_fields_set or not records.merged():
        return None
    kept = archive.iteration_attributes(records.archive, 0)
    number = json.loads(kept["config"]).get("batches_in_flight")
    asked = "asked" in json.loads(kept["environment"])
    return number if isinstance(number, int) and not asked else None
