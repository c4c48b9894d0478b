"""How many picks go where, over a whole study: laws of the only module that counts them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dngo.acquisition.allocation import Functions, gains, of_share, one_in, share_of
from dngo.acquisition.history import History
from dngo.rules import current

counts = st.integers(0, 300)


@given(counts, st.lists(counts, min_size=1, max_size=6), st.integers(1, 9), st.floats(0, 1))
def test_batches_of_any_size_count_as_one_batch_of_all(before, sizes, every, share):
    ends = before + np.cumsum([0, *sizes])
    for count in (lambda b, n: one_in(b, n, every), lambda b, n: of_share(b, n, share)):
        each = [count(int(b), n) for b, n in zip(ends, sizes, strict=False)]
        assert sum(each) == count(before, sum(sizes))
        assert all(0 <= found <= n for found, n in zip(each, sizes, strict=True))


@given(counts, counts, st.booleans(), st.booleans())
def test_every_function_is_of_one_model(before, count, lowest, floor):
    each = Functions.of(before, count, lowest=lowest, floor=floor)
    parts = (each.plain, each.wide, each.lowest, each.floor)
    assert sum(parts) == count and min(parts) >= 0
    assert lowest or not each.lowest
    assert floor or not each.floor


def test_none_is_an_every_zeroth():
    assert one_in(7, 100, 0) == 0


def test_digits_count_once_a_search_has_come_to_them():
    """A gain counts from a thousandth of the depth of the low outcomes on, and not of all
    outcomes."""
    far, near = np.linspace(1, 100, 20), 1e-4 * np.linspace(1, 2, 20)
    batch = np.repeat([0, 1, 2], [20, 20, 1])
    for gain, counts_ in ((1e-5, True), (1e-9, False)):
        y = np.r_[far, near, near.min() - gain]
        assert gains(y, batch)[-1] == counts_
    assert not gains(y, batch)[:20].any()  # a design is to gain nothing
    assert gains(y, batch)[20:40].all()  # each is better than all before the batch


def test_a_region_that_gained_nothing_has_half_at_most_within_three_batches():
    rng, size = np.random.default_rng(0), 100
    u, y = rng.random((100, 4)), 10 + rng.random(100)
    y[0], batch, stage = 5.067, np.zeros(100, dtype=int), ["design"] * 100
    for t in range(1, 4):
        history = History(u, y, iteration=batch, stage=np.array(stage))
        share = share_of(history, size, 0.6, "trust_regions")
        own = round(0.95 * size) if t < 3 else round(share * size)
        u, y = np.r_[u, rng.random((size, 4))], np.r_[y, 10 + rng.random(size)]
        batch = np.r_[batch, np.full(size, t)]
        stage += ["trust_regions"] * own + ["draws"] * (size - own)
    assert share < 0.5


def _course(y: np.ndarray, stage: list[str], u: np.ndarray) -> float:
    history = History(u, y, iteration=np.repeat(np.arange(5), 20), stage=np.array(stage))
    return share_of(history, 20, 0.6, "trust_regions")


def test_picks_are_more_where_they_have_paid():
    rng = np.random.default_rng(0)
    near, far = 0.1 + 0.02 * rng.random((50, 2)), 0.9 + 0.02 * rng.random((50, 2))
    u = np.stack([near, far], axis=1).reshape(100, 2)  # by turns
    paying = np.where(np.arange(100) % 2, 1.0, -np.arange(100.0))
    flat = np.r_[-1.0, np.zeros(99)]
    by_turns = ["trust_regions", "draws"] * 50
    assert _course(paying, by_turns, u) > 0.8
    assert _course(flat, by_turns, u) == pytest.approx(0.6, abs=0.05)
    assert _course(paying, [""] * 100, u) == 0.6  # of points that this engine did not pick
    history = History(u, paying, iteration=np.repeat(np.arange(5), 20), stage=np.array(by_turns))
    assert [share_of(history, 20, p, "trust_regions") for p in (0.0, 1.0)] == [0.0, 1.0]
    assert _course(paying, by_turns, u) <= current().regions.most_share


def test_regions_pay_for_picks_that_gained_nothing_wherever_these_lay():
    """Nineteen of twenty picks are theirs, most of them far from the best point, and none is better."""
    u = np.random.default_rng(0).random((100, 2))
    y = np.r_[-1.0, np.zeros(99)]
    stage = ["design"] * 20 + (["trust_regions"] * 19 + ["draws"]) * 4
    assert _course(y, stage, u) < 0.35 < 0.5 < _course(y, [""] * 100, u)
