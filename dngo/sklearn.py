"""Hyperparameters of scikit-learn's estimators: `DngoSearchCV` replaces `RandomizedSearchCV`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from dngo.api.beginning import create
from dngo.api.parameters import Named
from dngo.errors import UserError
from dngo.exchange import package

package("sklearn")
from joblib import effective_n_jobs  # noqa: E402
from sklearn.model_selection._search import BaseSearchCV  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402


class DngoSearchCV(BaseSearchCV):  # type: ignore[misc]
    """A cross-validated search. The surrogate learns from earlier candidates and chooses the next ones.

    estimator, scoring, cv, n_jobs, refit: as in scikit-learn's own searches. space: the estimator's
    parameters by name, as in `dngo.create`; choices may be any objects. n_iter: candidates in all.
    It chooses as many candidates at a time as `n_jobs` evaluates side by side. random_state: the
    search's seed. After `fit`, `study_` is the study, with its model, figures and audit. It lies in
    a temporary folder.
    """

    def __init__(
        self,
        estimator: Any,
        space: Mapping[str, Any],
        n_iter: int = 30,
        *,
        scoring: Any = None,
        cv: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        random_state: Any = None,
    ) -> None:
        super().__init__(estimator, scoring=scoring, n_jobs=n_jobs, refit=refit, cv=cv)
        self.space = space
        self.n_iter = n_iter
        self.random_state = random_state

    def _run_search(self, evaluate_candidates: Callable[..., Any]) -> None:
        """Ask, evaluate and tell until there are `n_iter` candidates."""
        named = Named.of(self.space)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        study = create(None, named.sections, direction="maximize", seed=seed)
        self.study_ = study
        metric = self.refit if isinstance(self.refit, str) else "score"
        at_once = max(1, effective_n_jobs(self.n_jobs) // self.n_splits_)
        first = max(at_once, min(2 * (study._engine.space.k + 1), math.ceil(self.n_iter / 2)))
        done = 0
        while done < self.n_iter:
            points = study.ask(min(at_once if done else first, self.n_iter - done))
            if not points:  # all points of a small space are known
                return
            found = evaluate_candidates([named.theirs(point.parameters) for point in points])
            key = f"mean_test_{metric}" if f"mean_test_{metric}" in found else "mean_test_score"
            if key not in found:
                raise UserError(
                    "DngoSearchCV: of several metrics, refit must name the one to search by"
                )
            scores = [float(score) for score in found[key][-len(points) :]]
            study.tell(
                [
                    {"id": p.id, "objective": s}
                    if math.isfinite(s)
                    else {"id": p.id, "status": "failed"}
                    for p, s in zip(points, scores, strict=True)
                ]
            )
            done += len(points)
