"""The report as one HTML file: nothing beside it is needed, and nothing is asked of anywhere.

Everything that is not text is packed (gzip, base64) and unpacked by the browser when it comes into
view: Plotly's bundle, each figure, and the table of all points.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import gzip
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from plotly.offline import get_plotlyjs

from dngo.report.data import View
from dngo.report.figures import Figure, all_figures
from dngo.report.health import Check, checks, messages
from dngo.report.text import headline
from dngo.report.text import summary as summary_of
from dngo.scores import Score, forward_scores
from dngo.storage.files import write_text
from dngo.storage.text import storable
from dngo.study import Study

WORDS = {"stop": "Stop", "warn": "Look at this", "note": "Note"}
MOST_MESSAGES = 30
SCORES = ("iteration", "part", "outcomes", "log_density", "constant", "coverage")


def write_report(study: Study, *, summary: Path, page: Path, scores: Path) -> None:
    """Write the page of text, the report, and the scores of the surrogates as a table.

    A full disk is waited for.
    """
    found = forward_scores(study.archive, study.config)
    write_text(scores, _table(found))
    write_page(study, page)
    write_text(summary, f"{summary_of(study)}\n")


def write_page(study: Study, path: Path) -> None:
    """Write the report of a study, with its archive as it is now."""
    write_text(path, study_page(study))


def refresh(study: Study) -> None:
    """Bring the report in the study's folder up to date; one that is stays as it is."""
    path = study.folder / "report" / "report.html"
    header = study.header()
    if header is None:
        return
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as stream:
        if f'content="{header.digest}"' in stream.read(500):
            return
    write_page(study, path)


def study_page(study: Study, *, served: bool = False) -> str:
    """The report of a study as HTML. served: it may ask the server it came from how things stand.

    Raises UserError if there is no archive yet.
    """
    header = study.header()
    view = View.of(study.archive, json.loads(study.config.resolved()))
    page = Page(
        title=f"Study {view.name}",
        headline=headline(study),
        version=header.digest if header else "",
        figures=all_figures(view),
        checks=checks(view),
        texts=[("Summary", summary_of(study))],
        messages=messages(view)[:MOST_MESSAGES],
        points=_points(view),
        served=served,
    )
    return page.render()


@dataclass(frozen=True, kw_only=True)
class Page:
    """What stands on a page. texts: pairs of heading and text; points: what `_points` gives."""

    title: str
    headline: str
    figures: Sequence[Figure]
    version: str = ""
    checks: Sequence[Check] | None = None
    texts: Sequence[tuple[str, str]] = ()
    messages: Sequence[tuple[int, str, str, int]] = ()
    points: dict[str, Any] | None = None
    served: bool = False

    def render(self) -> str:
        """The page, one HTML file."""
        blocks = {f"figure-{each.key}": _pack(each.plot.to_json()) for each in self.figures}
        blocks["plotly"] = _pack(get_plotlyjs())
        if self.points is not None:
            blocks["points"] = _pack(json.dumps(self.points, allow_nan=False))
            blocks["tabulator"] = _pack(asset("tabulator.min.js"))
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        anchors = {each.key for each in self.figures} | ({"messages"} if self.messages else set())
        template = environment.from_string(asset("report.html.j2"))
        page = template.render(
            {**vars(self), "points": self.points is not None},
            connect="'self'" if self.served else "'none'",
            css=asset("report.css") + asset("tabulator.min.css"),
            js=asset("report.js"),
            anchors=anchors,
            words=WORDS,
            blocks=blocks,
        )
        return storable(page)  # paths may hold what is no character


def asset(name: str) -> str:
    """The text of a file that pages are made of."""
    return (files("dngo.report") / "assets" / name).read_text(encoding="utf-8")


def _pack(text: str) -> str:
    # No time in the header: the same study is the same file.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _points(view: View) -> dict[str, Any]:
    """Every row of the archive for the table, column by column; NaN is null."""
    table, n = view.table, len(view)
    parameters = view.space.to_parameters(table.v)
    columns: list[tuple[str, list[Any], bool, bool]] = []  # name, values, numeric, hidden

    def numbers(name: str, values: np.ndarray, hidden: bool = False, whole: bool = False) -> None:
        known, form = np.isfinite(values), ".0f" if whole else ".6g"
        short = [float(f"{v:{form}}") if k else None for v, k in zip(values, known, strict=True)]
        columns.append((name, short, True, hidden))

    def words(name: str, values: Sequence[Any], hidden: bool = False) -> None:
        columns.append((name, list(values), False, hidden))

    words("proposal", [view.id(row) for row in range(n)])
    words("status", table.status.tolist())
    if not view.has_several:
        numbers("objective", table.objective)
    for name in view.directions:
        numbers(name, table.objectives[name])
    if view.has_several:
        there = np.isin(np.arange(n), view.front.rows)
        words("front", ["front" if found else "" for found in there])
    for j, column in view.columns:
        if column.choices is None:
            numbers(column.name, table.v[:, j], whole=column.integer)
        else:
            words(column.name, [str(p.get(column.name, "")) for p in parameters])
    if not view.has_several:
        numbers("expected", view.numbers["mean"])
        numbers("deviation", view.numbers["std"])
    for name in view.directions:
        numbers(f"{name} expected", view.means[name], hidden=True)
        numbers(f"{name} deviation", view.stds[name], hidden=True)
    numbers("P(feasible)", view.numbers["feasibility"])
    words("found as", view.source.tolist())
    words("picked by the stage", view.stage.tolist(), hidden=True)
    numbers("acquisition", view.numbers["value"], hidden=True)
    numbers("next best", view.numbers["runner_up"], hidden=True)
    numbers("pending then", view.numbers["num_pending"], hidden=True)
    numbers("nearest", view.nearest, hidden=True)
    for name, reported in table.numbers.items():
        expected = view.expected_constraints.get(name)
        numbers(name, reported)
        if expected is not None:
            numbers(f"{name} expected", expected.mean, hidden=True)
            numbers(f"{name} deviation", expected.std, hidden=True)
    for name, flags in table.constraints.items():
        states = {1.0: "satisfied", 0.0: "violated"}
        words(f"constraint {name}", [states.get(flag, "") for flag in flags], hidden=True)
    numbers("seconds", table.duration)
    words("message", [text[:500] for text in view.message])
    names, rows, numeric, concealed = zip(*columns, strict=True)
    return {
        "archive": str(view.path),
        "names": names,
        "numeric": numeric,
        "hidden": concealed,
        "rows": rows,
    }


def _table(scores: list[Score]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(SCORES)
    writer.writerows([getattr(score, name) for name in SCORES] for score in scores)
    return stream.getvalue()
