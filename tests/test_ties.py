"""Values that many points share: a tie is no improvement."""

import numpy as np
import pytest

from dngo.acquisition import History
from dngo.acquisition.region_model import RegionModel
from dngo.acquisition.regions import Region
from dngo.space import Space
from dngo.space.parameters import Float

SQUARE = Space({name: Float(type="float", low=0, high=1) for name in ("x", "y")})


def staircase(v):
    """Steps down to a plateau that takes a third of the square, and one step further in a corner."""
    return np.floor(6 * np.maximum(v[:, 0], 0.35)) - 1.0 * (v.min(axis=1) > 0.93)


@pytest.mark.parametrize(
    ("y", "gain"),
    [
        ([1.0, 1.0, 2.0, 2.0, 5.0], 1.0),
        ([0.25, 0.25, 0.5, 0.75, 0.5], 0.25),
        ([1.0, 2.0, 3.5, 4.0, 7.0], 0.0),
        ([3.0, 3.0, 3.0], 0.0),
        ([np.nan, 1.0, 1.0, 3.0], 2.0),
    ],
)
def test_values_that_many_share_are_a_lattice(y, gain) -> None:
    assert History(np.zeros((len(y), 1)), np.array(y)).least_gain == gain


def test_a_quarter_of_ties_leaves_a_depth_to_measure_gains_by() -> None:
    v = np.random.default_rng(0).random((40, 2))
    history = History(v, staircase(v))
    region = Region(int(np.argmin(history.y)), 0.4)
    local = RegionModel.fit(SQUARE, history, region, np.random.default_rng(0), is_first=True)
    assert np.mean(history.y == history.y.min()) > 0.25
    assert local.depth > 0
