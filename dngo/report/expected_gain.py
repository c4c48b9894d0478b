"""What a batch is expected to gain, and what came of earlier statements.

A statement holds until the outcomes of its batch are there. After that it is history: it is shown
beside what was found, and no longer as a promise.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from dngo import archive, inward
from dngo.report.front import Front
from dngo.study import Study
from dngo.units import LARGEST, LINEAR, LOG

MOST_JUDGED = 200  # last batches whose statements are compared with what was found


def expected_gain(study: Study) -> dict[str, Any]:
    """The expected gain that a batch in flight states, and the record of archived statements.

    batch, further: expected improvement of that batch, and of five batches. distance: by
    probability, the largest distance of the best value from the best value that the surrogate
    thinks possible. within: the probability of `stop.distance`. ended: why the study has ended, if
    it has. record: `judged`. A study that ended by its expected gain states it as well.
    """
    merged = study.merged()
    note, ended = study.ending.read(), study.ending.reason(merged, merged)
    result: dict[str, Any] = {"scale": LOG if inward.units(study.config).log else LINEAR}
    result |= {"ended": ended} if ended else {}
    if record := judged(study, merged):
        result["record"] = record
    found, iteration = (note.get("outlook"), note.get("iteration")) if ended else ({}, merged)
    for batch in () if found else reversed(study.in_flight(merged)):
        found, iteration = batch.outlook, batch.iteration
        if found:
            break
    if not found:
        return result
    if study.config.has_several:
        return result | {"iteration": iteration, **found}
    from dngo.acquisition.outlook import Outlook

    looked = Outlook(**found)
    shown = _as_shown(study)
    result |= {"iteration": iteration}
    result |= {"batch": shown(looked.batch), "further": shown(looked.further)}
    result["distance"] = {str(p): shown(looked.distance(p)) for p in (0.5, 0.9)}
    if study.config.stop.distance is not None:
        result["within"] = looked.within(study.config.stop.distance)
    return result


def judged(study: Study, merged: int) -> dict[str, Any]:
    """What archived batches were expected to gain, and what they gained; empty without a statement.

    batches: how many stated it. expected, gained: their sums, in units of the objective, as a
    factor on a logarithmic scale, or in units of the hypervolume. With a fidelity, a batch gains only once
    its points are at the highest level.
    """
    stated: dict[int, float] = {}
    if study.config.ladder is not None:
        return {}
    for t in range(max(merged - MOST_JUDGED, 1), merged):
        said = json.loads(archive.iteration_attributes(study.archive, t).get("outlook", "{}"))
        key = "gain" if study.config.has_several else "batch"
        if said.get(key) is not None:
            stated[t] = float(said[key])
    best = _best_by_iteration(study, merged) if stated else np.empty(0)
    found = {t: best[t] - best[t - 1] for t in stated}
    counted = [t for t in stated if np.isfinite(found[t])]
    if not counted:
        return {}
    shown = _as_shown(study)
    return {
        "batches": len(counted),
        "expected": shown(sum(stated[t] for t in counted)),
        "gained": shown(float(sum(found[t] for t in counted))),
    }


def _best_by_iteration(study: Study, merged: int) -> np.ndarray:
    """How good the study was after each iteration, large values good: (merged,), NaN unknown."""
    table = study.table(merged)
    if study.config.has_several:
        return np.array(Front.of(study.archive, table, study.config).volumes)
    counts = table.counting(study.config.ladder)
    y = inward.units(study.config).inward(np.where(counts, table.objective, np.nan))
    best = np.full(merged, np.nan)
    for t in range(merged):
        rows = y[table.iteration == t]
        if np.isfinite(rows).any():
            best[t] = -np.nanmin(rows)
    return np.fmax.accumulate(best)


def _as_shown(study: Study) -> Any:
    """Gains and distances as they are shown: factors on a logarithmic scale."""
    log = inward.units(study.config).log
    return lambda gain: float(np.exp(min(gain, LARGEST))) if log else float(gain)
