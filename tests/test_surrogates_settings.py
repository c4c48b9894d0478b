"""Settings by kind: every key acts or is an error that helps; old archives' settings; added kinds."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import pytest

from dngo.config import validate
from dngo.config.upgrade import of_surrogate as upgrade
from dngo.errors import UserError
from dngo.surrogates.settings import ClassifierSettings, SurrogateSettings

ROOT = Path(__file__).resolve().parents[1]
# But `own`, which needs an object: tests/test_own_models.py.
CLASSES = {kind: c for kind, c in SurrogateSettings.classes.items() if kind != "own"}
KEYS = sorted({key for each in CLASSES.values() for key in each.model_fields} - {"kind"})
NETWORKS = {
    k: c.model_fields["networks"].annotation
    for k, c in CLASSES.items()
    if "networks" in c.model_fields
}
NETWORK_KEYS = sorted({key for each in NETWORKS.values() for key in each.model_fields})
HEAD = {
    "study": "a",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


def mistake(**surrogate) -> str:
    with pytest.raises(UserError) as error:
        validate({**HEAD, "surrogate": surrogate})
    return str(error.value)


@pytest.mark.parametrize("kind", CLASSES)
def test_each_key_is_of_a_kind_or_an_error_that_names_the_kinds_that_have_it(kind: str) -> None:
    for key in KEYS:
        having = [k for k, each in CLASSES.items() if key in each.model_fields]
        if kind in having:
            value = CLASSES[kind].model_fields[key].default
            assert getattr(SurrogateSettings(kind=kind, **{key: value}), key) is not None
        else:
            words = [f"surrogate.{key}: does nothing where kind is {kind}", *having]
            message = mistake(kind=kind, **{key: 1})
            assert all(word in message for word in words)
    for key in NETWORK_KEYS:
        message = mistake(kind=kind, **{key: 1})
        if kind in NETWORKS and key in NETWORKS[kind].model_fields:
            assert f"{key}: belongs to another section: surrogate.networks.{key}" in message
        else:
            assert f"surrogate.{key}: does nothing where kind is {kind}" in message
            assert message.endswith(f", as networks.{key}")
        if kind in NETWORKS and key not in NETWORKS[kind].model_fields:
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
        ({"kind": "gq"}, "did you mean 'gp'"),
        ({"knd": "gp"}, "did you mean 'kind'"),
    ],
)
def test_what_would_do_nothing_is_refused(keys: dict, words: str) -> None:
    assert words in mistake(**keys)


@pytest.mark.parametrize("kind", CLASSES)
def test_resolved_settings_read_back_as_themselves(kind: str) -> None:
    sgd = {"networks": {"optimizer": "sgd"}} if kind in ("auto", "least_squares") else {}
    for settings in (SurrogateSettings(kind=kind), SurrogateSettings(kind=kind, warp=False, **sgd)):
        assert SurrogateSettings(settings.model_dump(mode="json")) == settings


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
