"""The study as it stands: one line, one page, plots."""

from __future__ import annotations

import csv
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive, derive
from dngo.archive import transfer
from dngo.batch import STATUSES
from dngo.scores import Score, forward_scores
from dngo.storage.files import replacing
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
        f"  {study.folder}/report/convergence.svg, parameters.svg and calibration.svg",
        f"  {study.archive}  (every proposal and outcome; plain HDF5)",
        "  dngo status    how a study stands while it runs",
        "  raise `iterations` in the configuration and type the same command to go on",
    ]
    return "\n".join(lines)


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


def status(study: Study) -> dict[str, Any]:
    """How a study stands, in flight included, as plain data for `dngo status`."""
    header = study.header()
    merged = header.iterations if header else 0
    result: dict[str, Any] = {
        "study": study.config.study,
        "iterations_merged": merged,
        "iterations_configured": study.config.iterations + 1,
        "evaluations": header.rows if header else 0,
        "in_flight": [],
        "best": None,
    }
    if header is not None:
        table = archive.read_table(study.archive)
        best = best_row(table, study.config.objective.direction)
        if best is not None:
            (parameters,) = study.space.to_parameters(table.v[best : best + 1])
            result["best"] = {
                "id": _id(table, best),
                "objective": float(table.objective[best]),
                "parameters": parameters,
            }
        result["regret"] = regret(study, table)
        result["outcomes"] = {s: int((table.status == s).sum()) for s in STATUSES}
        known = table.status != "lost"
        result["feasible_share"] = (
            float((table.status[known] == "ok").mean()) if known.any() else None
        )
        result["evaluation_seconds"] = float(np.nansum(table.duration))
    for folder in sorted((study.folder / "pending").glob("*"), key=lambda p: int(p.name)):
        if int(folder.name) >= merged and (folder / "proposals.json").exists():
            batch = study.batch(int(folder.name))
            done = sum((study.outcome_file(p)).exists() for p in batch.proposals)
            running = len([c for c in (folder / "claims").glob("[0-9]*") if not c.suffix])
            result["in_flight"].append(
                {
                    "iteration": batch.iteration,
                    "points": len(batch.proposals),
                    "evaluated": done,
                    "running": running,
                }
            )
    result["stage_seconds"] = _stage_seconds(study)
    return result


def _stage_seconds(study: Study) -> dict[str, float]:
    """Wall seconds of each stage so far, from Snakemake's benchmark files."""
    seconds: dict[str, float] = {}
    for stage in ("fit", "propose", "evaluate", "merge"):
        total = 0.0
        for path in (study.folder / "benchmarks" / stage).rglob("*.tsv"):
            try:
                head, row = path.read_text().splitlines()[:2]
                total += float(dict(zip(head.split("\t"), row.split("\t"), strict=False))["s"])
            except (ValueError, KeyError, OSError):
                continue
        seconds[stage] = round(total, 1)
    return seconds


def format_status(data: dict[str, Any]) -> str:
    """`status` for people."""
    lines = [
        f"Study        {data['study']}",
        f"Iterations   {data['iterations_merged']} of {data['iterations_configured']} in the archive"
        " (the design is the first)",
        f"Evaluations  {data['evaluations']}",
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
    times = ", ".join(f"{k} {v:.0f} s" for k, v in data["stage_seconds"].items())
    lines.append(f"Time         {times}")
    return "\n".join(lines)


# ---- files --------------------------------------------------------------------------------------


def write_report(
    study: Study,
    *,
    summary: Path,
    convergence: Path,
    parameters: Path,
    calibration: Path,
    scores: Path,
) -> None:
    """Write the page of text, the plots, and the scores of the surrogates as a table."""
    table = archive.read_table(study.archive)
    found = forward_scores(study.archive, study.config)
    with replacing(scores) as temporary:
        _write_scores(temporary, found)
    _plot(calibration, lambda plt: _calibration(plt, found))
    _plot(convergence, lambda plt: _convergence(plt, study, table))
    _plot(parameters, lambda plt: _parameters(plt, study, table))
    text = globals()["summary"](study)
    with replacing(summary) as temporary:
        temporary.write_text(f"{text}\n\nWritten {time.strftime('%Y-%m-%d %H:%M:%S')}\n")


SCORES = ("iteration", "part", "outcomes", "log_density", "constant", "coverage")


def _write_scores(path: Path, scores: list[Score]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(SCORES)
        writer.writerows([getattr(score, name) for name in SCORES] for score in scores)


def _plot(path: Path, draw: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure = draw(plt)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix[1:], bbox_inches="tight")
    plt.close(figure)


def _objective_axis(axes: Any, values: np.ndarray, direction: str) -> None:
    """Show the good end in full: on a logarithmic axis, or without the worst tenth."""
    values = values[np.isfinite(values)]
    if len(values) < 2:
        return
    low, high = values.min(), values.max()
    if low > 0 and high > 10 * low:
        axes.set_yscale("log")
        axes.set_ylim(low * (low / high) ** 0.08, high * (high / low) ** 0.08)
        return
    if direction == "minimize":
        high = np.quantile(values, 0.9)
    else:
        low = np.quantile(values, 0.1)
    margin = 0.08 * (high - low) or 1.0
    axes.set_ylim(low - margin, high + margin)


def _convergence(plt: Any, study: Study, table: archive.Table) -> Any:
    figure, axes = plt.subplots(figsize=(7, 4))
    direction = study.config.objective.direction
    ok = table.status == "ok"
    n = np.arange(1, len(table) + 1)
    values = np.where(ok, table.objective, np.nan)
    axes.plot(n, values, ".", color="0.6", label="evaluation")
    if ok.any():
        best = np.fmin if direction == "minimize" else np.fmax
        axes.step(n, best.accumulate(values), where="post", color="C0", label="best so far")
    _objective_axis(axes, values, direction)
    base = axes.get_ylim()[0]
    axes.plot(n[~ok], np.full((~ok).sum(), base), "x", color="C3", clip_on=False, label="not ok")
    for first in np.flatnonzero(np.diff(table.iteration, prepend=-1))[1:]:
        axes.axvline(first + 0.5, color="0.9", zorder=0)
    axes.set_xlabel("evaluation")
    axes.set_ylabel("objective")
    axes.set_title(f"{study.config.study}: {headline(study)}", fontsize=9)
    axes.legend(fontsize=8)
    return figure


def _calibration(plt: Any, scores: list[Score]) -> Any:
    """Each surrogate judged by the batch it proposed."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
    for part, style in (("all", "o-C0"), ("gp", "--C1"), ("adaptive_basis", ":C2")):
        of_part = [s for s in scores if s.part == part]
        if of_part:
            gain = [s.log_density - s.constant for s in of_part]
            left.plot([s.iteration for s in of_part], gain, style, label=part)
    left.axhline(0, color="0.8", zorder=0)
    left.set_xlabel("iteration")
    left.set_ylabel("log density of its batch\nover that of a constant (nats)")
    levels = np.concatenate([s.levels for s in scores if s.part == "all"] or [np.empty(0)])
    right.set_xlabel("probability given to a lower value")
    right.set_ylabel("outcomes")
    if len(levels):
        left.legend(fontsize=8)
        bins = int(np.clip(len(levels) / 10, 5, 20))
        right.hist(levels, bins=bins, range=(0, 1), color="C0")
        right.axhline(len(levels) / bins, color="0.5", label="calibrated")
        inside = np.mean((levels > 0.025) & (levels < 0.975))
        right.set_title(f"{inside:.0%} of {len(levels)} inside the 95 % interval", fontsize=9)
        right.legend(fontsize=8)
    figure.tight_layout()
    return figure


def _parameters(plt: Any, study: Study, table: archive.Table) -> Any:
    columns = study.space.columns
    wide = min(len(columns), 4)
    tall = -(-len(columns) // wide)
    figure, grid = plt.subplots(tall, wide, figsize=(2.8 * wide, 2.4 * tall), squeeze=False)
    ok = table.status == "ok"
    for axes, column, j in zip(grid.flat, columns, range(len(columns)), strict=False):
        x = table.v[:, j]
        axes.scatter(x[ok], table.objective[ok], c=table.iteration[ok], s=8, cmap="viridis")
        if column.log:
            axes.set_xscale("log")
        if column.choices is not None:
            axes.set_xticks(range(len(column.choices)), [str(c)[:12] for c in column.choices])
        elif column.integer and (column.levels or 0) <= 10:
            axes.set_xticks(np.arange(column.low, column.high + 1))
        _objective_axis(axes, table.objective[ok], study.config.objective.direction)
        axes.set_xlabel(column.name)
    for axes in list(grid.flat)[len(columns) :]:
        axes.set_visible(False)
    figure.supylabel("objective")
    figure.tight_layout()
    return figure
