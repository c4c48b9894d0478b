"""The fitted model of a study: objective and constraints, with its form in HDF5."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp, ndtr

from dngo.surrogates.bohamiann import SampledBasis, SampledNetworks
from dngo.surrogates.classifier import HEADS, Classifier, fit_classifier
from dngo.surrogates.data import EarlierTask, TargetScale, TrainingData
from dngo.surrogates.gaussian_process import GaussianProcess, fit_process
from dngo.surrogates.linear import Basis, FiniteBasis
from dngo.surrogates.network import Network
from dngo.surrogates.numerics import child, one_thread
from dngo.surrogates.problem import Past, Problem
from dngo.surrogates.settings import ClassifierSettings, ExactProcess, SurrogateKind
from dngo.surrogates.sparse_process import fit_sparse_process
from dngo.surrogates.warping import choose_scale
from dngo.types import Array, Progress

if TYPE_CHECKING:
    import h5py

Component = FiniteBasis | GaussianProcess
FORMAT = 2  # 2: Gaussian processes and weights among the components
SCALE = ("centre", "spread", "shift", "scale", "power", "lowest", "highest")
BASIS = ("rotation", "mean", "variance", "noise")
# The factors of a process's covariances are computed again on loading: the same bits, n times less
# to store.
SPARSE = ("reduction", "readout")
PROCESS = ("x", "targets", "log_lengthscales", "signal", "noise")

COST = ExactProcess()
MOST_EXACT = 150  # observations of the cost with which its process is exact
INDUCING = 100  # inputs of the sparse one beyond
COST_CHUNK = 1024  # points whose costs are predicted at once
MOST_FOR_COST = 10_000  # observations of the cost that its process is fitted to

# Gauss-Hermite quadrature over a normal.
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(15)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class Model:
    """What is believed about the objective and the constraints.

    objective: components whose mixture, by their weights, is the posterior; empty when no row was
    ok.
    scale: the map between the objective and the components' targets.
    classifiers: one for each constraint, by name; constraints are taken to be independent.
    diagnostics: numbers that describe the fit.
    cost: of the cost of an evaluation, taken to be independent of the objective; None if it is not
    modelled.
    """

    objective: tuple[Component, ...]
    scale: TargetScale
    classifiers: dict[str, Classifier]
    diagnostics: dict[str, float | int | str] = field(default_factory=dict)
    cost: Cost | None = None

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of an outcome, in units of the objective: two (n,).

        x: (n, d) encoded. The mixture's moments on the model's scale, noise included, taken to the
        objective's; exact wherever the scale is linear, by quadrature where it is bent. NaN
        without an objective model.
        """
        if not self.objective:
            return np.full(len(x), np.nan), np.full(len(x), np.nan)
        with one_thread():
            mean, deviation = self.normal(x)
        if self.scale.power == 1.0:
            high, low = (self.scale.to_objective(mean + s * deviation) for s in (1, -1))
            return self.scale.to_objective(mean), 0.5 * (high - low)
        # The mixture as one normal. A tail far beyond what was seen is bent back to anything.
        targets = mean[:, None] + deviation[:, None] * NODES
        values = np.clip(self.scale.to_objective(targets), self.scale.lowest, self.scale.highest)
        first = values @ NODE_WEIGHTS
        return first, np.sqrt((values - first[:, None]) ** 2 @ NODE_WEIGHTS)

    def normal(self, x: Array) -> tuple[Array, Array]:
        """Mean and deviation of the mixture on the model's scale, noise included: two (n,)."""
        means, variances, weight = self._mixture(x)
        mean = means @ weight
        return mean, np.sqrt((variances + (means - mean[:, None]) ** 2) @ weight)

    def log_density(self, x: Array, y: Array) -> tuple[Array, Array]:
        """What an outcome was believed to be worth, before: two (n,).

        x: (n, d) encoded, y: (n,) objective. Its log predictive density in units of the objective,
        and the probability that was given to a lower value: uniform if the model is calibrated,
        and beyond .025 and .975 as often as the 95 % interval misses.
        """
        with one_thread():
            means, variances, weight = self._mixture(x)
        t = self.scale.to_model(y)[:, None]
        each = -0.5 * ((t - means) ** 2 / variances + np.log(2 * np.pi * variances))
        density = np.asarray(logsumexp(each, b=weight, axis=1))
        return density + self.scale.log_slope(y), ndtr((t - means) / np.sqrt(variances)) @ weight

    def _mixture(self, x: Array) -> tuple[Array, Array, Array]:
        """Means and variances of the normals that the posterior mixes, (n, m); weights (m,)."""
        parts = [c.predict(c.features(x)) for c in self.objective]
        weight = np.concatenate(
            [np.full(len(c.noise), c.weight / len(c.noise)) for c in self.objective]
        )
        return (
            np.concatenate([mean for mean, _ in parts], axis=1),
            np.concatenate([variance for _, variance in parts], axis=1),
            weight / weight.sum(),
        )

    def feasibility(self, x: Array) -> Array:
        """P(every constraint holds): x (n, d) encoded -> (n,)."""
        with one_thread():
            p = np.ones(len(x))
            for name in sorted(self.classifiers):
                p = p * self.classifiers[name].probability(x)
        return p

    def inverse_cost(self, x: Array) -> Array:
        """Expected: x (n, d) encoded -> (n,); ones where no cost is modelled."""
        return np.ones(len(x)) if self.cost is None else self.cost.expected(x)[1]

    @property
    def heeds_constraints(self) -> bool:
        """Whether any constraint has been seen both satisfied and violated."""
        return any(not c.is_constant for c in self.classifiers.values())

    def summary(self) -> dict[str, float | int | str]:
        """Diagnostics of the fit, for logs and reports."""
        return dict(self.diagnostics)

    def save(self, group: h5py.Group) -> None:
        """Everything as datasets and attributes of an empty group; `load` gives the same bits."""
        group.attrs["format"] = FORMAT
        for name in SCALE:
            group.attrs[f"scale_{name}"] = getattr(self.scale, name)
        diagnostics = group.create_group("diagnostics")
        for key, value in self.diagnostics.items():
            diagnostics.attrs[key] = value
        group.attrs["components"] = len(self.objective)
        for i, component in enumerate(self.objective):
            part = group.create_group(f"objective/{i}")
            part.attrs["weight"] = component.weight
            if isinstance(component, GaussianProcess):
                part.attrs["kernel"] = component.kernel
                names: tuple[str, ...] = PROCESS
                if component.is_sparse:
                    names += SPARSE
            elif isinstance(component, SampledBasis):
                _save_network(component.network, part)
                names = ("noise",)
            else:
                _save_network(component.network, part)
                part.attrs["quadratic"] = component.quadratic
                names = BASIS
            for name in names:
                part.create_dataset(name, data=getattr(component, name))
        if self.cost is not None:
            self.cost.log.save(group.create_group("cost"))
        constraints = group.create_group("constraints")
        for i, name in enumerate(sorted(self.classifiers)):
            classifier = self.classifiers[name]
            part = constraints.create_group(str(i))
            part.attrs["name"] = name
            part.attrs["constant"] = classifier.constant
            part.attrs["log_density"] = classifier.log_density
            part.attrs["members"] = len(classifier.members)
            if classifier.members:
                kind = type(classifier.members[0][1])
                part.attrs["likelihood"] = next(k for k, v in HEADS.items() if v is kind)
            for j, (network, head) in enumerate(classifier.members):
                member = part.create_group(str(j))
                _save_network(network, member)
                member.create_dataset("mean", data=head.mean)
                member.create_dataset("covariance", data=head.covariance)

    @classmethod
    def load(cls, group: h5py.Group) -> Model:
        """The model that `save` wrote.

        Raises ValueError when the group holds no model, or one of a newer format.
        """
        found = group.attrs.get("format")
        if found is None or int(found) > FORMAT:
            raise ValueError(f"not a model that this version reads (format {found}, not {FORMAT})")
        known = [name for name in SCALE if f"scale_{name}" in group.attrs]
        scale = TargetScale(**{name: float(group.attrs[f"scale_{name}"]) for name in known})
        objective: list[Component] = []
        for i in range(int(group.attrs["components"])):
            part = group[f"objective/{i}"]
            weight = float(part.attrs.get("weight", 1.0))
            if "kernel" in part.attrs:
                arrays = {name: part[name][()] for name in (*PROCESS, *SPARSE) if name in part}
                kernel = str(part.attrs["kernel"])
                objective.append(GaussianProcess(**arrays, kernel=kernel, weight=weight))
            elif "rotation" not in part:
                sampled = SampledNetworks(*_load_layers(part))
                objective.append(SampledBasis.of(sampled, float(part["noise"][0]), weight))
            else:
                arrays = {name: part[name][()] for name in BASIS}
                quadratic = bool(part.attrs.get("quadratic", False))
                network = Network(*_load_layers(part))
                objective.append(FiniteBasis(network, **arrays, weight=weight, quadratic=quadratic))
        classifiers = {}
        for i in range(len(group["constraints"])):
            part = group[f"constraints/{i}"]
            head = HEADS[str(part.attrs.get("likelihood", "logistic"))]
            members = tuple(
                (
                    Network(*_load_layers(part[str(j)])),
                    head(part[f"{j}/mean"][()], part[f"{j}/covariance"][()]),
                )
                for j in range(int(part.attrs["members"]))
            )
            classifiers[str(part.attrs["name"])] = Classifier(
                members, float(part.attrs["constant"]), float(part.attrs["log_density"])
            )
        diagnostics = {
            key: value.item() if isinstance(value, np.generic) else value
            for key, value in group["diagnostics"].attrs.items()
        }
        cost = Cost(cls.load(group["cost"])) if "cost" in group else None
        return cls(tuple(objective), scale, classifiers, diagnostics, cost)


@dataclass(frozen=True)
class Cost:
    """What is believed about the cost of an evaluation: `log`, a model whose objective is ln cost.

    A Gaussian process beside every kind of surrogate, sparse beyond a few hundred observations: it
    takes a second or two, where a second ensemble of networks would double the cost of the fit.
    """

    log: Model

    def expected(self, x: Array) -> tuple[Array, Array]:
        """Expected cost and expected inverse cost (Snoek et al. 2012, section 3.2): two (n,).

        x: (n, d) encoded. No value beyond the ones seen by more than these spread is counted.
        """
        scale = self.log.scale
        chunks = [self.log.normal(x[i : i + COST_CHUNK]) for i in range(0, len(x), COST_CHUNK)]
        mean, deviation = np.concatenate(chunks, axis=1) if chunks else np.empty((2, 0))
        logs = scale.to_objective(mean[:, None] + deviation[:, None] * NODES)
        costs = np.exp(np.clip(logs, scale.lowest, scale.highest))
        return costs @ NODE_WEIGHTS, (1.0 / costs) @ NODE_WEIGHTS

    @classmethod
    def fit(cls, x: Array, log_cost: Array, *, rng: np.random.Generator) -> Cost:
        """x: (n, d) encoded, log_cost: (n,) finite, n >= 1; more than enough rows are thinned."""
        streams = [child(rng) for _ in range(2)]
        if len(x) > MOST_FOR_COST:
            rows = np.sort(streams[0].permutation(len(x))[:MOST_FOR_COST])
            x, log_cost = x[rows], log_cost[rows]
        scale = TargetScale.fit(log_cost)
        scale = replace(scale, highest=2.0 * scale.highest - scale.centre)
        targets = scale.to_model(log_cost)
        problem = Problem(x, targets)
        if len(x) <= MOST_EXACT:
            fit = fit_process(problem, COST, rng=streams[1])
        else:
            fold, none = np.zeros(len(x), dtype=np.intp), np.empty(0, dtype=np.intp)
            fit = fit_sparse_process(problem, COST, INDUCING, fold, none, rng=streams[1])
        return cls(Model(fit.components, scale, {}, {"observations": len(x), **fit.diagnostics}))


def fit_model(
    data: TrainingData,
    settings: SurrogateKind,
    classifier: ClassifierSettings | None = None,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    past: Past | None = None,
) -> Model:
    """Fit the objective to the ok rows and a classifier to each constraint.

    classifier: how; by default, as the configuration does. past: what earlier iterations were
    fitted to, for kinds that build on it. The result depends on these and the state of `rng` alone:
    neither the order of the constraints nor the number of threads changes a bit.
    """
    classifier = classifier or ClassifierSettings()
    ok = np.isfinite(data.y)
    names = sorted(data.constraints)
    streams = {name: child(rng) for name in ["", *names]}
    stages = 1 + len(names)
    diagnostics: dict[str, float | int | str] = {"observations": len(data.y), "ok": int(ok.sum())}
    with one_thread():
        components: tuple[Component, ...] = ()
        scale = TargetScale(0.0, 1.0, 0.0, 1.0)
        if ok.any():
            problem, scale, found = _problem(data, ok, settings, child(streams[""]))
            problem = replace(problem, past=past)
            if not settings.embeds_tasks:
                problem = problem.with_tasks_as_inputs()
            fit = settings.fit(
                problem, rng=streams[""], progress=_stage(progress, 0, stages, "objective")
            )
            components = fit.components
            diagnostics |= found | fit.diagnostics
        classifiers = {}
        for i, name in enumerate(names):
            classifiers[name] = fit_classifier(
                data.x,
                data.constraints[name],
                classifier,
                rng=streams[name],
                progress=_stage(progress, 1 + i, stages, name),
            )
            if not classifiers[name].is_constant:
                diagnostics[f"log_density:{name}"] = classifiers[name].log_density
        cost = None
        if data.log_cost is not None:
            known = np.isfinite(data.log_cost)
            diagnostics["costs"] = int(known.sum())
            if known.any():
                cost = Cost.fit(data.x[known], data.log_cost[known], rng=child(rng))
    if progress is not None:
        progress(1.0, "fitted")
    return Model(components, scale, classifiers, diagnostics, cost)


def _problem(
    data: TrainingData, ok: np.ndarray, settings: SurrogateKind, rng: np.random.Generator
) -> tuple[Problem, TargetScale, dict[str, float]]:
    """What the surrogate is fitted to, the scale of this study's objective, and diagnostics."""
    own = EarlierTask(data.x[ok], data.y[ok])
    batch = None if data.batch is None else data.batch[ok]
    tasks = [own, *data.earlier]
    # One power for all tasks, chosen where most is known.
    most = max(tasks, key=lambda task: len(task.y))
    chosen, found = choose_scale(most.x, most.y, settings, rng=rng)
    scales = [chosen if t is most else TargetScale.fit(t.y, chosen.power) for t in tasks]
    x = np.concatenate([t.x for t in tasks])
    targets = np.concatenate([s.to_model(t.y) for s, t in zip(scales, tasks, strict=True)])
    task = np.repeat(np.arange(len(tasks)), [len(t.y) for t in tasks])
    if batch is not None:
        batch = np.concatenate([batch, np.full(len(x) - len(batch), -1)])
    return Problem(x, targets, batch, task if data.earlier else None), scales[0], found


def _stage(progress: Progress | None, i: int, stages: int, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda fraction, message: progress((i + fraction) / stages, f"{name}: {message}")


def _save_network(network: Basis, group: h5py.Group) -> None:
    group.attrs["activation"] = network.activation
    group.attrs["layers"] = len(network.weights)
    for layer, (w, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        group.create_dataset(f"weights{layer}", data=w)
        group.create_dataset(f"biases{layer}", data=b)


def _load_layers(group: h5py.Group) -> tuple[tuple[Array, ...], tuple[Array, ...], str]:
    layers = range(int(group.attrs["layers"]))
    return (
        tuple(group[f"weights{layer}"][()] for layer in layers),
        tuple(group[f"biases{layer}"][()] for layer in layers),
        str(group.attrs["activation"]),
    )
