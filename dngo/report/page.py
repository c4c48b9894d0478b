"""The report as one HTML file. It needs no other file and no network.

Plotly's bundle, each figure and the table of all points are packed (gzip, base64). The browser
unpacks them when they come into view.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from dngo.evaluation.pictures import NAME as IMAGE
from dngo.evaluation.pictures import held as held_picture
from dngo.report.data import View
from dngo.report.figures import Figure, all_figures
from dngo.report.health import Check, checks, messages
from dngo.report.left import NOTE, TAGS, metadata_of, note_of, pictures, tags_of, with_notes
from dngo.report.text import headline
from dngo.report.text import summary as summary_of
from dngo.scores import Score, forward_scores
from dngo.storage.files import write_text
from dngo.storage.text import storable, value_text
from dngo.study import Study, entries
from dngo.units import units_of

WORDS = {"stop": "Stop", "warn": "Look at this", "note": "Note"}
MOST_MESSAGES = 30
MOST_LISTED = 20_000  # most points in the table
SCORES = ("iteration", "part", "outcomes", "log_density", "constant", "coverage")


def write_report(study: Study, *, summary: Path, page: Path, scores: Path) -> None:
    """Write the page of text, the report, and the scores of the surrogates as a table.

    Wait while the disk is full.
    """
    found = forward_scores(study.archive, study.config)
    write_text(scores, _table(found))
    write_page(study, page)
    write_text(summary, f"{summary_of(study)}\n")


def write_page(study: Study, path: Path) -> None:
    """Write the report of a study from its current archive."""
    write_text(path, study_page(study))


def refresh(study: Study) -> None:
    """Update the report in the study's folder, if it is out of date."""
    path = study.folder / "report" / "report.html"
    if study.header() is None:
        return
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as stream:
        if f'content="{version(study)}"' in stream.read(500):
            return
    write_page(study, path)


def version(study: Study) -> str:
    """The state that a report shows: the archive's digest, and the last note that it lacks."""
    header, new = study.header(), entries.new_notes(study.archive)
    return "-".join([header.digest if header else "", *(note.name for note in new[-1:])])


def study_page(
    study: Study,
    *,
    served: bool = False,
    acts: Mapping[str, Any] | None = None,
    view: View | None = None,
) -> str:
    """The report of a study as HTML.

    served: whether it may ask its server for the current state.  acts: what its forms ask for.
    view: see `summary`.
    Raises UserError if the study has no archive yet.
    """
    view = view or View.now(study)
    figures, said = all_figures(view), messages(view)[:MOST_MESSAGES]
    listed = _listed(view, _drawn(figures, said))
    ids = [view.id(row) for row in listed]
    left = with_notes(metadata_of(view, listed), ids, entries.notes(study.archive))
    best = view.front.rows if view.has_several else view.ranking("observed")
    named = np.zeros(len(view), dtype=bool)
    named[listed] = list(map(held_picture, left))
    page = Page(
        title=f"Study {view.name}",
        headline=headline(study),
        version=version(study),
        figures=figures,
        checks=checks(view),
        texts=[("Summary", summary_of(study, view))],
        messages=said,
        points=_points(view, listed, left),
        pictures=pictures(view, named.tolist(), [*best, *view.last]),
        named=int(named.sum()),
        served=served,
        acts=acts,
    )
    return page.render()


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page. texts: pairs of a heading and a text. points: as `_points` returns them.

    pictures: data addresses by row; named: how many points named one.
    acts: what the forms of a served page ask for (`Acts.offered`); None if it only shows.
    """

    title: str
    headline: str
    figures: Sequence[Figure]
    version: str = ""
    checks: Sequence[Check] | None = None
    texts: Sequence[tuple[str, str]] = ()
    messages: Sequence[tuple[int, str, str, int]] = ()
    points: dict[str, Any] | None = None
    pictures: Mapping[int, str] = field(default_factory=dict)
    named: int = 0
    served: bool = False
    acts: Mapping[str, Any] | None = None

    def _partly(self) -> str:
        """Says how many points and pictures the page has, if it does not have all of them."""
        said = []
        if len(self.pictures) < self.named:
            said.append(
                f"{len(self.pictures):,} of {self.named:,} pictures are shown; the study's "
                "folder `images` has all that were kept."
            )
        if self.points is None or self.points["listed"] is None:
            return " ".join(said)
        said.append(
            f"{len(self.points['listed']):,} of {self.points['of']:,} points are listed: "
            "the best points, those in the figures, the last batch, and others evenly "
            "spaced. `dngo audit --all` lists all points."
        )
        return " ".join(said)

    def render(self) -> str:
        """The page, one HTML file."""
        blocks = {f"figure-{each.key}": _pack(each.plot.to_json()) for each in self.figures}
        blocks["plotly"] = _pack(get_plotlyjs())
        if self.points is not None:
            blocks["points"] = _pack(json.dumps(self.points, allow_nan=False))
            blocks |= {f"image-{row}": _pack(data) for row, data in self.pictures.items()}
            blocks["tabulator"] = _pack(asset("tabulator.min.js"))
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        environment.filters["code"] = _code
        anchors = {each.key for each in self.figures} | ({"messages"} if self.messages else set())
        template = environment.from_string(asset("report.html.j2"))
        page = template.render(
            {**vars(self), "points": self.points is not None, "partly": self._partly()},
            connect="'self'" if self.served else "'none'",
            css=asset("report.css") + asset("tabulator.min.css"),
            js=asset("report.js"),
            anchors=anchors,
            words=WORDS,
            blocks=blocks,
        )
        return storable(page)  # paths may hold bytes that are not characters


def asset(name: str) -> str:
    """The text of an asset of pages."""
    return (files("dngo.report") / "assets" / name).read_text(encoding="utf-8")


def _pack(text: str) -> str:
    # The header has no time, so the same study gives the same file.
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _listed(view: View, drawn: Iterable[int]) -> np.ndarray:
    """The rows in the table of points: all of them, if they are few. Otherwise the rows in figures
    (`drawn`), the best rows, the last batch, and others evenly spaced.
    """
    n = len(view)
    if n <= MOST_LISTED:
        return np.arange(n)
    value = np.where(view.ok, view.sign * view.table.objective, np.inf)
    best = np.argsort(value, kind="stable")[: MOST_LISTED // 5]
    kept = np.unique([*drawn, *best.tolist(), *view.last.tolist()])
    spread = np.linspace(0, n - 1, max(MOST_LISTED - len(kept), 2)).astype(int)
    return np.union1d(kept, spread).astype(int)


def _drawn(figures: Sequence[Figure], said: Sequence[tuple[int, str, str, int]]) -> set[int]:
    """Rows to which a click on a figure or a message leads."""
    found = {row for *_, row in said}
    for each in figures:
        for trace in each.plot.data:
            data = getattr(trace, "customdata", None)
            if data is not None and np.ndim(data) == 1 and np.asarray(data).dtype.kind in "iu":
                found.update(np.asarray(data).tolist())
    return found


def _points(view: View, listed: np.ndarray, left: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Some rows of the archive for the table, column by column; NaN is null.

    listed: the numbers of these rows, if they are not all.
    left: the metadata of these rows.
    """
    table, columns = view.table, _Columns(listed)
    numbers, words = columns.numbers, columns.words
    units = units_of(view.config)
    parameters = view.space.to_parameters(table.v[listed])
    words("proposal", [view.id(row) for row in listed])
    words("status", table.status[listed].tolist())
    if not view.has_several:
        numbers("objective", table.objective, log=view.units.log)
    for name in view.directions:
        numbers(name, table.objectives[name], log=units[name].log)
    if view.has_several:
        there = np.isin(listed, view.front.rows)
        words("front", ["front" if found else "" for found in there])
    for j, column in view.columns:
        if column.choices is None:
            numbers(column.name, table.v[:, j], whole=column.integer, log=column.log)
        else:
            words(column.name, [str(p.get(column.name, "")) for p in parameters])
    if not view.has_several:
        numbers("expected", view.numbers["mean"], log=view.units.log)
        numbers("deviation", view.numbers["std"])
    for name in view.directions:
        numbers(f"{name} expected", view.means[name], hidden=True, log=units[name].log)
        numbers(f"{name} deviation", view.stds[name], hidden=True)
    numbers("P(feasible)", view.numbers["feasibility"])
    words("found as", view.source[listed].tolist())
    words("picked by the stage", view.table.stage[listed].tolist(), hidden=True)
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
        words(f"constraint {name}", [states.get(flag, "") for flag in flags[listed]], hidden=True)
    numbers("seconds", table.duration)
    words("message", [text[:500] for text in view.message[listed]])
    for name, found in zip((NOTE, TAGS), (note_of, tags_of), strict=True):
        said = list(map(found, left))
        if any(said):
            words(name, said)
    if any(map(held_picture, left)):
        words(IMAGE, ["image" if held_picture(found) else "" for found in left])
    return {"archive": str(view.path), "of": len(view), **columns.document(len(view))}


class _Columns:
    """Columns of a table with some of the rows of another table.

    Each column has a name and values. It also says whether they are numbers, whether it is hidden
    at first, and whether its scale is logarithmic.
    """

    def __init__(self, listed: np.ndarray):
        self.listed = listed
        self.columns: list[tuple[str, list[Any], bool, bool, bool]] = []

    def numbers(
        self,
        name: str,
        values: np.ndarray,
        hidden: bool = False,
        whole: bool = False,
        log: bool = False,
    ) -> None:
        values = values[self.listed]
        pairs = zip(values, np.isfinite(values), strict=True)
        write = "{:.0f}".format if whole else value_text
        short = [float(write(value)) if known else None for value, known in pairs]
        self.columns.append((name, short, True, hidden, log))

    def words(self, name: str, values: Sequence[Any], hidden: bool = False) -> None:
        self.columns.append((name, list(values), False, hidden, False))

    def document(self, n: int) -> dict[str, Any]:
        """Plain data. n: the number of rows of the other table."""
        keys = ("names", "rows", "numeric", "hidden", "log")
        listed = None if len(self.listed) == n else self.listed.tolist()
        return {**dict(zip(keys, zip(*self.columns, strict=True), strict=True)), "listed": listed}


def _table(scores: list[Score]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream)
    writer.writerow(SCORES)
    writer.writerows([getattr(score, name) for name in SCORES] for score in scores)
    return stream.getvalue()


def _code(text: str) -> Markup:
    """Text for the page. Parts in backticks become code."""
    return Markup(re.sub(r"`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))
