"""A study from Python: look at it, ask for points, tell outcomes.

::

    study = dngo.open("my.yaml")      # or "results/my/archive.h5"
    study.table()
    for point in study.ask(4):
        study.tell(point, measure(**point.parameters))

To look you need nothing but an archive. Asking and telling go through the stages of the workflow, on
the same folder and under the same claims, so a study may change hands between a notebook and
Snakemake at any batch: the same archive and seed give the same points.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dngo import archive
from dngo.api.handover import write_config
from dngo.api.looking import Looking, Points
from dngo.api.optimizing import optimize
from dngo.api.stages import claimed, next_batch, settle_at_the_end
from dngo.batch import Proposal, find_outcome
from dngo.entering import Source, Told, add, skip, tell
from dngo.errors import UserError
from dngo.exchange.values import records, with_outcomes
from dngo.locate import file_at, find_study, is_archive
from dngo.replay import configuration
from dngo.study import Study


def open_study(path: str | Path, *, results: str | Path | None = None) -> Session:
    """The study of a configuration (YAML), of an archive (HDF5), or of the folder that holds either.

    results: folder of the studies, if not the one that the configuration names.
    Raises UserError if there is no such file, or if it is neither.
    """
    file = file_at(path, results)
    study = _study_of(file, results)
    if study is None or is_archive(file):
        return Session(file, study)
    study.header()  # whose archive it is
    study.settle()
    return Session(study.archive, study)


def _study_of(file: Path, results: str | Path | None) -> Study | None:
    """The study of a configuration or of an archive; None for an archive that lies apart from it."""
    if not is_archive(file):
        return find_study([file], {"results": str(results)} if results else {})
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
    return Study(config.model_copy(update={"results": str(folder.parent)}))


class Session(Looking):
    """A study, or an archive alone, as `dngo.open` gives it."""

    def __init__(self, path: Path, study: Study | None):
        super().__init__(path, study)
        self._settling: weakref.finalize[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return {"path": self.path, "_study": self._study, "_settling": None}

    # ---- asking and telling ---------------------------------------------------------------------

    def ask(self, n: int | None = None) -> list[Proposal]:
        """The next batch: points to evaluate, each with its `parameters`, and why.

        n: how many; `batch_size` if left out, or the size of the design. The first points are the
        ones that `add` has added. Raises UserError while as many batches as `batches_in_flight`
        allows wait for outcomes: `pending` has their points.
        """
        with claimed(self.study) as study:
            study.merge_complete()
            merged = study.merged()
            flying = study.in_flight(merged)
            if len(flying) >= study.config.batches_in_flight:
                points = ", ".join(p.id for p in self.pending()[:5])
                raise UserError(
                    f"{study.folder}: iteration {flying[-1].iteration} waits for outcomes ({points} ...); "
                    "tell them, or skip them; `pending` lists them"
                )
            t = merged + len(flying)
            return next_batch(study, t, n).evaluated

    def pending(self) -> list[Proposal]:
        """The points that were asked for and have no outcome yet, also after a restart."""
        self._settle()
        study = self.study
        return [
            p
            for batch in study.in_flight(study.merged())
            for p in batch.evaluated
            if find_outcome(study.outcome_file(p), p) is None
        ]

    def tell(
        self,
        points: Proposal | str | Points,
        objective: float | Sequence[float] | None = None,
        **outcome: Any,
    ) -> Told:
        """Enter what was measured: of points that were asked for, or of others.

        points: a proposal, its id, a dict of parameters, several of these, or a DataFrame. objective:
        its value, or as many values. outcome: each constraint by name (or `constraints`, a dict of
        them), `status`, `noise`, `duration`, `started`, `finished`, `message`, `metadata`.
        All of it may stand in the dicts or columns instead. An objective needs every constraint
        with it; a point without one has a `status`, as failed. A batch whose outcomes are all
        there is merged into the archive when somebody asks or looks, or at the end of this process;
        they are on disk before. Outcomes of other points are known to the next `ask`, and
        in the archive with its batch. Raises UserError for what cannot be entered; then nothing is entered.
        """
        study = self.study
        rows = with_outcomes(records(points, named=True), objective, outcome)
        if self._settling is None:
            self._settling = settle_at_the_end(self, study)
        return tell(study, Source.of_values(rows, "api", "tell"))

    def add(self, points: Points) -> None:
        """Put points at the head of the next batch; raises UserError as `dngo add` does."""
        add(self.study, Source.of_values(records(points), "user", "add"))

    def skip(self, point: Proposal | str, reason: str) -> None:
        """Withdraw a point that waits; raises UserError as `dngo skip` does."""
        skip(self.study, point.id if isinstance(point, Proposal) else point, reason)

    # ---- a function, from its first point to its last -------------------------------------------

    def optimize(
        self,
        function: Callable[..., Any],
        evaluations: int,
        *,
        workers: int = 1,
        batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Session:
        """Evaluate a function until the study has so many evaluations; the study itself, to go on with.

        function: is given the parameters by name, or all of them as one mapping. It returns a number, or
        {"objective": 0.1, "constraints": {...}, "metadata": {...}}; an exception is a failed outcome.
        workers: evaluations side by side, each in a process of its own, a fork of this one; 0: one after
        another in this process, which has no limits then. batch_size: points in a batch; as many as
        the study was given, or as workers. progress: whether there is a bar; None: on a terminal and in a
        notebook. What has ended is kept whatever ends this process, and the same call goes on.
        Raises UserError for a mistake, KeyboardInterrupt at Ctrl-C, and Halted, a UserError, where failures
        look like a mistake of the function (`stop.failures`).
        """
        self._study = optimize(
            self.study,
            function,
            evaluations,
            workers=workers,
            batch_size=batch_size,
            progress=progress,
        )
        return self

    def write_config(self, path: str | Path | None = None, *, objective: str | None = None) -> Path:
        """Write the study's configuration, with which Snakemake goes on: `dngo run PATH`.

        path: NAME.yaml in this folder by default. objective: "module:function" or a command, where the
        function that was evaluated can be found by nobody else, as one of a notebook.
        Raises UserError if no other process can find it, or if another file is in the way.
        """
        return write_config(self.study, path, objective)
