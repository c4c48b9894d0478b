"""That our Sobol sequences are SciPy's, to the bit, and come without its statistics."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy.stats import qmc

from dngo.space.sobol import Sobol


@pytest.mark.parametrize("k", [1, 2, 3, 6, 40, 500])
def test_the_sequence_is_scipys(k: int) -> None:
    for seed in range(5):
        one, other = np.random.default_rng(seed), np.random.default_rng(seed)
        ours, theirs = Sobol(k, one), qmc.Sobol(k, scramble=True, rng=other)
        for draw in (lambda s: s.random_base2(5), lambda s: s.random(32), lambda s: s.random(7)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert np.array_equal(draw(ours), draw(theirs))
        assert one.bit_generator.state == other.bit_generator.state
        assert one.spawn(1)[0].random() == other.spawn(1)[0].random()


def test_a_long_sequence_is_scipys() -> None:
    ours, theirs = (make(3, rng=np.random.default_rng(7)) for make in (Sobol, qmc.Sobol))
    assert np.array_equal(ours.random_base2(16), theirs.random_base2(16))


def test_one_point_is_scipys() -> None:
    ours, theirs = (make(4, rng=np.random.default_rng(7)) for make in (Sobol, qmc.Sobol))
    for _ in range(3):
        assert np.array_equal(ours.random(1), theirs.random(1))


def test_choosing_points_imports_no_statistics_of_scipy() -> None:
    """These cost a job 0.4 CPU seconds."""
    code = (
        "import sys, dngo.derive, dngo.surrogates.model, dngo.acquisition.pipeline; "
        "import dngo.acquisition.stages.trust_regions, dngo.acquisition.stages.front; "
        "print('scipy.stats' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
