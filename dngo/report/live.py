"""The current state of a study: what is archived, and what was evaluated but is not archived yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, inward
from dngo.batch import (
    STATUSES,
    STOPPED,
    UNINFORMATIVE,
    WORKED,
    Batch,
    Outcome,
    Proposal,
    find_outcome,
    last_line,
    way,
)
from dngo.errors import UserError
from dngo.evaluation.progress import last_point
from dngo.report.expected_gain import expected_gain
from dngo.report.front import Front
from dngo.report.levels import levels
from dngo.report.models import by_batch
from dngo.study import Study, best_row
from dngo.units import LARGEST, Units

NO_FAILURE = (*WORKED, "withdrawn")
PACE = 5  # batches whose pace is averaged
REPORTING = 100  # running evaluations whose progress is read
STAGES = ("fit", "propose", "evaluate", "merge")


def status(study: Study) -> dict[str, Any]:
    """The state of a study as plain data, including points in flight.

    evaluations, outcomes, best and feasible_share count all outcomes, archived or in flight.
    archived counts the rows of the archive.
    """
    header = study.header()
    merged = header.iterations if header else 0
    archived = study.table(merged) if header else None
    in_flight, fresh = _in_flight(study, merged)
    table = _with_fresh(study, archived, fresh)
    counts = Counter(table.status.tolist())
    result: dict[str, Any] = {
        "study": study.config.study,
        "folder": str(study.folder),
        "iterations_merged": merged,
        # If a run was started with `--config iterations=...`, its batches hold that number.
        "iterations_configured": max(
            study.last_iteration() + 1, merged, *(b["planned"] for b in in_flight), 0
        ),
        "evaluations": counts.total(),
        "archived": header.rows if header else 0,
        "in_flight": in_flight,
        "waiting": _waiting(study),
        "best": None if study.config.has_several else _best(study, table),
        "feasible_share": feasible_share(table.status),
        "outcomes": {s: counts[s] for s in STATUSES},
        "stopped": study.journal.stopped or study.journal.asked,
        "left_out": study.journal.left_out,
        "outlook": expected_gain(study),
        "models": by_batch(study.archive, range(merged - 1, merged))[0] if merged > 1 else {},
        "messages": _messages(study, archived, fresh),
        "evaluation_seconds": float(np.nansum(table.duration)),
        "stage_seconds": {
            stage: round(sum(found.values()), 1)
            for stage, found in stage_seconds(study.folder, archived).items()
        },
    }
    if study.config.has_several:
        front = Front.of(study.archive, table, study.config)
        parameters = study.space.to_parameters(table.v[front.rows])
        result["front"] = front.document([table.id(row) for row in front.rows], parameters)
    elif archived is not None:
        result["regret"] = regret(study, table)
    if study.config.ladder is not None:
        y = np.where(table.status == "ok", table.objective, np.nan)
        result["fidelity"] = levels(study.config.ladder, table.v, y, inward.sign(study.config))
    result["seconds_to_go"] = _to_go(study, result, archived)
    return result


def _with_fresh(
    study: Study, archived: archive.Table | None, fresh: list[tuple[Proposal, Outcome]]
) -> archive.Table:
    """The rows of the archive, if there is one, and those of outcomes that it does not hold yet."""
    if archived is not None:
        return archived.with_told(study.space, fresh)
    config = study.config
    names = config.constraints, config.thresholds, config.directions
    return archive.Table.of(study.space, fresh, *names)


def _to_go(study: Study, data: dict[str, Any], table: archive.Table | None) -> float | None:
    """Seconds to the end of a study at the pace of its last batches; None if unknown.

    A pause between two runs has no effect, since the pace is a median.
    """
    left = expected_evaluations(study, data) - data["evaluations"]
    if left <= 0 or "ended" in data["outlook"]:
        return 0.0
    if table is None or data["stopped"]:
        return None
    with archive.reading(study.archive) as file:
        finished = file["outcomes/finished"][: len(table)]
    last = data["iterations_merged"]
    ends = [
        finished[(table.iteration == t) & np.isfinite(finished)].max(initial=-np.inf)
        for t in range(max(0, last - PACE - 1), last)
    ]
    took = np.diff([end for end in ends if np.isfinite(end)])
    took = took[took > 0]
    if len(took) < 2:
        return None
    return float(np.median(took)) * left / study.config.batch_size


def _messages(
    study: Study, table: archive.Table | None, fresh: list[tuple[Proposal, Outcome]]
) -> dict[str, int]:
    """The five most frequent failures, archived or not, and how often each occurred."""
    seen = [(o.status, o.message) for _, o in fresh if o.status not in NO_FAILURE]
    archived = [] if table is None else failures(study.archive, table)
    counts: Counter[tuple[str, str]] = Counter()
    lines = {}
    for n, status, message in [*((n, s, m) for n, s, m, _ in archived), *((1, *o) for o in seen)]:
        counts[way(status, message)] += n
        lines[way(status, message)] = f"{status}: {last_line(message)[:120]}"
    shown: Counter[str] = Counter()  # two ways may look alike, as a line is cut off
    for found, n in counts.items():
        shown[lines[found]] += n
    return dict(shown.most_common(5))


def failures(path: Path, table: archive.Table) -> list[tuple[int, str, str, int]]:
    """`count_messages` of an archive's evaluations without an objective."""
    failed = ~np.isin(table.status, NO_FAILURE)
    if not failed.any():
        return []
    with archive.reading(path) as file:
        message = archive.words(file["outcomes/message"], len(table))
    return count_messages(np.where(failed, table.status, "ok"), message)


def feasible_share(status: np.ndarray) -> float | None:
    """The share of ok evaluations among those that say whether their point is feasible; None without one.

    status: (n,) text.
    """
    known = ~np.isin(status, (*UNINFORMATIVE, STOPPED))
    return float((status == "ok").sum() / known.sum()) if known.any() else None


def expected_evaluations(study: Study, data: dict[str, Any]) -> int:
    """The number of evaluations that a study will have, by its configuration. data: its `status`."""
    config = study.config
    total = config.design_size + (data["iterations_configured"] - 1) * config.batch_size
    return max(min(total, config.stop.evaluations or total), data["evaluations"])


@dataclass(frozen=True)
class MergedBatch:
    """The results and the times of one batch.

    feasible: the ok share of the points with an outcome.
    best: the best value so far, with this batch (with several objectives: the hypervolume); NaN
    without an ok outcome.
    seconds: wall seconds of fit and propose, and from the first start of an evaluation to the last
    end; NaN if not recorded.
    several: whether the study has several objectives.
    promised: the highest expected improvement of its points when they were chosen, in the unit of
    the objective; NaN without a model.
    messages: the messages of failures with their counts, the most frequent first.
    """

    iteration: int
    points: int
    feasible: float
    best: float
    seconds: dict[str, float]
    promised: float
    several: bool
    messages: list[tuple[int, str]]


def merged_batches(study: Study, iterations: Iterable[int]) -> list[MergedBatch]:
    """The results of each of these archived iterations."""
    with archive.reading(study.archive) as file:
        table = study.table(study.merged())
        n = len(table)
        numbers = {name: file["proposals"][name][:n] for name in ("mean", "std", "feasibility")}
        times = {name: file["outcomes"][name][:n] for name in ("started", "finished")}
        message = archive.words(file["outcomes/message"], n)
    sign = inward.sign(study.config)
    values = np.where(table.counting(study.config.ladder), sign * table.objective, np.nan)
    best, units = np.fmin.accumulate(values), inward.units(study.config)
    several = study.config.has_several
    volumes = Front.of(study.archive, table, study.config).volumes if several else []
    found = []
    for t in iterations:
        rows = np.flatnonzero(table.iteration == t)
        status = table.status[rows]
        share = feasible_share(status)
        lowest = float(sign * best[rows[-1]]) if len(rows) else np.nan
        before = best[rows[0] - 1] if len(rows) and rows[0] > 0 else np.nan
        belief = {name: column[rows] for name, column in numbers.items()}
        failed = ~np.isin(status, NO_FAILURE)
        messages = count_messages(status[failed], message[rows][failed])
        began, ended = times["started"][rows], times["finished"][rows]
        timed = np.isfinite(began) & np.isfinite(ended)  # a withdrawn point has neither
        took = ended[timed].max(initial=-np.inf) - began[timed].min(initial=np.inf)
        found.append(
            MergedBatch(
                iteration=t,
                points=len(rows),
                feasible=np.nan if share is None else share,
                best=volumes[t] if several else lowest,
                seconds={
                    "fit": benchmark_seconds(study.folder / f"benchmarks/fit/{t}.tsv"),
                    "propose": benchmark_seconds(study.folder / f"benchmarks/propose/{t}.tsv"),
                    "evaluate": float(took) if np.isfinite(took) else np.nan,
                },
                promised=promised(
                    units, sign * before, belief["mean"], belief["std"], belief["feasibility"]
                ),
                several=several,
                messages=[(count, line) for count, _, line, _ in messages],
            )
        )
    return found


def count_messages(status: np.ndarray, message: np.ndarray) -> list[tuple[int, str, str, int]]:
    """Messages of failed evaluations: count, status, message, a row.

    status, message: (n,) text. Messages that differ only in their numbers count as one. The most
    frequent come first.
    """
    groups: dict[tuple[str, str], list[Any]] = {}  # count, line, last row
    known: dict[tuple[str, str], tuple[tuple[str, str], str]] = {}
    for row in np.flatnonzero(status != "ok").tolist():
        said = str(status[row]), str(message[row])
        if said not in known:
            known[said] = way(*said), last_line(said[1])
        key, line = known[said]
        count = groups[key][0] if key in groups else 0
        groups[key] = [count + 1, line, row]
    found = [(count, key[0], line, row) for key, (count, line, row) in groups.items()]
    return sorted(found, key=lambda one: -one[0])


def _waiting(study: Study) -> dict[str, int]:
    """How many points wait for the next batch: points to evaluate, and points with outcomes."""
    try:
        entries = study.entries()
    except (OSError, UserError):
        return {}
    told = sum(entry.outcome is not None for entry in entries)
    return {"points to evaluate": len(entries) - told, "told": told} if entries else {}


def promised(
    units: Units, best: float, mean: np.ndarray, deviation: np.ndarray, feasibility: np.ndarray
) -> float:
    """The highest expected improvement on `best` among points, in the objective; NaN if unknown.

    mean, deviation, feasibility: (n,) predictions for each point; a feasibility of NaN counts as 1.
    Equation (3) of Snoek et al. 2012, times the feasibility (Gelbart et al. 2014).
    """
    from dngo.acquisition.measures import expected_improvement

    told = np.isfinite(mean) & (deviation > 0)
    if not told.any() or not np.isfinite(best):
        return np.nan
    inner, spread = units.moments(mean[told], deviation[told])
    gain = expected_improvement(units.inward(np.array(best)), inner, spread)
    gain = gain * np.where(np.isfinite(feasibility[told]), feasibility[told], 1.0)
    if units.log:  # the gain is a factor
        gain = abs(best) * np.abs(np.expm1(-units.sign * np.minimum(gain, LARGEST)))
    return float(np.max(gain))


def _in_flight(
    study: Study, merged: int
) -> tuple[list[dict[str, Any]], list[tuple[Proposal, Outcome]]]:
    """The batches that are not archived, and their outcomes so far."""
    batches, fresh = [], []
    for t in study.paths.iterations():
        if t < merged or not study.is_kept(t):
            continue
        try:
            batch = study.batch(t)
        except (OSError, UserError):
            continue  # the batch was merged or removed meanwhile
        done = [(batch.proposals[o.slot], o) for o in batch.told]
        for proposal in batch.evaluated:
            try:
                outcome = find_outcome(study.paths.outcome_file(proposal), proposal)
            except (OSError, UserError):
                outcome = None
            if outcome is not None:
                done.append((proposal, outcome))
        running = [c for c in (study.paths.pending(t) / "claims").glob("[0-9]*") if not c.suffix]
        batches.append(
            {
                "iteration": batch.iteration,
                "planned": 1 + batch.config.get("iterations", 0),
                "points": len(batch.proposals),
                "evaluated": len(done),
                "running": len(running),
                **_progress(study, batch, running),
            }
        )
        fresh += done
    return batches, fresh


def _progress(study: Study, batch: Batch, running: list[Path]) -> dict[str, Any]:
    """The last reported step and value of running evaluations, for the first `REPORTING` of them."""
    slots = sorted(int(claim.name) for claim in running if claim.name.isdecimal())
    known = {p.slot: p for p in batch.proposals}
    found = []
    for slot in [slot for slot in slots if slot in known][:REPORTING]:
        last = last_point(study.paths.files(known[slot]).places.progress, study.config.reported)
        if last is not None:
            found.append({"id": known[slot].id, "step": last.step, **_named(study, last.values)})
    return {"progress": found} if found else {}


def _named(study: Study, values: tuple[float, ...]) -> dict[str, Any]:
    if not study.config.has_several:
        return {"objective": values[0]}
    return {"objectives": dict(zip(study.config.directions, values, strict=True))}


def _best(study: Study, table: archive.Table) -> dict[str, Any] | None:
    """The best ok outcome."""
    row = best_row(table, study.config.direction, study.config.ladder)
    if row is None:
        return None
    (parameters,) = study.space.to_parameters(table.v[[row]])
    value = float(table.objective[row])
    return {"id": table.id(row), "objective": value, "parameters": parameters}


def regret(study: Study, table: archive.Table) -> dict[str, float]:
    """Regret against the known optimum (Brofos, Shu and Jin 2015, (2) and (3)); empty without one.

    minimum: of the best evaluation, Q_n; cumulative: the sum over all, R_n; average: R_n / n. Only
    ok evaluations count, since the others have no value.
    """
    values = table.objective[table.counting(study.config.ladder)]
    if study.config.optimum is None or len(values) == 0:
        return {}
    lost = inward.sign(study.config) * (values - study.config.optimum)
    return {
        "minimum": float(lost.min()),
        "cumulative": float(lost.sum()),
        "average": float(lost.mean()),
    }


def stage_seconds(folder: Path, table: archive.Table | None) -> dict[str, dict[int, float]]:
    """Wall seconds of each stage by iteration. Jobs have Snakemake's benchmark files; evaluations
    have their own times.

    folder: the study's. table: its archive's, None without an archive.
    """
    seconds: dict[str, dict[int, float]] = {stage: {} for stage in STAGES}
    for stage in ("fit", "propose", "merge"):
        found = seconds[stage]
        top = folder / "benchmarks" / stage
        for path in top.rglob("*.tsv"):
            name = path.relative_to(top).parts[0].removesuffix(".tsv")
            value = benchmark_seconds(path)
            if name.isdecimal() and np.isfinite(value):
                found[int(name)] = found.get(int(name), 0.0) + value
    if table is not None:
        iterations, which = np.unique(table.iteration, return_inverse=True)
        spent = np.bincount(which, weights=np.nan_to_num(table.duration))
        seconds["evaluate"] = dict(zip(iterations.tolist(), spent.tolist(), strict=True))
    return seconds


def benchmark_seconds(path: Path) -> float:
    """Wall seconds of a job from Snakemake's benchmark file; NaN if the file is missing, or cut off."""
    try:
        head, row = path.read_text().splitlines()[:2]
        return float(dict(zip(head.split("\t"), row.split("\t"), strict=False))["s"])
    except (ValueError, KeyError, OSError):
        return np.nan
