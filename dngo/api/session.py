"""A study from Python: look at it, ask for points, tell outcomes.

::

    study = dngo.open("my.yaml")      # or "results/my/archive.h5"
    study.table()
    for point in study.ask(4):
        study.tell(point, measure(**point.parameters))

To look at a study you need only its archive. Asking and telling run the stages of the workflow.
They use the same folder and the same claims. So you can switch between a notebook and Snakemake
after any batch. The same archive and seed give the same points.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.api.handover import write_config
from dngo.api.looking import Looking, Points
from dngo.api.optimizing import optimize
from dngo.api.stages import ask_next, claimed, settle_at_the_end
from dngo.batch import Proposal, find_outcome
from dngo.elsewhere import Points as Asked
from dngo.elsewhere import in_our_words
from dngo.entering import Source, Told, add, note, skip, tell
from dngo.errors import UserError
from dngo.exchange.values import records, with_outcomes
from dngo.locate import file_at, find_study, is_archive
from dngo.replay import configuration
from dngo.study import Study


def open_study(path: str | Path, *, results: str | Path | None = None) -> Session:
    """Open the study of a configuration (YAML), an archive (HDF5), or a folder with one of them.

    results: the folder of the studies, if not the one in the configuration.
    Raises UserError if the file does not exist, or is neither of them.
    """
    file = file_at(path, results)
    study = _study_of(file, results)
    if study is None or is_archive(file):
        return Session(file, study)
    study.header()  # checks that the archive is this study's
    study.settle()
    return Session(study.archive, study)


def _study_of(file: Path, results: str | Path | None) -> Study | None:
    """The study of a configuration or an archive; None for an archive outside its study's folder."""
    if not is_archive(file):
        return find_study([file], {"results": str(results)} if results else {})
    archive.check(file)
    header = archive.read_header(file)
    if header is None:
        raise UserError(f"{file}: there is no such archive")
    folder = file.absolute().parent
    if not header.iterations or (folder.name, file.name) != (
        header.identity["study"],
        "archive.h5",
    ):
        return None
    config = configuration(file, header.iterations - 1)
    size = _batch_size(file, header.iterations, config.batch_size)
    return Study(config.model_copy(update={"results": str(folder.parent), "batch_size": size}))


def _batch_size(file: Path, iterations: int, last: int) -> int:
    """The batch size of a study: that of its last batch. If Python asked for that, it may be only what was
    left of the evaluations, and then the batch before it is larger."""
    if iterations < 3:
        return last
    found = archive.iteration_attributes(file, iterations - 1)
    if "asked" not in json.loads(found["environment"]):
        return last
    before = archive.iteration_attributes(file, iterations - 2)
    return max(last, int(json.loads(before["config"])["batch_size"]))


class Session(Looking):
    """A study, or an archive alone; `dngo.open` returns it."""

    def __init__(self, path: Path, study: Study | None):
        super().__init__(path, study)
        self._settling: weakref.finalize[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return {"path": self.path, "_study": self._study, "_settling": None}

    # ---- asking and telling ---------------------------------------------------------------------

    @in_our_words
    def ask(self, n: int | None = None) -> list[Proposal]:
        """The next batch of points to evaluate. Each has its `parameters`, and says why it was chosen.

        n: how many points; by default `batch_size`, or the size of the design. Points from `add`
        come first.
        Raises UserError if too many batches already wait for outcomes (`batches_in_flight`).
        `pending` lists their points.
        """
        with claimed(self._engine) as study:
            study.merge_complete()
            merged = study.merged()
            flying = study.in_flight(merged)
            # Nothing is learnt before the design is complete.
            most = study.config.batches_in_flight if merged else 1
            if len(flying) >= (1 if most == "auto" else most):
                points = ", ".join(p.id for p in self.pending()[:5])
                raise UserError(
                    f"{study.folder}: iteration {flying[-1].iteration} waits for outcomes "
                    f"({points} ...); tell the outcomes, or skip the points; `pending` "
                    "lists them"
                )
            return Asked(ask_next(study, merged + len(flying), n).evaluated)

    def pending(self) -> list[Proposal]:
        """The points that were asked for and have no outcome yet, also those from before a restart."""
        self._settle()
        study = self._engine
        return [
            p
            for batch in study.in_flight(study.merged())
            for p in batch.evaluated
            if find_outcome(study.paths.outcome_file(p), p) is None
        ]

    def tell(
        self,
        points: Proposal | str | Points,
        objective: float | Sequence[float] | None = None,
        **outcome: Any,
    ) -> Told:
        """Enter the outcomes of points. The points may be asked for, or your own.

        points: a proposal, its id, a dict of parameters, several of these, or a DataFrame.
        objective: one value for each point.
        outcome: each constraint by name (or `constraints`, a dict of them), `status`, `noise`,
        `duration`, `started`, `finished`, `message`, `metadata`. All of these may stand in the
        dicts or columns instead. With an objective, every constraint is needed. A point without an
        objective needs a `status`, such as failed. Outcomes go to disk at once. A complete batch is
        merged into the archive at the next call that asks or looks, or at the end of this process.
        The next `ask` learns from outcomes of your own points, and its batch takes them into the
        archive.
        Raises UserError for what cannot be entered; then nothing is entered.
        """
        study = self._engine
        rows = with_outcomes(records(points, named=True), objective, outcome)
        if self._settling is None:
            self._settling = settle_at_the_end(self, study)
        return tell(study, Source.of_values(rows, "api", "tell"))

    def add(self, points: Points) -> None:
        """Put points first in the next batch; raises UserError as `dngo add` does."""
        add(self._engine, Source.of_values(records(points), "user", "add"))

    def skip(self, point: Proposal | str, reason: str) -> None:
        """Withdraw a point that waits; raises UserError as `dngo skip` does."""
        skip(self._engine, point.id if isinstance(point, Proposal) else point, reason)

    def note(self, text: str, point: Proposal | str = "", tags: Sequence[str] = ()) -> None:
        """Write a note or tags on a point, or on the study; raises UserError as `dngo note` does."""
        note(
            self._engine, text, point=point.id if isinstance(point, Proposal) else point, tags=tags
        )

    # ---- a function, from its first point to its last -------------------------------------------

    @in_our_words
    def optimize(
        self,
        function: Callable[..., Any],
        evaluations: int,
        *,
        workers: int | None = None,
        executor: Any = None,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Session:
        """Evaluate a function until the study has this many evaluations. Returns the study itself.

        function: takes the parameters by name, or all of them as one mapping. It returns a number,
        or {"objective": 0.1, "constraints": {...}, "metadata": {...}}; an exception becomes a
        failed outcome.
        workers: evaluations side by side, each in its own fork of this process; 0: one after
        another in this process, without limits. By default 1, or the number of the executor.
        executor: evaluates elsewhere: anything with `submit` as in `concurrent.futures`, such as a
        `dask.distributed.Client` (docs/api.md).
        batch_size: points in a batch; by default the study's batch size, or else the number of
        workers.
        progress: whether to show a bar; None: on a terminal and in a notebook, and elsewhere a line
        for each batch. Outcomes so far are kept, however this process ends, and the same call goes on.
        Raises UserError for a mistake, and KeyboardInterrupt at Ctrl-C. Raises Halted, a UserError,
        if failures look like a mistake in the function (`stop.failures`).
        """
        self._study = optimize(
            self._engine,
            function,
            evaluations,
            workers=workers,
            executor=executor,
            batch_size=batch_size,
            progress=progress,
        )
        return self

    def write_config(self, path: str | Path | None = None, *, objective: str | None = None) -> Path:
        """Write the study's configuration, so that Snakemake can go on: `dngo run PATH`.

        path: NAME.yaml in this folder by default.
        objective: "module:function" or a command. It is needed if other processes cannot find the
        evaluated function, such as one in a notebook.
        Raises UserError if it is needed and missing, or if another file is in the way.
        """
        return write_config(self._engine, path, objective)
