"""Small studies in every regime of the engine, from each of which batches are chosen (`acting.py`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dngo.acquisition import History, believed_design, design, propose_batch, propose_on_ladder
from dngo.acquisition.aims import expected_gain
from dngo.acquisition.candidates import around
from dngo.acquisition.outlook import look_ahead
from dngo.acquisition.settings import AcquisitionSettings
from dngo.presets import find_preset
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.space.parameters import Boolean, Categorical, Float, Int, Ordinal
from dngo.surrogates import EarlierTask, Model, Past, TrainingData, fit_model
from dngo.surrogates.nearby import around_the_best
from dngo.surrogates.settings import ClassifierSettings, EnsembleSettings, SurrogateSettings
from dngo.thresholds import Threshold

NETWORKS = EnsembleSettings(ensemble=3, width=10, steps=60, epochs=0)


def cube(k: int, conditions: tuple[str, ...] = ()) -> Space:
    return Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(k)}, conditions)


def mixed() -> Space:
    """Each type of parameter, a known constraint, a condition and a prior."""
    prior = {"value": 0.7, "width": 0.2}
    return Space(
        {
            "rate": Float(type="float", low=1e-5, high=1e-1, log=True),
            "share": Float.model_validate({"type": "float", "low": 0, "high": 1, "prior": prior}),
            "other": Float(type="float", low=0, high=1),
            "units": Int(type="int", low=1, high=40),
            "kind": Categorical(type="categorical", choices=["a", "b", "c"]),
            "deep": Boolean(type="boolean"),
            "size": Ordinal(type="ordinal", values=["s", "m", "l"]),
            "gamma": Float(type="float", low=0, high=1, active_if={"kind": ["b", "c"]}),
        },
        ["share + other <= 1.5"],
    )


def bowl(x: np.ndarray) -> np.ndarray:
    """Turned, of a condition of a thousand, with ripples."""
    d = x.shape[1]
    turn = np.linalg.qr(np.random.default_rng(5).standard_normal((d, d)))[0]
    z = (x - 0.37) @ turn
    return (z**2) @ np.logspace(0, 3, d) + 0.05 * np.sum(1 - np.cos(9 * z), axis=1)


def dust(x: np.ndarray) -> np.ndarray:
    """What no model predicts, at any scale, and yet points next to each other are alike."""
    scales = 2.0 ** np.arange(4, 24)
    z = x[:, :, None] * scales
    return np.sum(np.abs(z - np.rint(z)) * 0.8 ** np.arange(20), axis=(1, 2))


def walled(x: np.ndarray) -> np.ndarray:
    return bowl(x) + np.where(np.abs(x - 0.4).max(axis=1) > 0.35, 3e5, 0.0)


@dataclass
class Known:
    """A study so far: its points and which batch each is of."""

    space: Space
    v: np.ndarray
    batch: np.ndarray

    @classmethod
    def searched(
        cls, space: Space, first: int, each: int, batches: int, f: Callable, seed: int = 0
    ) -> Known:
        """A design, and batches of steps around the best point that become shorter."""
        rng = np.random.default_rng(seed)
        v = design(space, first, rng=rng, exclude=np.empty((0, space.k)))
        batch = [0] * len(v)
        for b in range(batches):
            best = v[[int(np.argmin(f(space.encode(v))))]]
            largest = 0.3 * 0.2**b
            moved = around(space, best, each, rng, smallest=0.02 * largest, largest=largest)
            v, batch = np.concatenate([v, moved]), [*batch, *[b + 1] * each]
        return cls(space, v, np.array(batch))

    @property
    def x(self) -> np.ndarray:
        return self.space.encode(self.v)

    @property
    def stage(self) -> np.ndarray:
        """Names of stages that picked them."""
        names = np.array(["trust_regions", "draws", "improvement"])
        return np.where(self.batch > 0, names[np.arange(len(self.v)) % 3], "design")


@dataclass
class Regime:
    """What a batch is chosen from, and how. more: what is said beside the picks, as numbers."""

    space: Space
    data: TrainingData
    history: History
    size: int
    surrogate: Any = field(
        default_factory=lambda: SurrogateSettings(networks=NETWORKS, hyperparameter_samples=3)
    )
    classifier: Any = field(
        default_factory=lambda: ClassifierSettings(
            networks=NETWORKS.model_dump(exclude_defaults=True)
        )
    )
    acquisition: Any = field(default_factory=lambda: small())
    ladder: Ladder | None = None
    past: Past | None = None
    more: Callable[[Regime, Model, np.ndarray], np.ndarray] | None = None

    def fit(self) -> Model:
        rng = np.random.default_rng(1)
        return fit_model(self.data, self.surrogate, self.classifier, rng=rng, past=self.past)

    def numbers(self, model: Model) -> list[str]:
        """The picks, each number of them as its bits."""
        keywords: dict[str, Any] = {
            "size": self.size,
            "settings": self.acquisition,
            "rng": np.random.default_rng(2),
            "root": np.random.SeedSequence(3),
        }
        if self.ladder is None:
            picks = propose_batch(model, self.space, self.history, **keywords)
        else:
            picks = propose_on_ladder(model, self.ladder, self.history, **keywords)
        found = [*picks.source, *picks.stage]
        parts = [picks.v, picks.value, picks.mean, picks.std, picks.feasibility, picks.runner_up]
        parts += [picks.means, picks.stds, picks.aims]
        if self.more is not None:
            parts.append(np.asarray(self.more(self, model, picks.v)))
        return found + [float(one).hex() for part in parts for one in np.ravel(part)]


def small(**more: Any) -> Any:
    usual = {"uniform_candidates": 256, "local_candidates": 128, "refinements": 1, "ascents": 1}
    greedy = {"shortlist": 128, "fantasies": 5} if more.get("kind") != "thompson" else {}
    if more.get("kind") == "thompson":
        usual = {name: usual[name] for name in ("uniform_candidates", "local_candidates")}
    return AcquisitionSettings(**{**usual, **greedy, **more})


def plain(known: Known, y: np.ndarray, size: int, **more: Any) -> Regime:
    own = {name: more.pop(name) for name in ("noise", "groups") if name in more}
    pending = more.pop("pending", np.empty((0, known.space.k)))
    history = History(
        known.v, y, pending, known.batch, stage=known.stage, noise=own.get("noise", ())
    )
    completed = np.isfinite(y).astype(float)
    data = TrainingData(
        known.x,
        y,
        {"completed": completed},
        batch=known.batch,
        groups=known.space.groups,
        noise=own.get("noise"),
    )
    return Regime(known.space, data, history, size, **more)


def ahead(regime: Regime, model: Model, v: np.ndarray) -> np.ndarray:
    """What is expected of the batch and after, and what is recommended; a further design."""
    y, known = regime.history.y, regime.history.v
    seen = look_ahead(model, regime.space, regime.history, v, rng=np.random.default_rng(4))
    ok = np.isfinite(y)
    rows, mean, deviation = around_the_best(
        regime.space.unit(known)[ok],
        regime.space.encode(known)[ok],
        y[ok],
        regime.history.noise[ok],
    )
    rng = np.random.default_rng(5)
    beside = [make(regime.space, 5, rng=rng, exclude=known) for make in (design, believed_design)]
    outlook = [] if seen is None else [seen.batch, seen.further, *seen.distances]
    return np.concatenate([outlook, rows, mean, deviation, *(b.ravel() for b in beside)])


# ---- the regimes --------------------------------------------------------------------------------


def one_input() -> Regime:
    """And a number with a bound."""
    known = Known.searched(cube(1), 10, 3, 2, bowl)
    return _bounded(known, np.ones(len(known.v)), known.x[:, 0] ** 2, 4, more=ahead)


def five_inputs() -> Regime:
    known = Known.searched(cube(5), 40, 20, 2, bowl)
    return plain(known, bowl(known.x), 16, more=ahead)


def ten_inputs() -> Regime:
    known = Known.searched(cube(10), 190, 20, 2, bowl)
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)
    return plain(known, bowl(known.x), 8, surrogate=surrogate)


def many_inputs() -> Regime:
    known = Known.searched(cube(70), 30, 5, 1, bowl)
    return plain(known, bowl(known.x), 3)


def large_batch() -> Regime:
    """The first one after a design, of more points than the usual share is of."""
    known = Known.searched(cube(2), 50, 0, 0, bowl)
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)
    return plain(known, bowl(known.x), 220, surrogate=surrogate)


def walls() -> Regime:
    """A sparse process, costs, and walls around a floor; a flag by the step function."""
    known = Known.searched(cube(5), 130, 20, 3, walled)
    x = known.x
    regime = plain(known, walled(x), 6)
    regime.data = replace(
        regime.data,
        log_cost=x[:, 0] + 0.1 * np.sin(40 * x[:, 1]),
        constraints={"flag": (x[:, 2] < 0.7).astype(float)},
    )
    regime.surrogate = SurrogateSettings(
        networks=NETWORKS, gp_limit=100, inducing=30, hyperparameter_samples=2
    )
    regime.classifier = ClassifierSettings(
        likelihood="step", networks=NETWORKS.model_dump(exclude_defaults=True)
    )
    regime.acquisition = small(per="duration", trust_region_share=0.5)
    return regime


def categories() -> Regime:
    space = mixed()

    def f(x: np.ndarray) -> np.ndarray:
        return bowl(x[:, :3]) + x[:, 3:] @ np.linspace(0, 1, x.shape[1] - 3)

    known = Known.searched(space, 40, 10, 2, f)
    return plain(known, f(known.x), 10, acquisition=small(kind="thompson"), more=ahead)


def _bounded(known: Known, kept: np.ndarray, number: np.ndarray, size: int, **more: Any) -> Regime:
    ok = (number <= 0.3) & (kept > 0)
    y = np.where(ok, bowl(known.x), np.nan)
    regime = plain(known, y, size, **more)
    regime.data = replace(
        regime.data,
        y=bowl(known.x),
        feasible=ok,
        constraints={"flag": kept, "number": (number <= 0.3).astype(float)},
        numbers={"number": number},
        thresholds={"number": Threshold("<=", 0.3)},
    )
    return regime


def constraints() -> Regime:
    """A flag and a number with a threshold; the best point lies on both edges."""
    known = Known.searched(cube(5), 80, 20, 3, bowl)
    x = known.x
    kept = ((x[:, 0] < 0.45) | (x[:, 0] > 0.8)).astype(float)
    surrogate = SurrogateSettings(
        networks=NETWORKS, hyperparameter_samples=2, gp_limit=120, inducing=20
    )
    return _bounded(known, kept, x[:, 1] ** 2, 16, surrogate=surrogate, more=ahead)


def nothing_feasible() -> Regime:
    known = Known.searched(cube(3), 70, 6, 2, bowl)
    kept = (known.x[:, 0] < 0.5).astype(float)
    return _bounded(known, kept, 2.0 + known.x[:, 1], 6)


def noise() -> Regime:
    """Multiplied, reported, with outliers."""
    known = Known.searched(cube(4), 60, 30, 2, bowl)
    rng = np.random.default_rng(7)
    level = bowl(known.x) + 0.05
    y = level * np.exp(0.5 * rng.standard_normal(len(level)))
    y[::17] += 40 * np.abs(rng.standard_cauchy(len(y[::17])))
    reported = np.where(rng.random(len(y)) < 0.7, 0.5 * level, np.nan)
    return plain(known, y, 10, noise=reported, more=ahead)


def even_noise() -> Regime:
    """The same size everywhere, with outliers; a scale of fixed steps."""
    known = Known.searched(cube(3), 50, 20, 2, bowl)
    rng = np.random.default_rng(8)
    y = np.round(bowl(known.x) + 2.0 * rng.standard_normal(len(known.v)), 1)
    y[::19] += 500 * rng.random(len(y[::19]))
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)
    return plain(known, y, 8, surrogate=surrogate, acquisition=small(replicates="always"))


def unknown() -> Regime:
    """What no model predicts, with points pending; probability of improvement, then exploration."""
    known = Known.searched(cube(3), 100, 0, 0, dust)
    pending = design(known.space, 5, rng=np.random.default_rng(9), exclude=known.v)
    acquisition = small(kind="pi", when_vanished="explore", vanishing=0.2)
    surrogate = SurrogateSettings(
        networks=NETWORKS.model_copy(update={"ensemble": 1}), hyperparameter_samples=3
    )
    return plain(
        known, dust(known.x), 24, pending=pending, acquisition=acquisition, surrogate=surrogate
    )


def rough() -> Regime:
    """The same, once there are steps that say that points next to each other are alike."""
    known = Known.searched(cube(3), 60, 0, 0, dust)
    rng = np.random.default_rng(11)
    moved = around(known.space, known.v, 60, rng, smallest=1e-6, largest=1e-5)
    both = np.concatenate([known.v, moved])
    known = Known(known.space, both, np.repeat([0, 1], 60))
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)
    return plain(known, dust(known.x), 8, surrogate=surrogate)


def several() -> Regime:
    known = Known.searched(cube(4), 40, 15, 3, bowl)
    both = {"a": bowl(known.x), "b": np.sum((known.x - 0.7) ** 2, axis=1)}
    return _several(known, both, 12, [50.0, 3.0])


def _several(
    known: Known, objectives: dict[str, np.ndarray], size: int, reference: list[float]
) -> Regime:
    x = known.x
    y = np.argsort(np.argsort(sum(objectives.values()))).astype(float)
    nothing = np.full(len(y), np.nan)
    none = np.empty((0, known.space.k))
    history = History(known.v, y, none, known.batch, objectives=objectives)
    data = TrainingData(
        x, nothing, {"completed": np.ones(len(y))}, batch=known.batch, objectives=objectives
    )
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)

    def more(regime: Regime, model: Model, v: np.ndarray) -> np.ndarray:
        x, values = regime.space.encode(v), regime.history.outcomes
        rng = np.random.default_rng(4)
        return np.array([expected_gain(model, x, values, np.array(reference), rng)])

    return Regime(known.space, data, history, size, surrogate, more=more)


def fidelities() -> Regime:
    whole = Space(
        {
            **{f"x{i}": Float(type="float", low=0, high=1) for i in range(3)},
            "epochs": Int(type="int", low=1, high=100),
        }
    )
    ladder = Ladder.of(whole, "epochs", 3, 81, 3)
    rng = np.random.default_rng(0)
    points = design(ladder.points, 40, rng=rng, exclude=np.empty((0, 3)))
    near = around(ladder.points, points[[int(np.argmin(bowl(points)))]], 20, rng, largest=0.1)
    points = np.concatenate([points, near])
    level = np.concatenate([np.zeros(40, dtype=int), np.ones(10, dtype=int), np.full(10, 2)])
    v = ladder.at(points, level)
    y = bowl(points) + 1.0 / (1 + level)
    batch = np.repeat([0, 1, 2], [40, 10, 10])
    data = TrainingData(whole.encode(v), y, {"completed": np.ones(60)}, batch=batch)
    history = History(v, y, np.empty((0, 4)), batch)
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=2)
    return Regime(ladder.points, data, history, 12, surrogate, ladder=ladder)


# ---- the same study by degrees: where a threshold lies, some degree is near it ------------------


@dataclass
class Degrees:
    """A batch of each study of a row, as one regime."""

    row: list[Regime]

    def fit(self) -> list[Model]:
        return [one.fit() for one in self.row]

    def numbers(self, models: list[Model]) -> list[str]:
        return [n for one, model in zip(self.row, models, strict=True) for n in one.numbers(model)]


def quick(known: Known, y: np.ndarray, size: int, **more: Any) -> Regime:
    """By a process without samples, and trust regions for nearly all picks."""
    surrogate = SurrogateSettings(kind="gp", hyperparameter_samples=1)
    classifier = ClassifierSettings(
        networks={**NETWORKS.model_dump(exclude_defaults=True), "steps": 200}
    )
    acquisition = small(**{"trust_region_share": 0.9, **more.pop("keys", {})})
    found = plain(known, y, size, surrogate=surrogate, acquisition=acquisition, **more)
    found.classifier = classifier
    return found


def noises() -> Degrees:
    """Outliers in even noise, by its share and by their size, and multiplied noise."""
    known = Known.searched(cube(2), 40, 20, 1, bowl)
    y, rng = np.sqrt(bowl(known.x)), np.random.default_rng(12)
    normal, struck = rng.standard_normal(len(y)), np.arange(0, len(y), 12)
    far = np.zeros(len(y))
    far[struck] = np.where(np.arange(len(struck)) % 2, 8.0, -8.0)
    shares = np.geomspace(1e-4, 1e-2, 9)
    row = [y + y.std() * np.sqrt(share) * (0.2 * normal + far) for share in shares]
    for size in (4, 5, 6, 7, 9, 14):
        row.append(y + 0.5 * normal + size * far / 16)
    regimes = [quick(known, z, 3) for z in row]
    known = Known.searched(cube(3), 60, 30, 1, bowl)
    y, normal = 0.1 + 10 * np.sum((known.x - 0.3) ** 2, axis=1), rng.standard_normal(90)
    return Degrees(regimes + [quick(known, y * np.exp(s * normal), 3) for s in (0.35, 0.45, 0.6)])


def floors() -> Degrees:
    """Walls around a floor, from as high as what is on it to far higher."""
    known = Known.searched(cube(2), 60, 20, 1, walled)
    wall = walled(known.x) - bowl(known.x)
    heights = 10.0 ** np.linspace(-4, -1, 9)
    return Degrees([quick(known, bowl(known.x) + h * wall, 3) for h in heights])


def dusts() -> Degrees:
    """From what a model knows to what none does, without steps and with."""
    row = []
    for share in (0.9, 0.97, 0.98, 0.985, 0.99, 1.0):
        known = Known.searched(cube(3), 50, 0, 0, dust)
        rng = np.random.default_rng(13)
        best = known.v[[int(np.argmin(dust(known.x)))]]
        row.append((known, share))
        for size in (1e-5, 1e-3, 1e-2, 0.1):
            moved = around(known.space, best, 10, rng, smallest=0.2 * size, largest=size)
            both = np.concatenate([known.v, moved])
            row.append((Known(known.space, both, np.repeat([0, 1], [50, 10])), share))
    return Degrees(
        [quick(k, s * dust(k.x) + (1 - s) * 0.1 * bowl(k.x), 40 if s == 1 else 12) for k, s in row]
    )


def converged() -> Degrees:
    """Searches that have halved their steps more and more often, alone and beside another good place."""
    row = []
    for batches in (4, 8, 12):
        known = Known.searched(cube(2), 20, 8, batches, bowl)
        y = bowl(known.x)
        other = 0.5 * y.mean() * np.exp(-40 * np.sum((known.x - 0.8) ** 2, axis=1))
        row += [quick(known, y, 6), quick(known, y - other, 6)]
        row += [quick(known, np.round(y, digits), 6) for digits in (0, 1, 3)]
    return Degrees(row)


def edges() -> Degrees:
    """What breaks a constraint in a half of the space, with flags from sure to doubtful; another part that
    is feasible, and nothing to be gained in the first."""
    row = []
    known = Known.searched(cube(2), 40, 10, 1, bowl)
    rng, distance = np.random.default_rng(14), known.x.sum(axis=1) - 0.7
    for blur in (0.05, 0.2, 0.5):
        fails = distance + blur * rng.standard_normal(len(distance)) < 0
        y = np.where(fails, np.nan, known.x.sum(axis=1))
        row.append(quick(known, y, 10, keys={"trust_region_share": 0.0}))
    # Converged on a point of the edge, beside what nobody has looked at; the last one has just gained.
    rng = np.random.default_rng(0)
    for first, centre, at in [(n, 0.7501, None) for n in (50, 65, 80, 100, 200, 300, 400)] + [
        (100, 0.78, -6)
    ]:
        near = centre + rng.uniform(-0.02, 0.02, (24, 2))
        v = np.concatenate([Known.searched(cube(2), first, 0, 0, bowl).v, [[centre] * 2], near])
        if at is not None:
            v[at] = 0.7501
        total, batch = v.sum(axis=1), np.repeat(np.arange(10), [first, 1, *[3] * 8])
        row.append(quick(Known(cube(2), v, batch), np.where(total > 1.5, total, np.nan), 8))
    return Degrees(row)


def many_rows() -> Regime:
    """Enough for networks to be trained in rotated coordinates as well."""
    known = Known.searched(cube(2), 460, 20, 2, bowl)
    networks = NETWORKS.model_copy(update={"steps": 400})
    surrogate = SurrogateSettings(networks=networks, hyperparameter_samples=2, inducing=0)
    return plain(known, np.sum((known.x - 0.37) ** 2, axis=1), 2, surrogate=surrogate)


def fronts() -> Degrees:
    """Boxes along a front that have grown and shrunk; a front of five objectives."""
    row = []
    for batches, each in ((1, 30), (4, 12), (7, 12)):
        known = Known.searched(cube(2), 30, each, batches, bowl)
        both = {"a": bowl(known.x), "b": np.sum((known.x - 0.7) ** 2, axis=1)}
        row.append(_several(known, both, 6, [50.0, 3.0]))
    known = Known.searched(cube(1), 20, 16, 14, bowl)  # two that are alike: steps win nothing
    row.append(_several(known, {"a": bowl(known.x), "b": bowl(known.x) + 1}, 6, [50.0, 50.0]))
    known = Known.searched(cube(2), 25, 5, 1, bowl)
    ends = np.random.default_rng(15).random((5, 2))
    five = {
        name: np.sum((known.x - end) ** 2, axis=1) for name, end in zip("abcde", ends, strict=True)
    }
    row.append(_several(known, five, 4, [3.0] * 5))
    return Degrees(row)


def levels() -> Degrees:
    """New points of a study with a fidelity, near the best ones and elsewhere; numbers with thresholds of
    few and of more points."""
    regime = fidelities()
    regime.size, regime.acquisition = 24, small(trust_region_share=1.0)
    row = [regime]
    for first in (20, 60):
        known = Known.searched(cube(2), first, 6, 1, bowl)
        row.append(_bounded(known, np.ones(len(known.v)), known.x[:, 1] ** 2 + 0.16, 3))
        row[-1].surrogate = SurrogateSettings(networks=NETWORKS, hyperparameter_samples=10)
    return Degrees(row)


def of_preset(name: str) -> Regime:
    """A published system, with networks of a size for here."""
    found = find_preset(name)
    assert found is not None
    document = {section: dict(found.document[section]) for section in ("surrogate", "acquisition")}
    if "networks" in document["surrogate"]:
        own = document["surrogate"]["networks"]
        sizes = {"width": 10, "steps": 200, "epochs": 0}
        document["surrogate"]["networks"] = {
            **own,
            **{key: value for key, value in sizes.items() if key in own},
        }
    if document["surrogate"]["kind"] == "bohamiann":
        document["surrogate"] |= {"burn_in": 200, "thin": 5, "posterior_samples": 10}
    document["acquisition"] |= {"uniform_candidates": 256, "local_candidates": 128}
    space = cube(3)
    known = Known.searched(space, 30, 5, 2, bowl)
    regime = plain(known, bowl(known.x), 5)
    regime.surrogate = SurrogateSettings(document["surrogate"])
    regime.acquisition = AcquisitionSettings(document["acquisition"])
    if found.document.get("classifier"):
        given = {**found.document["classifier"], "networks": NETWORKS}
        regime.classifier = ClassifierSettings(**given)
        flag = (known.x[:, 0] < 0.6).astype(float)
        regime.data = replace(regime.data, constraints={"flag": flag})
    if name.endswith("transfer"):
        x = np.random.default_rng(1).random((20, 3))
        regime.data = replace(regime.data, earlier=(EarlierTask(x, bowl(x) + 1),))
    if "per-second" in name:
        regime.data = replace(regime.data, log_cost=known.x[:, 0])
    return regime


def baseline(kind: str) -> Regime:
    known = Known.searched(mixed(), 10, 3, 1, lambda x: x.sum(axis=1))
    regime = plain(known, known.x.sum(axis=1), 4)
    regime.acquisition = AcquisitionSettings(kind=kind)
    return regime


def confidence() -> Regime:
    """Lower confidence bounds, a related study, and a process that stood alone in the fit before."""
    known = Known.searched(cube(2), 12, 3, 1, bowl)
    regime = plain(known, bowl(known.x), 5, acquisition=small(kind="lcb"))
    x = np.random.default_rng(1).random((20, 2))
    regime.data = replace(regime.data, earlier=(EarlierTask(x, 2 * bowl(x)),))
    summary = {"gp_share": 1.0, "networks_judged_at": 33}
    regime.past = Past(1, lambda s: (None, {}), np.random.default_rng, summary)
    return regime


REGIMES: dict[str, Callable[[], Regime | Degrees]] = {
    "one input": one_input,
    "five inputs": five_inputs,
    "ten inputs": ten_inputs,
    "many inputs": many_inputs,
    "large batch": large_batch,
    "walls": walls,
    "categories": categories,
    "constraints": constraints,
    "nothing feasible": nothing_feasible,
    "noise": noise,
    "even noise": even_noise,
    "unknown": unknown,
    "rough": rough,
    "several": several,
    "fidelities": fidelities,
    "confidence": confidence,
    "noises": noises,
    "floors": floors,
    "dusts": dusts,
    "converged": converged,
    "edges": edges,
    "many rows": many_rows,
    "fronts": fronts,
    "levels": levels,
    "dngo-2015": lambda: of_preset("dngo-2015"),
}
# For bits alone: what the tree has no number for.
FURTHER: dict[str, Callable[[], Regime]] = {
    **{
        name: lambda name=name: of_preset(name)  # type: ignore[misc]
        for name in (
            "dngo-preprint",
            "gp-ei-mcmc-2012",
            "gp-ei-per-second-2012",
            "bohamiann-2016",
            "bohamiann-2016-transfer",
            "brofos-2015",
        )
    },
    "random": lambda: baseline("random"),
    "sobol": lambda: baseline("sobol"),
}
