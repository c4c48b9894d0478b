"""What a batch does not depend on: the objective's unit and zero, and the order of the rows."""

from __future__ import annotations

import numpy as np
import pytest
from spaces import cube

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(4)
V = design(SPACE, 40, rng=np.random.default_rng(0), exclude=np.empty((0, 4)))
Y = np.cos(7.0 * V).sum(axis=1) + ((V - 0.4) ** 2) @ np.array([1.0, 3.0, 9.0, 27.0])
SURROGATE = SurrogateSettings(kind="gp", hyperparameter_samples=3)


def picks(v: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Twenty, of every stage: (20, 4)."""
    data = TrainingData(x=SPACE.encode(v), y=y, constraints={"completed": np.ones(len(y))})
    model = fit_model(data, SURROGATE, rng=np.random.default_rng(1))
    return propose_batch(
        model,
        SPACE,
        History(v, y, iteration=np.zeros(len(y), dtype=int)),
        size=20,
        settings=AcquisitionSettings(),
        rng=np.random.default_rng(2),
    ).v


# A factor of 4 changes no bit of the targets' ratios. The others change their last, and the steps of
# a fit whose noise may be e^-20 make 1e-16 to 1e-5; the last example leaves eleven digits of what
# differs, and along the floor of a valley a minimum moves by more.
@pytest.mark.parametrize(
    ("scale", "shift", "moved"),
    [(4.0, 0.0, 1e-9), (3.7, -11.0, 1e-4), (1e6, 1e3, 1e-4), (1e-5, 2.0, 1e-3)],
)
def test_affine_changes_of_the_objective_change_no_pick(
    scale: float, shift: float, moved: float
) -> None:
    np.testing.assert_allclose(picks(V, scale * Y + shift), picks(V, Y), rtol=0, atol=moved)


def test_the_order_of_the_rows_of_a_batch_changes_no_pick_beyond_chance() -> None:
    """The fit and regions then take other random rows, so the picks may lie slightly elsewhere."""
    order = np.random.default_rng(5).permutation(len(V))
    found, expected = picks(V[order], Y[order]), picks(V, Y)
    gap = np.sqrt(((found[:, None] - expected) ** 2).mean(axis=-1)).min(axis=1)
    assert np.median(gap) < 1e-5 and gap.max() < 0.05


def test_the_objective_changes_picks() -> None:
    assert np.abs(picks(V, Y**3) - picks(V, Y)).max() > 0.01
