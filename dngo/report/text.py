"""The state of a study as text: one line, a page, a status."""

from __future__ import annotations

import itertools
import json
import shlex
from dataclasses import replace
from typing import Any

import numpy as np

from dngo import archive, inward, provenance
from dngo.archive import transfer
from dngo.batch import STATUSES
from dngo.report.data import View
from dngo.report.expected_gain import expected_gain
from dngo.report.front import Front
from dngo.report.left import noted
from dngo.report.levels import levels, said_at, said_of_levels
from dngo.report.live import MergedBatch, failures, regret, status
from dngo.report.models import said as said_of_models
from dngo.report.uncertain import expected, left_out
from dngo.scores import RECENT, expected_constraints
from dngo.storage.text import cell, value_text
from dngo.study import Study, best_row, entries
from dngo.types import Array

GO_ON = (
    "  to go on: raise `iterations` in the configuration and type the same command; in Python, ask for "
    "more evaluations by the same call"
)


# Of a front whose outcomes are noisy.
BY_MODEL = "outcomes are noisy: these are the surrogate's means, without luck"


def headline(study: Study) -> str:
    """Iterations, evaluations, best so far: one line."""
    header = study.header()
    total = study.last_iteration()
    if header is None:
        return f"nothing in the archive yet, {total} iterations to come after the design"
    table = study.table()
    found = "no feasible point yet"
    if study.config.has_several:
        front = Front.of(study.archive, table, study.config)
        found = said_of_front(len(front.rows), front.hypervolume) if len(front.rows) else found
    elif (best := best_row(table, study.config.direction, study.config.ladder)) is not None:
        at = said_at(study.config.ladder, table.v[[best]])
        found = f"best {value_text(table.objective[best])}{at} (proposal {_id(table, best)})"
    last = header.iterations - 1  # may exceed the configured number if points were retried
    return f"iteration {last} of {max(total, last)}, {len(table)} evaluations, {found}"


def summary(study: Study, view: View | None = None) -> str:
    """A page of text: the study's results, comparisons with other points, and where to look next.

    view: of the study, if it is there already; it is large.
    """
    table = study.table()
    folder = study.folder.absolute()  # Snakemake's folder may differ from the user's
    several = study.config.has_several
    best = None if several else best_row(table, study.config.direction, study.config.ladder)
    lines = [f"Study {study.config.study}: {headline(study)}", ""]
    if not (table.status == "ok").any():
        lines.append("No evaluation is ok yet: each one failed or broke a constraint.")
    elif several:
        lines += ["The front (no outcome is better in all objectives):"]
        lines += front_lines(status(study)["front"], MOST_SHOWN)
    elif best is not None:
        lines += [f"Best point, proposal {_id(table, best)}:"]
        lines += _point(study, table, best)
        lines += ["", _line("objective", value_text(table.objective[best]))]
        view = view or View.now(study)
        lines += _expected(view, best)
        lines += _comparisons(study, view, best)
    lines += _fidelity(study, table)
    counts = {s: int((table.status == s).sum()) for s in STATUSES}
    shown = ", ".join(f"{n} {s}" for s, n in counts.items() if n)
    lines += ["", f"Outcomes: {shown}"]
    lines += [
        f"          {n} {status}: {line}, for example {_id(table, row)}"
        for n, status, line, row in failures(study.archive, table)[:5]
    ]
    left_out = study.journal.left_out
    lines += [f"Nodes:    {node} left out of this run: {why}" for node, why in left_out.items()]
    lines += _constraints(study, table)
    gain = expected_gain(study)
    lines += _labelled("Expected gain: ", _expected_gain(gain))
    found = {} if several else regret(study, table)
    if found:
        kinds = ("minimum", "cumulative", "average")
        lines.append("Regret:   " + ", ".join(f"{n} {value_text(found[n])}" for n in kinds))
    lines += [f"Learnt from {earlier}" for earlier in transfer.recorded(study.archive)]
    if notes := noted(entries.notes(study.archive)):
        lines += ["", "Notes:", *(f"  {line}" for line in notes[-MOST_NOTES:])]
    typed, quoted = provenance.typed(), shlex.quote(str(folder))
    page = f"{folder}/report/report.html  (open it in a browser: figures, health checks, points)"
    if not (folder / "report").is_dir():  # of a study that Python ran, no page is written
        page = f"{typed} report {quoted} --html report.html  (a page of figures, health checks, points)"
    lines += [
        "",
        "Where to look next:",
        f"  {page}",
        f"  {folder}/archive.h5  (every proposal and outcome; plain HDF5)",
        f"  {typed} watch {quoted}  (its state while it runs)",
    ]
    return "\n".join(lines if "ended" in gain else [*lines, GO_ON])


def _fidelity(study: Study, table: archive.Table) -> list[str]:
    """The evaluations at each level of a fidelity, and the predictions for points below the highest
    level.
    """
    ladder = study.config.ladder
    if ladder is None:
        return []
    y = np.where(table.status == "ok", table.objective, np.nan)
    found = levels(ladder, table.v, y, inward.sign(study.config))
    more = expected(View.of(study.archive, json.loads(study.config.resolved())))
    return ["", f"Fidelity: {said_of_levels(found)}", *(f"          {line}" for line in more)]


def _expected(view: View, best: int) -> list[str]:
    """The surrogate's prediction at the best point, and the point that it ranks first."""
    if not view.has_model:
        return []
    mean, std, _ = view.expected

    def margin(row: int) -> str:
        return view.units.margin(float(mean[row]), float(std[row]))

    lines = [f"{_line('by the surrogate', value_text(mean[best]))} {margin(best)} (95 %)"]
    ranking = view.ranking("model")
    if len(ranking) and view.point[ranking[0]] != view.point[best]:
        row = int(ranking[0])
        lines.append(
            f"  it ranks proposal {view.id(row)} first: {value_text(mean[row])} {margin(row)}; its "
            f"outcome is {value_text(view.table.objective[row])}"
        )
    return [*lines, *(f"  {line}" for line in left_out(view))]


def _labelled(label: str, lines: list[str]) -> list[str]:
    """Lines with a label before the first, and as much room before the others."""
    return [(" " * len(label) if i else label) + line for i, line in enumerate(lines)]


def _expected_gain(found: dict[str, Any]) -> list[str]:
    """The expected gain as lines of text."""
    lines = [f"ended: {found['ended']}"] if "ended" in found else []
    if found.get("gain") is not None:
        lines.append(
            f"a batch adds {found['gain']:.3g} to a hypervolume of "
            f"{found['hypervolume']:.3g}, by the surrogates of iteration "
            f"{found['iteration']}"
        )
    by = "a factor of " if found.get("scale") == "log" else ""
    if record := found.get("record"):
        lines.append(
            f"of {record['batches']} batches {by}{record['expected']:.3g} was expected, and they "
            f"gained {by}{record['gained']:.3g}"
        )
    if "further" not in found:
        return lines
    near = ", ".join(f"{by}{d:.3g} with probability {p}" for p, d in found["distance"].items())
    lines.append(
        f"a batch gains {by}{found['batch']:.3g} and five gain {by}{found['further']:.3g}, "
        f"by the surrogate of iteration {found['iteration']}"
    )
    lines.append(f"distance of the best value from the best imaginable: at most {near}")
    if "within" in found:
        lines.append(
            f"this distance is within stop.distance with probability {found['within']:.3g}"
        )
    return lines


def _constraints(study: Study, table: archive.Table) -> list[str]:
    """How often each constraint held, and how good its predictions were."""
    lines = []
    expected = expected_constraints(study.archive, table)
    for name, flags in table.constraints.items():
        threshold = study.config.thresholds.get(name)
        known = int(np.isfinite(flags).sum())
        line = f"  {name}{f' {threshold}' if threshold else ''}: "
        line += f"holds at {int(np.nansum(flags))} of {known}"
        one = expected.get(name)
        if one is not None and np.isfinite(one.brier):
            line += f"; predicted with a Brier score of {one.brier:.2g}"
        if one is not None and name in table.numbers:
            z = np.abs((table.numbers[name] - one.mean) / one.std)
            judged = np.isfinite(z)
            if judged.any():
                inside = f"{int(np.sum(z[judged] < 1.96))} of {int(judged.sum())}"
                line += f"; its number was inside the 95 % interval at {inside}"
        lines.append(line)
    return (
        ["", f"Constraints (predicted in the last {RECENT} iterations):", *lines] if lines else []
    )


def _comparisons(study: Study, view: View, best: int) -> list[str]:
    """The best point, compared with the defaults and the initial design."""
    table = view.table
    design = table.iteration == 0
    bits = study.space.bits
    is_default = (bits(table.v) == bits(study.space.defaults())).all(axis=1)
    rows = []
    if is_default.any():
        rows.append(("the default parameters", int(np.flatnonzero(is_default)[0])))
    others = np.where(design & ~is_default, table.objective, np.nan)
    first = best_row(replace(table, objective=others), study.config.direction, study.config.ladder)
    if first is not None:
        attributes = archive.iteration_attributes(study.archive, 0)
        imported = "import" in json.loads(attributes["environment"])
        rows.append(("best imported point" if imported else "best of the initial design", first))
    if (ladder := study.config.ladder) is not None:  # values of other levels are of something else
        level = ladder.level(table.v)
        rows = [(name, row) for name, row in rows if level[row] == level[best]]
    lines = []
    for name, row in rows:
        ended, value = table.status[row], table.objective[row]
        shown = value_text(value) if ended == "ok" else f"({ended})"
        gain = _gain(view, best, row)
        lines.append(_line(name, shown) + f"{'   the best is ' if gain else ''}{gain}")
    return lines


def gain_in_words(value: float, compared: float, sign: float, *, both_signs: bool = False) -> str:
    """By how much a value is better or worse than another one; "" if that one is unknown.

    sign: 1 if small values are good, -1 if large ones are. both_signs: whether the study's values have
    both, so that a factor says nothing. A share says something of values that are near each other, a
    factor of others with the same sign, and a difference of the rest.
    """
    if not np.isfinite(compared):
        return ""
    if value == compared:
        return "the same"
    word = "better" if sign * (compared - value) > 0 else "worse"
    if value * compared <= 0 or both_signs:
        return f"{word} by {abs(value - compared):.4g}"
    factor = max(value / compared, compared / value)
    if factor < FACTOR:
        return f"{abs(1 - value / compared):.1%} {word}"
    return f"{word} by a factor of {factor:.4g}"


def _gain(view: View, best: int, other: int) -> str:
    """The gain of one row over another: by outcomes, and with noise by the surrogate."""
    both, every = [best, other], view.table.objective
    both_signs = bool((every < 0).any() and (every > 0).any())

    def gain(values: Array) -> str:
        return gain_in_words(float(values[0]), float(values[1]), view.sign, both_signs=both_signs)

    outcomes = view.table.objective[both]
    said = gain(outcomes)
    if said and view.has_model:
        mean, std, _ = (found[both] for found in view.expected)
        if (np.abs(outcomes - mean) > 1.96 * std).any():
            said += f", by the surrogate {gain(mean)}"
    return said


def _point(study: Study, table: archive.Table, row: int) -> list[str]:
    (parameters,) = study.space.to_parameters(table.v[row : row + 1])
    return [_line(name, value_text(value)) for name, value in parameters.items()]


def _line(name: str, value: str) -> str:
    """A name and a value, which ends where those of the other lines do."""
    return f"  {name} {value:>{max(WIDTH - len(name), 0)}}"


WIDTH = 39  # of a name, and a number of any size after it
FACTOR = 2.0  # of two values, from which a gain is named by it
MOST_SHOWN = 12  # most points of a front in a page of text
MOST_NOTES = 20  # of the latest notes in it


def said_of_front(count: int, volume: float) -> str:
    """The size of a front as text."""
    return f"a front of {count} point{'' if count == 1 else 's'}, hypervolume {value_text(volume)}"


def front_lines(front: dict[str, Any], most: int) -> list[str]:
    """The points of a front as rows, including the knee. front: as `Front.document` returns it."""
    points = front["points"]
    if not points:
        return ["  none yet"]
    knee = [i for i, p in enumerate(points) if p["id"] == front["knee"]]
    spread = np.linspace(0, len(points) - 1, min(most, len(points))).round().astype(int)
    rows = sorted({*spread.tolist(), *knee})
    names = list(points[0]["objectives"])
    lines = [f"  {'proposal':<10}" + "".join(f"{name:>14}" for name in names)]
    for i in rows:
        cells = "".join(f"{value_text(value):>14}" for value in points[i]["objectives"].values())
        lines.append(f"  {points[i]['id']:<10}{cells}" + ("   the knee" if i in knee else ""))
    if len(rows) < len(points):
        lines.append(f"  {len(rows)} of {len(points)} points; `dngo best` lists all of them")
    reference = ", ".join(f"{n} {value_text(v)}" for n, v in front["reference"].items())
    lines.append(f"  hypervolume {value_text(front['hypervolume'])}, from {reference}")
    if front.get("by") == "model":
        lines.append(f"  {BY_MODEL}")
    return lines


def _id(table: archive.Table, row: int) -> str:
    return table.id(row)


def format_status(data: dict[str, Any]) -> str:
    """The `status` as text for people."""
    fresh = data["evaluations"] - data["archived"]
    lines = [
        f"Study          {data['study']}, in {data['folder']}",
        f"Iterations     {data['iterations_merged']} of {data['iterations_configured']} in the archive"
        " (the design is the first)",
        f"Evaluations    {data['evaluations']}"
        + (
            f", {fresh} of them not merged yet"
            if (fresh := data["evaluations"] - data["archived"])
            else ""
        ),
    ]
    for batch in data["in_flight"]:
        lines += [
            f"In flight      {in_flight(batch)}",
            *(f"               {p}" for p in reporting(batch)),
        ]
    if data.get("seconds_to_go"):
        lines.append(
            f"To go          {lasting(data['seconds_to_go'])} at the pace of the last batches"
        )
    if data.get("waiting"):
        shown = ", ".join(f"{n} {what}" for what, n in data["waiting"].items() if n)
        lines.append(f"Waiting        {shown} (dngo add, dngo tell)")
    if data["best"]:
        best = data["best"]
        lines.append(f"Best           {value_text(best['objective'])}, proposal {best['id']}")
        lines += [f"               {k} = {value_text(v)}" for k, v in best["parameters"].items()]
    elif "front" in data:
        lines += ["Front", *(f"  {line}" for line in front_lines(data["front"], MOST_SHOWN))]
    else:
        lines.append("Best           none yet")
    if data.get("fidelity"):
        lines.append(f"Fidelity       {said_of_levels(data['fidelity'])}")
    if data.get("outcomes"):
        shown = ", ".join(f"{n} {s}" for s, n in data["outcomes"].items() if n)
        lines.append(f"Outcomes       {shown}")
    if data.get("regret"):
        shown = ", ".join(f"{name} {value_text(value)}" for name, value in data["regret"].items())
        lines.append(f"Regret         {shown}")
    lines += _labelled("Expected gain  ", _expected_gain(data.get("outlook", {})))
    if data.get("models"):
        lines.append(f"Models         {said_of_models(data['models'])} of the last batch")
    if data.get("feasible_share") is not None:
        lines.append(f"Feasible       {data['feasible_share']:.0%}")
    for message, count in data["messages"].items():
        lines.append(f"Failures       {count} {message}")
    for node, why in data["left_out"].items():
        lines.append(f"Nodes          {node} left out of this run: {why}")
    if data["stopped"]:
        lines.append(f"Stopped        {data['stopped']}")
    times = ", ".join(f"{k} {v:.0f} s" for k, v in data["stage_seconds"].items() if v)
    lines += [f"Time           {times}"] if times else []
    return "\n".join(lines)


def one_line(data: dict[str, Any]) -> str:
    """The `status` as a line of a log."""
    parts = [f"{data['evaluations']} evaluations, {data['archived']} of them merged"]
    parts += [in_flight(batch) for batch in data["in_flight"]]
    if data.get("seconds_to_go"):
        parts.append(f"{lasting(data['seconds_to_go'])} to go")
    if data["feasible_share"] is not None:
        parts.append(f"{data['feasible_share']:.0%} feasible")
    best, front = data["best"], data.get("front") or {"points": []}
    found = (
        f"best {value_text(best['objective'])} ({best['id']})" if best else "no feasible point yet"
    )
    if front["points"]:
        found = said_of_front(len(front["points"]), front["hypervolume"])
    parts.append(found)
    return "; ".join(parts)


def lasting(seconds: float) -> str:
    """A duration in its two largest units: 3 h 20 min."""
    units = [("d", 86400), ("h", 3600), ("min", 60), ("s", 1)]
    for (large, size), (small, part) in itertools.pairwise(units):
        if seconds >= size:
            whole, rest = divmod(round(seconds / part), size // part)
            return f"{whole} {large}" + (f" {rest} {small}" if rest else "")
    return f"{max(1, round(seconds))} s"


def _values(point: dict[str, Any]) -> str:
    if "objectives" not in point:
        return value_text(point["objective"])
    return ", ".join(f"{name} {value_text(value)}" for name, value in point["objectives"].items())


def reporting(batch: dict[str, Any]) -> list[str]:
    """The last progress of a batch's running evaluations, from `status`, as text."""
    found = batch.get("progress", [])
    shown = [f"{p['id']} at step {p['step']:.6g}: {_values(p)}" for p in found]
    more = len(shown) - MOST_REPORTING
    return shown[:MOST_REPORTING] + ([f"and {more} more with progress"] if more > 0 else [])


def in_flight(batch: dict[str, Any]) -> str:
    """A batch that is not merged, from `status`, as text."""
    return (
        f"iteration {batch['iteration']}: {batch['evaluated']} of {batch['points']} evaluated, "
        f"{batch['running']} running"
    )


# The columns of a batch's line: the heading, and its width in a table.
BATCH_COLUMNS = {
    "iteration": 9,
    "points": 8,
    "feasible": 10,
    "best": 13,
    "fit s": 8,
    "propose s": 11,
    "evaluate s": 12,
    "highest EI": 12,
}


def batch_columns(several: bool) -> dict[str, int]:
    """The columns of a study's batches. With several objectives there is a hypervolume, and no best."""
    names = {"best": "hypervolume"} if several else {}
    return {names.get(name, name): width for name, width in BATCH_COLUMNS.items()}


MOST_REPORTING = 5  # running evaluations of a batch to show
MOST_FAILURES = 3  # messages of a batch to show


def batch_cells(batch: MergedBatch) -> list[str]:
    """The cells of a batch's line, in the order of `BATCH_COLUMNS`."""

    def number(value: float, form: str) -> str:
        return f"{value:{form}}" if np.isfinite(value) else "-"

    return [
        str(batch.iteration),
        str(batch.points),
        number(batch.feasible, ".0%"),
        cell(batch.best),
        *(number(batch.seconds[stage], ".1f") for stage in ("fit", "propose", "evaluate")),
        number(batch.promised, ".2g"),
    ]


def batch_failures(batch: MergedBatch) -> list[str]:
    """Why evaluations of a batch failed, the most frequent messages first."""
    shown = [f"{count} failed: {line}" for count, line in batch.messages[:MOST_FAILURES]]
    rest = sum(count for count, _ in batch.messages[MOST_FAILURES:])
    return shown + ([f"{rest} failed otherwise"] if rest else [])


def batch_lines(batch: MergedBatch) -> list[str]:
    """The heading, the line of a batch, and a line for each message of its failures."""
    head = "".join(f"{name:>{width}}" for name, width in batch_columns(batch.several).items())
    cells = zip(batch_cells(batch), BATCH_COLUMNS.values(), strict=True)
    line = "".join(f"{cell:>{width}}" for cell, width in cells)
    return [head, line, *(f"{'':11}{failure}" for failure in batch_failures(batch))]
