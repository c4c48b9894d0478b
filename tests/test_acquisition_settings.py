"""Every key of every kind of acquisition does something, and no key but these is there."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import cube

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import Model, TargetScale, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

# Where every key has an occasion: constraints, costs, pending points, improvement that vanishes.
BASE = {
    "trust_region_share": 0.3,
    "fantasies": 4,
    "uniform_candidates": 256,
    "local_candidates": 64,
    "refinements": 1,
    "shortlist": 300,
    "spacing": 0.1,
    "vanishing": 0.3,
    "min_feasibility": 0.9,
    "kappa": 2.0,
    "sampler": "tpe",
    "at": 0.1,
    "within": {"x0": 0.1},
}
CHANGED = {
    "per": "duration",
    "trust_region_share": 0.0,
    "fantasies": 90,  # each kind of component has fifty at least
    "noisy_improvement": True,
    "uniform_candidates": 64,
    "local_candidates": 32,
    "incumbents": 2,
    "spacing": 0.0,
    "min_feasibility": 0.0,
    "boundary_every": 1,
    "refinements": 0,
    "ascents": 0,
    "shortlist": 1,
    "when_vanished": "explore",
    "vanishing": 0.0,
    "kappa": 5.0,
    "sampler": "random",
    "replicates": "always",
    "at": 0.3,
    "within": {"x0": 0.1, "x1": 0.1},
}
SPACE = cube(2)
# But `own`, which needs a function: tests/test_own_models.py.
KINDS = {kind: c for kind, c in AcquisitionSettings.classes.items() if kind != "own"}


def _known() -> tuple[History, np.ndarray]:
    v = design(SPACE, 33, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    v, pending = v[:30], v[30:]
    y = ((v - 0.4) ** 2).sum(axis=1) + 0.05 * np.random.default_rng(1).standard_normal(30)
    held = (v.sum(axis=1) < 1.2).astype(float)
    y = np.where(held == 1.0, y, np.nan)
    return History(v, y, pending, constraints={"held": held}), np.log(1.0 + 9.0 * v[:, 0])


@pytest.fixture(scope="module")
def models() -> tuple[Model, Model]:
    """With costs modelled, and without."""
    history, log_cost = _known()
    settings = SurrogateSettings(kind="gp", hyperparameter_samples=2)

    def fitted(cost: np.ndarray | None) -> Model:
        data = TrainingData(
            x=SPACE.encode(history.v), y=history.y, constraints=history.constraints, log_cost=cost
        )
        return fit_model(data, settings, rng=np.random.default_rng(3))

    return fitted(log_cost), fitted(None)


def _numbers(models: tuple[Model, Model], kind: str, **changes) -> list[bytes]:
    keys = {k: v for k, v in BASE.items() if k in KINDS[kind].model_fields} | changes
    settings = AcquisitionSettings(kind=kind, **keys)
    model = models[0] if keys.get("per") else models[1]
    if settings.is_baseline:
        model = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {}, {})
    batch = propose_batch(
        model,
        SPACE,
        _known()[0],
        size=8,
        settings=settings,
        rng=np.random.default_rng(4),
        root=np.random.SeedSequence(0),
    )
    return [batch.v.tobytes(), batch.value.tobytes(), batch.runner_up.tobytes()]


def _tried() -> dict[str, set[str]]:
    """Each key with two of the kinds that have it, and not always the same two."""
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for i, key in enumerate(CHANGED):
        having = [kind for kind, c in KINDS.items() if key in c.model_fields]
        for j in (i, i + 1):
            found[having[j % len(having)]].add(key)
    return found


@pytest.mark.full
@pytest.mark.parametrize(("kind", "keys"), [(k, keys) for k, keys in _tried().items() if keys])
def test_every_key_changes_what_is_proposed(
    models: tuple[Model, Model], kind: str, keys: set[str]
) -> None:
    first = _numbers(models, kind)
    assert _numbers(models, kind) == first
    # Without regions a batch is chosen as published. Where improvement never vanishes, it comes to the end
    # of its shortlist.
    published = {"trust_region_share": 0.0}
    lasting = {**published, "vanishing": 0.0, "spacing": 0.3}
    idle = set(keys)
    for others in ({}, published, lasting):
        others = {k: v for k, v in others.items() if k in KINDS[kind].model_fields}
        before = _numbers(models, kind, **others) if idle and others else first
        idle = {k for k in idle if _numbers(models, kind, **(others | {k: CHANGED[k]})) == before}
    assert not idle


def test_every_key_is_tried() -> None:
    assert {k for c in KINDS.values() for k in c.model_fields} == {"kind", *CHANGED}
