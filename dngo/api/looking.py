"""A study looked at from Python: its table, its best points, its model, its figures.

To look you need nothing but an archive. Reported outcomes are merged first, wherever the study's folder is
known and nobody else holds it.
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
from dngo.errors import UserError
from dngo.exchange import package
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
INTERVAL = 1.959964  # deviations on either side of the mean that hold 95 % of a normal


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
            low, high = view.units.interval(mean, std, INTERVAL)
            found = {"mean": mean, "std": std, "low": low, "high": high}
            columns |= {f"{key}_{name}" if name else key: v for key, v in found.items()}
        return _pandas().DataFrame({**columns, "feasibility": feasibility})

    def __repr__(self) -> str:
        assert self.view.model is not None
        known = self.view.model.summary().get("observations")
        return f"<surrogate of iteration {self.iteration}, of {known} evaluations>"


class Looking:
    """A study, or an archive alone, to look at."""

    def __init__(self, path: Path, study: Study | None):
        self.path, self._study = path, study

    @property
    def study(self) -> Study:
        """What the workflow works on; raises UserError for an archive that lies apart from it."""
        if self._study is None:
            raise UserError(
                f"{self.path}: an archive that lies outside its study's folder is only to be looked at; "
                "open the study's configuration"
            )
        return self._study

    def _settle(self) -> None:
        """Merge outcomes that were reported, here or elsewhere, before somebody looks."""
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

    def table(self) -> pd.DataFrame:
        """Every proposal of the archive with its reasons and its outcome, a row for each.

        Parameters are the columns parameter_NAME, constraints constraint_NAME, and number_NAME where they
        have a threshold, as in an export; what the objective reported beside is metadata_NAME as well.
        """
        self._settle()
        return _pandas().DataFrame(table_of(self.path) if self.path.exists() else [])

    def curves(self) -> pd.DataFrame:
        """What evaluations reported as they ran: a row for each point that is kept of a curve.

        Columns: id, iteration, slot, step, value in natural units (NaN where it was no number), seconds
        since the start of the evaluation (NaN: unknown), and whether it was stopped early.
        """
        self._settle()
        rows = []
        if self.path.exists():
            table, curves = archive.read_table(self.path), archive.read_curves(self.path)
            for i, curve in enumerate(curves):
                t, slot, stopped = table.iteration[i], table.slot[i], table.status[i] == STOPPED
                rows += [(f"{t}-{slot}", t, slot, *point, stopped) for point in curve.points]
        names = ("id", "iteration", "slot", "step", "value", "seconds", "stopped")
        return _pandas().DataFrame(rows, columns=names)

    @property
    def has_model(self) -> bool:
        """Whether a surrogate has learnt the objective."""
        return self._view.has_model

    def best(self, by: Literal["model", "observed"] = "observed") -> Best:
        """The best evaluated point: by its outcome, or by what the latest model expects there.

        The model heeds noise: of the points that are feasible with a probability of at least one
        half, the one whose mean is best when it is made worse by a deviation: the best of many means
        is a lucky one too. Raises UserError if there is none.
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
                log=view.units.log,
            )
            for row, parameters in zip(
                rows, view.space.to_parameters(view.table.v[rows]), strict=True
            )
        ]

    def compare(self, *proposals: str) -> pd.DataFrame:
        """Points side by side, by their ids: `study.compare("3-1", "5-2")`.

        A row for each parameter, outcome and reason, a column for each point. Of two points the column
        `difference` is the second minus the first, or on a logarithmic scale the factor between them.
        Raises UserError.
        """
        from dngo.report.beside import beside

        self._settle()
        lines = beside(self.path, proposals)
        found = {name: [line.values[i] for line in lines] for i, name in enumerate(proposals)}
        if len(proposals) == 2:
            found["difference"] = [line.difference for line in lines]
        return _pandas().DataFrame(found, index=[line.name for line in lines])

    def front(self) -> pd.DataFrame:
        """Of several objectives the points that no other point beats in all of them, a row for each.

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

    def model(self, iteration: int | None = None) -> Fitted:
        """The surrogate that an iteration was proposed with; the latest one by default.

        If the archive no longer holds it (`archive.surrogates: last`), it is read from the stage's
        file, or fitted again, which takes as long as the first fit. Raises UserError if there is none.
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

        fitted = Fitted(of_objective(self.model().view, objective))
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

        view = of_objective(self.model().view, objective)
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
        return self.figures._drawn(name, objective)

    @property
    def figures(self) -> Figures:
        """Those of the report, and those for a paper: `study.figures.course("course.pdf")`."""
        return Figures(lambda: self._view)

    def report(self, output: str | Path | None = None) -> str:
        """What the study found, in words, as `dngo report` prints it.

        output: an HTML file that the whole report is written to as well. Raises UserError where there is
        nothing yet, for an archive that lies apart from its study, and where another file is in the way.
        """
        from dngo.report import summary
        from dngo.report.page import study_page

        self._settle()
        study, title = self.study, f"Study {self.config.study}"
        if study.header() is None:
            raise UserError(f"{study.archive}: there is no archive yet; nothing has been merged")
        with archive.reading(study.archive), contextlib.ExitStack() as stack:
            if output is not None:
                page = stack.enter_context(handing_out_page(Path(output), title))
                page.write_text(study_page(study), encoding="utf-8")
            return summary(study)

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
