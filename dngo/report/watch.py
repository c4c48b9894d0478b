"""`dngo watch`: the essentials of a running study, live in a terminal."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dngo import archive
from dngo.report.live import status
from dngo.report.text import _value, one_line
from dngo.study import Study

MOST_BATCHES = 12


def watch(study: Study, *, interval: float, console: Console) -> None:
    """Show the study until nothing is left to do in it; a line for each change if piped."""
    if not console.is_terminal:
        return _lines(study, interval, console)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            data = status(study)
            live.update(screen(study, data), refresh=True)
            if ended(study, data):
                return None
            time.sleep(interval)


def _lines(study: Study, interval: float, console: Console) -> None:
    last = ""
    while True:
        data = status(study)
        line = one_line(data)
        if line != last:
            console.print(line, markup=False, highlight=False, soft_wrap=True)
            console.file.flush()
            last = line
        if ended(study, data):
            return
        time.sleep(interval)


def ended(study: Study, data: dict[str, Any]) -> bool:
    """Whether everything that the configuration asks for is in the archive."""
    return data["iterations_merged"] > 0 and not study.plan().iterations


def screen(study: Study, data: dict[str, Any]) -> RenderableType:
    """What the terminal shows: a bar for the study, a line for each batch, the best point."""
    config = study.config
    total = config.design_size + config.iterations * config.batch_size
    done = data["evaluations"]
    head = Table.grid(padding=(0, 2))
    head.add_row(
        Text(f"Study {data['study']}", style="bold"),
        ProgressBar(total=max(total, done), completed=done, width=40),
        f"{done} of {max(total, done)} evaluations",
    )
    parts: list[RenderableType] = [head, _batches(study, data)]
    counts = ", ".join(f"{n} {s}" for s, n in data["outcomes"].items() if n)
    if counts:
        parts.append(Text(f"Outcomes  {counts}"))
    parts += [Text(f"Lately    {n} {m}", style="red") for m, n in data["messages"].items()]
    best = data["best"]
    if best:
        parts.append(
            Text(f"Best      {best['objective']:.6g}, proposal {best['id']}", style="bold")
        )
        parts += [Text(f"          {k} = {_value(v)}") for k, v in best["parameters"].items()]
    else:
        parts.append(Text("Best      no feasible point yet"))
    return Group(*parts)


def _batches(study: Study, data: dict[str, Any]) -> Table:
    shown = Table("iteration", "evaluated", "running", "feasible", "best", box=None, padding=(0, 2))
    if data["iterations_merged"]:
        table = archive.read_table(study.archive, iterations=data["iterations_merged"])
        better = np.fmin if study.config.objective.direction == "minimize" else np.fmax
        ok = table.status == "ok"
        best = better.accumulate(np.where(ok, table.objective, np.nan))
        for t in range(data["iterations_merged"])[-MOST_BATCHES:]:
            rows = np.flatnonzero(table.iteration == t)
            if len(rows):
                share, found = f"{ok[rows].mean():.0%}", f"{best[rows[-1]]:.6g}"
                shown.add_row(str(t), f"{len(rows)} of {len(rows)}", "", share, found)
    for batch in data["in_flight"]:
        shown.add_row(
            str(batch["iteration"]),
            f"{batch['evaluated']} of {batch['points']}",
            str(batch["running"]),
        )
    return shown
