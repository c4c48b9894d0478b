"""What is learnt slowly serves several fits, and is a function of the observations that taught it."""

from __future__ import annotations

import numpy as np
import pytest

from dngo.surrogates import TrainingData, fit_model, lessons, mixture
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.lessons import taught
from dngo.surrogates.settings import SurrogateSettings

SETTINGS = SurrogateSettings(networks={"epochs": 20, "steps": 20})


def function(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.sin(6 * x[:, 0]) * x[:, 1])


def data(n: int, batches: np.ndarray | None = None) -> TrainingData:
    """The first n of the same points, 40 of them in the design and the others one by one."""
    x = np.random.default_rng(0).random((100, 2))[:n]
    batch = np.maximum(np.arange(n) - 39, 0) if batches is None else batches
    return TrainingData(x=x, y=function(x), batch=batch)


def components(found) -> tuple[list, GaussianProcess | None]:
    processes = [c for c in found.objective if isinstance(c, GaussianProcess)]
    return [c for c in found.objective if c not in processes], processes[0] if processes else None


def test_a_tenth_more_observations_teach_anew() -> None:
    one_by_one = np.r_[np.zeros(40, int), np.arange(1, 11)]
    assert [int(taught(one_by_one[:n]).sum()) for n in (40, 43, 44, 48, 49, 50)] == [
        40,
        40,
        44,
        44,
        49,
        49,
    ]
    # A batch of a tenth teaches, and all of it does.
    assert taught(np.repeat([0, 1, 2], [40, 4, 8])).all()
    # The design alone teaches, and nothing of other batches.
    assert taught(np.zeros(5, int)).all()
    assert len(taught(np.empty(0, int))) == 0


def test_what_was_learnt_serves_until_then_and_the_posterior_knows_every_observation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        mixture, "NEGLIGIBLE", 0.0
    )  # both members are kept, however little one weighs
    rng = np.random.default_rng(1)
    before, after = (fit_model(data(n), SETTINGS, rng=rng) for n in (40, 43))
    anew = fit_model(data(44), SETTINGS, rng=rng)
    (bases, old), (same, new), (others, other) = (components(f) for f in (before, after, anew))
    for one, again, fresh in zip(bases, same, others, strict=True):
        assert np.array_equal(one.basis(x := data(9).x), again.basis(x))
        assert one.basis(x).shape != fresh.basis(x).shape or not np.array_equal(
            one.basis(x), fresh.basis(x)
        )
    assert np.array_equal(old.log_lengthscales, new.log_lengthscales)
    assert before.scale.power == after.scale.power and before.scale.centre == after.scale.centre
    assert not np.array_equal(new.log_lengthscales, other.log_lengthscales)
    assert (len(old.x), len(new.x), len(other.x)) == (40, 43, 44)
    added, truth = data(43).x[40:], after.scale.to_model(data(43).y[40:])
    earlier, later = (p.latent(p.features(added)) for p in (old, new))
    assert (later[1] < earlier[1]).all()
    assert (
        np.abs(later[0].mean(axis=0) - truth).max() < np.abs(earlier[0].mean(axis=0) - truth).max()
    )


def test_a_process_without_memory_learns_the_same() -> None:
    x = np.random.default_rng(3).random((20, 2))
    fit_model(data(40), SETTINGS, rng=np.random.default_rng(5))
    found = []
    for forget in (False, True):
        if forget:
            lessons._KEPT.clear()
        model = fit_model(data(42), SETTINGS, rng=np.random.default_rng(7))
        found.append(np.stack(model.predict(x)))
    assert np.array_equal(*found)


def test_beyond_the_limit_every_fit_learns_anew() -> None:
    limited = SETTINGS.model_copy(update={"gp_limit": 41})
    for n, taught_by in ((41, 40), (42, None)):
        model = fit_model(data(n), limited, rng=np.random.default_rng(0))
        assert model.diagnostics.get("taught") == taught_by


@pytest.mark.parametrize("depth", [0.0, 10.0])
def test_a_surprise_teaches_anew(depth: float) -> None:
    first, rng = data(40), np.random.default_rng(0)
    new = [[0.5, 0.5], [0.1, 0.9]]
    low = function(np.array(new)) - [depth * np.ptp(first.y), 0.0]
    x, y = np.concatenate([first.x, new]), np.r_[first.y, low]
    before, after = (
        fit_model(
            TrainingData(x=x[:n], y=y[:n], batch=np.r_[np.zeros(40, int), 1, 2][:n]),
            SETTINGS,
            rng=rng,
        )
        for n in (40, 42)
    )
    # The surprise and all before it teach; the row after it comes as expected.
    assert (before.diagnostics["taught"], after.diagnostics["taught"]) == (40, 41 if depth else 40)
    assert after.scale.lowest <= y.min()
