"""Loops of other libraries with the engine of this one: Optuna's, and scikit-learn's searches."""

from __future__ import annotations

import pickle
import warnings
from typing import Any
from unittest import SkipTest

import numpy as np
import optuna
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import estimator_checks_generator
from toy import QUICK_STUDY

import dngo
from dngo.archive import verify
from dngo.errors import UserError


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def objective(trial: Any) -> float:
    x = trial.suggest_float("x", 0, 1)
    n = trial.suggest_int("a strange name", 1, 9)
    kind = trial.suggest_categorical("kind", [None, "b", 3])
    if x > 0.9:
        raise ValueError("too hot")
    if trial.number == 4:
        raise optuna.TrialPruned
    return (x - 0.3) ** 2 + 0.01 * n + (0.0 if kind is None else 1.0)


def test_one_changed_line_gives_an_optuna_loop_this_engine() -> None:
    sampler = dngo.optuna.Sampler(seed=1, **QUICK_STUDY)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=14, catch=(ValueError,))
    assert len(study.trials) == 14 and study.best_params["kind"] is None
    session = sampler._session
    table = session.table()
    proposed = table[table.source != "api"]
    assert any(p.startswith("candidate") or "region" in p for p in proposed.source)
    # The study has each of Optuna's trials once. The pruned trial teaches nothing.
    told = table[table.status.isin(["ok", "failed"])]
    ended = [t for t in study.trials[:-1] if t.state.name in ("COMPLETE", "FAIL")]
    assert sorted(told.parameter_x) == sorted(t.params["x"] for t in ended if "x" in t.params)
    assert (table.status == "withdrawn").sum() == 1 and verify(session.path) == []
    for trial in study.trials[1:-1]:
        if trial.state.name == "COMPLETE":
            row = told[told.parameter_x == trial.params["x"]].iloc[0]
            assert row.objective == trial.value


def test_a_trial_may_fail_before_it_has_all_parameters() -> None:
    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0, 1)
        if trial.number in (1, 3, 4):
            raise ValueError("too hot")
        return x + trial.suggest_float("y", 0, 1)

    study = optuna.create_study(sampler=dngo.optuna.Sampler(seed=1, acquisition="random"))
    study.optimize(objective, n_trials=8, catch=(ValueError,))
    assert len(study.trials) == 8


def test_trials_side_by_side_and_those_that_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dngo.optuna.MOST_WAITING", 3)
    sampler = dngo.optuna.Sampler(seed=1, startup=1, acquisition="random")
    study = optuna.create_study(sampler=sampler, direction="maximize")
    space = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.tell(study.ask(space), 0.5)
    dead = study.ask(space)
    waiting = [study.ask(space) for _ in range(2)]
    for trial in waiting:
        study.tell(trial, trial.params["x"])
    later = [study.ask(space) for _ in range(2)]
    assert len({t.params["x"] for t in [dead, *waiting, *later]}) == 5
    table = sampler._session.table()
    assert list(table.status).count("withdrawn") == 1
    for trial in reversed(later):
        study.tell(trial, trial.params["x"])
    study.tell(dead, 2.0)  # it was not dead after all
    study.tell(study.ask(space), 0.1)
    study.ask(space)
    table = sampler._session.table()
    assert sampler._session.best().objective == 2.0
    xs = {t.params["x"] for t in [dead, *waiting, *later]}
    assert xs <= set(table[table.status == "ok"].parameter_x)


def test_trials_of_before_are_known_and_branches_are_drawn_at_random() -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))

    def branches(trial: Any) -> float:
        if trial.suggest_categorical("kind", ["a", "b"]) == "a":
            return trial.suggest_float("only", 0, 1)
        return 2.0

    study.optimize(branches, n_trials=6)
    study.sampler = sampler = dngo.optuna.Sampler(seed=1, acquisition="random")
    study.optimize(branches, n_trials=3)
    assert len(study.trials) == 9 and set(sampler._space) == {"kind"}


@pytest.mark.parametrize("startup", [None, 5])
def test_the_design_has_the_size_that_was_asked_for(startup: int | None) -> None:
    how = {"design": {"size": 5}, "acquisition": "random"}
    sampler = dngo.optuna.Sampler(seed=1, startup=startup, **how)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=7)
    table = sampler._session.table()
    assert (table.stage == "design").sum() == 4  # one was drawn before the space was known


@pytest.mark.parametrize(
    "key",
    [
        {"direction": "maximize"},
        {"constraints": {"t": "<= 1"}},
        {"objectives": {"a": {}}},
        {"stop": {"target": 0.1}},
        {"batch_size": 8},
    ],
    ids=str,
)
def test_what_optuna_says_of_its_study_is_no_setting(key: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{next(iter(key))}: "):
        dngo.optuna.Sampler(**key)


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(sampler=dngo.optuna.Sampler(), directions=["minimize"] * 2)
    kinds = {"x": optuna.distributions.FloatDistribution(0, 1)}
    study.add_trial(optuna.create_trial(params={"x": 0.5}, distributions=kinds, values=[0, 1]))
    with pytest.raises(UserError, match="works with one objective"):
        study.ask().suggest_float("x", 0, 1)


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3))
    return x, (x[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)


@pytest.mark.full
def test_a_search_finds_hyperparameters_and_keeps_its_study() -> None:
    space = {
        "C": (1e-3, 1e3, "log"),
        "kernel": ["linear", "rbf"],
        "class_weight": [None, "balanced"],
        "gamma": dngo.Float(1e-3, 10, log=True, active_if={"kernel": "rbf"}),
    }
    x, y = data()
    found = dngo.sklearn.DngoSearchCV(SVC(), space, 6, cv=3, random_state=0).fit(x, y)
    assert len(found.cv_results_["params"]) == 6 and found.score(x, y) > 0.7
    for parameters in found.cv_results_["params"]:
        assert ("gamma" in parameters) == (parameters["kernel"] == "rbf")
        assert parameters["class_weight"] in (None, "balanced")
    assert found.study_.best().objective == found.best_score_
    again = dngo.sklearn.DngoSearchCV(SVC(), space, 6, cv=3, random_state=0).fit(x, y)
    assert again.cv_results_["params"] == found.cv_results_["params"]
    copy = pickle.loads(pickle.dumps(found))
    assert copy.study_.best() == found.study_.best()


def test_a_candidate_that_fails_is_an_outcome() -> None:
    space = {"C": [1.0, -1.0, 2.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dngo.sklearn.DngoSearchCV(SVC(), space, 3, cv=2, random_state=0).fit(*data())
    assert sorted(found.study_.table().status) == ["failed", "ok", "ok"]


# What a search is by itself; the others fit its estimator again and again, as scikit-learn's own tests do.
OF_SEARCHES = (
    "clone",
    "params",
    "no_attributes",
    "fit_returns_self",
    "dict_unchanged",
    "do_not_raise",
)
OF_SEARCHES += ("repr", "n_features_in", "fit1d", "fit2d_1sample", "tags", "mutable_defaults")
OF_SEARCHES += ("overwrite", "doc", "unfitted")


def test_of_several_metrics_one_is_searched_by() -> None:
    how: dict[str, Any] = {"scoring": ["accuracy", "f1_macro"], "cv": 2, "random_state": 0}
    x, y = np.random.default_rng(0).random((20, 2)), np.arange(20) % 2
    for refit in (False, lambda found: 0):
        with pytest.raises(UserError, match="refit must name the one"):
            dngo.sklearn.DngoSearchCV(SVC(), {"C": (0.1, 1)}, 2, refit=refit, **how).fit(x, y)


def test_scikit_learns_own_checks() -> None:
    search = dngo.sklearn.DngoSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, 1, cv=2)
    done, failed = 0, []
    for estimator, check in estimator_checks_generator(search):
        name = getattr(check, "func", check).__name__
        if not any(part in name for part in OF_SEARCHES):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                check(estimator)
                done += 1
            except SkipTest:
                continue
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}: {error}")
    assert failed == [] and done > 15
