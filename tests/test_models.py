"""Which models proposed a batch: what the archive says of it, in status, audit and report."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import pytest
from fuzzing.archive import rechain

from dngo.report.data import View
from dngo.report.figures.points import models
from dngo.report.live import status
from dngo.report.models import LOCAL, NETWORKS, NONE, PROCESS, by_batch, models_of, parts_of
from dngo.report.text import format_status
from dngo.study import Study


def test_shares_are_those_of_the_picks_and_of_the_mixture() -> None:
    sources = ["local:thompson"] * 4 + ["local:step"] + ["thompson"] * 4 + ["api"]
    found = models_of(sources, {PROCESS: 0.75, NETWORKS: 0.25})
    assert found == pytest.approx({LOCAL: 0.4, PROCESS: 0.3, NONE: 0.2, NETWORKS: 0.1})
    assert list(found) == [LOCAL, PROCESS, NONE, NETWORKS]
    assert sum(found.values()) == pytest.approx(1)
    assert models_of(["design:sobol", "default"], {}) == {NONE: 1.0}


@pytest.mark.parametrize(
    ("summary", "kind", "parts"),
    [
        ({"gp_share": 1.0, "gp_log_noise": 0.0}, "auto", {PROCESS: 1.0}),
        ({"error: gp_share": 0.5, "cost: gp_share": 1.0}, "auto", {PROCESS: 0.75, NETWORKS: 0.25}),
        ({"gp_log_noise": 0.0}, "auto", {PROCESS: 1.0}),
        ({"observations": 3}, "adaptive_basis", {NETWORKS: 1.0}),
        ({"observations": 3}, "somebody_elses", {"somebody_elses": 1.0}),
        ({}, "auto", {}),
    ],
)
def test_parts_of_a_surrogate(summary, kind: str, parts) -> None:
    assert parts_of(summary, {"surrogate": {"kind": kind}}) == parts


def test_a_study_says_what_proposed_its_batches(small: Study) -> None:
    path, merged = small.paths.archive, small.merged()
    shares = by_batch(path, range(merged))
    assert shares[0] == {NONE: 1.0}
    assert all(sum(found.values()) == pytest.approx(1) for found in shares)
    data = status(small)
    assert data["models"] == shares[-1]
    assert "Models       " in format_status(data)


def test_the_report_draws_the_shares_of_each_batch(small: Study, tmp_path: Path) -> None:
    path = tmp_path / "archive.h5"
    shutil.copy(small.paths.archive, path)
    view = replace(View.of(path), path=path)
    assert models(view) is None  # no model was asked
    with h5py.File(path, "r+") as file:
        sources, first = file["proposals/source"], int(file["iterations/1"].attrs["first_row"])
        sources[first : first + 5] = ["local:thompson"] * 5
        rechain(file)
    figure = models(view)
    assert figure is not None
    bars = {bar.name: bar.y[0] for bar in figure.plot.data}
    assert bars == {LOCAL: pytest.approx(0.25), NONE: pytest.approx(0.75)}
