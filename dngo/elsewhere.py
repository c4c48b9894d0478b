"""What people type who know Optuna, Ax or scikit-optimize, and what it is called here.

Nothing here is another way to do a thing: the message names the one way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec, TypeVar

from dngo.errors import UserError

P = ParamSpec("P")
C = TypeVar("C", bound=Callable[..., Any])
R = TypeVar("R")


# Of the package.
PACKAGE = {
    "create_study": "dngo.create('NAME', space), or dngo.minimize(f, space, 100)",
    "load_study": "dngo.open('dngo-studies/NAME')",
    **dict.fromkeys(("fmin", "optimize", "gp_minimize", "Optimizer", "BayesianOptimization"),
                    "dngo.minimize(f, space, 100)"),
    **dict.fromkeys(("Client", "AxClient", "Study"), "dngo.create('NAME', space)"),
    **dict.fromkeys(("Real", "suggest_float", "FloatDistribution", "uniform"),
                    "(0, 1), or dngo.Float(0, 1)"),
    **dict.fromkeys(("LogUniform", "loguniform"), "(1e-5, 1, 'log')"),
    **dict.fromkeys(("Integer", "suggest_int", "IntDistribution", "randint"), "dngo.Int(1, 9)"),
    **dict.fromkeys(("Categorical", "suggest_categorical", "CategoricalDistribution", "choice"),
                    "['a', 'b'], or dngo.Choice(['a', 'b'])"),
    "TrialPruned": "dngo.should_stop()",
    **dict.fromkeys(("Space", "SearchSpace", "ParameterSpace", "ConfigurationSpace"),
                    "{'x': (0, 1), 'kind': ['a', 'b']}, an ordinary dict"),
    **dict.fromkeys(("visualization", "plot", "plots", "plotting"), "study.figure('progress')"),
    **dict.fromkeys(("load", "load_checkpoint"), "dngo.open('dngo-studies/NAME')"),
    "samplers": "dngo.optuna.Sampler, for a loop of Optuna",
    **dict.fromkeys(("BayesSearchCV", "OptunaSearchCV"), "dngo.sklearn.DngoSearchCV"),
}  # fmt: skip
# Of a study.
STUDY = {
    **dict.fromkeys(("best_params", "x", "get_best_parameterization", "get_best_parameters"),
                    "study.best().parameters"),
    **dict.fromkeys(("best_value", "fun", "max", "min"), "study.best().objective"),
    **dict.fromkeys(("best_trial", "get_best_trial"), "study.best()"),
    **dict.fromkeys(("best_trials", "get_pareto_optimal_parameters"),
                    "study.front(), of several objectives"),
    **dict.fromkeys(("trials", "get_trials", "trials_dataframe", "get_trials_data_frame", "summarize",
                     "x_iters", "func_vals", "res", "history", "results", "df", "dataframe", "data",
                     "to_dataframe", "to_df"), "study.table()"),
    "to_csv": "study.table().to_csv('FILE')",
    **dict.fromkeys(("save", "dump", "save_to_json_file"), "nothing: each outcome is on disk at once"),
    "stop": "nothing: Ctrl-C ends the call, and in a shell `dngo stop`; the same call goes on",
    "export": "dngo export STUDY --format csv --output FILE, in a shell",
    **dict.fromkeys(("enqueue_trial", "probe"), "study.add({...})"),
    **dict.fromkeys(("add_trial", "add_trials", "attach_trial", "complete_trial", "register"),
                    "study.tell({...}, objective)"),
    **dict.fromkeys(("mark_trial_failed", "mark_trial_abandoned"),
                    "study.tell({'id': point.id, 'status': 'failed'})"),
    **dict.fromkeys(("get_next_trial", "get_next_trials", "suggest", "generate"), "study.ask(4)"),
    **dict.fromkeys(("run", "minimize", "maximize", "fit"), "study.optimize(f, 100)"),
    "study_name": "study.config.study",
    "direction": "study.config.direction",
    "directions": "study.config.directions",
    "space": "study.config.space",
    "set_user_attr": "study.note('...')",
    **dict.fromkeys(("plot", "plot_convergence", "plot_optimization_history"),
                    "study.figure('progress')"),
    "plot_param_importances": "study.figure('importance')",
    "plot_parallel_coordinate": "study.figure('parallel')",
    "plot_pareto_front": "study.figure('front')",
}  # fmt: skip
# Of a point that was asked for, and of a best point.
POINT = {
    **dict.fromkeys(("params", "x", "values"), "point.parameters"),
    **dict.fromkeys(("number", "index", "trial_id"), "point.id"),
    **dict.fromkeys(("suggest_float", "suggest_int", "suggest_categorical", "suggest_uniform"),
                    "point.parameters['NAME']; the space is declared before"),
    "report": "dngo.progress(step, value), in the function",
    "should_prune": "dngo.should_stop(), in the function",
}  # fmt: skip
BEST = {
    **POINT,
    **dict.fromkeys(("value", "fun", "loss"), "best.objective"),
    **dict.fromkeys(("params", "x", "values"), "best.parameters"),
}
# Of the calls, by their arguments.
ARGUMENTS = {
    **dict.fromkeys(("n_trials", "num_trials", "max_trials", "total_trials", "max_evals", "n_calls",
                     "n_iter", "budget", "num_samples"),
                    "evaluations, all that the study has in the end: minimize(f, space, 100)"),
    **dict.fromkeys(("n_jobs", "n_workers", "num_workers", "max_workers"), "workers"),
    "n_points": "n: study.ask(4)",
    "timeout": "objective={'time_limit': 60}, in seconds for one evaluation; Ctrl-C ends the call, and "
    "the same call goes on",
    **dict.fromkeys(("study_name", "experiment_name"), "name"),
    "storage": "name: a study always has an archive, in dngo-studies/NAME",
    **dict.fromkeys(("load_if_exists", "resume"), "nothing: the same call goes on"),
    "directions": "objectives={'error': 'minimize', 'speed': 'maximize'}",
    "sampler": "acquisition and surrogate, such as acquisition='thompson'; "
    "dngo.optuna.Sampler is for a loop of Optuna",
    "pruner": "early_stopping=True",
    "catch": "nothing: an exception is the outcome `failed`, and the study goes on",
    **dict.fromkeys(("callbacks", "callback"), "study.ask and study.tell, in a loop of your own"),
    **dict.fromkeys(("n_startup_trials", "n_initial_points", "n_random_starts", "init_points",
                     "n_initial"), "design={'size': 10}"),
    "random_state": "seed",
    **dict.fromkeys(("x0", "y0", "points_to_evaluate", "probe"),
                    "study.add({...}), or with its outcome study.tell({...}, objective)"),
    **dict.fromkeys(("acq_func", "acquisition_function"), "acquisition"),
    "base_estimator": "surrogate",
    **dict.fromkeys(("dimensions", "search_space", "bounds", "parameters", "pbounds"),
                    "space: {'x': (0, 1), 'n': dngo.Int(1, 9), 'kind': ['a', 'b']}"),
    **dict.fromkeys(("func", "objective_function", "f", "fn"), "function, the first argument"),
    **dict.fromkeys(("show_progress_bar", "verbose", "progress_bar"), "progress"),
    **dict.fromkeys(("outcome_constraints", "constraints_func"), "constraints={'heat': '<= 350'}"),
    "parameter_constraints": "space_constraints=['a + b <= 1']",
    "maximize": "dngo.maximize instead of dngo.minimize",
    **dict.fromkeys(("prior", "distribution", "log_scale"), "log=True: dngo.Float(1e-5, 1, log=True)"),
    "q": "step",
}  # fmt: skip
# Of the command line.
COMMANDS = {
    **dict.fromkeys(("optimize", "start", "resume", "minimize", "submit", "continue"), "run"),
    **dict.fromkeys(("create-study", "create", "new"), "init"),
    **dict.fromkeys(("best-trial", "best-trials", "trials"), "best"),
    **dict.fromkeys(("dashboard", "ui"), "serve"),
    **dict.fromkeys(("studies", "ls", "list", "show", "info"), "status"),
    **dict.fromkeys(("validate", "lint", "test", "dry-run"), "check"),
    **dict.fromkeys(("cancel", "kill", "abort"), "stop"),
    **dict.fromkeys(("plot", "visualize"), "figure"),
    **dict.fromkeys(("log", "mlflow", "wandb"), "track"),
    "explain": "audit",
    "version": "--version",
    "enqueue": "add",
}
OPTIONS = {
    "--n-trials": "`iterations` and `batch_size` are keys of the configuration",
    "--n-jobs": "after --, Snakemake's: dngo run -- --cores 4",
    "-j": "after --, Snakemake's: dngo run -- -j 4",
    "-c": "after --, Snakemake's: dngo run -- -c 4",
    "--output": "a report's is --html FILE",
    "--jobs": "after --, Snakemake's: dngo run -- --jobs 4",
    "--cores": "after --, Snakemake's: dngo run -- --cores 4",
    "--profile": "after --, Snakemake's: dngo run -- --profile slurm",
    "--storage": "`results` is a key of the configuration, and --results an option",
    "--study": "a study is the first word: dngo best my.yaml",
    "--host": "it serves this machine alone; from elsewhere: ssh -L 8000:localhost:8000 NODE",
    "--study-name": "`study` is a key of the configuration",
}
# Words in a function that get its values from a trial.
OF_A_TRIAL = ("suggest_", "should_prune", "set_user_attr")


def in_our_words(function: Callable[P, R]) -> Callable[P, R]:
    """A call that refuses arguments which it does not have with a UserError of one line.

    If such an argument is known elsewhere, the line says what it is called here.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def called(*given: P.args, **named: P.kwargs) -> R:
        for name in named:
            if name in ARGUMENTS and name not in signature.parameters:
                raise UserError(f"{function.__name__}: {name} is here {ARGUMENTS[name]}")
        try:
            signature.bind(*given, **named)
        except TypeError as error:
            own = [p for name, p in signature.parameters.items() if name != "self"]
            names = ", ".join(p.name for p in own if p.kind != p.VAR_KEYWORD)
            raise UserError(f"{function.__name__}: {error}; its arguments are {names}") from None
        return function(*given, **named)

    return called


def of_a_trial(function: Any) -> str:
    """The first word in a function's code that only a trial of Optuna understands; "" if there is
    none."""
    names = getattr(getattr(function, "__code__", None), "co_names", ())
    return next((name for name in names if name.startswith(OF_A_TRIAL)), "")


def of_its_result(method: C) -> C:
    """A method that is called without its parentheses: a missing attribute is one of its result."""
    called: Any = _Called(method)
    return called


class _Called:
    """A method; bound, it names what to write instead of `study.best.parameters`."""

    def __init__(self, method: Any) -> None:
        self._method = method
        functools.update_wrapper(self, method)

    def __get__(self, owner: Any, kind: type) -> Any:
        return self._method if owner is None else _Called(self._method.__get__(owner, kind))

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self._method(*given, **named)

    def __getitem__(self, key: Any) -> Any:
        raise UserError(f"[{key!r}]: write study.{self._method.__name__}()[{key!r}]")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError(f"{name}: write study.{self._method.__name__}().{name}")


class Points(list[Any]):
    """The points of a batch; they name what to write instead of `study.ask(1).parameters`."""

    def __getattr__(self, name: str) -> Any:
        wanted = POINT.get(name, f"point.{name}")
        raise AttributeError(f"{name}: these are points in a list; for each, write {wanted}")


class Elsewhere:
    """An object whose missing attributes are named if another package has them."""

    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getitem__(self, key):
            ours = type(self)._elsewhere.get("params") or "study.table()"
            part = f"[{key!r}]" if ours.endswith("parameters") and isinstance(key, str) else ""
            raise UserError(f"[{key!r}]: write {ours}{part}")

        def keys(self):  # what Python asks for in f(**point)
            raise UserError(
                f"write **{type(self)._elsewhere.get('params') or 'study.best().parameters'}"
            )

        def __getattr__(self, name):
            kind = type(self)
            if name in kind._elsewhere:
                raise AttributeError(f"{name}: write {kind._elsewhere[name]}")
            raise AttributeError(
                f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=self
            )
