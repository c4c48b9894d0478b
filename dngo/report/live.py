"""How a study stands at this moment: what is archived, and what was evaluated but is not yet."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive
from dngo.batch import STATUSES, Outcome, Proposal, find_outcome
from dngo.errors import UserError
from dngo.study import Study, best_row

STAGES = ("fit", "propose", "evaluate", "merge")


def status(study: Study) -> dict[str, Any]:
    """How a study stands, in flight included, as plain data.

    evaluations, outcomes, best and feasible_share count every outcome, archived or in flight;
    archived counts the rows of the archive.
    """
    header = study.header()
    merged = header.iterations if header else 0
    table = archive.read_table(study.archive, iterations=merged) if header else None
    in_flight, fresh = _in_flight(study, merged)
    counts = Counter(o.status for _, o in fresh)
    if table is not None:
        counts.update(table.status.tolist())
    known = counts.total() - counts["lost"]
    seconds = [o.duration for _, o in fresh if np.isfinite(o.duration)]
    spent = float(np.nansum(table.duration)) if table is not None else 0.0
    messages = Counter(
        f"{o.status}: {o.message.strip().splitlines()[-1][:120]}"
        for _, o in fresh
        if o.status != "ok" and o.message.strip()
    )
    result: dict[str, Any] = {
        "study": study.config.study,
        "iterations_merged": merged,
        # A run that was started with `--config iterations=...` has told its batches.
        "iterations_configured": max(
            study.config.iterations + 1, *(b["planned"] for b in in_flight), 0
        ),
        "evaluations": counts.total(),
        "archived": header.rows if header else 0,
        "in_flight": in_flight,
        "best": _best(study, table, fresh),
        "feasible_share": counts["ok"] / known if known else None,
        "outcomes": {s: counts[s] for s in STATUSES},
        "messages": dict(messages.most_common(3)),
        "evaluation_seconds": spent + sum(seconds),
        "stage_seconds": {
            stage: round(sum(found.values()), 1)
            for stage, found in stage_seconds(study.folder).items()
        },
    }
    if table is not None:
        result["regret"] = regret(study, table)
    return result


def _in_flight(
    study: Study, merged: int
) -> tuple[list[dict[str, int]], list[tuple[Proposal, Outcome]]]:
    """The batches that are not archived, and their outcomes so far."""
    batches, fresh = [], []
    folders = [
        p for p in (study.folder / "pending").glob("*") if re.fullmatch("[0-9]{1,9}", p.name)
    ]
    for folder in sorted(folders, key=lambda p: int(p.name)):
        if int(folder.name) < merged or not (folder / "proposals.json").exists():
            continue
        try:
            batch = study.batch(int(folder.name))
        except (OSError, UserError):
            continue  # it was merged, or removed, a moment ago
        done = []
        for proposal in batch.proposals:
            try:
                outcome = find_outcome(study.outcome_file(proposal), proposal)
            except (OSError, UserError):
                outcome = None
            if outcome is not None:
                done.append((proposal, outcome))
        running = [c for c in (folder / "claims").glob("[0-9]*") if not c.suffix]
        batches.append(
            {
                "iteration": batch.iteration,
                "planned": 1 + batch.config.get("iterations", 0),
                "points": len(batch.proposals),
                "evaluated": len(done),
                "running": len(running),
            }
        )
        fresh += done
    return batches, fresh


def _best(
    study: Study, table: archive.Table | None, fresh: list[tuple[Proposal, Outcome]]
) -> dict[str, Any] | None:
    """The best ok outcome, archived or not."""
    sign = derive.sign(study.config)
    found = [(sign * o.objective, p.id, p.parameters) for p, o in fresh if o.status == "ok"]
    row = None if table is None else best_row(table, study.config.objective.direction)
    if table is not None and row is not None:
        (parameters,) = study.space.to_parameters(table.v[row : row + 1])
        name = f"{table.iteration[row]}-{table.slot[row]}"
        found.insert(0, (sign * float(table.objective[row]), name, parameters))
    if not found:
        return None
    value, name, parameters = min(found, key=lambda one: one[0])
    return {"id": name, "objective": sign * value, "parameters": parameters}


def regret(study: Study, table: archive.Table) -> dict[str, float]:
    """Regret against the known optimum (Brofos, Shu and Jin 2015, (2) and (3)); empty without one.

    minimum: of the best evaluation, Q_n; cumulative: the sum over all, R_n; average: R_n / n. Only
    ok evaluations count, as the others have no value.
    """
    values = table.objective[table.status == "ok"]
    if study.config.optimum is None or len(values) == 0:
        return {}
    lost = derive.sign(study.config) * (values - study.config.optimum)
    return {
        "minimum": float(lost.min()),
        "cumulative": float(lost.sum()),
        "average": float(lost.mean()),
    }


def stage_seconds(folder: Path) -> dict[str, dict[int, float]]:
    """Wall seconds of the jobs of each stage by iteration, from Snakemake's benchmark files.

    folder: the study's.
    """
    seconds: dict[str, dict[int, float]] = {stage: {} for stage in STAGES}
    for stage, found in seconds.items():
        top = folder / "benchmarks" / stage
        for path in top.rglob("*.tsv"):
            try:
                t = int(path.relative_to(top).parts[0].removesuffix(".tsv"))
                head, row = path.read_text().splitlines()[:2]
                value = float(dict(zip(head.split("\t"), row.split("\t"), strict=False))["s"])
            except (ValueError, KeyError, OSError):
                continue  # a job that was cut off while it wrote
            found[t] = found.get(t, 0.0) + value
    return seconds
