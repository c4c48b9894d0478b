"""What others offer, to run beside this package: each present only where its package is installed.

`benchmarks/rivals.txt` brings them all. A rival is started on a space with a seed, told results and
asked for points. Those that know numbers only see coordinates in the unit cube, choices by their
index, and a failed point as the worst value so far.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dngo.space import Column, Space

Array = NDArray[np.float64]


class Rival(Protocol):
    """An optimiser of v (n, k), natural values, that minimises y (n,), NaN where infeasible."""

    def __init__(self, space: Space, seed: int) -> None: ...

    def tell(self, v: Array, y: Array) -> None:
        """Results: first the design's, then those of what was asked for, in order and in full."""

    def ask(self, size: int) -> Array:
        """Points to evaluate: (size, k)."""


class OptunaTPE:
    """Optuna's TPE with the constant liar, which it recommends for parallel evaluations.

    A parameter that does not exist at a point has its default there.
    """

    def __init__(self, space: Space, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = space
        self.trials: list[Any] = []
        self.study = optuna.create_study(sampler=self.sampler(seed))
        self.distributions = {c.name: _distribution(c) for c in space.columns}

    def sampler(self, seed: int) -> Any:
        """What chooses the trials of Optuna's study."""
        from optuna.samplers import TPESampler

        return TPESampler(seed=seed, constant_liar=True)

    def tell(self, v: Array, y: Array) -> None:
        from optuna.trial import TrialState, create_trial

        if self.trials:
            for trial, value in zip(self.trials, y, strict=True):
                if np.isfinite(value):
                    self.study.tell(trial, float(value))
                else:
                    self.study.tell(trial, state=TrialState.FAIL)
            return
        defaults = [c.default for c in self.space.columns]
        for row, value in zip(np.where(np.isnan(v), defaults, v), y, strict=True):
            params = {
                c.name: int(x) if c.choices is not None or c.kind == "int" else float(x)
                for c, x in zip(self.space.columns, row, strict=True)
            }
            outcome = {"value": float(value)} if np.isfinite(value) else {"state": TrialState.FAIL}
            self.study.add_trial(
                create_trial(params=params, distributions=self.distributions, **outcome)
            )

    def ask(self, size: int) -> Array:
        self.trials = [self.study.ask(self.distributions) for _ in range(size)]
        rows = [[t.params[c.name] for c in self.space.columns] for t in self.trials]
        return self.space.on_grid(np.array(rows, dtype=float))


class OptunaGP(OptunaTPE):
    """Optuna's Gaussian process, with its own settings (told that values carry no noise)."""

    def sampler(self, seed: int) -> Any:
        from optuna.samplers import GPSampler

        return GPSampler(seed=seed, deterministic_objective=True)


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


class CMAES:
    """CMA-ES of the `cmaes` package: a generation is a batch.

    Starts at the design's best point with a sixth of the range as its deviation, as Optuna does.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.seed = space, seed
        self.optimizer: Any = None
        self.worst = -np.inf

    def tell(self, v: Array, y: Array) -> None:
        self.worst = np.max(y, initial=self.worst, where=np.isfinite(y))
        y = _filled(y, self.worst)
        if self.optimizer is None:
            self.start = self.space.unit(v[[np.argmin(y)]])[0]
        else:
            self.optimizer.tell(list(zip(self.asked, y, strict=True)))

    def ask(self, size: int) -> Array:
        from cmaes import CMA

        if self.optimizer is None:
            self.optimizer = CMA(
                mean=self.start,
                sigma=1 / 6,
                bounds=np.tile([0.0, 1.0], (self.space.k, 1)),
                seed=self.seed,
                population_size=size,
            )
        self.asked = [self.optimizer.ask() for _ in range(size)]
        return self.space.from_unit(np.array(self.asked))

    def recommended(self) -> Array:
        """The mean of the distribution: (k,), better than any one point where values are noisy."""
        return self.space.from_unit(np.clip(self.optimizer.mean, 0.0, 1.0)[None])[0]


class CMAESWithMargin(CMAES):
    """CMA-ES with margin (Hamano and others 2022) of the same package: integers keep being changed."""

    def ask(self, size: int) -> Array:
        from cmaes import CMAwM

        if self.optimizer is None:
            whole = np.array([column.kind == "int" for column in self.space.columns])
            steps = np.array([1.0 / (c.high - c.low) for c in self.space.columns])
            self.low = np.array([c.low for c in self.space.columns])
            self.range = 1.0 / steps
            self.optimizer = CMAwM(
                mean=self.start,
                sigma=1 / 6,
                bounds=np.tile([0.0, 1.0], (self.space.k, 1)),
                steps=np.where(whole, steps, 0.0),
                seed=self.seed,
                population_size=size,
            )
        asked = [self.optimizer.ask() for _ in range(size)]
        self.asked = [told for _, told in asked]
        return self.low + self.range * np.array([evaluated for evaluated, _ in asked])


def _filled(y: Array, worst: float) -> Array:
    """Failures as the worst value; as 0 while there is nothing else."""
    return np.where(np.isfinite(y), y, worst if np.isfinite(worst) else 0.0)


class TuRBO:
    """TuRBO-1 (Eriksson et al. 2019) with Thompson sampling, on BoTorch, as in its tutorial.

    An exact Gaussian process, Matern 5/2 with a lengthscale for each input, of the region's data;
    candidates change some of the best point's coordinates within a box around it whose sides follow
    the lengthscales. The box doubles after 3 batches that gain, as the authors' code has it (the
    tutorial: 10), halves after ceil(max(4, k) / q) that do not, and under 2^-7 a fresh Sobol design
    of one batch starts the next region.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng([seed, 6])
        self.worst = -np.inf
        self._restart()

    def _restart(self) -> None:
        self.x, self.y = np.empty((0, self.space.k)), np.empty(0)
        self.length, self.successes, self.failures = 0.8, 0, 0

    def tell(self, v: Array, y: Array) -> None:
        self.worst = np.max(y, initial=self.worst, where=np.isfinite(y))
        y = _filled(y, self.worst)
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


class LogEI:
    """BoTorch's log expected improvement: SingleTaskGP, Matern 5/2; of a batch, one point after another.

    The Gaussian process has BoTorch's own priors (Hvarfner et al. 2024); 8 restarts from 512 raw
    samples climb the acquisition. In a batch those chosen before are pending, and the expectation is
    over BoTorch's own number of samples (`qLogExpectedImprovement`, as Ax chooses batches).
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space, self.rng = space, np.random.default_rng([seed, 6])
        self.x, self.y = np.empty((0, space.k)), np.empty(0)
        self.worst = -np.inf

    def tell(self, v: Array, y: Array) -> None:
        self.worst = np.max(y, initial=self.worst, where=np.isfinite(y))
        self.x = np.concatenate([self.x, self.space.unit(v)])
        self.y = np.concatenate([self.y, _filled(y, self.worst)])

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


def installed() -> dict[str, type[Rival]]:
    """Rivals that propose batches and can run here, by name."""
    rivals: dict[str, tuple[str, type[Rival]]] = {
        "optuna_tpe": ("optuna", OptunaTPE),
        "optuna_gp": ("optuna", OptunaGP),
        "cma_es": ("cmaes", CMAES),
        "cma_margin": ("cmaes", CMAESWithMargin),
        "turbo": ("botorch", TuRBO),
        "log_ei": ("botorch", LogEI),
    }
    return {n: rival for n, (package, rival) in rivals.items() if importlib.util.find_spec(package)}


# ---- several objectives ---------------------------------------------------------------------------


class SeveralRival(Protocol):
    """An optimiser of u (n, k) in the unit cube, that minimises values (n, m) where all of the bounds
    (n, c) are 0 or less."""

    def __init__(self, k: int, seed: int) -> None: ...

    def tell(self, u: Array, values: Array, bounds: Array) -> None:
        """Results: first the design's, then those of what was asked for, in order and in full."""

    def ask(self, size: int) -> Array:
        """Points to evaluate: (size, k)."""


class OptunaSeveral:
    """Optuna's TPE with the constant liar, for several objectives and bounds."""

    def __init__(self, k: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.distributions = {
            f"x{i:02d}": optuna.distributions.FloatDistribution(0, 1) for i in range(k)
        }
        self.seed, self.study, self.trials = seed, None, []

    def tell(self, u: Array, values: Array, bounds: Array) -> None:
        import optuna

        if self.study is None:
            sampler = optuna.samplers.TPESampler(
                seed=self.seed,
                constant_liar=True,
                constraints_func=(lambda t: t.user_attrs["bounds"]) if bounds.shape[1] else None,
            )
            self.study = optuna.create_study(
                directions=["minimize"] * values.shape[1], sampler=sampler
            )
            for row in u:
                self.study.enqueue_trial(dict(zip(self.distributions, row.tolist(), strict=True)))
            self.ask(len(u))
        for trial, value, bound in zip(self.trials, values, bounds, strict=True):
            trial.set_user_attr("bounds", bound.tolist())
            self.study.tell(trial, value.tolist())

    def ask(self, size: int) -> Array:
        self.trials = [self.study.ask(self.distributions) for _ in range(size)]
        return np.array([[t.params[name] for name in self.distributions] for t in self.trials])


class _Told:
    """What was reported so far, for rivals that fit a model anew for each batch."""

    def __init__(self, k: int, seed: int) -> None:
        self.rng = np.random.default_rng([seed, 7])
        self.u: Array = np.empty((0, k))
        self.values: Array = np.empty((0, 0))
        self.bounds: Array = np.empty((0, 0))

    def tell(self, u: Array, values: Array, bounds: Array) -> None:
        said = ((self.u, u), (self.values, values), (self.bounds, bounds))
        self.u, self.values, self.bounds = (
            np.concatenate([a, b]) if len(self.u) else b for a, b in said
        )

    @property
    def feasible(self) -> Array:
        """The values of feasible rows, of all where there is none."""
        kept = (self.bounds <= 0).all(axis=1)
        return self.values[kept] if kept.any() else self.values


class LogNEHVI(_Told):
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
        columns = np.column_stack([-self.values, self.bounds])
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
        return np.asarray(pick.numpy())


class QPOTS(_Told):
    """qPOTS of its authors (`qpots`, GPL: installed by hand, in the environment of rivals alone).

    NSGA-II of 100 individuals for each input searches one draw of all objectives, for ten generations as in
    its examples; a batch is chosen from the front that it finds. Without bounds: those it takes are not
    heeded by the draw that it searches.
    """

    def ask(self, size: int) -> Array:
        import torch
        from qpots.acquisition import Acquisition
        from qpots.function import Function
        from qpots.model_object import ModelObject

        k, m = self.u.shape[1], self.values.shape[1]
        limits = torch.tensor([[0.0] * k, [1.0] * k], dtype=torch.double)
        with contextlib.redirect_stdout(None):
            model = ModelObject(torch.tensor(self.u), -torch.tensor(self.values), limits, m, 0)
            model.fit_gp()
            function = Function(dim=k, nobj=m, custom_func=lambda x: x, bounds=limits)
            options = {"nystrom": 0, "iters": 1, "nychoice": "pareto", "ngen": 10}
            picks = Acquisition(function, model, q=size).qpots(
                limits, int(self.rng.integers(2**31)), dim=k, q=size, **options
            )
        return np.asarray(picks.cpu().numpy())


def installed_several() -> dict[str, type[SeveralRival]]:
    """Rivals for several objectives that can run here, by name."""
    rivals: dict[str, tuple[str, type[SeveralRival]]] = {
        "optuna_tpe": ("optuna", OptunaSeveral),
        "log_nehvi": ("botorch", LogNEHVI),
        "qpots": ("qpots", QPOTS),
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
    model, x_, y_ = _vbll(x, y, seed)
    model.fit(x_, y_)
    return _vbll_predict(model, y)


def vbll_held_out(x: Array, y: Array, seed: int) -> Predict:
    """The same, but it stops by the density of a fifth of the data, which it does not learn from.

    The package's own way to that scores the last minibatch in place of what is held out.
    """
    import torch

    model, x_, y_ = _vbll(x, y, seed)
    order = torch.randperm(len(x_))
    held, kept = order[: len(x_) // 5], order[len(x_) // 5 :]
    model.set_reg_weight(1 / len(kept))
    optimizer = torch.optim.AdamW(
        [
            {"params": model.head.parameters(), "weight_decay": 0.0},
            {"params": model.backbone.parameters(), "weight_decay": 1e-4},
        ],
        lr=1e-3,
    )
    best, waited, state = math.inf, 0, None
    while waited < 100:
        for rows in kept[torch.randperm(len(kept))].split(32):
            optimizer.zero_grad()
            model.model(x_[rows]).train_loss_fn(y_[rows]).backward()
            torch.nn.utils.clip_grad_norm_(model.model.parameters(), 1.0)
            optimizer.step()
        with torch.no_grad():
            loss = model.model(x_[held]).val_loss_fn(y_[held]).item()
        waited += 1
        if loss < best:
            best, waited, state = loss, 0, copy.deepcopy(model.model.state_dict())
    model.model.load_state_dict(state)
    return _vbll_predict(model, y)


def _vbll(x: Array, y: Array, seed: int) -> tuple[Any, Any, Any]:
    import torch
    from botorch_community.models.vblls import VBLLModel

    torch.manual_seed(seed)
    model = VBLLModel(in_features=x.shape[1], hidden_features=128, num_layers=3, device="cpu")
    return model, torch.tensor(x), torch.tensor((y - y.mean()) / y.std(ddof=1))[:, None]


def _vbll_predict(model: Any, y: Array) -> Predict:
    import torch

    def predict(new: Array) -> tuple[Array, Array]:
        with torch.no_grad():
            found = model(torch.tensor(new))  # noise included
        mean, variance = found.mean[:, 0].numpy(), found.variance[:, 0].numpy()
        scale = y.std(ddof=1)
        return y.mean() + scale * mean, scale * np.sqrt(variance)

    return predict


def installed_surrogates() -> dict[str, Callable[[Array, Array, int], Predict]]:
    """Surrogates that can run here, by name."""
    if not importlib.util.find_spec("botorch"):
        return {}
    return {"exact gp": exact_gp, "vbll": vbll, "vbll, held out": vbll_held_out}
