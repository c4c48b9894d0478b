"""`dngo watch`: the essentials of a running study, live in a terminal."""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dngo.report import text
from dngo.report.live import expected_evaluations, merged_batches, status
from dngo.storage.text import value_text
from dngo.study import Study

MOST_BATCHES = 12
MOST_POINTS = 8  # of a front to show


def watch(study: Study, *, interval: float, console: Console) -> None:
    """Show the study until it is complete. If the output is piped, print a line for each change."""
    with (
        Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live
    ):
        last = ""
        while True:
            over = ended(study)
            study.settle()
            data = status(study)
            if live is not None:
                live.update(screen(study, data), refresh=True)
            elif (line := text.one_line(data)) != last:
                console.print(line, markup=False, highlight=False, soft_wrap=True)
                console.file.flush()
                last = line
            if over:
                return
            time.sleep(interval)


def ended(study: Study) -> bool:
    """Whether everything that the configuration asks for is in the archive.

    Call it before reading the study. Then the last screen shows the end, even if something was
    merged meanwhile.
    """
    return study.merged() > 0 and not study.plan().iterations


def screen(study: Study, data: dict[str, Any]) -> RenderableType:
    """The screen of a terminal: a bar for the study, a line for each batch, the best point."""
    total, done = expected_evaluations(study, data), data["evaluations"]
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"Study {data['study']}", style="bold"),
        ProgressBar(total=total, completed=done, width=40),
        f"{done} of {total} evaluations",
        f"{text.lasting(data['seconds_to_go'])} to go" if data.get("seconds_to_go") else "",
    )
    parts: list[RenderableType] = [head, _batches(study, data)]
    parts += [Text(f"Running   {p}") for batch in data["in_flight"] for p in text.reporting(batch)]
    counts = ", ".join(f"{n} {s}" for s, n in data["outcomes"].items() if n)
    if counts:
        parts.append(Text(f"Outcomes  {counts}"))
    parts += [Text(f"Failures  {n} {m}", style="red") for m, n in data["messages"].items()]
    best = data["best"]
    if best:
        parts.append(
            Text(f"Best      {value_text(best['objective'])}, proposal {best['id']}", style="bold")
        )
        parts += [Text(f"          {k} = {value_text(v)}") for k, v in best["parameters"].items()]
    elif data.get("front", {}).get("points"):
        parts.append(Text("Front", style="bold"))
        parts += [Text(line) for line in text.front_lines(data["front"], MOST_POINTS)]
    else:
        parts.append(Text("Best      no feasible point yet"))
    return Group(*parts)


def _batches(study: Study, data: dict[str, Any]) -> Table:
    head, *others = text.batch_columns(study.config.has_several)
    shown = Table(head, "evaluated", "running", *others[1:], box=None, padding=(0, 2))
    merged = data["iterations_merged"]
    for batch in merged_batches(study, range(merged)[-MOST_BATCHES:]) if merged else []:
        number, points, *cells = text.batch_cells(batch)
        shown.add_row(number, f"{points} of {points}", "", *cells)
    for flying in data["in_flight"]:
        shown.add_row(
            str(flying["iteration"]),
            f"{flying['evaluated']} of {flying['points']}",
            str(flying["running"]),
        )
    return shown
