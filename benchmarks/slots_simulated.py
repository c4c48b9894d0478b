"""What share of a cluster's time the objective gets, by a simulation: which delay and which choice counts.

    python benchmarks/slots_simulated.py

Slots take jobs in the order in which these are submitted. Evaluations are log-normal, with a median of
25 s and a deviation of the logarithm of 0.7. The share is over a whole study of a design and `batches`
batches, from the first submission to the end of the last evaluation; the mean of 100 studies. The delays
are those of an idle machine; `slurm_utilisation.py overlap` measures a real Slurm.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Setting:
    """Seconds, and numbers of points, jobs and batches."""

    size: int = 24  # points of a batch, and of the design
    batches: int = 6
    in_flight: int = 2
    each: int = 1  # points of a job
    slots: int = 8
    start: float = 1.0  # until the first evaluation of a job begins
    end: float = 0.3  # of a job, once its last evaluation has ended
    notice: float = 2.0  # until a batch that has ended is merged
    model: float = 12.0  # that fit and propose hold a slot
    submit: float = 1.0

    def share(self, rng: np.random.Generator) -> float:
        """Of the slots' time, in one study."""
        order = itertools.count()
        free, waiting = [0.0] * self.slots, []
        left: list[int] = []  # jobs of each batch that have not ended
        ended: list[float] = []  # when the last of each has
        spent = last = 0.0

        def submit(at: float) -> None:
            seconds = 25 * rng.lognormal(0, 0.7, self.size)
            jobs = [float(seconds[i : i + self.each].sum()) for i in range(0, self.size, self.each)]
            for job in jobs:
                heapq.heappush(waiting, (at, next(order), len(left), job))
            left.append(len(jobs))
            ended.append(0.0)

        submit(0.0)
        planned = 1
        while waiting:
            at, _, batch, job = heapq.heappop(waiting)
            begins = max(at, heapq.heappop(free))
            if not job:
                heapq.heappush(free, begins + self.model)
                submit(begins + self.model + self.submit)
                continue
            last = max(last, begins + self.start + job)
            over = begins + self.start + job + self.end
            heapq.heappush(free, over)
            spent += job
            left[batch] -= 1
            ended[batch] = max(ended[batch], over)
            # Batch t needs the outcomes of all but the `in_flight - 1` before it.
            while planned <= self.batches and (need := max(planned - self.in_flight, 0)) < len(
                left
            ):
                if any(left[: need + 1]):
                    break
                ready = max(ended[: need + 1]) + self.notice
                heapq.heappush(waiting, (ready, next(order), -1, 0.0))
                planned += 1
        return spent / (self.slots * last)

    def mean(self) -> float:
        """The share, over 100 studies."""
        return float(np.mean([self.share(np.random.default_rng(seed)) for seed in range(100)]))


def main() -> None:
    """Print the share for each setting."""
    now = Setting()
    settings = {
        "24 points a batch": now,
        "a batch's end is noticed after 0.5 s": replace(now, notice=0.5),
        "a batch's end is noticed after 10 s": replace(now, notice=10),
        "a job starts in 0.3 s": replace(now, start=0.3),
        "fit and propose take 4 s": replace(now, model=4),
        "three batches in flight": replace(now, in_flight=3),
        "two points a job": replace(now, each=2),
        "12 points a batch": replace(now, size=12),
        "48 points a batch": replace(now, size=48),
        "20 batches of 24": replace(now, batches=20),
        "20 batches of 24, three in flight": replace(now, batches=20, in_flight=3),
        "20 batches of 48": replace(now, batches=20, size=48),
    }
    for name, setting in settings.items():
        print(f"{name:40}{setting.mean():.2f}")


if __name__ == "__main__":
    main()
