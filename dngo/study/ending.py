"""Why there is no further iteration: a stop criterion is met, a batch would gain too little, or no
point is left to propose.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive, inward
from dngo.batch import Batch
from dngo.fronts import sign_of
from dngo.study.batches import record
from dngo.study.entries import awaited, entries
from dngo.study.note import Ending
from dngo.study.records import Records, best_row


def noted(records: Records) -> Ending:
    """The note of an end that was decided during a run."""
    return Ending(records.paths.note, records.config)


def reached(records: Records, header: archive.Header | None) -> str:
    """A text with the stop criterion that the archive meets; empty if it meets none."""
    stop = records.config.stop
    if header is None:
        return ""
    if stop.evaluations is not None and header.rows >= stop.evaluations:
        return f"the archive has {header.rows} evaluations, so stop.evaluations is reached"
    if isinstance(stop.target, dict):
        return _all_reached(records, stop.target)
    if stop.target is not None:
        table = records.table()
        ladder = records.config.ladder
        best = best_row(table, records.config.direction, ladder)
        if best is not None and (ladder is None or ladder.is_top(table.v[[best]])[0]):
            value, sign = table.objective[best], inward.sign(records.config)
            if sign * value <= sign * stop.target:
                return f"the objective reached {value:.6g}, and stop.target is {stop.target:g}"
    return ""


def _all_reached(records: Records, target: dict[str, float]) -> str:
    """A text with the first point that reaches the target of every objective; empty without one."""
    table, named, ladder = records.table(), sorted(target), records.config.ladder
    signs = np.array([sign_of(records.config.directions[name]) for name in named])
    values = np.column_stack([table.objectives[name] for name in named])
    wanted = np.array([target[name] for name in named])
    good = (table.status == "ok") & (signs * values <= signs * wanted).all(axis=1)
    if ladder is not None:
        good &= ladder.is_top(table.v)
    if not good.any():
        return ""
    row = int(good.argmax())
    found, asked = (
        ", ".join(f"{name} {value:.6g}" for name, value in zip(named, some, strict=True))
        for some in (values[row], wanted)
    )
    return f"proposal {table.id(row)} reached {found}, and stop.target is {asked}"


def ends(records: Records, t: int) -> str:
    """Why there is no iteration t; empty if there is one, or if it is in flight."""
    if t == 0 or records.batch_in_flight(t) is not None or entries(records):
        return ""  # entries of people are evaluated in any case
    return at_an_end(records, t)


def at_an_end(records: Records, t: int) -> str:
    """Why iteration t has no point but those that people entered; empty if it has others."""
    header = records.header()
    merged = header.iterations if header else 0
    if t < merged:
        return ""
    reason = noted(records).reason(t, merged)
    if not reason and (reason := reached(records, header)):
        noted(records).note(t, reason, {})
    return reason


def only_told(records: Records, t: int) -> bool:
    """Whether iteration t only takes outcomes of people in: it needs no model, and evaluates nothing."""
    if t == 0 or records.batch_in_flight(t) is not None:
        return False
    if awaited(records) or not entries(records):
        return False
    return not records.asks_for(t) or bool(at_an_end(records, t))


def nothing_left(records: Records, batch: Batch) -> str:
    """Why a batch would gain too little, or has no point.

    Empty if it gains enough, or if people wait for its points.
    """
    stop = records.config.stop
    if records.is_kept(batch.iteration):
        return ""
    if not batch.proposals:
        # The outcome of a pending point may show that some point is worth another evaluation.
        pending = any(records.batch(t).proposals for t in batch.pending)
        return "" if pending else "no point of the space is left to propose"
    if not batch.outlook or any(p.given for p in batch.proposals):
        return ""
    if records.config.has_several:
        return _little_volume(batch.outlook, stop.hypervolume_gain)
    from dngo.acquisition.outlook import Outlook

    outlook = Outlook(**batch.outlook)
    if stop.expected_improvement is not None and outlook.further < stop.expected_improvement:
        return (
            f"five batches are expected to gain {outlook.further:.3g}, and "
            f"stop.expected_improvement is {stop.expected_improvement:g}"
        )
    if stop.distance is not None and outlook.within(stop.distance) >= stop.probability:
        return (
            f"with probability {outlook.within(stop.distance):.3g} the best value is within "
            f"{stop.distance:g} of the best value that the surrogate thinks possible, and "
            f"stop.probability is {stop.probability:g}"
        )
    return ""


def _little_volume(outlook: dict[str, Any], least: float | None) -> str:
    """Why a batch would add too little to a front; empty if it adds enough."""
    gain, before = outlook.get("gain"), outlook["hypervolume"]
    if least is None or gain is None or gain >= least * before:
        return ""
    return (
        "the next batch is expected to increase the hypervolume by a share of "
        f"{gain / before:.3g}, and stop.hypervolume_gain is {least:g}"
    )


def write_end(
    records: Records, t: int, reason: str, output: Path, outlook: dict[str, Any] | None = None
) -> Batch:
    """Write and return a batch without points. It says that the study has ended.

    outlook: the basis of the decision; None if the archive or a note already says it.
    """
    if outlook is not None:
        noted(records).note(t, reason, outlook)
    none = record(records, t, derive.PROPOSE, [])
    batch = replace(none, ended=reason, outlook=outlook or {})
    batch.write(output)
    return batch


def clear_end(records: Records, t: int) -> None:
    """Remove the empty batch of iteration t, now that the study goes on."""
    path = records.paths.iteration(t) / "proposals.json"
    if path.exists() and Batch.read(path).ended:
        shutil.rmtree(records.paths.iteration(t))
