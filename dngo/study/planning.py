"""The iterations of a run of Snakemake, and the number of their jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dngo.study.beginning import has_transfer, read_transfer
from dngo.study.ending import noted, reached
from dngo.study.entries import awaited, entries
from dngo.study.records import Records, refuse_secrets


@dataclass(frozen=True)
class Plan:
    """The iterations of one run of Snakemake.

    iterations: their numbers, in order.
    reason: why there are none, if there are none.
    is_last: whether the study ends after them.
    """

    iterations: tuple[int, ...]
    reason: str = ""
    is_last: bool = True


def plan(records: Records) -> Plan:
    """The iterations that the configuration asks for, after those in the archive."""
    config = records.config
    header = records.header()
    if header is None and config.transfer and not has_transfer(records):
        read_transfer(records)  # planning writes nothing
    merged = header.iterations if header else 0
    # This call compares each batch with the configuration.
    if not records.in_flight(merged) and header is None:
        refuse_secrets(records)
    reason, decided = reached(records, header), noted(records).reason(merged, merged)
    last = last_chosen = records.last_iteration()
    if merged > last_chosen:
        reason = f"all {merged} iterations are in the archive"
    elif not reason and decided and not entries(records):  # an entry may change what was decided
        reason = decided
    if reason:
        further = _further(records, merged)
        return Plan(further, "" if further else reason)
    if config.iterations_per_run:
        last = min(last, merged + config.iterations_per_run - 1)
    iterations = tuple(range(merged, last + 1))
    rows = header.rows if header else 0
    if config.stop.evaluations is not None:
        kept = []
        for t in iterations:
            if rows >= config.stop.evaluations:
                break
            rows += config.batch_size_of(t)
            kept.append(t)
        iterations = tuple(kept)
    is_last = last == last_chosen or rows >= (config.stop.evaluations or math.inf)
    return Plan(iterations, is_last=is_last)


def num_chunks(records: Records, t: int) -> int:
    """The number of jobs that evaluate iteration t. An iteration in flight keeps its number."""
    batch = records.batch_in_flight(t)
    if batch is not None:
        return batch.num_chunks
    return -(-_size_of(records, t) // records.config.points_per_job)


def _further(records: Records, merged: int) -> tuple[int, ...]:
    """Iterations after the last one. They only take in points that people entered."""
    flying = [b for b in records.in_flight(merged) if all(p.given for p in b.proposals)]
    first = max([merged, *(b.iteration + 1 for b in flying)])
    number = -(-awaited(records) // records.config.batch_size) or bool(entries(records))
    return tuple(range(merged, first + number))


def _size_of(records: Records, t: int) -> int:
    """The number of points that iteration t would propose now."""
    size = records.config.batch_size_of(t)
    if records.asks_for(t):
        return size
    before = [s for s in range(records.merged(), t) if records.batch_in_flight(s) is None]
    return min(size, max(1, awaited(records) - size * len(before)))
