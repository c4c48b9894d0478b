"""Every key of every kind at both ends of its range: the fit is useful there, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from test_config_keys import known_to

from dngo.surrogates import Past, TrainingData, fit_model
from dngo.surrogates.constraints import fit_classifier
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

# Short fits; where a key is at its limit, it is there alone.
QUICK: dict[str, Any] = {
    "networks.steps": 300,
    "networks.epochs": 0,
    "burn_in": 300,
    "thin": 5,
    "posterior_samples": 20,
    "chains": 5,
    "hyperparameter_samples": 3,
}
# What stands for a limit that would take minutes, and for one that there is not.
LONG = {
    "hyperparameter_samples": 100,
    "posterior_samples": 100,
    "networks.width": 120,
    "chains": 30,
    "step": 0.03,  # 0.1 diverges, and says so
}
LARGE = {
    "networks.learning_rate": 0.03,  # far more saturates every unit
    "networks.weight_decay": 10.0,
    "networks.minibatch": 10**6,
    "networks.epochs": 400,
    "networks.steps": 2000,
    "burn_in": 1000,
    "thin": 50,
    "relearn_every": 50,
    "gp_limit": 10**6,
}
LEAST = {"step": 0.001}  # less would take minutes
ALSO = {"networks.momentum": {"networks.optimizer": "sgd"}, "step": {"burn_in": 1000}}


def fields(section: Any) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in section.model_fields.items():
        if name == "networks":
            yield from ((f"networks.{key}", inner) for key, inner in fields(field.annotation))
        else:
            yield name, field


def ends(section: Any) -> Iterator[tuple[str, float]]:
    """Each key with a range, with the ends of it."""
    for key, field in fields(section):
        bounds = {type(bound): bound for bound in field.metadata}
        if Ge in bounds or Gt in bounds:
            yield key, LEAST.get(key, bounds[Ge].ge if Ge in bounds else 1e-8)
            if Le in bounds:
                yield key, LONG.get(key, bounds[Le].le)
            else:
                yield key, bounds[Lt].lt - 1e-6 if Lt in bounds else LARGE[key]


# But `own`, which needs an object: tests/test_own_models.py.
KINDS = {kind: c for kind, c in SurrogateSettings.classes.items() if kind != "own"}
# Each end of each key with one kind that has it, and another one each time.
_WITH: dict[tuple[str, float], list[str]] = {}
for _kind, _section in KINDS.items():
    for _end in ends(_section):
        _WITH.setdefault(_end, []).append(_kind)
CASES = [(kinds[i % len(kinds)], *end) for i, (end, kinds) in enumerate(_WITH.items())]


def wave(x: np.ndarray) -> np.ndarray:
    return np.sin(5 * x[:, 0]) + x[:, 1] ** 2


@pytest.mark.full
@pytest.mark.parametrize(("kind", "key", "value"), CASES)
def test_a_fit_at_the_end_of_a_range_is_of_use(kind: str, key: str, value: float) -> None:
    rng = np.random.default_rng
    section = SurrogateSettings.classes[kind]
    given = known_to(section, QUICK | ALSO.get(key, {}) | {key: value})
    x, new = rng(0).random((60, 2)), rng(1).random((200, 2))
    past = Past(3, model=lambda t: (None, {}), stream=rng)
    data = TrainingData(x, wave(x), batch=np.arange(60) // 20)
    model = fit_model(data, SurrogateSettings(kind=kind, **given), rng=rng(3), past=past)
    mean, _ = model.predict(new)
    # A constant misses by one deviation; a network of random features by a third of one here.
    assert np.sqrt(np.mean((mean - wave(new)) ** 2)) < 0.95 * wave(new).std()
    assert np.isfinite(model.log_density(new, wave(new))[0]).all()


@pytest.mark.parametrize(("key", "value"), list(ends(ClassifierSettings)))
def test_a_classifier_at_the_end_of_a_range_is_of_use(key: str, value: float) -> None:
    given = known_to(ClassifierSettings, QUICK | ALSO.get(key, {}) | {key: value})
    x, new = np.random.default_rng(0).random((80, 2)), np.random.default_rng(1).random((300, 2))
    settings, rng = ClassifierSettings(**given), np.random.default_rng(3)
    found = fit_classifier(x, (wave(x) > 0.9).astype(float), settings, rng=rng)
    p = np.where(wave(new) > 0.9, found.probability(new), 1 - found.probability(new))
    # A constant has half of the outcomes on its side.
    assert np.mean(p) > 0.55
