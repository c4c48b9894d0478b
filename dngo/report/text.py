"""The study as it stands, in words: one line, a page, a status."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np

from dngo import archive
from dngo.archive import transfer
from dngo.batch import STATUSES
from dngo.report.live import regret
from dngo.study import Study, best_row


def headline(study: Study) -> str:
    """Iterations, evaluations, best so far: one line."""
    header = study.header()
    total = study.config.iterations
    if header is None:
        return f"nothing in the archive yet, {total} iterations to come after the design"
    table = archive.read_table(study.archive)
    best = best_row(table, study.config.objective.direction)
    found = "no feasible point yet"
    if best is not None:
        found = f"best {table.objective[best]:.6g} (proposal {_id(table, best)})"
    return f"iteration {header.iterations - 1} of {total}, {len(table)} evaluations, {found}"


def summary(study: Study) -> str:
    """What a study found, how that compares, and where to look next: a page of text."""
    table = archive.read_table(study.archive)
    direction = study.config.objective.direction
    best = best_row(table, direction)
    lines = [f"Study {study.config.study}: {headline(study)}", ""]
    if best is None:
        lines.append("No evaluation ended well yet: every one failed or broke a constraint.")
    else:
        lines += [f"Best point, proposal {_id(table, best)}:"]
        lines += _point(study, table, best)
        lines += ["", f"  objective{table.objective[best]:>25.6g}"]
        lines += _comparisons(study, table, best)
    counts = {s: int((table.status == s).sum()) for s in STATUSES}
    shown = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    lines += ["", f"Outcomes: {shown}"]
    lines += [f"          {n} times: {line}" for n, _, line, _ in _failures(study, table)]
    found = regret(study, table)
    if found:
        lines += [
            f"Regret:   minimum {found['minimum']:.6g}, cumulative {found['cumulative']:.6g}, "
            f"average {found['average']:.6g}"
        ]
    lines += [f"Learnt from {earlier}" for earlier in transfer.recorded(study.archive)]
    lines += [
        "",
        "Where to look next:",
        f"  {study.folder}/report/report.html  (open it in a browser: figures, health checks, points)",
        f"  {study.archive}  (every proposal and outcome; plain HDF5)",
        "  dngo watch     how a study stands while it runs",
        "  raise `iterations` in the configuration and type the same command to go on",
    ]
    return "\n".join(lines)


def _failures(study: Study, table: archive.Table) -> list[tuple[int, str, str, int]]:
    """The most frequent messages of evaluations without an objective, where they are many."""
    failed = ~np.isin(table.status, ("ok", "infeasible"))
    if failed.sum() < 0.25 * len(table):
        return []
    with archive.reading(study.archive) as file:
        message = np.array(file["outcomes/message"].asstr()[: len(table)], dtype=object)
    return count_messages(table.status[failed], message[failed])[:3]


def count_messages(status: np.ndarray, message: np.ndarray) -> list[tuple[int, str, str, int]]:
    """Messages of the evaluations that did not end well: count, status, message, a row.

    status, message: (n,) text. Messages that differ only in their numbers are one; the most frequent
    come first.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    lines = {}
    for row in np.flatnonzero(status != "ok"):
        text = str(message[row]).strip()
        line = text.splitlines()[-1].strip()[:300] if text else "(no message)"
        key = (str(status[row]), re.sub(r"\d+(\.\d+)?", "#", line))
        groups.setdefault(key, []).append(int(row))
        lines[key] = line
    found = [(len(rows), key[0], lines[key], rows[-1]) for key, rows in groups.items()]
    return sorted(found, key=lambda one: -one[0])


def _comparisons(study: Study, table: archive.Table, best: int) -> list[str]:
    value = table.objective[best]
    design = table.iteration == 0
    defaults = study.space.keys(study.space.defaults())[0]
    is_default = np.array([k == defaults for k in study.space.keys(table.v)])
    rows = []
    if is_default.any():
        row = int(np.flatnonzero(is_default)[0])
        ended = table.status[row]
        shown = f"{table.objective[row]:.6g}" if ended == "ok" else f"({ended})"
        rows.append(("the default parameters", shown, table.objective[row]))
    others = np.where(design & ~is_default, table.status, "not design")
    first = best_row(replace(table, status=others), study.config.objective.direction)
    if first is not None:
        attributes = archive.iteration_attributes(study.archive, 0)
        imported = "import" in json.loads(attributes["environment"])
        name = "best of those imported" if imported else "best of the initial design"
        shown = f"{table.objective[first]:.6g}"
        rows.append((name, shown, table.objective[first]))
    lines = []
    for name, shown, other in rows:
        gain = ""
        if np.isfinite(other) and other != 0:
            gain = f"   the best is {abs(other - value) / abs(other):.1%} better"
            if other == value:
                gain = "   the same"
        lines.append(f"  {name:<28}{shown:>6}{gain}")
    return lines


def _point(study: Study, table: archive.Table, row: int) -> list[str]:
    (parameters,) = study.space.to_parameters(table.v[row : row + 1])
    return [f"  {name:<24}{_value(value):>10}" for name, value in parameters.items()]


def _value(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _id(table: archive.Table, row: int) -> str:
    return f"{table.iteration[row]}-{table.slot[row]}"


def format_status(data: dict[str, Any]) -> str:
    """`status` for people."""
    fresh = data["evaluations"] - data["archived"]
    lines = [
        f"Study        {data['study']}",
        f"Iterations   {data['iterations_merged']} of {data['iterations_configured']} in the archive"
        " (the design is the first)",
        f"Evaluations  {data['evaluations']}"
        + (
            f", {fresh} of them not merged yet"
            if (fresh := data["evaluations"] - data["archived"])
            else ""
        ),
    ]
    for batch in data["in_flight"]:
        lines.append(
            f"In flight    iteration {batch['iteration']}: {batch['evaluated']} of "
            f"{batch['points']} evaluated, {batch['running']} running"
        )
    if data["best"]:
        best = data["best"]
        lines.append(f"Best         {best['objective']:.6g}, proposal {best['id']}")
        lines += [f"             {k} = {_value(v)}" for k, v in best["parameters"].items()]
    else:
        lines.append("Best         none yet")
    if data.get("outcomes"):
        shown = ", ".join(f"{n} {s}" for s, n in data["outcomes"].items() if n)
        lines.append(f"Outcomes     {shown}")
    if data.get("regret"):
        shown = ", ".join(f"{name} {value:.6g}" for name, value in data["regret"].items())
        lines.append(f"Regret       {shown}")
    if data.get("feasible_share") is not None:
        lines.append(f"Feasible     {data['feasible_share']:.0%}")
    for message, count in data["messages"].items():
        lines.append(f"Lately       {count} {message}")
    times = ", ".join(f"{k} {v:.0f} s" for k, v in data["stage_seconds"].items())
    lines.append(f"Time         {times}")
    return "\n".join(lines)


def one_line(data: dict[str, Any]) -> str:
    """`status` as a line of a log."""
    parts = [f"{data['evaluations']} evaluations, {data['archived']} of them merged"]
    for batch in data["in_flight"]:
        parts.append(
            f"iteration {batch['iteration']}: {batch['evaluated']} of {batch['points']} evaluated, "
            f"{batch['running']} running"
        )
    if data["feasible_share"] is not None:
        parts.append(f"{data['feasible_share']:.0%} feasible")
    best = data["best"]
    parts.append(
        f"best {best['objective']:.6g} ({best['id']})" if best else "no feasible point yet"
    )
    return "; ".join(parts)
