"""A study from Python: look at it, ask for points, tell outcomes.

::

    study = dngo.open("my.yaml")      # or "results/my/archive.h5"
    study.table()
    for point in study.ask(4):
        study.tell(point, measure(**point.parameters))

Whoever looks needs nothing but an archive. Asking and telling go through the stages of the workflow, on
the same folder and under the same claims, so a study may change hands between a notebook and
Snakemake at any batch: the same archive and seed give the same points.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dngo import archive
from dngo.api.handover import write_config
from dngo.api.optimizing import optimize
from dngo.api.stages import claimed, merge, next_batch, settle, settle_at_the_end, whole
from dngo.audit import table_of
from dngo.batch import Proposal, find_outcome
from dngo.config import Config
from dngo.entering import Source, Told, add, skip, tell
from dngo.errors import UserError
from dngo.exchange import package
from dngo.exchange.values import natural_points, records, with_outcomes
from dngo.locate import file_at, find_study, is_archive
from dngo.replay import configuration, surrogate
from dngo.report.best import Best, escape
from dngo.report.data import View
from dngo.report.text import headline
from dngo.study import Study

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


Points: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | pd.DataFrame"
INTERVAL = 1.959964  # deviations on either side of the mean that hold 95 % of a normal


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


@dataclass(frozen=True)
class Result:
    """Numbers as a table, and a figure of them."""

    frame: pd.DataFrame
    figure: go.Figure

    def _repr_html_(self) -> str:
        return str(self.frame.to_html())


@dataclass(frozen=True)
class Fitted:
    """The surrogate that an iteration was proposed with."""

    view: View

    @property
    def iteration(self) -> int:
        """Which iteration it proposed."""
        return self.view.model_iteration

    def predict(self, points: Points) -> pd.DataFrame:
        """What an evaluation at some points would give: mean, std, low and high (95 %), feasibility.

        Of several objectives mean_NAME and so on.

        points: a dict of parameters, several, or a DataFrame with a column for each parameter, in
        natural units. A row for each. Raises UserError for a point outside the space.
        """
        known = self.view.config["constraints"]
        x = self.view.box.encode(natural_points(self.view.space, points, known))
        return self._frame(x)

    def feasibility(self, points: Points) -> np.ndarray:
        """The probability that every constraint holds at each of some points: (n,)."""
        return self.predict(points)["feasibility"].to_numpy()

    def _frame(self, x: np.ndarray) -> pd.DataFrame:
        columns: dict[str, np.ndarray] = {}
        for name in self.view.directions or [""]:
            view = self.view.of_objective(name) if name else self.view
            mean, std, feasibility = view.predict(x)
            low, high = mean - INTERVAL * std, mean + INTERVAL * std
            found = {"mean": mean, "std": std, "low": low, "high": high}
            columns |= {f"{key}_{name}" if name else key: v for key, v in found.items()}
        return _pandas().DataFrame({**columns, "feasibility": feasibility})

    def __repr__(self) -> str:
        assert self.view.model is not None
        known = self.view.model.summary().get("observations")
        return f"<surrogate of iteration {self.iteration}, of {known} evaluations>"


class Session:
    """A study, or an archive alone, as `dngo.open` gives it."""

    def __init__(self, path: Path, study: Study | None):
        self.path, self._study = path, study
        self._is_due = False  # whether there may be something told that is not merged
        self._settling: weakref.finalize[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        self._settle()
        return {"path": self.path, "_study": self._study, "_is_due": False, "_settling": None}

    # ---- looking --------------------------------------------------------------------------------

    @property
    def _view(self) -> View:
        self._settle()
        header = archive.read_header(self.path)
        digest = header.digest if header else ""
        if self.__dict__.get("_seen", ("", None))[0] != digest or not digest:
            self._seen = (digest, View.of(self.path))
        return self._seen[1]

    def table(self) -> pd.DataFrame:
        """Every proposal of the archive with its reasons and its outcome, a row for each.

        Parameters are the columns parameter_NAME, constraints constraint_NAME, and number_NAME where they
        have a threshold, as in an export; what the objective reported beside is metadata_NAME as well.
        """
        self._settle()
        return _pandas().DataFrame(table_of(self.path) if self.path.exists() else [])

    @property
    def has_model(self) -> bool:
        """Whether a surrogate has learnt the objective."""
        return self._view.has_model

    def best(self, by: Literal["model", "observed"] = "observed") -> Best:
        """The best evaluated point: by its outcome, or by what the latest model expects there.

        The model heeds noise: of the points that are feasible with a probability of at least one
        half, the one whose mean is best when it is made worse by a deviation: the best of many means
        is a lucky one, too. Raises UserError if there is none.
        """
        return self.top(1, by)[0]

    def top(self, count: int, by: Literal["model", "observed"] = "observed") -> list[Best]:
        """The best `count` evaluated points, or all there are, the best first: see `best`."""
        view = self._view
        if view.has_several:
            raise UserError(
                f"{self.path}: has several objectives, and no one best point; `front` has the best ones"
            )
        if by not in ("model", "observed"):
            raise UserError(f"by: is 'model' or 'observed', not {by!r}")
        if by == "model" and not view.has_model:
            raise UserError(f"{self.path}: no surrogate has learnt the objective yet")
        rows = view.ranking(by)[: max(whole("count", count), 1)]
        if not len(rows):
            raise UserError(f"{self.path}: no evaluation is feasible yet")
        mean, std, feasibility = view.expected
        return [
            Best(
                id=view.id(row),
                parameters=parameters,
                objective=float(view.table.objective[row]),
                mean=float(mean[row]),
                std=float(std[row]),
                feasibility=float(feasibility[row]),
                evaluations=len(view.outcomes(row)),
                average=float(view.outcomes(row).mean()),
                by=by,
            )
            for row, parameters in zip(
                rows, view.space.to_parameters(view.table.v[rows]), strict=True
            )
        ]

    def front(self) -> pd.DataFrame:
        """Of several objectives the points that nothing betters in all of them, a row for each.

        Columns: id, each objective in its own units, parameter_NAME, and whether it is the knee. Raises
        UserError if there is one objective, or no evaluation is ok yet.
        """
        view = self.view_of_front()
        front = view.front
        points = view.space.to_parameters(view.table.v[front.rows])
        return _pandas().DataFrame(
            [
                {
                    "id": view.id(int(row)),
                    **front.objectives(i),
                    **{f"parameter_{k}": v for k, v in parameters.items()},
                    "knee": i == front.knee,
                }
                for i, (row, parameters) in enumerate(zip(front.rows, points, strict=True))
            ]
        )

    def view_of_front(self) -> View:
        """The view of a study with several objectives and a front; raises UserError."""
        view = self._view
        if not view.has_several:
            raise UserError(f"{self.path}: has one objective; `best` has its best point")
        if not len(view.front.rows):
            raise UserError(f"{self.path}: no evaluation is feasible yet")
        return view

    def _of(self, view: View, objective: str | None) -> View:
        """The view of the only objective, or of one of several; raises UserError."""
        if not view.has_several and objective is None:
            return view
        if objective in view.directions:
            return view.of_objective(objective)
        known = ", ".join(view.directions) or "one, without a name"
        raise UserError(f"objective: say which one is meant; they are {known}")

    def model(self, iteration: int | None = None) -> Fitted:
        """The surrogate that an iteration was proposed with; the latest one by default.

        An earlier one than the archive holds (`archive.surrogates: last`) is read from the stage's
        file, or fitted again: that takes as long as it took then. Raises UserError if there is none.
        """
        view = self._view
        if iteration is not None:
            iteration, held = whole("iteration", iteration), int(view.table.iteration[-1])
            if not 0 <= iteration <= held:
                raise UserError(f"{self.path}: has no iteration {iteration}; it holds 0 to {held}")
            model = surrogate(self.path, iteration)
            view = replace(view, model=model, model_iteration=iteration)
        if not view.has_model:
            raise UserError(
                f"{self.path}: {'no iteration' if iteration is None else f'iteration {iteration}'} "
                "has a surrogate of the objective; a design and a baseline have none"
            )
        return Fitted(view)

    def predict(self, points: Points) -> pd.DataFrame:
        """`Fitted.predict` of the latest model."""
        return self.model().predict(points)

    def feasibility(self, points: Points) -> np.ndarray:
        """`Fitted.feasibility` of the latest model."""
        return self.model().feasibility(points)

    def slice(self, name: str, objective: str | None = None) -> Result:
        """What the latest model expects along one parameter, through the best point.

        objective: which of several.
        """
        from dngo.report.figures.model import slices

        fitted = Fitted(self._of(self.model().view, objective))
        view = fitted.view
        columns = {c.name: j for j, c in view.columns}
        if name not in columns:
            raise UserError(f"{name!r} is no parameter that varies; they are {', '.join(columns)}")
        figure = slices(view, [name])
        if view.best is None or figure is None:
            raise UserError(f"{name}: there is no best point yet in which it is active")
        j = columns[name]
        values = view.slice_values(j)
        frame = fitted._frame(view.through(view.best, {j: values}))
        choices = view.space.columns[j].choices
        natural = values if choices is None else [choices[int(v)] for v in values]
        frame.insert(0, name, natural)
        return Result(frame, figure.plot)

    def importance(self, objective: str | None = None) -> Result:
        """Sobol indices of the latest model: how much of what it expects depends on a parameter.

        Columns: first and total order, of the objective and of feasibility; NaN where constant.
        objective: which of several.
        """
        from dngo.report.figures.model import importance

        view = self._of(self.model().view, objective)
        figure = importance(view)
        if figure is None:
            raise UserError(f"{self.path}: the model is constant: nothing matters yet")
        order = [j for j, _ in view.columns]
        columns = {
            f"{of}_{kind}": view.importance[kind][i][order]
            for i, of in enumerate(("objective", "feasibility"))
            for kind in ("first", "total")
        }
        index = [c.name for _, c in view.columns]
        return Result(_pandas().DataFrame(columns, index=index), figure.plot)

    def figure(self, name: str = "progress", objective: str | None = None) -> go.Figure:
        """One of the figures of the report, by its name; raises UserError that names them.

        objective: which of several, of a figure of one.
        """
        from dngo.report.figures import FIGURES, OF_FRONTS

        view = self._view
        fronts = {draw.__name__: draw for draw in OF_FRONTS} if view.has_several else {}
        known = fronts | {draw.__name__: draw for draw in FIGURES}
        if name not in known:
            raise UserError(f"there is no figure {name!r}; they are {', '.join(known)}")
        found = known[name](view if name in fronts else self._of(view, objective))
        if found is None:
            raise UserError(f"{name}: there is nothing to show yet")
        return found.plot

    # ---- asking and telling ---------------------------------------------------------------------

    @property
    def study(self) -> Study:
        """What the workflow works on; raises UserError for an archive that lies apart from it."""
        if self._study is None:
            raise UserError(
                f"{self.path}: an archive that lies outside its study's folder is only to be looked at; "
                "open the study's configuration"
            )
        return self._study

    def ask(self, n: int | None = None) -> list[Proposal]:
        """The next batch: points to evaluate, each with its `parameters`, and why.

        n: how many; `batch_size` if left out, or the size of the design. The first points are those
        that `add` has put there. Raises UserError while as many batches as `batches_in_flight`
        allows wait for outcomes: `pending` has their points.
        """
        with claimed(self.study) as study:
            merge(study)
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
        """The points that were asked for and have no outcome yet, after a restart too."""
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
        All of it may stand in the dicts or columns instead. Every constraint has to be told with an
        objective; a point without one has a `status`, as failed. A batch whose outcomes are all
        there is merged into the archive when somebody asks or looks, or at the end of this process;
        they are on disk before. Outcomes of other points are known to the next `ask`, and
        in the archive with its batch. Raises UserError for what cannot be entered; nothing is then.
        """
        study = self.study
        rows = with_outcomes(records(points, named=True), objective, outcome)
        self._is_due = True
        if self._settling is None:
            self._settling = settle_at_the_end(self, study)
        return tell(study, Source.of_values(rows, "api", "tell"))

    def _settle(self) -> None:
        """Merge what was told here, before somebody looks."""
        if self._is_due and self._study is not None:
            settle(self._study)
            self._is_due = False

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
        the study was given, or as workers. progress: whether there is a bar; None: where somebody looks.
        What has ended is kept whatever ends this process, and the same call goes on.
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
        Raises UserError where it cannot, and where another file is in the way.
        """
        return write_config(self.study, path, objective)

    # ---- showing itself -------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        """The configuration; of an archive, that of its last iteration."""
        if self._study is not None:
            return self._study.config
        header = archive.read_header(self.path)
        if header is None or header.iterations == 0:
            raise UserError(f"{self.path}: is empty")
        return configuration(self.path, header.iterations - 1)

    def __repr__(self) -> str:
        return f"<study {self.config.study}: {self._headline()}>"

    def _headline(self) -> str:
        if self._study is not None:
            self._settle()
            return headline(self._study)
        view = self._view
        return f"{len(view)} evaluations in {self.path}"

    def _repr_html_(self) -> str:
        said = f"<p><b>{escape(self.config.study)}</b>: {escape(self._headline())}</p>"
        try:
            if self.config.has_several:
                return said + str(self.front().to_html())
            return said + self.best()._repr_html_()
        except UserError:
            return said


def _pandas() -> Any:
    return package("pandas", extra="notebook")
