"""What others offer, to run beside this package: each present only where its package is installed.

`benchmarks/rivals.txt` brings them all. A rival is started on a space with a seed, told results and
asked for points. Those that know numbers only see coordinates in the unit cube, choices by their
index, and a failed point as the worst value so far.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dngo.space import Column, Space

Array = NDArray[np.float64]
NONE: Array = np.empty((0, 0))  # no numbers


class Rival(Protocol):
    """An optimiser of v (n, k), natural values, that minimises y (n,), NaN where there is none, as far as
    the numbers (n, c) are 0 or less. Some take several objectives, y (n, m)."""

    def __init__(self, space: Space, seed: int) -> None: ...

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        """Results: first the design's, then those of what was asked for, in order and in full."""

    def ask(self, size: int) -> Array:
        """Points to evaluate: (size, k)."""


class OptunaTPE:
    """Optuna's TPE with the constant liar, which it recommends for parallel evaluations.

    It knows numbers, and several objectives. A parameter that does not exist at a point has its default
    there. how: further keys of the sampler.
    """

    def __init__(self, space: Space, seed: int, **how: Any) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space, self.seed, self.how = space, seed, how
        self.study: Any = None
        self.trials: list[Any] = []
        self.distributions = {c.name: _distribution(c) for c in space.columns}

    def sampler(self) -> Any:
        """What chooses the trials of Optuna's study."""
        from optuna.samplers import TPESampler

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of its keys are experimental
            return TPESampler(seed=self.seed, constant_liar=True, **self.how)

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        import optuna
        from optuna.trial import TrialState, create_trial

        values = y.reshape(len(y), -1)
        outcomes = [
            {"values": value.tolist()} if np.isfinite(value).all() else {"state": TrialState.FAIL}
            for value in values
        ]
        bounds = np.nan_to_num(numbers, nan=1e9).tolist() if numbers.size else [[]] * len(y)
        constraints = [{str(i): x for i, x in enumerate(bound)} for bound in bounds]
        if self.study is not None:
            for trial, outcome, kept in zip(self.trials, outcomes, constraints, strict=True):
                for name, x in kept.items():
                    trial.set_constraint(name, x)
                self.study.tell(trial, **outcome)
            return
        directions = ["minimize"] * values.shape[1]
        self.study = optuna.create_study(directions=directions, sampler=self.sampler())
        defaults = [c.default for c in self.space.columns]
        rows = np.where(np.isnan(v), defaults, v)
        for row, outcome, kept in zip(rows, outcomes, constraints, strict=True):
            params = {
                c.name: int(x) if c.choices is not None or c.kind == "int" else float(x)
                for c, x in zip(self.space.columns, row, strict=True)
            }
            known = {"constraints": kept} if kept else {}  # which Optuna has since 5.0
            self.study.add_trial(
                create_trial(params=params, distributions=self.distributions, **outcome, **known)
            )

    def ask(self, size: int) -> Array:
        self.trials = [self.study.ask(self.distributions) for _ in range(size)]
        rows = [[t.params[c.name] for c in self.space.columns] for t in self.trials]
        return self.space.on_grid(np.array(rows, dtype=float))


class OptunaGP(OptunaTPE):
    """Optuna's Gaussian process, with its own settings (told that values carry no noise)."""

    def sampler(self) -> Any:
        from optuna.samplers import GPSampler

        return GPSampler(seed=self.seed, deterministic_objective=True)


def _distribution(column: Column) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    if column.choices is not None:
        return CategoricalDistribution(list(range(len(column.choices))))
    if column.kind == "int":
        return IntDistribution(int(column.low), int(column.high), log=column.log)
    return FloatDistribution(column.low, column.high, log=column.log)


class Unbounded:
    """Rivals that know nothing of failures: one counts as the worst value so far, and so does a point that
    breaks a bound; as 0 while there is nothing else."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed, self.worst = space, seed, -np.inf

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        if numbers.size:
            y = np.where((numbers <= 0).all(axis=1), y, np.nan)
        self.worst = np.max(y, initial=self.worst, where=np.isfinite(y))
        self.learn(v, np.where(np.isfinite(y), y, self.worst if np.isfinite(self.worst) else 0.0))

    def learn(self, v: Array, y: Array) -> None:
        """What `tell` does with the values."""
        raise NotImplementedError


class CMAES(Unbounded):
    """CMA-ES of the `cmaes` package: a generation is a batch.

    Starts at the design's best point with a sixth of the range as its deviation, as Optuna does.
    """

    optimizer: Any = None

    def learn(self, v: Array, y: Array) -> None:
        if self.optimizer is None:
            self.start = self.space.unit(v[[np.argmin(y)]])[0]
        else:
            self.optimizer.tell(list(zip(self.asked, y, strict=True)))

    def begin(self, **how: Any) -> Any:
        """The package's optimiser."""
        from cmaes import CMA

        return CMA(**how)

    def generation(self, size: int) -> list[Any]:
        """What it asks for next."""
        if self.optimizer is None:
            bounds = np.tile([0.0, 1.0], (self.space.k, 1))
            how = {"seed": self.seed, "population_size": size}
            self.optimizer = self.begin(mean=self.start, sigma=1 / 6, bounds=bounds, **how)
        return [self.optimizer.ask() for _ in range(size)]

    def ask(self, size: int) -> Array:
        self.asked = self.generation(size)
        return self.space.from_unit(np.array(self.asked))

    def recommended(self) -> Array:
        """The mean of the distribution: (k,), better than any one point where values are noisy."""
        return self.space.from_unit(np.clip(self.optimizer.mean, 0.0, 1.0)[None])[0]


class CMAESWithMargin(CMAES):
    """CMA-ES with margin (Hamano and others 2022) of the same package: integers keep being changed."""

    def begin(self, **how: Any) -> Any:
        from cmaes import CMAwM

        steps = [c.kind == "int" and 1.0 / (c.high - c.low) for c in self.space.columns]
        return CMAwM(steps=np.array(steps, dtype=float), **how)

    def ask(self, size: int) -> Array:
        evaluated, asked = zip(*self.generation(size), strict=True)
        self.asked = list(asked)
        low, high = np.array([(c.low, c.high) for c in self.space.columns]).T
        return low + (high - low) * np.array(evaluated)


class TuRBO(Unbounded):
    """TuRBO-1 (Eriksson et al. 2019) with Thompson sampling, on BoTorch, as in its tutorial.

    An exact Gaussian process, Matern 5/2 with a lengthscale for each input, of the region's data;
    candidates change some of the best point's coordinates within a box around it whose sides follow
    the lengthscales. The box doubles after 3 batches that gain, as the authors' code has it (the
    tutorial: 10), halves after ceil(max(4, k) / q) that do not, and under 2^-7 a fresh Sobol design
    of one batch starts the next region.
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.rng = np.random.default_rng([seed, 6])
        self._restart()

    def _restart(self) -> None:
        self.x, self.y = np.empty((0, self.space.k)), np.empty(0)
        self.length, self.successes, self.failures = 0.8, 0, 0

    def learn(self, v: Array, y: Array) -> None:
        if len(self.y):
            best = self.y.min()
            gained = y.min() < best - 1e-3 * abs(best)
            self.successes = self.successes + 1 if gained else 0
            self.failures = 0 if gained else self.failures + 1
            if self.successes == 3:
                self.length, self.successes = min(2 * self.length, 1.6), 0
            elif self.failures >= math.ceil(max(4, self.space.k) / len(y)):
                self.length, self.failures = self.length / 2, 0
        self.x = np.concatenate([self.x, self.space.unit(v)])
        self.y = np.concatenate([self.y, y])
        if self.length < 0.5**7:
            self._restart()

    def ask(self, size: int) -> Array:
        import torch
        from botorch.exceptions.errors import ModelFittingError
        from botorch.fit import fit_gpytorch_mll
        from botorch.generation import MaxPosteriorSampling
        from botorch.models import SingleTaskGP
        from gpytorch.constraints import Interval
        from gpytorch.kernels import MaternKernel, ScaleKernel
        from gpytorch.likelihoods import GaussianLikelihood
        from gpytorch.mlls import ExactMarginalLogLikelihood
        from gpytorch.settings import max_cholesky_size

        k = self.space.k
        sobol = torch.quasirandom.SobolEngine(k, scramble=True, seed=int(self.rng.integers(2**31)))
        if not len(self.y):
            return self.space.from_unit(sobol.draw(size, dtype=torch.double).numpy())
        torch.manual_seed(int(self.rng.integers(2**31)))
        x = torch.tensor(self.x)
        y = torch.tensor((self.y.mean() - self.y) / (self.y.std(ddof=1) or 1.0))  # it maximises
        model = SingleTaskGP(
            x,
            y[:, None],
            covar_module=ScaleKernel(
                MaternKernel(nu=2.5, ard_num_dims=k, lengthscale_constraint=Interval(0.005, 4.0))
            ),
            likelihood=GaussianLikelihood(noise_constraint=Interval(1e-8, 1e-3)),
            outcome_transform=None,
        )
        with max_cholesky_size(float("inf")):
            with contextlib.suppress(ModelFittingError):  # as it started is better than no batch
                fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
            centre = x[y.argmax()]
            sides = model.covar_module.base_kernel.lengthscale.detach()[0]
            sides = sides / sides.log().mean().exp()
            low = (centre - sides * self.length / 2).clamp(0, 1)
            high = (centre + sides * self.length / 2).clamp(0, 1)
            n = min(5000, max(2000, 200 * k))
            moved = low + (high - low) * sobol.draw(n, dtype=torch.double)
            mask = torch.rand(n, k) <= min(20 / k, 1)
            unmoved = torch.nonzero(~mask.any(dim=1))[:, 0]
            mask[unmoved, torch.randint(k, (len(unmoved),))] = True
            candidates = torch.where(mask, moved, centre)
            with torch.no_grad():
                picks = MaxPosteriorSampling(model, replacement=False)(candidates, size)
        return self.space.from_unit(picks.numpy())


class LogEI(Unbounded):
    """BoTorch's log expected improvement: SingleTaskGP, Matern 5/2; of a batch, one point after another.

    The Gaussian process has BoTorch's own priors (Hvarfner et al. 2024); 8 restarts from 512 raw
    samples climb the acquisition. In a batch those chosen before are pending, and the expectation is
    over BoTorch's own number of samples (`qLogExpectedImprovement`, as Ax chooses batches).
    """

    def __init__(self, space: Space, seed: int) -> None:
        super().__init__(space, seed)
        self.rng = np.random.default_rng([seed, 6])
        self.x, self.y = np.empty((0, space.k)), np.empty(0)

    def learn(self, v: Array, y: Array) -> None:
        self.x = np.concatenate([self.x, self.space.unit(v)])
        self.y = np.concatenate([self.y, y])

    def ask(self, size: int) -> Array:
        import torch
        from botorch.acquisition import LogExpectedImprovement, qLogExpectedImprovement
        from botorch.optim import optimize_acqf

        torch.manual_seed(int(self.rng.integers(2**31)))
        kind = LogExpectedImprovement if size == 1 else qLogExpectedImprovement
        acquisition = kind(matern_gp(self.x, -self.y), best_f=float(np.max(-self.y)))
        pick, _ = optimize_acqf(
            acquisition,
            bounds=torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, self.space.k),
            q=size,
            num_restarts=8,
            raw_samples=512,
            sequential=size > 1,
        )
        return self.space.from_unit(pick.numpy())


# ---- numbers, and several objectives ----------------------------------------------------------------


class Told:
    """Rivals that look at all that was told so far for each batch: u (n, k) in the unit cube, values (n,)
    or (n, m), numbers (n, c)."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed, self.rng = space, seed, np.random.default_rng([seed, 7])
        self.u, self.values, self.numbers, self.told = NONE, NONE, NONE, 0

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        numbers = numbers.reshape(len(y), -1)
        said = ((self.u, self.space.unit(v)), (self.values, y), (self.numbers, numbers))
        self.u, self.values, self.numbers = (
            np.concatenate([a, b]) if self.told else b for a, b in said
        )
        self.told += 1

    @property
    def feasible(self) -> Array:
        """The values of feasible rows, of all where there is none."""
        kept = (self.numbers <= 0).all(axis=1)
        return self.values[kept] if kept.any() else self.values


class CMAESOnRanks(Told):
    """CMA-ES on ranks: what is broken counts after all that is feasible, by how much, and crashes last.

    Every batch starts from what was evaluated: a deviation that shrinks by a fifth from batch to batch.
    """

    def ask(self, size: int) -> Array:
        from cmaes import CMA

        y, ran = self.values, np.isfinite(self.values)
        with np.errstate(invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numbers that no point has
            spread = np.nanstd(self.numbers, axis=0)
        worse = np.nan_to_num(np.maximum(self.numbers, 0.0)) / np.where(spread > 0, spread, 1.0)
        top = np.max(y, initial=0.0 if not ran.any() else -np.inf, where=ran)
        kept = ran & (self.numbers <= 0).all(axis=1)
        value = np.where(kept, y, top + 1.0 + worse.sum(axis=1))
        value[~ran] = np.max(value) + 1e6
        order = np.argsort(value, kind="stable")[: max(size // 2, 4)]
        engine = CMA(
            mean=self.u[order].mean(axis=0) if self.told > 1 else self.u[order[0]],
            sigma=0.2 * 0.8 ** (self.told - 1.0),
            bounds=np.tile([0.0, 1.0], (self.space.k, 1)),
            seed=self.seed + len(y),
            population_size=max(size, 4),
        )
        return self.space.from_unit(np.array([engine.ask() for _ in range(size)]))


class SCBO(Told):
    """SCBO as in BoTorch's tutorial (Eriksson and Poloczek 2021); a crash counts as the worst so far.

    A trust region, Thompson samples of all functions, and the best of those that keep all bounds. The box
    doubles after 10 batches that gain, and halves after ceil(max(4, k) / q) that do not.
    """

    length, successes, failures = 0.8, 0, 0

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        known = len(self.values)
        super().tell(v, y, numbers)
        if known == 0:
            return
        better = self._best(*self._filled()) >= known
        self.successes = self.successes + 1 if better else 0
        self.failures = 0 if better else self.failures + 1
        if self.successes == 10:
            self.length, self.successes = min(2.0 * self.length, 1.6), 0
        elif self.failures == math.ceil(max(4.0, self.space.k) / len(y)):
            shorter = self.length / 2.0
            self.length, self.failures = shorter if shorter >= 0.5**7 else 0.8, 0

    def _filled(self) -> tuple[Array, Array]:
        both = np.column_stack([self.values, self.numbers])
        both = np.where(np.isfinite(both), both, np.nanmax(both, axis=0))
        return both[:, 0], both[:, 1:]

    @staticmethod
    def _best(y: Array, numbers: Array) -> int:
        """The best feasible point, or else the one that breaks its bounds least."""
        return int(np.lexsort((y, np.maximum(numbers, 0.0).sum(axis=1)))[0])

    def ask(self, size: int) -> Array:
        import torch
        from botorch.fit import fit_gpytorch_mll
        from botorch.generation.sampling import (
            ConstrainedMaxPosteriorSampling,
            MaxPosteriorSampling,
        )
        from botorch.models import SingleTaskGP
        from botorch.models.model_list_gp_regression import ModelListGP
        from botorch.models.transforms.outcome import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        y, numbers = self._filled()
        numbers = numbers / np.maximum(numbers.std(axis=0), 1e-12)
        u, k, best = self.u, self.space.k, self.u[self._best(y, numbers)]
        torch.manual_seed(int(self.rng.integers(2**31)))

        def model(values: Array, transform: Any) -> Any:
            gp = SingleTaskGP(
                torch.tensor(u), torch.tensor(values)[:, None], outcome_transform=transform
            )
            fit_gpytorch_mll(ExactMarginalLogLikelihood(gp.likelihood, gp))
            return gp

        objective = model(-y, Standardize(m=1))
        bounds = [model(each, None) for each in numbers.T]
        scales = objective.covar_module.lengthscale.detach().numpy().ravel()
        sides = self.length * scales / np.exp(np.log(scales).mean())
        low, high = np.clip(best - sides / 2, 0.0, 1.0), np.clip(best + sides / 2, 0.0, 1.0)
        candidates = low + (high - low) * self.rng.random((2000, k))
        moved = self.rng.random(candidates.shape) <= min(20.0 / k, 1.0)
        moved[np.arange(2000), self.rng.integers(0, k, 2000)] = True
        candidates = np.where(moved, candidates, best)
        sampling = MaxPosteriorSampling(model=objective, replacement=False)
        if bounds:
            sampling = ConstrainedMaxPosteriorSampling(
                model=objective, constraint_model=ModelListGP(*bounds), replacement=False
            )
        with torch.no_grad():
            return self.space.from_unit(sampling(torch.tensor(candidates), size).numpy())


class NSGA2(Told):
    """pymoo's NSGA-II: the design is its first population, and a batch its offspring."""

    algorithm: Any = None

    def kind(self) -> Any:
        """Which of pymoo's algorithms."""
        from pymoo.algorithms.moo.nsga2 import NSGA2

        return NSGA2

    def tell(self, v: Array, y: Array, numbers: Array = NONE) -> None:
        super().tell(v, y, numbers)
        if self.algorithm is not None:
            self._learn(y, numbers)

    def _learn(self, y: Array, numbers: Array) -> None:
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        found = {"F": y, "G": numbers} if numbers.size else {"F": y}
        Evaluator().eval(StaticProblem(self.algorithm.problem, **found), self.asked)
        self.algorithm.tell(infills=self.asked)

    def ask(self, size: int) -> Array:
        from pymoo.core.problem import Problem

        if self.algorithm is None:
            counts = {"n_obj": self.values.shape[1], "n_ieq_constr": self.numbers.shape[1]}
            problem = Problem(n_var=self.space.k, **counts, xl=0.0, xu=1.0)
            self.algorithm = self.kind()(pop_size=len(self.u), n_offsprings=size, sampling=self.u)
            self.algorithm.setup(problem, termination=("n_gen", 10**6), seed=self.seed)
            self.asked = self.algorithm.ask()
            self._learn(self.values, self.numbers)
        self.asked = self.algorithm.ask()
        return self.space.from_unit(self.asked.get("X"))


class SMSEMOA(NSGA2):
    """pymoo's SMS-EMOA."""

    def kind(self) -> Any:
        from pymoo.algorithms.moo.sms import SMSEMOA

        return SMSEMOA


class LogNEHVI(Told):
    """BoTorch's qLogNoisyExpectedHypervolumeImprovement, the picks of a batch one after another.

    A process of BoTorch's own for each objective and bound; the reference point is inferred from the front,
    as BoTorch does; 4 restarts from 128 raw samples and 64 draws, less than its tutorials have.
    """

    def ask(self, size: int) -> Array:
        import torch
        from botorch.acquisition.multi_objective.logei import (
            qLogNoisyExpectedHypervolumeImprovement,
        )
        from botorch.acquisition.multi_objective.objective import IdentityMCMultiOutputObjective
        from botorch.models import ModelListGP
        from botorch.optim import optimize_acqf
        from botorch.sampling import SobolQMCNormalSampler
        from botorch.utils.multi_objective import infer_reference_point, is_non_dominated

        torch.manual_seed(int(self.rng.integers(2**31)))
        columns = np.column_stack([-self.values, self.numbers])
        spread = np.maximum(columns.std(axis=0), 1e-12)
        centre = columns.mean(axis=0)
        m = self.values.shape[1]
        centre[m:] = 0.0  # of a bound the sign counts
        scaled = (columns - centre) / spread
        good = torch.tensor((-self.feasible - centre[:m]) / spread[:m])
        acquisition = qLogNoisyExpectedHypervolumeImprovement(
            model=ModelListGP(*(matern_gp(self.u, column) for column in scaled.T)),
            ref_point=infer_reference_point(good[is_non_dominated(good)]),
            X_baseline=torch.tensor(self.u),
            sampler=SobolQMCNormalSampler(torch.Size([64])),
            prune_baseline=True,
            objective=IdentityMCMultiOutputObjective(outcomes=list(range(m))),
            constraints=[lambda y, j=j: y[..., j] for j in range(m, scaled.shape[1])] or None,
        )
        pick, _ = optimize_acqf(
            acquisition,
            bounds=torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, self.u.shape[1]),
            q=size,
            num_restarts=4,
            raw_samples=128,
            options={"maxiter": 50},
            sequential=True,
        )
        return self.space.from_unit(pick.numpy())


def installed() -> dict[str, Callable[[Space, int], Rival]]:
    """Rivals that propose batches and can run here, by name."""
    several_inputs = partial(OptunaTPE, multivariate=True)
    rivals: dict[str, tuple[str, Callable[[Space, int], Rival]]] = {
        "optuna_tpe": ("optuna", OptunaTPE),
        "optuna_multivariate": ("optuna", several_inputs),
        "optuna_gp": ("optuna", OptunaGP),
        "cma_es": ("cmaes", CMAES),
        "cma_margin": ("cmaes", CMAESWithMargin),
        "cma_ranks": ("cmaes", CMAESOnRanks),
        "turbo": ("botorch", TuRBO),
        "log_ei": ("botorch", LogEI),
        "scbo": ("botorch", SCBO),
        "log_nehvi": ("botorch", LogNEHVI),
        "nsga2": ("pymoo", NSGA2),
        "sms": ("pymoo", SMSEMOA),
    }
    return {n: rival for n, (package, rival) in rivals.items() if importlib.util.find_spec(package)}


# ---- surrogates ----------------------------------------------------------------------------------

# x (n, d) in the unit cube, y (n,), seed -> a function from new x to mean and standard deviation of
# an outcome there, each (m,).
Predict = Callable[[Array], tuple[Array, Array]]


def matern_gp(x: Array, y: Array) -> Any:
    """BoTorch's exact Gaussian process with its Matern 5/2 kernel and priors, fitted to x and y."""
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
    from gpytorch.mlls import ExactMarginalLogLikelihood

    model = SingleTaskGP(
        torch.tensor(x),
        torch.tensor(y)[:, None],
        covar_module=get_covar_module_with_dim_scaled_prior(x.shape[1], use_rbf_kernel=False),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


def exact_gp(x: Array, y: Array, seed: int) -> Predict:
    """The exact Gaussian process of `LogEI`; the seed changes nothing."""
    import torch

    model = matern_gp(x, y)

    def predict(new: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            found = model.posterior(torch.tensor(new), observation_noise=True)
            mean, variance = found.mean.detach(), found.variance.detach()
        return mean[:, 0].numpy(), np.sqrt(variance[:, 0].numpy())

    return predict


def vbll(x: Array, y: Array, seed: int) -> Predict:
    """Variational Bayesian last layer (Brunzema et al. 2025), the model of BoTorch's community.

    A network of 128 ELU units in each layer, three after the first, and the published defaults: it
    learns until its own loss has not fallen for 100 epochs. Outcomes are standardised.
    """
    import torch
    from botorch_community.models.vblls import VBLLModel

    torch.manual_seed(seed)
    centre, scale = y.mean(), y.std(ddof=1)
    model = VBLLModel(in_features=x.shape[1], hidden_features=128, num_layers=3, device="cpu")
    model.fit(torch.tensor(x), torch.tensor((y - centre) / scale)[:, None])

    def predict(new: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            found = model(torch.tensor(new))  # noise included
        mean, variance = found.mean[:, 0].numpy(), found.variance[:, 0].numpy()
        return centre + scale * mean, scale * np.sqrt(variance)

    return predict


def installed_surrogates() -> dict[str, Callable[[Array, Array, int], Predict]]:
    """Surrogates that can run here, by name."""
    if not importlib.util.find_spec("botorch"):
        return {}
    return {"exact gp": exact_gp, "vbll": vbll}
