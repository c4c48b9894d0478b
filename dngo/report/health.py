"""Checks of a study's health, at the head of the report. Each check says what to do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dngo import archive
from dngo.evaluation.fingerprint import differences
from dngo.evaluation.progress import NOT_RISING, UNREADABLE, example
from dngo.report.data import View
from dngo.report.live import NO_FAILURE, count_messages, promised
from dngo.scores import scores_of

Level = Literal["stop", "warn", "note"]
ORDER: tuple[Level, ...] = ("stop", "warn", "note")
DUPLICATE = 2e-3  # distance (root mean square, unit cube) below which two points count as one
IDLE = 0.6  # share of the slots that should be busy
NOTHING = 1e-3  # expected improvement that counts as zero, as a share of the study's gain so far


@dataclass(frozen=True)
class Check:
    """A finding.

    level: "stop" (correct it before you go on), "warn" (it harms the study) or "note" (good to
    know).
    finding: what was seen, with its numbers.
    advice: what to do.
    figure: the key of the figure that shows it.
    """

    level: Level
    finding: str
    advice: str
    figure: str = ""


def checks(view: View) -> list[Check]:
    """Every finding, the most serious first; empty if all is well."""
    if view.has_several:
        found = list(_of_several(view))
    else:
        found = [check for look in LOOKS for check in look(view)]
    return sorted(found, key=lambda check: ORDER.index(check.level))


def messages(view: View) -> list[tuple[int, str, str, int]]:
    """Messages of the evaluations that failed: see `dngo.report.live.count_messages`."""
    return count_messages(view.table.status, view.message)


def set_up(view: View) -> Iterator[Check]:
    """Failures whose cause is the set-up and not the space."""
    failed, n = int(view.failed.sum()), len(view)
    counts = Counter(view.table.status.tolist())
    if failed == 0:
        return
    most, status, message, row = next(one for one in messages(view) if one[1] not in NO_FAILURE)
    logs = view.path.parent / "logs" / "points" / str(view.table.iteration[row])
    look = f"Read {logs}/{view.table.slot[row]}.err, and run the objective once by hand."
    if failed >= 0.9 * n:
        yield Check(
            "stop",
            f"{failed} of {n} evaluations have no usable outcome; {most} of them say: {message}",
            f"The cause is the set-up and not the space. {look} Then `dngo retry --failed` "
            "has these points evaluated again, and the model learns only from the new "
            "outcomes.",
            "messages",
        )
    elif failed >= 0.5 * n:
        yield Check(
            "warn",
            f"{failed} of {n} evaluations have no usable outcome; {most} of them ({status}) say: {message}",
            f"If the points themselves are not the cause, correct it. {look} If they are, "
            "narrow the space or report the failure as a constraint.",
            "messages",
        )
    if counts["timeout"] >= max(3, 0.2 * n):
        yield Check(
            "warn",
            f"{counts['timeout']} of {n} evaluations were stopped at the time limit.",
            "Raise objective.time_limit (or the runtime of the job) if such points may be good; "
            "with acquisition: {per: duration} quick points are preferred.",
            "feasibility",
        )
    if counts["lost"] >= max(2, 0.05 * n):
        yield Check(
            "warn",
            f"{counts['lost']} of {n} evaluations were lost with their node; nothing was learnt.",
            "Raise `retries`, or give the jobs a partition that is not preempted.",
            "messages",
        )


def same_objective(view: View) -> Iterator[Check]:
    """The objective changed between iterations."""
    known: dict[str, Any] = {}
    with archive.reading(view.path) as file:
        for t in np.unique(view.table.iteration).tolist():
            merged = json.loads(str(file[f"iterations/{t}"].attrs["merged"]))
            now = merged.get("objective") or {}
            changes = differences(known, now) if now else []
            known = now or known
            if changes:
                yield Check(
                    "warn",
                    f"The objective changed by iteration {t}: {'; '.join(changes)[:300]}.",
                    "If its values differ from before, begin another study; "
                    "objective.strict: true refuses such changes.",
                    "progress",
                )


def reporting(view: View) -> Iterator[Check]:
    """Progress cannot be read or does not rise, or early stopping needs it and there is none."""
    found = [str(text) for text in view.message if UNREADABLE in str(text)]
    if found:
        yield Check(
            "note",
            f"{len(found)} of {len(view)} evaluations reported progress that could not be "
            f"read, for example: {found[-1].partition(UNREADABLE)[2].lstrip(': ')[:200]}",
            f"A line is {example(sorted(view.config.get('objectives', {})))}. Other names and other "
            "lines are left out.",
            "messages",
        )
    if many := sum(NOT_RISING in str(text) for text in view.message):
        yield Check(
            "warn",
            f"In {many} of {len(view)} evaluations the steps of the progress go back or repeat. Their "
            "reports are counted instead, and early stopping compares evaluations by these numbers.",
            "Report a step that only rises and means the same in each evaluation, for example epochs "
            "counted over all folds. Of several processes, only one should report.",
            "messages",
        )
    if view.config.get("early_stopping") and not any(
        c.points for c in archive.read_curves(view.path)
    ):
        yield Check(
            "warn",
            f"None of {len(view)} evaluations reported progress, so none is stopped early.",
            "Let the objective append lines to {progress}, print them, or call dngo.progress "
            "(docs/early-stopping.md); or remove early_stopping.",
        )


def feasible(view: View) -> Iterator[Check]:
    """No point is feasible."""
    if view.best is None and view.infeasible.any():
        flags = {name: int(np.nansum(flag == 0)) for name, flag in view.table.constraints.items()}
        broken = ", ".join(f"{name} ({n} times)" for name, n in flags.items() if n)
        yield Check(
            "stop" if len(view) >= 50 else "warn",
            f"No point is feasible yet, of {len(view)}. Broken: {broken}.",
            "The search goes on towards feasible points. Check the sign of the constraint "
            "(true means satisfied), or give a `default` that is feasible.",
            "feasibility",
        )


def bound(view: View) -> Iterator[Check]:
    """The best point lies on a bound of the space."""
    if view.best is None:
        return
    for name in view.on_bound(view.best):
        column = next(c for _, c in view.columns if c.name == name)
        j = next(j for j, c in view.columns if c.name == name)
        yield Check(
            "warn",
            f"The best point has {name} = {view.table.v[view.best, j]:.6g}, on the bound of "
            f"[{column.low:g}, {column.high:g}].",
            f"Better points may lie beyond. Widen {name} in a study of another name, and `dngo fork` "
            "this archive into it, unless the bound is a law of nature.",
            "slices",
        )


def edge(view: View) -> Iterator[Check]:
    """The best point lies on the edge of a known constraint."""
    for text in view.at_edge(view.best) if view.best is not None else []:
        yield Check(
            "note",
            f"The best point lies at the edge of the known constraint {text}.",
            "Better points may lie beyond. If the constraint is a choice and not a law, relax it in a "
            "study of another name and start it with `dngo import` of this archive.",
            "slices",
        )


def informative(view: View) -> Iterator[Check]:
    """The model predicts its own proposals no better than a constant."""
    name = "" if view.objective == "objective" else view.objective
    scores = scores_of(view.path, view.table, view.sign, name)
    scores = [s for s in scores if s.part in ("all", name)]
    recent = [s for s in scores if np.isfinite(s.constant)][-5:]
    outcomes = [s.outcomes for s in recent]
    if sum(outcomes) < 10 or len(np.unique(view.table.iteration)) < 3:
        return
    gain = np.average([s.log_density - s.constant for s in recent], weights=outcomes)
    if gain < 0:
        yield Check(
            "warn",
            "For its last batches the model predicted no better than the mean of the known "
            f"outcomes ({gain:.3g} nats per outcome).",
            "Is the objective noisy (report `noise`, or the mean of several runs), or does it depend "
            "on something that is not a parameter? Try another surrogate.",
            "calibration",
        )


def duplicates(view: View) -> Iterator[Check]:
    """The last batch has points next to known ones."""
    near = view.nearest[view.last]
    numeric = any(c.levels is None for c in view.space.columns)
    if not numeric or view.table.iteration[-1] == 0:
        return
    count = int(np.sum(near < DUPLICATE))
    if count >= max(2, 0.25 * len(near)):
        yield Check(
            "note",
            f"{count} of the {len(near)} points of the last batch lie within {DUPLICATE:g} "
            "of a known point, so they teach almost nothing new.",
            "The search has converged. Stop here, use smaller batches, or widen the space.",
            "batch",
        )


def slots(view: View) -> Iterator[Check]:
    """Slots are idle between the batches."""
    if view.timed.sum() < 10:
        return
    started, finished = view.numbers["started"], view.numbers["finished"]
    own = view.timed & (view.source != "imported")
    iterations, which = np.unique(view.table.iteration[own], return_inverse=True)
    earliest = np.full(len(iterations), np.inf)
    np.minimum.at(earliest, which, started[own])
    firsts = earliest.tolist()
    if len(firsts) < 4:
        return
    edges = np.array([*firsts, float(np.max(finished[own]))])
    edges = edges[np.concatenate([[True], np.diff(edges) > 0])]
    if len(edges) < 4:
        return
    fine = np.linspace(edges[0], edges[-1], 2001)
    capacity = float(np.quantile(view.busy(fine), 0.99))
    if capacity <= 0:
        return
    share = float(
        np.median(view.busy(edges)[1:-1] / capacity)
    )  # the median ignores a pause between runs
    if share < IDLE:
        k = view.config.get("batches_in_flight", 1)
        what = (
            ""
            if k == "auto"
            else (
                f"Set batches_in_flight: {k + 1}, so that fits and proposals run during evaluations "
                "(not from Python: there one batch runs at a time). "
            )
        )
        yield Check(
            "note",
            "Slots were idle between the batches: in the median iteration, "
            f"{share:.0%} of {_slots(capacity)} busy.",
            f"{what}If an evaluation takes only seconds, larger batches help more.",
            "timeline",
        )


def expected(view: View) -> Iterator[Check]:
    """The model expects no further gain."""
    mean, std, p = (view.numbers[name] for name in ("mean", "std", "feasibility"))
    iterations = np.unique(view.table.iteration)
    rows = view.last[np.isfinite(mean[view.last]) & (std[view.last] > 0)]
    if view.best is None or len(iterations) < 4 or len(rows) == 0:
        return
    first = np.flatnonzero(view.table.iteration < iterations[-3])
    if view.best_so_far[first[-1]] != view.best_so_far[-1]:
        return  # it still improves
    good = view.table.objective[view.counts]
    gained = abs(float(np.median(good)) - float(view.best_so_far[-1]))
    best = float(view.best_so_far[-1])
    most = promised(view.units, best, mean[rows], std[rows], p[rows])
    if gained > 0 and most < NOTHING * gained:
        yield Check(
            "note",
            "No further gain is expected: three batches brought no improvement. The last "
            f"one promised at most {most:.2g}, while the best is {gained:.3g} better than "
            "the median.",
            "Stop, or raise `iterations` if evaluations are cheap. If you expected a "
            "better value, widen the space.",
            "progress",
        )


def _of_several(view: View) -> Iterator[Check]:
    """Findings about all objectives, and whether the model predicts each."""
    each = {name: view.of_objective(name) for name in view.directions}
    for look in (set_up, same_objective, reporting, feasible, duplicates, slots):
        yield from look(next(iter(each.values())))
    for name in view.front.beyond_reference:
        yield Check(
            "warn",
            f"No outcome is better than the reference of {name}, so the hypervolume is 0.",
            "A reference is the worst value of interest, for an objective to "
            f"{view.directions[name]}. You may change it at any time.",
            "volume",
        )
    for name, one in each.items():
        for check in informative(one):
            yield replace(
                check, finding=f"{name}: {check.finding}", figure=f"{check.figure}-{name}"
            )


LOOKS: tuple[Callable[[View], Iterator[Check]], ...] = (
    set_up,
    same_objective,
    reporting,
    feasible,
    bound,
    edge,
    informative,
    duplicates,
    slots,
    expected,
)


def _slots(capacity: float) -> str:
    """How many slots there were, as the subject of a sentence. Evaluations of a moment hardly fill one."""
    count = max(1, round(capacity))
    return f"the {count} slots were" if count > 1 else "the time of the one slot was"
