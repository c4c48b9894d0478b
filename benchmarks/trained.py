"""What the papers train and search, as far as data that scikit-learn ships can stand in, by figure.

Data are its 1,797 digits of 8 x 8 pixels, 1,197 to train on. An evaluation takes the CPU seconds that it
takes here. The grids of figures 4 and 5 of Snoek et al. (2012) are measured tables, and have their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from courses import GP, OPT, Compared, Strategy, Task
from objectives import FUNCTIONS, cube, grid
from sklearn.datasets import load_digits
from sklearn.decomposition import LatentDirichletAllocation
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from dngo.space import Space
from dngo.space.parameters import Float, Int
from dngo.surrogates import EarlierTask


def timed(space: Space, value: Callable[[dict[str, Any]], float], **how: Any) -> Task:
    """A task whose evaluations take the CPU seconds that they take; value: of parameters by name."""

    def evaluate(v: np.ndarray) -> tuple[float, float]:
        began = time.process_time()
        found = value(space.to_parameters(v[None])[0])
        return found, time.process_time() - began

    return Task(space, evaluate, **how)


def function(name: str) -> Task:
    """A function of the unit cube, a second for each point."""
    known = FUNCTIONS[name]
    return Task(cube(known.d), lambda v: (float(known.f(v[None])[0]), 1.0))


@cache
def digits() -> tuple[np.ndarray, ...]:
    """Images (n, 64) from 0 to 16 and their digits, to train on and held out."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    train, test = order[:1197], order[1197:]
    return images[train], labels[train], images[test], labels[test]


def logistic() -> Task:
    """Table 1's logistic regression: its four parameters, error in percent."""
    space, value = cube(4), FUNCTIONS["logistic"].f
    return timed(space, lambda p: float(value(np.array([list(p.values())]))[0]))


def topics(on_grid: bool) -> Task:
    """Perplexity of held-out digits, whose pixels are words, by online LDA with ten topics; the grid has
    6 x 6 x 8 points."""
    grids: dict[str, Any] = {
        "kappa": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
        "tau": [1, 4, 16, 64, 256, 1024],
        "batch": [4, 8, 16, 32, 64, 128, 256, 512],
    }
    limits = {
        name: {"values": values} if on_grid else {"low": values[0], "high": values[-1]}
        for name, values in grids.items()
    }
    space = Space(
        {
            "kappa": Float(type="float", **limits["kappa"]),
            "tau": Float(type="float", log=True, **limits["tau"]),
            "batch": Int(type="int", log=True, **limits["batch"]),
        }
    )
    train, _, test, _ = digits()

    def value(p: dict[str, Any]) -> float:
        model = LatentDirichletAllocation(
            10,
            doc_topic_prior=0.01,
            topic_word_prior=0.01,
            learning_method="online",
            learning_decay=p["kappa"],
            learning_offset=p["tau"],
            batch_size=p["batch"],
            max_iter=1,
            random_state=0,
        )
        return float(model.fit(train).perplexity(test))

    return timed(space, value)


def convolutional() -> Task:
    """Held-out error of a network of three convolutions, in percent: the nine parameters of section 4.4."""
    import torch
    from torch import nn

    costs = ("first", "second", "third", "last")
    space = Space(
        {
            "epochs": Int(type="int", low=1, high=20),
            "rate": Float(type="float", low=1e-4, high=1, log=True),
            **{name: Float(type="float", low=1e-6, high=0.1, log=True) for name in costs},
            "width": Int(type="int", low=1, high=8),
            "scale": Float(type="float", low=1e-5, high=1, log=True),
            "power": Float(type="float", low=0.01, high=2),
        }
    )
    images, labels, test, wanted = (torch.tensor(part) for part in digits())
    x, x_test = (part.float().view(-1, 1, 8, 8) / 16 for part in (images, test))

    def value(p: dict[str, Any]) -> float:
        torch.manual_seed(0)
        layers = [nn.Conv2d(i, o, 3, padding=1) for i, o in ((1, 16), (16, 16), (16, 32))]
        last = nn.Linear(32, 10)
        norm = [nn.LocalResponseNorm(p["width"], p["scale"], p["power"]) for _ in range(2)]
        blocks = [
            (layer, nn.ReLU(), nn.MaxPool2d(2), *norm[i : i + 1]) for i, layer in enumerate(layers)
        ]
        network = nn.Sequential(*(part for block in blocks for part in block), nn.Flatten(), last)
        groups = [
            {"params": part.parameters(), "weight_decay": p[name]}
            for part, name in zip([*layers, last], costs, strict=True)
        ]
        descent = torch.optim.SGD(groups, lr=p["rate"], momentum=0.9)
        for _ in range(p["epochs"]):
            for rows in torch.randperm(len(x)).split(64):
                descent.zero_grad()
                nn.functional.cross_entropy(network(x[rows]), labels[rows]).backward()
                descent.step()
        with torch.no_grad():
            return 100 * float((network(x_test).argmax(1) != wanted).float().mean())

    return timed(space, value)


def transferred() -> Task:
    """An SVM's error on digits 6 to 9, three folds, after 30 points each on 0 to 2 and 3 to 5, in units of
    the median above the least of a 12 x 12 grid."""
    numbers = {
        "C": Float(type="float", low=1e-3, high=1e4, log=True),
        "gamma": Float(type="float", low=1e-5, high=10, log=True),
    }
    space = Space(numbers)
    images, labels, *_ = digits()

    def error(some: Sequence[int], v: np.ndarray) -> float:
        rows = np.isin(labels, some)
        model = SVC(C=v[0], gamma=v[1])
        return 1 - float(cross_val_score(model, images[rows] / 16, labels[rows], cv=3).mean())

    rng, earlier = np.random.default_rng(2016), []
    for some in ((0, 1, 2), (3, 4, 5)):
        v = space.sample(rng.random((30, 2)))
        y = np.array([error(some, row) for row in v])
        earlier.append(EarlierTask(space.encode(v), y))
    side = (np.arange(12) + 0.5) / 12
    points = space.sample(np.stack(np.meshgrid(side, side), -1).reshape(-1, 2))
    table = np.array([error((6, 7, 8, 9), row) for row in points])
    least, middle = table.min(), np.median(table)
    return Task(
        space,
        lambda v: ((error((6, 7, 8, 9), v) - least) / (middle - least), 1.0),
        first=1,
        earlier=tuple(earlier),
    )


def table(tables: Path | None, name: str) -> Task:
    """A grid of figures 4 and 5, until its optimum; seconds as measured."""
    if tables is None:
        raise SystemExit(f"{name} needs its table: --tables DIR")
    space, points, values, seconds = grid(tables, name)
    known = dict(zip(space.keys(points), zip(values, seconds, strict=True), strict=True))
    return Task(space, lambda v: known[space.keys(v[None])[0]], least=float(values.min()))


@dataclass(frozen=True)
class Figure:
    """A figure that compares searches. tasks: by name, given the folder of the grids. evaluations,
    seeds: the paper's. optimum: what values are plotted above, by logarithms; 0: as they are."""

    tasks: Callable[[Path | None], dict[str, Task]]
    strategies: dict[str, Strategy]
    evaluations: int
    seeds: int
    optimum: float = 0.0

    def compared(self, tables: Path | None) -> Compared:
        tasks, strategies = self.tasks(tables).items(), self.strategies.items()
        return {
            f"{name}{of}": (task, strategy) for of, task in tasks for name, strategy in strategies
        }


BOTH = {"GP EI MCMC": Strategy(), "GP EI Opt": OPT}
IN_TIME = BOTH | {"GP EI per second": Strategy("gp-ei-per-second-2012")}
THREE = {"3x GP EI MCMC": Strategy(workers=3)}
MORE = THREE | {"5x GP EI MCMC": Strategy(workers=5)}
TEN = MORE | {"10x GP EI MCMC": Strategy(workers=10)}
TPE, RANDOM = {"TPE (Optuna)": Strategy("tpe")}, {"random": Strategy("random")}
BOUND = {"kind": "lcb", "trust_region_share": 0.0, "spacing": 0.0}
UCB = {"GP-UCB": Strategy(acquisition=BOUND)}
SECONDS = {"3x GP EI per second": Strategy("gp-ei-per-second-2012", 3)}
SMOOTH = {"kernel": "squared_exponential"}
KERNELS = {
    "Matern 5/2 ARD": Strategy(),
    "Matern 3/2 ARD": Strategy(surrogate={"kernel": "matern32"}),
    "SqExp ARD": Strategy(surrogate=SMOOTH),
    "SqExp": Strategy(surrogate=SMOOTH | {"ard": False}),
}
NETWORKS = {name: Strategy(name) for name in ("bohamiann-2016", "dngo-2015", GP)}
EIGHT = {name: Strategy(name, workers=8) for name in ("bohamiann-2016", "dngo-2015", "random")}
RELATED = {
    f"{name}{', transfer' * known}": Strategy(name, transfer=known)
    for known in (False, True)
    for name in ("bohamiann-2016", GP)
}
FIGURES = {
    "branin-hoo": Figure(lambda _: {"": function("branin")}, BOTH | UCB | TPE | RANDOM, 50, 100),
    "logistic": Figure(lambda _: {"": logistic()}, IN_TIME | TPE, 100, 10),
    "lda": Figure(lambda tables: {"": table(tables, "lda")}, IN_TIME | TEN | RANDOM, 50, 100),
    "topics": Figure(
        lambda _: {" on the grid": topics(True), " off the grid": topics(False)}, MORE, 50, 5
    ),
    "svm": Figure(
        lambda tables: {"": table(tables, "svm")}, IN_TIME | THREE | SECONDS | RANDOM, 100, 100
    ),
    "covariances": Figure(lambda tables: {"": table(tables, "svm")}, KERNELS, 100, 100),
    "cnn": Figure(lambda _: {"": convolutional()}, IN_TIME | THREE, 50, 5),
    "branin": Figure(lambda _: {"": function("branin")}, NETWORKS, 200, 30, 0.397887),
    "transfer": Figure(lambda _: {"": transferred()}, RELATED, 40, 10),
    "parallel": Figure(lambda _: {"": convolutional()}, EIGHT, 200, 1),
}
