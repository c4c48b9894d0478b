"""Many studies on one page: all archives below a folder, to view and to compare."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined

from dngo import archive, inward
from dngo.errors import UserError
from dngo.replay import configuration
from dngo.report.compare import document, read
from dngo.report.live import status
from dngo.report.page import asset
from dngo.report.serve import Answer, Shown
from dngo.report.text import lasting
from dngo.storage.claim import SILENCE
from dngo.storage.text import storable, value_text
from dngo.study import Study
from dngo.study.settling import settle_at

if TYPE_CHECKING:
    from dngo.acting import Acts

DEPTH, MOST = 6, 1000  # most levels of folders, and most studies, to search
WIDTH, HEIGHT = 120, 28  # of a small plot of the course


@dataclass(frozen=True)
class ListedStudy:
    """The page's entry of one study. place: its path below the folder. course: points of an SVG line."""

    number: int
    place: str
    state: str
    evaluations: int = 0
    feasible: str = ""
    best: str = ""
    course: str = ""
    age: str = ""


class Many:
    """The studies below a folder.

    The page lists them; `N/` shows one, and `compare?of=N&of=M` several.
    acts: makes what the page of a study may do; None if it only shows.
    """

    def __init__(self, folder: Path, acts: Callable[[Study], Acts] | None = None):
        self.folder, self.acts = folder, acts
        self._shown: dict[Path, Shown] = {}
        self._numbers: list[Path] = []  # a study keeps its number while the server runs
        self._lines: dict[Path, tuple[tuple[int, bool], ListedStudy]] = {}
        self._lock = threading.Lock()
        self._look()

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        """Kind and text of a page, None if it does not exist; raises UserError."""
        if path == "":
            return "text/html", self._list(query.get("token", [""])[0])
        if path == "compare":
            chosen = [self._numbered(number) for number in query.get("of", [])]
            places = [str(place) for place in chosen if place is not None]
            if not places:
                raise UserError("tick the studies to compare")
            return "text/html", document(read(places))
        shown, rest = self._study_at(path)
        return shown.answer(rest, query) if shown else None

    def act(self, path: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """What came of an act on one of the studies; raises UserError if it cannot be read."""
        shown, rest = self._study_at(path)
        return shown.act(rest, document) if shown else None

    def _study_at(self, path: str) -> tuple[Shown | None, str]:
        """The study of a path, and the rest of the path."""
        number, slash, rest = path.partition("/")
        place = self._numbered(number)
        if place is None or not slash:
            return None, rest
        with self._lock:
            if place not in self._shown:
                study = _study(place)
                self._shown[place] = Shown(study, self.acts(study) if self.acts else None)
        return self._shown[place], rest

    def _numbered(self, number: str) -> Path | None:
        known = self._numbers
        return known[int(number)] if number.isdecimal() and int(number) < len(known) else None

    def _look(self) -> list[Path]:
        """Find the archives that exist now."""
        found = sorted(archives_below(self.folder))
        with self._lock:
            self._numbers += [place for place in found if place not in self._numbers]
        return found

    def _list(self, token: str) -> str:
        lines = [self._line(place) for place in self._look()]
        environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        template = environment.from_string(asset("many.html.j2"))
        title = f"Studies below {self.folder}"
        shape = {"width": WIDTH, "height": HEIGHT}
        css = asset("report.css")
        return storable(template.render(title=title, lines=lines, token=token, css=css, **shape))

    def _line(self, place: Path) -> ListedStudy:
        """The page's entry of a study, or the reason why it cannot be read."""
        number = self._numbers.index(place)
        try:
            settle_at(place.parent)
            modified, beats = _modified(place), _is_at_work(place)
            known = self._lines.get(place)
            if known is None or known[0] != (modified, beats):
                line = _line(number, str(place.parent.relative_to(self.folder)), place, beats)
                self._lines[place] = known = ((modified, beats), line)
        except (UserError, OSError) as error:
            return ListedStudy(number, str(place.parent), str(error).splitlines()[0])
        seconds = time.time() - modified / 1e9
        return replace(known[1], age=f"{lasting(max(0.0, seconds))} ago")


def archives_below(folder: Path) -> Iterator[Path]:
    """The archives of studies below a folder. Links are not followed."""
    count = 0
    for top, folders, files in os.walk(folder):
        deep = len(Path(top).relative_to(folder).parts) >= DEPTH
        if "archive.h5" in files:
            deep, count = True, count + 1
            yield Path(top) / "archive.h5"
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        if count >= MOST:
            return


def _modified(place: Path) -> int:
    """The time of the last change that a study's page shows, in nanoseconds since 1970."""
    times = [place.stat().st_mtime_ns]
    for path in (place.parent / "run.jsonl", place.parent / ".run.claim"):
        times += [path.stat().st_mtime_ns] if path.exists() else []
    return max(times)


def _is_at_work(place: Path) -> bool:
    """Whether a process holds the study. If the owner was killed, its heartbeat has stopped."""
    try:
        return time.time() - (place.parent / ".run.claim").stat().st_mtime < SILENCE
    except OSError:
        return False


def _study(place: Path) -> Study:
    header = archive.read_header(place)
    if header is None or not header.iterations:
        raise UserError(f"{place}: is empty")
    config = configuration(place, header.iterations - 1)
    # The folder identifies a study, whatever its name is.
    return Study(config.model_copy(update={"results": str(place.parent.parent)}))


def _line(number: int, name: str, place: Path, is_at_work: bool) -> ListedStudy:
    study = _study(place)
    if study.archive != place:  # a copy under another name
        return ListedStudy(number, name, "its folder and its study have different names")
    with archive.reading(place):
        data, table = status(study), study.table()
    minimise = inward.sign(study.config) > 0
    values = np.where(table.counting(study.config.ladder), table.objective, np.nan)
    course = (np.fmin if minimise else np.fmax).accumulate(values)
    best = value_text(data["best"]["objective"]) if data["best"] else ""
    if study.config.has_several:
        best, course = f"{len(data['front']['points'])} on the front", course[:0]
    if data["stopped"]:
        state = f"stopped: {data['stopped'][:120]}"
    elif is_at_work:
        to_go = data["seconds_to_go"]
        state = f"at work, {lasting(to_go)} to go" if to_go else "at work"
    else:
        left = data["iterations_configured"] - data["iterations_merged"]
        state = "complete" if left <= 0 else f"not running, {left} batches to come"
    return ListedStudy(
        number=number,
        place=name,
        state=state,
        evaluations=data["evaluations"],
        feasible="" if data["feasible_share"] is None else f"{data['feasible_share']:.0%}",
        best=best,
        course=_course(course if minimise else -course),
    )


def _course(best: np.ndarray) -> str:
    """The best value so far as points of an SVG line, with the smallest at the bottom."""
    known = np.flatnonzero(np.isfinite(best))
    if len(known) < 2:
        return ""
    known = known[np.unique(np.linspace(0, len(known) - 1, WIDTH).round().astype(int))]
    # The first drop would take the whole plot; later steps must be visible as well.
    low, high = best[known[-1]], np.quantile(best[np.isfinite(best)], 0.8)
    span = high - low or 1.0
    x = WIDTH * known / max(len(best) - 1, 1)
    y = HEIGHT - 2 - (HEIGHT - 4) * np.clip((best[known] - low) / span, 0, 1)
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
