"""No key is without effect: each key of a kind changes the fit, or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from proposing import QUICK_CLASSIFIER
from pydantic import BaseModel
from spaces import cube

from dngo.acquisition.settings import AcquisitionSettings
from dngo.config import validate
from dngo.errors import UserError
from dngo.surrogates import Past, TrainingData, fit_model
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

SPACE = cube(2)
HEAD = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}
SECTIONS: dict[str, Any] = {"surrogate": SurrogateSettings, "acquisition": AcquisitionSettings}
EXACT = SurrogateSettings.classes["gp"]
# Small fits, of keys as `keys_of` names them; each kind takes those that it has.
QUICK: dict[str, Any] = {
    "warp": False,
    "hyperparameter_samples": 2,
    "posterior_samples": 2,
    "chains": 1,
    "burn_in": 5,
    "thin": 1,
    "networks.layers": 1,
    "networks.width": 4,
    "networks.steps": 3,
    "networks.epochs": 0,
    "networks.ensemble": 2,
}
WARPED = {"warp": True}
# Another value of every key, and with what else it acts.
OTHERS: dict[str, tuple[Any, ...]] = {
    "warp": (True,),
    "highest_power": (1.0, WARPED),
    "kernel": ("matern32",),
    "ard": (False,),
    "hyperparameter_samples": (3,),
    "gp_limit": (5,),
    "inducing": (4, {"gp_limit": 5}),
    "training": ("evidence",),
    "calibration": ("in_sample",),
    "prior_mean": ("quadratic", {"calibration": "in_sample"}),
    "equations": ("preprint", {"calibration": "in_sample"}),
    "learn_infeasible": (False,),
    "posterior_samples": (3,),
    "chains": (2,),
    "burn_in": (6,),
    "thin": (2,),
    "adapt": (False,),
    "step": (0.005,),
    "heteroscedastic": (True,),
    "relearn_every": (2,),
    "likelihood": ("step",),
    "networks.layers": (2,),
    "networks.width": (5,),
    "networks.minibatch": (4,),
    "networks.device": ("cuda",),  # where there is no GPU, that is an error
    "networks.activation": ("relu",),
    "networks.optimizer": ("sgd",),
    "networks.momentum": (0.5, {"networks.optimizer": "sgd"}),
    "networks.learning_rate": (0.02,),
    "networks.weight_decay": (0.3,),
    "networks.steps": (4,),
    "networks.epochs": (9,),
    "networks.ensemble": (3,),
}
# Kinds that need a key: tests/test_own_models.py, test_acquisition_learning.py, test_acquisition_robust.py.
NEEDY = ("own", "level_set", "robust")


def keys_of(section: type[BaseModel]) -> Iterator[str]:
    """The keys of a section but its kind, those of its networks as `networks.KEY`."""
    for name, field in section.model_fields.items():
        if name == "networks":
            yield from (f"networks.{key}" for key in field.annotation.model_fields)
        elif name != "kind":
            yield name


def known_to(section: type[BaseModel], given: dict[str, Any]) -> dict[str, Any]:
    """What of `given`, as `keys_of` names keys, a section has, as a document of it."""
    document: dict[str, Any] = {}
    for key in set(keys_of(section)) & given.keys():
        place, _, name = key.rpartition(".")
        (document.setdefault(place, {}) if place else document)[name] = given[key]
    return document


@cache
def fitted(kind: str, changes: tuple[tuple[str, Any], ...]) -> tuple[Any, ...]:
    """What a quick fit believes and says of itself, or why it is refused; `classifier` is one, too."""
    given = QUICK | dict(changes)
    surrogate, classifier = SurrogateSettings(kind="gp", **known_to(EXACT, QUICK)), QUICK_CLASSIFIER
    if kind == "classifier":
        classifier = ClassifierSettings(**known_to(ClassifierSettings, given))
    else:
        surrogate = SurrogateSettings(kind=kind, **known_to(SurrogateSettings.classes[kind], given))
    rng = np.random.default_rng
    past = Past(2, model=lambda t: (None, {}), stream=rng)
    x = rng(0).random((30, 2))
    y = -1 / (0.05 + np.sum((x - 0.5) ** 2, axis=1))  # a narrow hole
    told = TrainingData(x, y, batch=np.arange(30) // 10, feasible=x[:, 0] < 0.7)
    if kind == "classifier":
        told = TrainingData(x, np.full(30, np.nan), {"small": (y > -5).astype(float)})
    try:
        model = fit_model(told, surrogate, classifier, rng=rng(0), past=past)
    except UserError as error:
        return (str(error),)
    x = rng(1).random((7, 2))
    found = [*model.predict(x), model.feasibility(x)]
    return (*(part.tobytes() for part in found), repr(model.summary()))


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (kind, key)
        for kind, section in {**SurrogateSettings.classes, "classifier": ClassifierSettings}.items()
        for key in keys_of(section)
        if kind not in NEEDY
    ],
)
def test_every_key_changes_what_is_fitted(kind: str, key: str) -> None:
    value, *where = OTHERS[key]
    context = dict(where[0]) if where else {}
    before = fitted(kind, tuple(sorted(context.items())))
    assert fitted(kind, tuple(sorted({**context, key: value}.items()))) != before


@pytest.mark.parametrize(
    ("section", "kind"),
    [
        (section, kind)
        for section, kinds in SECTIONS.items()
        for kind in kinds.classes
        if kind not in NEEDY
    ],
)
def test_a_key_of_other_kinds_is_refused_and_they_are_named(section: str, kind: str) -> None:
    classes, head = SECTIONS[section].classes, HEAD
    if getattr(classes[kind], "needs_fidelity", False):
        space = {**HEAD["space"], "epochs": {"type": "int", "low": 1, "high": 9}}
        head = {**HEAD, "space": space, "fidelity": {"parameter": "epochs"}}
    for key in {k for c in classes.values() for k in c.model_fields}:
        having = {k for k, c in classes.items() if key in c.model_fields}
        if kind in having:
            default = json.loads(classes[kind]().model_dump_json())[key]
            assert getattr(validate({**head, section: {"kind": kind, key: default}}), section)
            continue
        with pytest.raises(UserError) as error:
            validate({**HEAD, section: {"kind": kind, key: 1}})
        said, _, named = str(error.value).rpartition("it is for kind ")
        assert f"{section}.{key}: does nothing where kind is {kind}; " in said
        assert having <= set(named.replace(",", "").split())
