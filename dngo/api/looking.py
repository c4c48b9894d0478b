"""Look at a study from Python: its table, its best points, its model and its figures.

You need only its archive. If the study's folder is known and no other process holds it, reported
outcomes are merged first.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from dngo import archive
from dngo.api.figures import Figures, of_objective
from dngo.api.stages import whole
from dngo.audit import table_of
from dngo.batch import STOPPED
from dngo.config import Config
from dngo.elsewhere import STUDY, Elsewhere, of_its_result
from dngo.errors import UserError
from dngo.exchange.values import natural_points
from dngo.replay import configuration, surrogate
from dngo.report.best import Best, escape
from dngo.report.data import View
from dngo.report.text import headline
from dngo.storage.files import handing_out_page
from dngo.study import Study

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go


Points: TypeAlias = "Mapping[str, Any] | Sequence[Mapping[str, Any]] | pd.DataFrame"
NOT_HERE = ", and one of your own must be given first: dngo.use(object)"
INTERVAL = 1.959964  # deviations: 95 % of a normal lie closer to its mean


@dataclass(frozen=True)
class Result:
    """A table of numbers, and their figure."""

    frame: pd.DataFrame
    figure: go.Figure

    def _repr_html_(self) -> str:
        return str(self.frame.to_html())


@dataclass(frozen=True)
class Fitted:
    """The surrogate that proposed an iteration."""

    _view: View

    @property
    def iteration(self) -> int:
        """The number of the iteration that it proposed."""
        return self._view.model_iteration

    def predict(self, points: Points) -> pd.DataFrame:
        """Predict evaluations at some points: mean, std, low and high (95 %), feasibility.

        With several objectives, the columns are mean_NAME and so on.

        points: a dict of parameters, several, or a DataFrame with a column for each parameter, in
        natural units. A row for each.
        Raises UserError for a point outside the space.
        """
        known = self._view.config["constraints"]
        x = self._view.box.encode(natural_points(self._view.space, points, known))
        return self._frame(x)

    def feasibility(self, points: Points) -> np.ndarray:
        """The probability that every constraint holds at each of some points: (n,)."""
        return self.predict(points)["feasibility"].to_numpy()

    def _frame(self, x: np.ndarray) -> pd.DataFrame:
        columns: dict[str, np.ndarray] = {}
        for name in self._view.directions or [""]:
            view = self._view.of_objective(name) if name else self._view
            mean, std, feasibility = view.predict(x)
            low, high = view.units.interval(mean, std, INTERVAL)
            found = {"mean": mean, "std": std, "low": low, "high": high}
            columns |= {f"{key}_{name}" if name else key: v for key, v in found.items()}
        return _table({**columns, "feasibility": feasibility})

    def __repr__(self) -> str:
        assert self._view.model is not None
        known = self._view.model.summary().get("observations")
        return f"<surrogate of iteration {self.iteration}, of {known} evaluations>"


class Looking(Elsewhere):
    """A study, or an archive alone, to look at."""

    _elsewhere = STUDY

    def __init__(self, path: Path, study: Study | None):
        self.path, self._study = path, study

    @property
    def _engine(self) -> Study:
        """The study, as the workflow uses it; raises UserError for an archive outside its study's
        folder.
        """
        if self._study is None:
            raise UserError(
                f"{self.path}: this archive lies outside its study's folder, so you can "
                "only look at it; open the study's configuration"
            )
        return self._study

    def _settle(self) -> None:
        """Merge outcomes that were reported here or elsewhere, so that the reader sees them."""
        if self._study is not None:
            self._study.settle()

    @property
    def _view(self) -> View:
        self._settle()
        header = archive.read_header(self.path)
        digest = header.digest if header else ""
        if self.__dict__.get("_seen", ("", None))[0] != digest or not digest:
            self._seen = (digest, View.of(self.path))
        return self._seen[1]

    @of_its_result
    def table(self) -> pd.DataFrame:
        """A table with a row for each proposal of the archive: its reasons and its outcome.

        It has the columns of an export: parameter_NAME, constraint_NAME, and number_NAME for a
        constraint with a threshold. Metadata from the objective are columns metadata_NAME.
        """
        self._settle()
        return _table(table_of(self.path) if self.path.exists() else [])

    def curves(self) -> pd.DataFrame:
        """The values that evaluations reported while they ran: a row for each stored point of a curve.

        Columns: id, iteration, slot, step, value in natural units (NaN if it was no number), seconds
        since the start of the evaluation (NaN if unknown), and whether it was stopped early. With
        several objectives there is a value_NAME for each.
        """
        self._settle()
        rows, values = [], ["value"]
        if self.path.exists():
            values = [f"value_{name}" for name in self._view.directions] or values
            table, curves = archive.read_table(self.path), archive.read_curves(self.path)
            for i, curve in enumerate(curves):
                t, slot, stopped = table.iteration[i], table.slot[i], table.status[i] == STOPPED
                rows += [(f"{t}-{slot}", t, slot, *point, stopped) for point in curve.points]
        names = ("id", "iteration", "slot", "step", *values, "seconds", "stopped")
        return _table(rows, columns=names)

    @property
    def has_model(self) -> bool:
        """Whether a surrogate has learnt the objective."""
        return self._view.has_model

    @of_its_result
    def best(self, by: Literal["model", "observed"] = "observed") -> Best:
        """The best evaluated point, by its outcome or by the latest model's prediction.

        The model takes noise into account. It considers points that are feasible with a probability
        of at least 0.5. Each mean is made worse by one deviation, since the best of many means is
        partly luck. The best of these values wins. Raises UserError if there is no such point.
        """
        return self.top(1, by)[0]

    def top(self, count: int, by: Literal["model", "observed"] = "observed") -> list[Best]:
        """The best evaluated points, `count` of them at most, the best one first. See `best`.

        Raises UserError also for a count below 1.
        """
        if (most := whole("count", count)) < 1:
            raise UserError(f"count: must be 1 or more, not {most}")
        view = self._view
        if view.has_several:
            raise UserError(
                f"{self.path}: has several objectives, so no single point is the best; "
                "`front` has the best ones"
            )
        if by not in ("model", "observed"):
            raise UserError(f"by: must be 'model' or 'observed', not {by!r}")
        if by == "model" and not view.has_model:
            raise UserError(f"{self.path}: no surrogate has learnt the objective yet{NOT_HERE}")
        rows = view.ranking(by)[:most]
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
                log=view.units.log,
            )
            for row, parameters in zip(
                rows, view.space.to_parameters(view.table.v[rows]), strict=True
            )
        ]

    def compare(self, *proposals: str) -> pd.DataFrame:
        """Points side by side, by their ids: `study.compare("3-1", "5-2")`.

        Each parameter, outcome and reason has a row; each point has a column. For two points there
        is a column `difference`: the second minus the first, or their ratio on a logarithmic scale.
        Raises UserError.
        """
        from dngo.report.beside import beside

        self._settle()
        lines = beside(self.path, proposals)
        found = {name: [line.values[i] for line in lines] for i, name in enumerate(proposals)}
        if len(proposals) == 2:
            found["difference"] = [line.difference for line in lines]
        return _table(found, index=[line.name for line in lines])

    @of_its_result
    def front(self) -> pd.DataFrame:
        """With several objectives: a row for each point that no other point beats in all of them.

        Columns: id, each objective in its own units, parameter_NAME, and whether it is the knee.
        Raises UserError if there is only one objective, or if no evaluation is ok yet.
        """
        view = self._view_of_front()
        front = view.front
        points = view.space.to_parameters(view.table.v[front.rows])
        return _table(
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

    def _view_of_front(self) -> View:
        """The view of a study that has several objectives and a front; raises UserError."""
        view = self._view
        if not view.has_several:
            raise UserError(f"{self.path}: has only one objective; `best` has its best point")
        if not len(view.front.rows):
            raise UserError(f"{self.path}: no evaluation is feasible yet")
        return view

    def model(self, iteration: int | None = None) -> Fitted:
        """The surrogate that proposed an iteration; by default the latest one.

        If the archive no longer holds it (`archive.surrogates: last`), it is read from the stage's
        file, or fitted again. That takes as long as the first fit. Raises UserError if the
        iteration has no surrogate.
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
                f"has a surrogate of the objective; a design and a baseline have none{NOT_HERE}"
            )
        return Fitted(view)

    def predict(self, points: Points) -> pd.DataFrame:
        """`Fitted.predict` of the latest model."""
        return self.model().predict(points)

    def feasibility(self, points: Points) -> np.ndarray:
        """`Fitted.feasibility` of the latest model."""
        return self.model().feasibility(points)

    def slice(self, name: str, objective: str | None = None) -> Result:
        """The latest model's predictions along one parameter, through the best point.

        objective: which one, if there are several.
        """
        from dngo.report.figures.model import slices

        fitted = Fitted(of_objective(self.model()._view, objective))
        view = fitted._view
        columns = {c.name: j for j, c in view.columns}
        if name not in columns:
            raise UserError(f"{name!r} is no parameter that varies; they are {', '.join(columns)}")
        figure = slices(view, [name])
        if view.best is None or figure is None:
            raise UserError(f"{name}: no best point yet has this parameter active")
        j = columns[name]
        values = view.slice_values(j)
        frame = fitted._frame(view.through(view.best, {j: values}))
        choices = view.space.columns[j].choices
        natural = values if choices is None else [choices[int(v)] for v in values]
        frame.insert(0, name, natural)
        return Result(frame, figure.plot)

    def importance(self, objective: str | None = None) -> Result:
        """Sobol indices of the latest model: how much its predictions depend on each parameter.

        Columns: first and total order, of the objective and of feasibility; NaN where constant.
        objective: which one, if there are several.
        """
        from dngo.report.figures.model import importance

        view = of_objective(self.model()._view, objective)
        figure = importance(view)
        if figure is None:
            raise UserError(f"{self.path}: the model is constant, so no parameter matters yet")
        order = [j for j, _ in view.columns]
        columns = {
            f"{of}_{kind}": view.importance[kind][i][order]
            for i, of in enumerate(("objective", "feasibility"))
            for kind in ("first", "total")
        }
        index = [c.name for _, c in view.columns]
        return Result(_table(columns, index=index), figure.plot)

    def figure(self, name: str = "progress", objective: str | None = None) -> go.Figure:
        """A figure of the report, by name. Raises UserError that lists the names.

        objective: which one of several, for a figure of a single objective.
        """
        return self.figures._drawn(name, objective)

    @property
    def figures(self) -> Figures:
        """The figures of the report and for papers: `study.figures.course("course.pdf")`."""
        return Figures(lambda: self._view)

    def report(self, output: str | Path | None = None) -> str:
        """What the study found, in words, as `dngo report` prints it.

        output: an HTML file, to which the whole report is written as well.
        Raises UserError if nothing has been merged yet, or if another file is in the way. It also
        raises UserError for an archive outside its study's folder.
        """
        from dngo.report import summary
        from dngo.report.page import study_page

        self._settle()
        study, title = self._engine, f"Study {self.config.study}"
        if study.header() is None:
            raise UserError(f"{study.archive}: there is no archive yet; nothing has been merged")
        with archive.reading(study.archive), contextlib.ExitStack() as stack:
            if output is not None:
                page = stack.enter_context(handing_out_page(Path(output), title))
                page.write_text(study_page(study), encoding="utf-8")
            return summary(study)

    def track(self, to: str, at: str = "") -> int:
        """Log the evaluations that an experiment tracker lacks; returns how many these are.

        to: the tracker, such as "mlflow".  at: its address, such as "sqlite:///mlflow.db".
        Raises UserError if its package is missing, or if it does not answer.
        """
        from dngo.exchange.tracking import Tracking

        self._settle()
        return Tracking(self._engine, to, at).update()

    # ---- showing itself -------------------------------------------------------------------------

    @cached_property
    def config(self) -> Config:
        """The configuration. An archive alone gives that of its last iteration."""
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


def _table(*given: Any, **named: Any) -> pd.DataFrame:
    from dngo.api.tables import Table  # pandas takes half a second to import

    return Table(*given, **named)
