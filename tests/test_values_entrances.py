"""What is given is archived, to the last bit, through every entrance (`tests/values.py` tries many more)."""

from __future__ import annotations

import os

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from values import ENTRANCES, tried

SPACES = int(os.environ.get("DNGO_VALUES_SPACES", "1"))


@pytest.mark.parametrize("entrance", ENTRANCES)
@settings(max_examples=SPACES, deadline=None, phases=[Phase.reuse, Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_values_given_are_values_archived(entrance: str, seed: int) -> None:
    counts, wrong = tried(seed, rows=12, names=[entrance])
    assert not wrong
    assert counts[entrance] > 0
