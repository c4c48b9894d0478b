"""People's priors: a density on each parameter's scale, which counts less with every evaluation."""

from __future__ import annotations

import numpy as np
import pytest

from dngo import derive
from dngo.acquisition.belief import BETA, log_weight, power
from dngo.config import validate
from dngo.space import Space
from dngo.space.parameters import Boolean, Categorical, Float, Int, Ordinal, Prior
from dngo.space.priors import FLOOR, drawn, log_prior, peak

MIXED = {
    "rate": Float(type="float", low=1e-4, high=1, log=True, prior=Prior(value=1e-3, width=0.05)),
    "depth": Int(type="int", low=1, high=9, prior=Prior(value=7, width=0.2)),
    "kind": Categorical(
        type="categorical", choices=["a", "b", "c"], prior=Prior(value="b", width=0.2)
    ),
    "deep": Boolean(type="boolean", prior=Prior(value=True, width=0.3)),
    "size": Ordinal(type="ordinal", values=["s", "m", "l"], prior=Prior(value="l", width=0.5)),
    "free": Float(type="float", low=0, high=1),
}


def test_points_drawn_are_distributed_as_the_prior_is() -> None:
    space = Space(dict(MIXED))
    v = drawn(space, np.random.default_rng(0).random((4000, space.k)))
    points = space.to_parameters(v)
    logs = np.log10([p["rate"] for p in points])
    assert (
        abs(np.mean(logs) + 3) < 0.02
    )  # of the four decades a twentieth, on the logarithmic scale
    assert abs(np.std(logs) - 0.2) < 0.02
    assert abs(np.mean([p["kind"] == "b" for p in points]) - 0.8) < 0.03
    assert abs(np.mean([p["deep"] for p in points]) - 0.7) < 0.03
    assert abs(np.mean([p["free"] for p in points]) - 0.5) < 0.02
    # Where points are drawn the density is high, and nowhere higher than at its peak.
    top = peak(space)
    (best,) = space.to_parameters(top)
    assert {n: best[n] for n in ("depth", "kind", "deep", "size")} == {
        "depth": 7, "kind": "b", "deep": True, "size": "l"
    }  # fmt: skip
    assert best["rate"] == pytest.approx(1e-3)
    assert log_prior(space, top) == pytest.approx(0.0)
    everywhere = log_prior(space, space.sample(np.random.default_rng(1).random((4000, space.k))))
    assert everywhere.max() <= 1e-12 and everywhere.min() >= np.log(FLOOR)
    assert log_prior(space, v).mean() > everywhere.mean() + 1


def test_what_is_believed_fades() -> None:
    space = Space(dict(MIXED))
    v = space.sample(np.random.default_rng(0).random((32, space.k)))
    assert power(1) == power(int(BETA)) == 1.0
    weights = [log_weight(space, v, n) for n in (10, 100, 1000)]
    np.testing.assert_allclose(weights[0], log_prior(space, v))
    np.testing.assert_allclose(weights[2], weights[0] / 100)
    assert np.exp(weights[2]).min() > 0.95


def test_half_of_a_design_is_drawn_from_it_and_it_is_no_part_of_what_a_study_is() -> None:
    document = {
        "study": "s",
        "objective": {"command": "true"},
        "space": {n: p.model_dump(exclude_none=True) for n, p in MIXED.items()},
        "design": {"size": 17},
    }
    config = validate(document)
    proposals = derive.design(config)
    sources = [p.source for p in proposals]
    assert sources == ["default"] + ["design:prior"] * 8 + ["design:sobol"] * 8
    space = config.search_space
    believed = log_prior(space, space.from_parameters([p.parameters for p in proposals]))
    assert believed[1] == pytest.approx(0.0)  # what is believed in most
    assert believed[2:9].mean() > believed[9:].mean()
    assert derive.design(config) == proposals
    plain = {n: {k: v for k, v in p.items() if k != "prior"} for n, p in document["space"].items()}
    without = validate({**document, "space": plain})
    assert without.identity() == config.identity()
    assert {p.source for p in derive.design(without)} == {"default", "design:sobol"}
