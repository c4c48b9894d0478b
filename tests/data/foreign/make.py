"""Files of other programs, written by these programs themselves.

    python make.py PROGRAM FOLDER

Each environment has one program. It minimises one function with some points that fail, and writes its
usual file to FOLDER/PROGRAM-VERSION.SUFFIX. No test runs this; the tests read the files.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

KINDS = ["a", "b", "c"]
POINTS = 9


def loss(x: float, rate: float, n: int, kind: str) -> float:
    """The function. It fails for kind c."""
    if kind == "c":
        raise RuntimeError("the solver diverged")
    return (x - 0.3) ** 2 + abs(math.log10(rate) + 2) / 10 + n / 100


def points(number: int = POINTS) -> list[dict[str, Any]]:
    """Fixed points, for programs that are told what to evaluate."""
    return [
        {
            "x": round((i * 0.37) % 1, 3),
            "rate": 10.0 ** (-4 + (i % 5)),
            "n": 1 + i % 8,
            "kind": KINDS[i % 3],
        }
        for i in range(number)
    ]


def optuna(out: Path) -> None:
    import optuna

    def objective(trial: Any) -> float:
        trial.set_user_attr("note", "mine")
        return loss(
            trial.suggest_float("x", 0, 1),
            trial.suggest_float("rate", 1e-4, 1, log=True),
            trial.suggest_int("n", 1, 8),
            trial.suggest_categorical("kind", KINDS),
        )

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1))
    study.optimize(objective, n_trials=POINTS, catch=(RuntimeError,))
    study.trials_dataframe().to_csv(out.with_suffix(".csv"))


def mlflow(out: Path) -> None:
    import mlflow

    os.chdir(tempfile.mkdtemp())
    mlflow.set_tracking_uri("sqlite:///runs.db")
    mlflow.set_experiment("search")
    for point in points():
        try:
            with mlflow.start_run():
                mlflow.log_params(point)
                mlflow.log_metric("loss", loss(**point))
                mlflow.log_metric("seconds", 0.5)
        except RuntimeError:
            pass
    mlflow.search_runs().to_csv(out.with_suffix(".csv"), index=False)


def ray(out: Path) -> None:
    from ray import tune

    def train(config: dict[str, Any]) -> None:
        for step in (1, 2):
            tune.report({"loss": loss(**config) + 1 / step})

    space = {
        "x": tune.uniform(0, 1),
        "rate": tune.loguniform(1e-4, 1),
        "n": tune.randint(1, 9),
        "kind": tune.choice(KINDS),
    }
    folder = Path(tempfile.mkdtemp())
    tuner = tune.Tuner(
        train,
        param_space=space,
        tune_config=tune.TuneConfig(num_samples=POINTS, metric="loss", mode="min"),
        run_config=tune.RunConfig(storage_path=str(folder), name="e"),
    )
    results = tuner.fit()
    results.get_dataframe().to_csv(out.with_suffix(".csv"), index=False)
    one = next(p for p in sorted(folder.rglob("result.json")) if p.stat().st_size)
    out.with_suffix(".result.json").write_bytes(one.read_bytes())


def hyperopt(out: Path) -> None:
    import numpy as np
    from hyperopt import STATUS_FAIL, STATUS_OK, Trials, fmin, hp, rand

    def objective(point: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"loss": loss(**point), "status": STATUS_OK}
        except RuntimeError:
            return {"status": STATUS_FAIL}

    space = {
        "x": hp.uniform("x", 0, 1),
        "rate": hp.loguniform("rate", math.log(1e-4), 0),
        "n": hp.uniformint("n", 1, 8),
        "kind": hp.choice("kind", KINDS),
    }
    trials = Trials()
    seed = np.random.default_rng(1)
    if importlib.metadata.version("hyperopt") < "0.2.7":
        seed = np.random.RandomState(1)
    fmin(objective, space, rand.suggest, POINTS, trials=trials, rstate=seed, show_progressbar=False)
    # What is usually written: there is no other export without pickle.
    out.with_suffix(".json").write_text(json.dumps(trials.trials, default=str, indent=1))


def smac(out: Path) -> None:
    from ConfigSpace import Categorical, ConfigurationSpace, Float, Integer
    from smac import HyperparameterOptimizationFacade, Scenario

    space = ConfigurationSpace(seed=1)
    space.add(
        Float("x", (0, 1)),
        Float("rate", (1e-4, 1), log=True),
        Integer("n", (1, 8)),
        Categorical("kind", KINDS),
    )
    folder = Path(tempfile.mkdtemp())
    scenario = Scenario(space, n_trials=POINTS, output_directory=folder, seed=1, deterministic=True)
    made = HyperparameterOptimizationFacade(
        scenario, lambda config, seed=0: loss(**dict(config)), logging_level=50
    )
    made.optimize()
    out.with_suffix(".json").write_bytes(next(folder.rglob("runhistory.json")).read_bytes())


def skopt(out: Path) -> None:
    import pandas
    from skopt import Optimizer
    from skopt.space import Categorical, Integer, Real

    space = [
        Real(0.0, 1.0, name="x"),
        Real(1e-4, 1.0, prior="log-uniform", name="rate"),
        Integer(1, 8, name="n"),
        Categorical(KINDS[:2], name="kind"),
    ]
    optimizer = Optimizer(space, "dummy", random_state=1)
    for _ in range(POINTS):
        x = optimizer.ask()
        optimizer.tell(x, loss(x[0], x[1], int(x[2]), x[3]))
    result = optimizer.get_result()
    frame = pandas.DataFrame(result.x_iters, columns=[d.name for d in result.space])
    frame["func_vals"] = result.func_vals
    frame.to_csv(out.with_suffix(".csv"))


def nevergrad(out: Path) -> None:
    import nevergrad as ng

    space = ng.p.Instrumentation(
        x=ng.p.Scalar(lower=0, upper=1),
        rate=ng.p.Log(lower=1e-4, upper=1),
        n=ng.p.Scalar(lower=1, upper=8).set_integer_casting(),
        kind=ng.p.Choice(KINDS[:2]),
    )
    space.random_state.seed(1)
    optimizer = ng.optimizers.RandomSearch(space, budget=POINTS)
    path = out.with_suffix(".json")
    path.unlink(missing_ok=True)
    optimizer.register_callback("tell", ng.callbacks.ParametersLogger(path))
    optimizer.minimize(loss)


def bayes_opt(out: Path) -> None:
    from bayes_opt import BayesianOptimization

    def negative(x: float, rate: float) -> float:
        return -loss(x, 10**rate, 1, "a")

    path = out.with_suffix(".json")
    path.unlink(missing_ok=True)
    optimizer = BayesianOptimization(
        negative, {"x": (0, 1), "rate": (-4, 0)}, random_state=1, verbose=0
    )
    if hasattr(optimizer, "save_state"):
        optimizer.maximize(init_points=POINTS - 1, n_iter=1)
        optimizer.save_state(path)
    else:
        from bayes_opt.event import Events
        from bayes_opt.logger import JSONLogger

        optimizer.subscribe(Events.OPTIMIZATION_STEP, JSONLogger(path=str(path)))
        optimizer.maximize(init_points=POINTS - 1, n_iter=1)


def syne_tune(out: Path) -> None:
    from syne_tune import StoppingCriterion, Tuner
    from syne_tune.backend import LocalBackend
    from syne_tune.config_space import choice, loguniform, randint, uniform
    from syne_tune.experiments import load_experiment
    from syne_tune.optimizer.baselines import RandomSearch

    script = Path(tempfile.mkdtemp()) / "train.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from argparse import ArgumentParser\nfrom make import loss\nfrom syne_tune import Reporter\n"
        "parser = ArgumentParser()\n"
        "for name, kind in (('x', float), ('rate', float), ('n', int), ('kind', str)):\n"
        "    parser.add_argument('--' + name, type=kind)\n"
        "given = vars(parser.parse_known_args()[0])\n"
        "Reporter()(loss=loss(**given), epoch=1)\n"
    )
    space = {
        "x": uniform(0, 1),
        "rate": loguniform(1e-4, 1),
        "n": randint(1, 8),
        "kind": choice(KINDS),
    }
    tuner = Tuner(
        trial_backend=LocalBackend(entry_point=str(script)),
        scheduler=RandomSearch(space, metrics=["loss"], random_seed=1),
        stop_criterion=StoppingCriterion(max_num_trials_started=POINTS),
        n_workers=2,
        max_failures=POINTS,
    )
    tuner.run()
    load_experiment(tuner.name).results.to_csv(out.with_suffix(".csv"), index=False)


def ax(out: Path) -> None:
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    client = Client(random_seed=1)
    client.configure_experiment(
        parameters=[
            RangeParameterConfig(name="x", parameter_type="float", bounds=(0, 1)),
            RangeParameterConfig(
                name="rate", parameter_type="float", bounds=(1e-4, 1), scaling="log"
            ),
            RangeParameterConfig(name="n", parameter_type="int", bounds=(1, 8)),
            ChoiceParameterConfig(
                name="kind", parameter_type="str", values=KINDS, is_ordered=False
            ),
        ]
    )
    client.configure_optimization(objective="-loss")
    for point in points():
        trial = client.attach_trial(parameters=point)
        try:
            client.complete_trial(trial, raw_data={"loss": loss(**point)})
        except RuntimeError:
            client.mark_trial_failed(trial)
    client.summarize().to_csv(out.with_suffix(".csv"), index=False)


def sklearn(out: Path) -> None:
    import numpy as np
    import pandas
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    y = (x[:, 0] > 0).astype(int)
    grid = {"C": [0.1, 1, 10], "kernel": ["linear", "rbf", "wrong"]}
    search = GridSearchCV(SVC(), grid, cv=2).fit(x, y)
    pandas.DataFrame(search.cv_results_).to_csv(out.with_suffix(".csv"))


NAMES = {
    "hyperopt": "hyperopt",
    "mlflow": "mlflow-skinny",
    "bayes_opt": "bayesian-optimization",
    "skopt": "scikit-optimize",
    "syne_tune": "syne-tune",
    "ax": "ax-platform",
    "sklearn": "scikit-learn",
}

if __name__ == "__main__":
    program, folder = sys.argv[1], Path(sys.argv[2]).resolve()
    version = importlib.metadata.version(NAMES.get(program, program))
    globals()[program](folder / f"{program}-{version.replace('.', '_')}")
