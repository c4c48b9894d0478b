"""No key is without effect: each one of a kind is read when that kind is used, or is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from proposing import QUICK_CLASSIFIER, SMALL, model_of
from pydantic import BaseModel
from spaces import cube

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings, Modelled
from dngo.config import validate
from dngo.config.messages import sections
from dngo.errors import UserError
from dngo.surrogates import Past, TrainingData, fit_model
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

SPACE = cube(2)
HEAD = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}
FEW = {"layers": 1, "width": 4, "steps": 3, "epochs": 0, "optimizer": "sgd", "ensemble": 2}
FITS: dict[str, dict[str, Any]] = {
    "auto": {"gp_limit": 5, "inducing": 4, "hyperparameter_samples": 2},
    "adaptive_basis": {"calibration": "in_sample", "hyperparameter_samples": 2},
    "gp": {"hyperparameter_samples": 2},
    "bohamiann": {"posterior_samples": 2, "chains": 1, "burn_in": 5, "thin": 1},
    "least_squares": {"relearn_every": 2},
}
MODELLED = [k for k, c in AcquisitionSettings.classes.items() if issubclass(c, Modelled)]
QUICK_SEARCH = SMALL.model_dump(include={"uniform_candidates", "local_candidates", "fantasies"})


def every_key(section: type[BaseModel]) -> set[tuple[str, str]]:
    """The keys of a section and of those inside it, each with the name of its class."""
    found = {(section.__name__, name) for name in section.model_fields if name != "kind"}
    for field in section.model_fields.values():
        for inner in sections(field.annotation):
            found |= every_key(inner)
    return found


@contextmanager
def reading(settings: BaseModel, monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The keys of a section's objects that are read meanwhile."""
    seen: set[tuple[str, str]] = set()

    def spy(self: BaseModel, name: str) -> Any:
        seen.add((type(self).__name__, name))
        return object.__getattribute__(self, name)

    def classes(section: type[BaseModel]) -> set[type[BaseModel]]:
        fields = section.model_fields.values()
        inner = {c for f in fields for m in sections(f.annotation) for c in classes(m)}
        return {section} | inner

    with monkeypatch.context() as patch:
        for section in classes(type(settings)):
            patch.setattr(section, "__getattribute__", spy, raising=False)
        yield seen


def data(n: int = 30) -> TrainingData:
    x = np.random.default_rng(0).random((n, 2))
    y = np.where(x[:, 0] > 0.8, np.nan, x.sum(axis=1) ** 2)
    return TrainingData(
        x=x,
        y=y,
        constraints={"completed": np.isfinite(y).astype(float)},
        log_cost=x[:, 0],
        batch=np.arange(n) // 10,
    )


@pytest.mark.parametrize("kind", SurrogateSettings.classes)
def test_every_key_of_a_surrogate_is_read_when_it_is_fitted(kind: str, monkeypatch) -> None:
    given = dict(FITS[kind])
    networks = SurrogateSettings.classes[kind].model_fields.get("networks")
    if networks is not None:
        known = networks.annotation.model_fields
        given["networks"] = {k: v for k, v in FEW.items() if k in known}
    settings = SurrogateSettings(kind=kind, **given)
    rng = np.random.default_rng
    past = Past(2, model=lambda t: (None, {}), stream=rng)
    with reading(settings, monkeypatch) as seen:
        fit_model(data(), settings, QUICK_CLASSIFIER, rng=rng(0), past=past)
    assert every_key(type(settings)) <= seen


def test_every_key_of_the_classifier_is_read_when_it_is_fitted(monkeypatch) -> None:
    settings = ClassifierSettings(networks=FEW)
    gp = SurrogateSettings(kind="gp", **FITS["gp"])
    with reading(settings, monkeypatch) as seen:
        fit_model(data(), gp, settings, rng=np.random.default_rng(0))
    assert every_key(ClassifierSettings) <= seen


@pytest.mark.parametrize("kind", MODELLED)
def test_every_key_of_an_acquisition_is_read_when_it_proposes(kind: str, monkeypatch) -> None:
    v = np.random.default_rng(0).random((12, 2))
    y = np.where(v[:, 0] > 0.8, np.nan, v.sum(axis=1) ** 2)
    model, history = model_of(SPACE, v, y), History(v=v, y=y)
    settings = AcquisitionSettings(kind=kind, per="duration", **QUICK_SEARCH)
    with reading(settings, monkeypatch) as seen:
        propose_batch(
            model, SPACE, history, size=4, settings=settings, rng=np.random.default_rng(0)
        )
    assert every_key(type(settings)) - {(type(settings).__name__, "per")} <= seen


@pytest.mark.parametrize(
    ("section", "kind", "classes"),
    [
        (section, kind, kinds.classes)
        for section, kinds in (
            ("surrogate", SurrogateSettings),
            ("acquisition", AcquisitionSettings),
        )
        for kind in kinds.classes
    ],
)
def test_a_key_of_other_kinds_is_refused_and_they_are_named(
    section: str, kind: str, classes: dict[str, type[BaseModel]]
) -> None:
    for key in {k for c in classes.values() for k in c.model_fields}:
        having = {k for k, c in classes.items() if key in c.model_fields}
        if kind in having:
            default = json.loads(classes[kind]().model_dump_json())[key]
            assert getattr(validate({**HEAD, section: {"kind": kind, key: default}}), section)
            continue
        with pytest.raises(UserError) as error:
            validate({**HEAD, section: {"kind": kind, key: 1}})
        message = str(error.value)
        assert f"{section}.{key}: does nothing where kind is {kind}; it is for kind" in message
        assert having <= set(message.rpartition("it is for kind ")[2].replace(",", "").split())
