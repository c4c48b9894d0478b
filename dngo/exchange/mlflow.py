"""MLflow: a run for each evaluation, in the experiment of the study's name."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from typing import Any

from dngo.errors import UserError
from dngo.exchange import package
from dngo.exchange.tracking import Evaluation

KEY = "dngo.key"
STATUS = {"ok": "FINISHED", "infeasible": "FINISHED", "stopped": "KILLED"}
MOST = 100  # parameters in one request; of metrics MLflow takes ten times as many


class Tracker:
    """An MLflow server, or a database: `http://...`, `sqlite:///mlflow.db`; empty: as MLflow finds it."""

    def __init__(self, study: str, at: str):
        mlflow = package("mlflow")
        self._entities, self._error = mlflow.entities, mlflow.exceptions.MlflowException
        with self._asking():
            self.client = mlflow.MlflowClient(at or None)
            found = self.client.get_experiment_by_name(study)
            self.experiment = found.experiment_id if found else self.client.create_experiment(study)

    def known(self) -> set[str]:
        """The keys of the runs that have ended. One that a kill has cut off is removed."""
        found, token = set(), None
        with self._asking():
            while True:
                runs = self.client.search_runs([self.experiment], page_token=token)
                for run in runs:
                    if run.info.status != "RUNNING":
                        found.add(run.data.tags.get(KEY, ""))
                    elif KEY in run.data.tags:
                        self.client.delete_run(run.info.run_id)
                token = runs.token
                if not token:
                    return found

    def log(self, evaluation: Evaluation) -> None:
        """Write a run, and end it last."""
        began = _milliseconds(evaluation.started, evaluation.finished)
        tags = {KEY: evaluation.key, "status": evaluation.status, **evaluation.words}
        made = self._entities
        params = [made.Param(name, str(value)) for name, value in evaluation.parameters.items()]
        metrics = [made.Metric(n, v, began, 0) for n, v in evaluation.numbers.items()]
        course = evaluation.course
        metrics += [
            made.Metric(name, v, began, int(step)) for name, c in course.items() for step, v in c
        ]
        with self._asking():
            run = self.client.create_run(
                self.experiment, start_time=began, run_name=evaluation.id, tags=tags
            ).info.run_id
            for i in range(0, max(len(params), math.ceil(len(metrics) / 10), 1), MOST):
                self.client.log_batch(run, metrics[10 * i : 10 * (i + MOST)], params[i : i + MOST])
            ended = _milliseconds(evaluation.finished, evaluation.started)
            self.client.set_terminated(run, STATUS.get(evaluation.status, "FAILED"), ended)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            said = str(error).strip().partition("\n")[0]
            raise UserError(f"mlflow: {said[:300]}") from None


def _milliseconds(*seconds: float) -> Any:
    """The first known time, or now, in milliseconds since 1970."""
    return int(1000 * next((s for s in seconds if math.isfinite(s)), time.time()))
