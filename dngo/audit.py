"""Answers from the archive alone: why was a point proposed, what was predicted, and what was its
outcome?
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive
from dngo.archive import transfer
from dngo.archive.flat import REPORTED
from dngo.batch import TOLD, Batch, Outcome, Proposal, numbers_of
from dngo.config import thresholds_of
from dngo.errors import UserError
from dngo.evaluation import pictures
from dngo.evaluation.pictures import LEFT_OUT
from dngo.outcomes import is_time
from dngo.redaction import each_text, redacted, redacted_objective
from dngo.report.left import note_of, noted, tags_of
from dngo.report.models import parts_of, said
from dngo.space import Space
from dngo.space.types import parameters_of_archive
from dngo.stopping.curves import Curve
from dngo.storage import picture
from dngo.storage.logs import PointLogs
from dngo.storage.text import cell, visible
from dngo.study import entries
from dngo.study.paths import Paths
from dngo.types import Array, Rows
from dngo.units import LOG, Units, units_of
from dngo.waiting import Note, dump

NEAREST = 3
PRINTED = 5  # lines of each stream to show
_KEYS = ("iteration", "slot", "parameters_digest")  # fields of an outcome


def audit(path: Path, proposal: str) -> dict[str, Any]:
    """Everything that the archive knows about one proposal, such as "7-123", as plain data.

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
    known = table.iteration < batch.training_iterations
    seen = archive.read_table(path, thresholds=thresholds_of(batch.config))  # by its own bounds
    told = [outcome.status for _, outcome in archive.read_told(path, t)]
    foreseen = archive.foreseen(path, t, slice(slot, slot + 1)) or {}
    units = Units.of(batch.config, str(batch.identity.get("direction")))
    logarithmic = [name for name, one in units_of(batch.config).items() if one.log]
    return {
        "id": chosen.id,
        "archive": str(path),
        "parameters": chosen.parameters,
        "space_constraints": _known(space, table.v[[row]]),
        "proposed": {
            **_fields(chosen, "stage", "source", "runner_up", "mean", "std", "feasibility"),
            **_fields(chosen, "means", "stds", "aims"),
            **({"scale": LOG} if units.log else {}),
            **({"logarithmic": logarithmic} if logarithmic else {}),
            **_fields(chosen, "origin"),
            **_fields(chosen, "deviation_scale", "num_pending"),
            "acquisition": chosen.value,
            "rank_in_batch": slot + 1,
            "batch_size": len(batch.proposals),
            "pending": _pending(path, batch, slot),
            **_fields(batch, "training_iterations", "training_digest", "seed", "spawn_key"),
            "training_rows": int(known.sum()) + len(told),
            "training_ok": int((known & (seen.status == "ok")).sum()) + told.count("ok"),
            "transferred": sum(len(earlier.y) for earlier in transfer.recorded(path)),
            "time": batch.environment.get("time"),
            "surrogate": _summary(path, t),
            "belief": _belief(batch, table.v[[row]], int(known.sum())),
            "cost": _cost(foreseen, batch.config.get("acquisition", {}).get("per")),
        },
        "outcome": {
            "standardised_residual": _residual(units, outcome, chosen),
            **_outcome(outcome),
        },
        "constraints": _constraints(foreseen, batch, outcome),
        "printed": each_text(PointLogs(path.parent / "logs" / "points").read(t, slot), redacted),
        "nearest_before": _nearest(space, seen, row, np.flatnonzero(known)),
        "notes": dump([n for n in entries.notes(path) if n.point in ("", chosen.id)]),
        "environment": _shown(batch.environment),
        "digest": attributes["digest"],
        "previous": attributes["previous"],
    }


def _residual(units: Units, outcome: Outcome, chosen: Proposal) -> float:
    """How far the outcome lies above its prediction, in deviations of the model; NaN if unknown."""
    if not chosen.std > 0:
        return math.nan
    mean, std = units.moments(np.array(chosen.mean), np.array(chosen.std))
    return float(units.sign * (units.inward(np.array(outcome.objective)) - mean) / std)


def _known(space: Space, v: Array) -> dict[str, bool]:
    """Whether the point v (1, k) keeps each known constraint. An imported point may break them."""
    found: dict[str, bool] = {}
    for condition in space.conditions:
        found[condition.text] = found.get(condition.text, True) and bool(condition.holds(v)[0])
    return found


def _fields(record: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def _outcome(outcome: Outcome) -> dict[str, Any]:
    """An outcome without the names of its host and people."""
    names = [f.name for f in fields(outcome) if f.name not in _KEYS]
    unused = [n for n in ("curve", "stop") if not getattr(outcome, n)]
    return _fields(outcome, *(n for n in names if n not in unused))


def _pending(path: Path, batch: Batch, slot: int) -> list[str]:
    """Ids of the points that were in flight or already picked when a slot of a batch was filled."""
    space = archive.read_space(path)
    earlier = [archive.read_batch(path, t, space).proposals for t in batch.pending]
    picked = batch.proposals[:slot] if batch.iteration > 0 else []
    return [p.id for p in [*chain(*earlier), *picked]]


def _nearest(space: Space, table: archive.Table, row: int, before: Rows) -> list[dict[str, Any]]:
    """The points nearest to a row, among the given rows: root mean square distance in the unit cube."""
    apart = space.unit(table.v[before]) - space.unit(table.v[row : row + 1])
    distances = np.sqrt((apart**2).mean(axis=1))
    return [
        {
            "id": table.id(before[i]),
            "distance": float(distances[i]),
            "status": str(table.status[before[i]]),
            "objective": float(table.objective[before[i]]),
            "objectives": {n: float(v[before[i]]) for n, v in table.objectives.items()},
        }
        for i in np.argsort(distances, kind="stable")[:NEAREST]
    ]


def audit_all(path: Path) -> list[dict[str, Any]]:
    """One flat row for each proposal of an archive: parameters, why, and outcome."""
    return list(audit_rows(path))


def audit_rows(path: Path) -> Iterator[dict[str, Any]]:
    """The same, one after another, so that a large archive need not be in memory."""
    for columns in archive.flat_columns(path):
        some = [name for name in columns if name.startswith(REPORTED)]
        for values in zip(*columns.values(), strict=True):
            row = dict(zip(columns, values, strict=True))
            for name in some:
                if row[name] is None:
                    del row[name]
            yield row


def table_of(path: Path) -> list[dict[str, Any]]:
    """The same, with a column for each name in the metadata."""
    rows = audit_all(path)
    for row in rows:
        row |= {f"metadata_{name}": value for name, value in json.loads(row["metadata"]).items()}
    return rows


def page(data: dict[str, Any]) -> str:
    """An audit for a person: one page."""
    lines = [f"Proposal {data['id']} in {data['archive']}", ""]
    lines += _rows(*((name, cell(value)) for name, value in data["parameters"].items()))
    if known := data["space_constraints"]:
        lines += ["", "Known constraints"]
        lines += _rows(*((name, "holds" if ok else "broken") for name, ok in known.items()))
    lines += ["", "Why it was proposed", *_why(data)]
    lines += ["", "What came of it", *_what_came(data)]
    for stream, text in data["printed"].items():
        last = [line for line in text.splitlines() if line.strip()][-PRINTED:]
        lines += [f"  Last on {stream:<15} {line[:200]}" for line in last]
    if data["nearest_before"]:
        lines += [
            "",
            "Nearest points known at that time (root mean square distance in the unit cube)",
        ]
    for near in data["nearest_before"]:
        several = ", ".join(f"{n} {cell(v)}" for n, v in near["objectives"].items())
        value = several or cell(near["objective"])
        lines.append(f"  {near['id']:<12}{near['distance']:.4f}   {near['status']} {value}")
    if notes := noted([Note(**note) for note in data["notes"]]):
        lines += ["", "Notes on it and on the study", *(f"  {line}" for line in notes)]
    lines += ["", "Derived by", *_derived_by(data)]
    iteration = data["id"].split("-")[0]
    lines += ["", f"Derive it again: dngo replay {data['archive']} --iteration {iteration}"]
    # Programs printed some of this text. Earlier releases did not remove signs that move a
    # terminal's cursor.
    return "\n".join(map(visible, lines))


def _why(data: dict[str, Any]) -> list[str]:
    """How a point was found, and the surrogate's prediction there."""
    why, source = data["proposed"], data["proposed"]["source"]
    if source == "default":
        lines = ["  It is the point of all defaults, evaluated first."]
    elif "by" in why["origin"]:
        lines = _entered(why)
    elif source == "imported":
        row = data["outcome"]["metadata"].get("imported_from")
        sha256 = data["environment"].get("import", {}).get("sha256")
        lines = [f"  It was evaluated before this study began: {row}."]
        lines += _rows(("SHA-256 of the file", sha256))
    elif source.startswith("design"):
        lines = [f"  It belongs to the initial design ({source}): no model was asked."]
    elif source in ("random", "sobol") or source.startswith("optuna:"):
        lines = [f"  A baseline proposed it ({source}): no model was asked."]
    else:
        lines = _expected(why)
    repeats, belief, cost = why["origin"].get("repeats"), why["belief"], why["cost"]
    lines += _rows(
        ("Repeats", repeats and f"{repeats}, which had failed"),
        ("Priors of people", "" if belief is None else f"times {cell(belief)}"),
        ("Cost expected", cost and f"{cell(cost['expected'])} ({cost['per']})"),
    )
    return lines + [f"    {name:<28} {cell(v)}" for name, v in why["surrogate"].items()]


def _entered(why: dict[str, Any]) -> list[str]:
    """Who entered a point, and what the surrogate predicted there."""
    origin, told = why["origin"], why["source"] in TOLD
    verb = "measured its outcome elsewhere" if told else "asked for it"
    place = ", ".join(str(origin[key]) for key in ("file", "row") if key in origin)
    lines = [
        f"  {origin.get('by')} {verb}, {_time(float(origin.get('time', math.nan)))}"
        + f": {place}" * bool(place)
    ]
    lines += _rows(("SHA-256 of the file", origin.get("sha256")))
    if math.isfinite(why["mean"]) or why["means"]:
        feasible = f"probability {cell(why['feasibility'])}"
        lines += _rows(*_objectives_expected(why), ("Feasible with", feasible))
    return lines


def _objectives_expected(why: dict[str, Any]) -> list[tuple[str, str]]:
    """The prediction of the objective, or of each of several, and their weights in the pick."""
    if not why["means"]:
        return [("Objective expected", _moments(why["mean"], why["std"], why.get("scale") == LOG))]
    aims = ", ".join(f"{name} {share:.0%}" for name, share in why["aims"].items())
    return ([("For the front, towards", aims)] if aims else []) + [
        (f"{name} expected", _moments(mean, std, name in why.get("logarithmic", ())))
        for name, mean in why["means"].items()
        for std in [why["stds"].get(name, math.nan)]
    ]


def _moments(mean: float, std: float, log: bool) -> str:
    """A mean and its deviation. On a logarithmic scale it is the interval, which is not symmetric."""
    if not log or not math.isfinite(mean):
        return f"{cell(mean)} ± {cell(std)}"
    return f"{cell(mean)}, {Units(1.0, log=True).margin(mean, std)} (95 %)"


def _expected(why: dict[str, Any]) -> list[str]:
    """Why an acquisition picked a point."""
    other = why["runner_up"]
    stage, scale = why["stage"].replace("_", " "), why["deviation_scale"]
    beside = "" if math.isnan(other) else f"; the next best candidate had {cell(other)}"
    waiting = f": {_some(why['pending'])}" * bool(why["pending"])
    knew = f"{why['training_rows']} evaluations, {why['training_ok']} of them ok"
    parts, earlier = parts_of(why["surrogate"], {"surrogate": {"kind": "auto"}}), why["transferred"]
    return _rows(
        ("Picked by", f"the stage of {stage}" if stage else "a version that named no stages"),
        ("Found as", f"{why['source']}; pick {why['rank_in_batch']} of {why['batch_size']}"),
        ("Acquisition", cell(why["acquisition"]) + beside),
        *_objectives_expected(why),
        ("Deviation scale", f"the model's deviations times {scale:g}" * (scale != 1.0)),
        ("Feasible with", f"probability {cell(why['feasibility'])}"),
        ("Pending then", f"{why['num_pending']} points{waiting}"),
        ("The surrogate knew", f"{knew} (iterations 0 to {why['training_iterations'] - 1})"),
        ("Its parts", said(parts) if len(parts) > 1 else ""),
        ("And from earlier", f"{earlier} evaluations transferred" * bool(earlier)),
    )


def _rows(*rows: tuple[str, Any]) -> list[str]:
    """Lines with a name before each text. What has none is left out."""
    return [f"  {name:<24}{text}" for name, text in rows if text]


def _what_came(data: dict[str, Any]) -> list[str]:
    """An outcome, line by line."""
    came = data["outcome"]
    values, surprise = came["objectives"] or {"Objective": came["objective"]}, ""
    if math.isfinite(apart := came["standardised_residual"]):
        surprise = f"{apart:+.2f} standard deviations from the prediction"
    job = f", job {came['job']}" if came["job"] else ""
    return [
        *_rows(("Status", _ended(came["status"], came["message"]))),
        *_rows(*((name, cell(value)) for name, value in values.items())),
        *_rows(("Surprise", surprise)),
        *_rows(*((name, _held(one)) for name, one in data["constraints"].items())),
        *_rows(("Reported as it ran", str(Curve.of(came["curve"])) if came.get("curve") else "")),
        *_rows(*_left(data, came["metadata"]).items()),
        *_rows(("Took", f"{cell(came['duration'])} s, attempt {came['attempts']}")),
        *_rows(("Where and when", f"{came['host']}{job}, {_time(came['started'])}")),
    ]


def _left(data: dict[str, Any], metadata: dict[str, Any]) -> dict[str, str]:
    """Notes, tags and pictures of an evaluation, by name."""
    folder, why = Path(data["archive"]).parent, metadata.get(LEFT_OUT)
    file = picture.kept_at(Paths(folder).picture(*numbers_of(data["id"])))
    image = (
        f"{file.relative_to(folder)} in the study's folder" if file else "not beside the archive"
    )
    image = f"left out: {why}" if why else image
    image = image if pictures.named(metadata) else ""
    return {"Note": note_of(metadata), "Tags": tags_of(metadata), "Image": image}


def _ended(status: str, message: str) -> str:
    """A status and its reason. The message of a stopped evaluation already begins with the status."""
    return message if message.startswith(f"{status} ") else f"{status} {message}".rstrip()


def _held(constraint: dict[str, Any]) -> str:
    """A constraint's outcome, and its prediction."""
    words = {1: "satisfied", 0: "violated", None: "unknown"}
    text = words[constraint.get("held")]
    if "threshold" in constraint:
        text = (
            f"{cell(constraint.get('number', math.nan))}, must be {constraint['threshold']}: {text}"
        )
    if "mean" in constraint:
        text += f"; expected {cell(constraint['mean'])} ± {cell(constraint['std'])}"
    if "probability" in constraint:
        text += f"; predicted to hold with probability {cell(constraint['probability'])}"
    return text


def _shown(environment: dict[str, Any]) -> dict[str, Any]:
    """The environment of a batch, without secrets.

    Earlier releases recorded secrets in the objective's command.
    """
    objective = environment.get("objective")
    return {**environment, "objective": redacted_objective(objective)} if objective else environment


def _derived_by(data: dict[str, Any]) -> list[str]:
    """The code, the machine, the random stream and the data behind a proposal."""
    environment, why = data["environment"], data["proposed"]
    packages = ", ".join(f"{k} {v}" for k, v in environment.get("packages", {}).items())
    commit = environment.get("commit") or {}
    dirty = " with changes" if commit.get("dirty") else ""
    objective = environment.get("objective") or {}
    called = objective.get("command") or objective.get("callable")
    files = "".join(f"; {name}: {sha[:12]}" for name, sha in objective.get("files", {}).items())
    kernels = sorted(environment.get("kernels", {}).items())
    return [
        *_rows(("objective", f"{called}{files}" if called else "")),
        f"  dngo {environment.get('dngo')}, commit {str(commit.get('id', 'unknown'))[:12]}{dirty}",
        *_rows(("rules", environment.get("rules", "")[:12])),
        f"  {packages}",
        f"  Python {environment.get('python')} on {environment.get('host')}, {environment.get('cpu')}",
        *_rows(*kernels, ("random stream", f"seed {why['seed']}, key {why['spawn_key']}")),
        *_rows(("trained on the prefix", why["training_digest"] or "(none)")),
        *_rows(("recorded in", data["digest"])),
    ]


def _find(path: Path, table: archive.Table, proposal: str) -> int:
    try:
        t, slot = numbers_of(proposal)
    except ValueError as error:
        raise UserError(str(error)) from None
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


def _belief(batch: Batch, v: Array, evaluations: int) -> float | None:
    """The factor of people's priors on the acquisition at v (1, k); None without priors.

    evaluations: the number of known ones.
    """
    if batch.iteration == 0:
        return None
    from dngo.acquisition.belief import log_weight
    from dngo.space.priors import believed

    space = Space(dict(parameters_of_archive(batch.config["space"])))
    return float(np.exp(log_weight(space, v, evaluations)[0])) if believed(space) else None


def _cost(foreseen: archive.Foreseen, per: str | None) -> dict[str, Any] | None:
    """The predicted cost of a point, by a measure; None if costs did not matter."""
    if per is None or ("cost", "") not in foreseen:
        return None
    return {"per": per, "expected": float(foreseen["cost", ""][0])}


def _constraints(
    foreseen: archive.Foreseen, batch: Batch, outcome: Outcome
) -> dict[str, dict[str, Any]]:
    """The prediction and the outcome of each constraint at a point, by name.

    foreseen: the predictions at this point. A constraint's entries: its threshold at that time;
    held: 1, 0, or None if unknown; the probability that it holds; the reported number, and its
    predicted mean and std. Entries without a value are left out: a design has no predictions.
    """
    told: dict[str, dict[str, Any]] = {
        "threshold": {n: str(threshold) for n, threshold in thresholds_of(batch.config).items()},
        "held": outcome.constraints,
        "number": outcome.numbers,
    }
    found: dict[str, dict[str, Any]] = {
        name: {key: values[name] for key, values in told.items() if name in values}
        for name in batch.identity["constraints"]
    }
    keys = {"probability": "probability", "base rate": "probability", "mean": "mean", "std": "std"}
    for (what, name), values in foreseen.items():
        if what in keys and name in found:
            found[name][keys[what]] = float(values[0])
    return found


def _some(ids: list[str]) -> str:
    if len(ids) <= 5:
        return ", ".join(ids)
    return f"{', '.join(ids[:4])}, ... {ids[-1]}"


def _time(seconds: float) -> str:
    if not is_time(seconds):
        return "time unknown"
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))
