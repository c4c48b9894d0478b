"""Settings of surrogates by kind: each key acts, up to the ends of its range, or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from test_config_keys import known_to

from dngo.config import validate
from dngo.config.upgrade import of_surrogate as upgrade
from dngo.errors import UserError
from dngo.surrogates import Past, TrainingData, fit_model
from dngo.surrogates.constraints import fit_classifier
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

# ---- both ends of every range: the fit is useful there, or refused

# Short fits; where a key is at its limit, it is there alone.
LIMITS_QUICK: dict[str, Any] = {
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
    given = known_to(section, LIMITS_QUICK | ALSO.get(key, {}) | {key: value})
    x, new = rng(0).random((60, 2)), rng(1).random((200, 2))
    past = Past(3, model=lambda t: (None, {}), stream=rng)
    data = TrainingData(x, wave(x), batch=np.arange(60) // 20)
    model = fit_model(data, SurrogateSettings(kind=kind, **given), rng=rng(3), past=past)
    mean, _ = model.predict(new)
    # A constant misses by one deviation; a network of random features by a third of one here.
    assert np.sqrt(np.mean((mean - wave(new)) ** 2)) < 0.95 * wave(new).std()
    assert np.isfinite(model.log_density(new, wave(new))[0]).all()


@pytest.mark.full
@pytest.mark.parametrize(("key", "value"), list(ends(ClassifierSettings)))
def test_a_classifier_at_the_end_of_a_range_is_of_use(key: str, value: float) -> None:
    given = known_to(ClassifierSettings, LIMITS_QUICK | ALSO.get(key, {}) | {key: value})
    x, new = np.random.default_rng(0).random((80, 2)), np.random.default_rng(1).random((300, 2))
    settings, rng = ClassifierSettings(**given), np.random.default_rng(3)
    found = fit_classifier(x, (wave(x) > 0.9).astype(float), settings, rng=rng)
    p = np.where(wave(new) > 0.9, found.probability(new), 1 - found.probability(new))
    # A constant has half of the outcomes on its side.
    assert np.mean(p) > 0.55


# ---- every key acts or is an error that helps; settings of old archives

ROOT = Path(__file__).resolve().parents[1]
KEYS_NETWORKS = {
    k: c.model_fields["networks"].annotation
    for k, c in KINDS.items()
    if "networks" in c.model_fields
}
NETWORK_KEYS = sorted({key for each in KEYS_NETWORKS.values() for key in each.model_fields})
HEAD = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


def mistake(**surrogate) -> str:
    with pytest.raises(UserError) as error:
        validate({**HEAD, "surrogate": surrogate})
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_is_of_a_kind_or_an_error_that_names_the_kinds_that_have_it(kind: str) -> None:
    for key in NETWORK_KEYS:
        message = mistake(kind=kind, **{key: 1})
        if kind in KEYS_NETWORKS and key in KEYS_NETWORKS[kind].model_fields:
            assert f"{key}: belongs to another section: surrogate.networks.{key}" in message
        else:
            assert f"surrogate.{key}: does nothing where kind is {kind}" in message
            assert message.endswith(f", as networks.{key}")
        if kind in KEYS_NETWORKS and key not in KEYS_NETWORKS[kind].model_fields:
            words = f"surrogate.networks.{key}: does nothing where kind is {kind}; it is for kind"
            assert words in mistake(kind=kind, networks={key: 1})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"networks": {"momentum": 0.5}},
            "surrogate.networks: momentum acts only with optimizer: sgd",
        ),
        (
            {"warp": False, "highest_power": 1.5},
            "surrogate: highest_power acts only with warp: true",
        ),
        ({"calibration": "in_sample"}, "it is for kind adaptive_basis"),
        ({"kind": "adaptive_basis", "prior_mean": "quadratic"}, "in_sample"),
        ({"kind": "adaptive_basis", "equations": "preprint"}, "needs calibration: in_sample"),
        ({"kind": "gq"}, "did you mean 'gp'"),
        ({"knd": "gp"}, "did you mean 'kind'"),
    ],
)
def test_what_would_do_nothing_is_refused(keys: dict, words: str) -> None:
    assert words in mistake(**keys)


@pytest.mark.parametrize("kind", KINDS)
def test_resolved_settings_read_back_as_themselves(kind: str) -> None:
    sgd = {"networks": {"optimizer": "sgd"}} if kind in ("auto", "least_squares") else {}
    for each in (SurrogateSettings(kind=kind), SurrogateSettings(kind=kind, warp=False, **sgd)):
        assert SurrogateSettings(each.model_dump(mode="json")) == each


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/data/archives/v1-*.h5")), ids=str)
def test_settings_of_archives_of_version_1_mean_what_they_did(path: Path) -> None:
    with h5py.File(path) as file:
        groups = [g["surrogate"] for g in file["iterations"].values() if "surrogate" in g]
        flat = json.loads(groups[-1].attrs["settings"])
    surrogate, classifier = upgrade(flat)
    settings, classes = SurrogateSettings(surrogate), ClassifierSettings(**classifier)
    assert settings.kind == flat["kind"]
    networks = classes.networks
    assert (networks.ensemble, networks.width) == (flat["networks"], flat["width"])
    for name in type(settings).model_fields:
        if name in flat and name != "networks":  # others came later
            assert getattr(settings, name) == flat[name]
