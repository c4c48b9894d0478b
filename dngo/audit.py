"""Why was this point proposed, what was expected of it, and what came of it: from the archive alone."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive
from dngo.archive import transfer
from dngo.errors import UserError

NEAREST = 3


def audit(path: Path, proposal: str) -> dict[str, Any]:
    """All that the archive knows of one proposal ("7-123"), as plain data.

    Raises UserError if there is no such proposal.
    """
    table = archive.read_table(path)
    row = _find(path, table, proposal)
    t, slot = int(table.iteration[row]), int(table.slot[row])
    attributes = archive.iteration_attributes(path, t)
    space = archive.read_space(path)
    batch = archive.read_batch(path, t, space)
    outcome = archive.read_outcomes(path, batch)[slot]
    chosen = batch.proposals[slot]
    before = np.flatnonzero(table.iteration < batch.training_iterations)
    distances = np.sqrt(
        ((space.unit(table.v[before]) - space.unit(table.v[row : row + 1])) ** 2).mean(axis=1)
    )
    order = np.argsort(distances, kind="stable")[:NEAREST]
    pending = [p.id for s in batch.pending for p in archive.read_batch(path, s, space).proposals]
    pending += [p.id for p in batch.proposals[:slot]] if t > 0 else []
    ok = [i for i in before if table.status[i] == "ok"]
    z = (outcome.objective - chosen.mean) / chosen.std if chosen.std else math.nan
    return {
        "id": chosen.id,
        "archive": str(path),
        "parameters": chosen.parameters,
        "proposed": {
            "source": chosen.source,
            "rank_in_batch": slot + 1,
            "batch_size": len(batch.proposals),
            "acquisition": chosen.value,
            "runner_up": chosen.runner_up,
            "mean": chosen.mean,
            "std": chosen.std,
            "feasibility": chosen.feasibility,
            "num_pending": chosen.num_pending,
            "pending": pending,
            "training_iterations": batch.training_iterations,
            "training_rows": len(before),
            "training_ok": len(ok),
            "transferred": sum(len(earlier.y) for earlier in transfer.recorded(path)),
            "training_digest": batch.training_digest,
            "seed": batch.seed,
            "spawn_key": batch.spawn_key,
            "time": batch.environment.get("time"),
            "surrogate": _summary(path, t),
            "cost": _cost(path, t, table.x[[row]], batch.config.get("acquisition", {}).get("per")),
        },
        "outcome": {
            "status": outcome.status,
            "objective": outcome.objective,
            "standardised_residual": z,
            "constraints": outcome.constraints,
            "noise": outcome.noise,
            "message": outcome.message,
            "metadata": outcome.metadata,
            "duration": outcome.duration,
            "attempts": outcome.attempts,
            "host": outcome.host,
            "job": outcome.job,
            "started": outcome.started,
            "finished": outcome.finished,
        },
        "nearest_before": [
            {
                "id": f"{table.iteration[before[i]]}-{table.slot[before[i]]}",
                "distance": float(distances[i]),
                "status": str(table.status[before[i]]),
                "objective": float(table.objective[before[i]]),
            }
            for i in order
        ],
        "environment": batch.environment,
        "digest": attributes["digest"],
        "previous": attributes["previous"],
    }


def audit_all(path: Path) -> list[dict[str, Any]]:
    """One flat row for each proposal of an archive: parameters, why, and outcome."""
    header = archive.read_header(path)
    if header is None:
        raise UserError(f"{path}: there is no such archive")
    space = archive.read_space(path)
    rows = []
    for t in range(header.iterations):
        batch = archive.read_batch(path, t, space)
        outcomes = archive.read_outcomes(path, batch)
        for p, o in zip(batch.proposals, outcomes, strict=True):
            rows.append(
                {
                    "id": p.id,
                    "iteration": p.iteration,
                    "slot": p.slot,
                    **{f"parameter_{k}": p.parameters.get(k) for k in space.parameters},
                    "status": o.status,
                    "objective": o.objective,
                    **{f"constraint_{k}": v for k, v in o.constraints.items()},
                    "noise": o.noise,
                    "source": p.source,
                    "acquisition": p.value,
                    "runner_up": p.runner_up,
                    "mean": p.mean,
                    "std": p.std,
                    "feasibility": p.feasibility,
                    "num_pending": p.num_pending,
                    "duration": o.duration,
                    "attempts": o.attempts,
                    "host": o.host,
                    "job": o.job,
                    "started": o.started,
                    "finished": o.finished,
                    "message": o.message,
                    "metadata": json.dumps(o.metadata, sort_keys=True),
                }
            )
    return rows


def page(data: dict[str, Any]) -> str:
    """An audit for a person: one page."""
    why, came = data["proposed"], data["outcome"]
    lines = [f"Proposal {data['id']} in {data['archive']}", ""]
    lines += [f"  {k:<24}{_show(v)}" for k, v in data["parameters"].items()]
    lines += ["", "Why it was proposed"]
    if why["source"] == "default":
        lines.append("  It is the point of all defaults, evaluated first.")
    elif why["source"] == "imported":
        file = data["environment"].get("import", {})
        lines += [
            f"  It was evaluated before this study began: {came['metadata'].get('imported_from')}.",
            f"  SHA-256 of the file     {file.get('sha256')}",
        ]
    elif why["source"].startswith("design"):
        lines.append(f"  It belongs to the initial design ({why['source']}): no model was asked.")
    elif why["source"] in ("random", "sobol") or why["source"].startswith("optuna:"):
        lines.append(f"  A baseline proposed it ({why['source']}): no model was asked.")
    else:
        other = why["runner_up"]
        lines += [
            f"  Found as                {why['source']}; pick {why['rank_in_batch']} of "
            f"{why['batch_size']}",
            f"  Acquisition             {_show(why['acquisition'])}"
            + ("" if math.isnan(other) else f"; the next best candidate had {_show(other)}"),
            f"  Objective expected      {_show(why['mean'])} ± {_show(why['std'])}",
            f"  Feasible with           probability {_show(why['feasibility'])}",
            f"  Pending then            {why['num_pending']} points"
            + (f": {_some(why['pending'])}" if why["pending"] else ""),
            f"  The surrogate knew      {why['training_rows']} evaluations, {why['training_ok']} of "
            f"them ok (iterations 0 to {why['training_iterations'] - 1})",
        ]
        if why["transferred"]:
            lines.append(f"  And from earlier        {why['transferred']} evaluations transferred")
    if why["cost"]:
        cost = why["cost"]
        lines.append(f"  Cost expected           {_show(cost['expected'])} ({cost['per']})")
    for name, value in why["surrogate"].items():
        lines.append(f"    {name:<28} {_show(value)}")
    lines += ["", "What came of it"]
    lines.append(f"  Status                  {came['status']} {came['message']}".rstrip())
    lines.append(f"  Objective               {_show(came['objective'])}")
    if math.isfinite(came["standardised_residual"]):
        lines.append(
            f"  Surprise                {came['standardised_residual']:+.2f} standard deviations "
            "from what was expected"
        )
    for name, flag in came["constraints"].items():
        lines.append(f"  {name:<24}{'satisfied' if flag else 'violated'}")
    lines.append(
        f"  Took                    {_show(came['duration'])} s, attempt {came['attempts']}"
    )
    job = f", job {came['job']}" if came["job"] else ""
    lines.append(f"  Where and when          {came['host']}{job}, {_time(came['started'])}")
    if data["nearest_before"]:
        lines += ["", "Nearest points known then (root mean square distance in the unit cube)"]
        for near in data["nearest_before"]:
            lines.append(
                f"  {near['id']:<12}{near['distance']:.4f}   {near['status']} {_show(near['objective'])}"
            )
    environment = data["environment"]
    packages = ", ".join(f"{k} {v}" for k, v in environment.get("packages", {}).items())
    commit = environment.get("commit") or {}
    dirty = " with changes" if commit.get("dirty") else ""
    lines += [
        "",
        "Derived by",
        f"  dngo {environment.get('dngo')}, commit {str(commit.get('id', 'unknown'))[:12]}{dirty}",
        f"  {packages}",
        f"  Python {environment.get('python')} on {environment.get('host')}, {environment.get('cpu')}",
        f"  random stream           seed {why['seed']}, key {why['spawn_key']}",
        f"  trained on the prefix   {why['training_digest'] or '(none)'}",
        f"  recorded in             {data['digest']}",
        "",
        f"Derive it again: dngo replay {data['archive']} --iteration {data['id'].split('-')[0]}",
    ]
    return "\n".join(lines)


def _find(path: Path, table: archive.Table, proposal: str) -> int:
    try:
        t, slot = (int(part) for part in proposal.split("-"))
    except ValueError:
        raise UserError(f"{proposal!r} is not a proposal; they are called 7-123") from None
    rows = np.flatnonzero((table.iteration == t) & (table.slot == slot))
    if len(rows) == 0:
        last = int(table.iteration.max()) if len(table) else -1
        raise UserError(f"{path}: has no proposal {proposal}; its iterations are 0 to {last}")
    return int(rows[0])


def _summary(path: Path, t: int) -> dict[str, Any]:
    with archive.reading(path) as file:
        group = file[f"iterations/{t}"]
        if "surrogate" not in group:
            return {}
        return json.loads(group["surrogate"].attrs["summary"])


def _cost(path: Path, t: int, x: np.ndarray, per: str | None) -> dict[str, Any] | None:
    """What the point x (1, d) was expected to cost, by a measure; None if it did not matter."""
    if per is None:
        return None
    with archive.reading(path) as file:
        group = file.get(f"iterations/{t}/surrogate")
        if group is None or "cost" not in group["model"]:
            return None
        from dngo.surrogates.model import Cost, Model

        expected, _ = Cost(Model.load(group["model/cost"])).expected(x)
    return {"per": per, "expected": float(expected[0])}


def _show(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else f"{value:.6g}"
    return str(value)


def _some(ids: list[str]) -> str:
    if len(ids) <= 5:
        return ", ".join(ids)
    return f"{', '.join(ids[:4])}, ... {ids[-1]}"


def _time(seconds: float) -> str:
    if not math.isfinite(seconds):
        return "time unknown"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
