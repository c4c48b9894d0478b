"""What the archive keeps of surrogates: the newest model, and the predictions of the others."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from ruamel.yaml import YAML
from test_transfer import configured
from toy import ROOT

import dngo
from dngo import archive
from dngo.audit import audit
from dngo.batch import Outcome, Proposal, write_outcomes
from dngo.cli import main
from dngo.config import validate
from dngo.replay import replay, surrogate
from dngo.scores import expected_constraints, forward_scores
from dngo.storage.digest import digest_parameters
from dngo.study import Study

QUICK = {"networks": {"steps": 30, "epochs": 0}}  # of as many weights as by default


def advance(study: Study, t: int, **more: Any) -> None:
    """One iteration, as Snakemake would; outcomes are made up."""
    folder = study.iteration(t)
    stage = folder / "surrogate.h5" if t else None
    if stage is not None:
        study.fit(t, stage)
    for p in study.propose(t, stage, folder / "proposals.json").proposals:
        write_outcomes(study.paths.outcome_file(p), [outcome_of(p, **more)])
    study.merge(t, folder / "receipt.json")


def outcome_of(p: Proposal, *, hot: bool = False, failing: bool = False) -> Outcome:
    x = p.parameters.get("learning_rate", p.parameters.get("x"))
    units = p.parameters.get("units", 0)
    value = float(np.log(x + 1e-3) ** 2 + 0.01 * units)
    head = (p.iteration, p.slot, digest_parameters(p.parameters))
    if failing or p.slot % 6 == 5:
        return Outcome(*head, "failed", duration=0.5, attempts=1)
    numbers = {"heat": 10.0 * x} if hot else {}
    flags = {"heat": int(10.0 * x <= 8)} if hot else {"budget": int(units < 120)}
    status = "ok" if all(flags.values()) else "infeasible"
    return Outcome(*head, status, value, flags, numbers, duration=1.0 + x, metadata={"epochs": 9})


@pytest.fixture(scope="module")
def default(tmp_path_factory) -> Study:
    """The default study, of a hundred evaluations, with networks that are trained for less long."""
    document = YAML(typ="safe", pure=True).load(ROOT / "config.yaml")
    document["results"] = str(tmp_path_factory.mktemp("default"))
    few = {"uniform_candidates": 64, "local_candidates": 64, "shortlist": 64, "refinements": 0}
    document |= {"surrogate": QUICK, "classifier": QUICK, "acquisition": few}
    study = Study(validate(document))
    for t in range(1 + study.config.iterations):
        advance(study, t)
    return study


@pytest.fixture(scope="module")
def costly(tmp_path_factory) -> Study:
    """A small study with a threshold and a modelled cost."""
    config = configured(
        tmp_path_factory.mktemp("costly"),
        space={"x": {"type": "float", "low": 0, "high": 1}},
        constraints=[{"heat": "<= 8"}],
        acquisition={"per": "duration"},
        surrogate={"kind": "gp", "hyperparameter_samples": 2},
        classifier=QUICK,
        design={"size": 8},
    )
    study = Study(config)
    for t in range(4):
        advance(study, t, hot=True, failing=t == 2)  # a batch without any outcome, too
    return study


def models(path: Path) -> list[int]:
    """The iterations whose models an archive holds."""
    with h5py.File(path) as file:
        return sorted(int(t) for t, g in file["iterations"].items() if "surrogate/model" in g)


def again(study: Study, to: Path, kept: str | None) -> Path:
    """The archive that the same study would have with this setting; None: as in releases without
    the setting."""
    source, chosen = study.archive, to / "archive.h5"
    header = archive.read_header(source)
    assert header is not None
    for t in range(header.iterations):
        batch = archive.read_batch(source, t, study.space)
        outcomes = archive.read_outcomes(source, batch)
        fitted = None
        if t:
            fitted = Path(shutil.copy(study.iteration(t) / "surrogate.h5", to))
            with h5py.File(fitted, "r+") as file:
                del file.attrs["kept"]
                if kept:
                    file.attrs["kept"] = kept
        digest = archive.prefix_digest(chosen, batch.training_iterations) if t else ""
        archive.append(
            chosen,
            identity=header.identity,
            batch=replace(batch, training_digest=digest),
            outcomes=outcomes,
            surrogate=fitted,
        )
    return chosen


# ---- room ---------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_default_study_takes_less_than_a_megabyte(default: Study, tmp_path: Path) -> None:
    assert len(archive.read_table(default.archive)) == 100
    assert default.archive.stat().st_size <= 1_000_000
    newest = default.config.iterations
    assert models(default.archive) == [newest]
    full = again(default, tmp_path, "all")
    assert models(full) == list(range(1, newest + 1))
    assert archive.verify(full) == archive.verify(default.archive) == []


# Points predicted together and one by one differ by rounding: a deviation that is a small part of its
# process's by some 1e-7.
ROUNDING = 1e-6

# ---- what is asked of it ------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", ["default", "costly"])
def test_audits_and_scores_are_those_of_an_archive_with_all_models(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    study = request.getfixturevalue(name)
    full = again(study, tmp_path, None)
    with h5py.File(full) as file:
        assert "foreseen" not in file["iterations/3/surrogate"]
    table = archive.read_table(study.archive)
    for t, slot in list(zip(table.iteration, table.slot, strict=True))[
        :: 9 if name == "default" else 1
    ]:
        found, expected = (audit(path, f"{t}-{slot}") for path in (study.archive, full))
        for data in (found, expected):  # digests are another study's
            for key in ("archive", "digest", "previous", "printed"):
                del data[key]
            del data["proposed"]["training_digest"]
        assert_alike(found, expected)
    some = audit(study.archive, "3-1")
    assert "probability" in next(iter(some["constraints"].values()))
    if name == "costly":
        assert some["proposed"]["cost"]["expected"] > 0
        assert some["constraints"]["heat"]["std"] > 0
    scores = [forward_scores(path, study.config) for path in (study.archive, full)]
    assert len(scores[0]) == len(scores[1]) > 0
    for one, other in zip(*scores, strict=True):
        assert_alike(vars(one), vars(other))
    expected = [expected_constraints(path, table) for path in (study.archive, full)]
    assert expected[0].keys() == expected[1].keys() != set()
    for key, one in expected[0].items():
        np.testing.assert_allclose(one.probability, expected[1][key].probability, rtol=ROUNDING)
        np.testing.assert_allclose(one.std, expected[1][key].std, rtol=ROUNDING)


def assert_alike(found: Any, expected: Any) -> None:
    """The same data, but for the rounding of points that are predicted at once, or each by itself."""
    a, b = flat(found), flat(expected)
    assert a.keys() == b.keys()
    for key, value in a.items():
        if isinstance(value, float):
            np.testing.assert_allclose(value, b[key], rtol=ROUNDING, err_msg=key)
        else:
            assert value == b[key], key


def flat(value: Any, name: str = "") -> dict[str, Any]:
    """Nested data as one level."""
    if isinstance(value, np.ndarray | list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return {name: value}
    return {k: v for key, item in value.items() for k, v in flat(item, f"{name}/{key}").items()}


@pytest.mark.full
def test_it_replays_to_the_same_bits(default: Study, costly: Study, tmp_path: Path) -> None:
    alone = Path(shutil.copy(default.archive, tmp_path / "alone.h5"))
    assert [replay(alone, t).verdict for t in (0, 5)] == ["identical"] * 2
    assert main(["replay", str(costly.archive)]) == 0


def test_an_earlier_model_is_had_from_its_stage_or_fitted_again(
    costly: Study, tmp_path: Path, monkeypatch
) -> None:
    x = np.linspace(0, 1, 50)[:, None]
    with h5py.File(costly.iteration(1) / "surrogate.h5") as file:
        from dngo.surrogates import Model

        wanted = Model.load(file["model"]).predict(x)
    assert archive.read_surrogate(costly.archive, 1)[0] is None
    alone = Path(shutil.copy(costly.archive, tmp_path / "archive.h5"))
    fitted = surrogate(alone, 1)
    assert fitted is not None and np.array_equal(fitted.predict(x), wanted)
    points = [{"x": float(value)} for value in x[:, 0]]
    assert np.array_equal(dngo.open(alone).model(1).predict(points)["mean"], wanted[0])
    # A file of another fit is not taken for it.
    shutil.copytree(costly.folder / "iterations", tmp_path / "iterations")
    shutil.copy(costly.iteration(2) / "surrogate.h5", tmp_path / "iterations/1/surrogate.h5")
    assert np.array_equal(surrogate(alone, 1).predict(x), wanted)
    # With its own there is nothing to fit.
    monkeypatch.setattr("dngo.derive.Basis.fit", None)
    assert np.array_equal(surrogate(costly.archive, 1).predict(x), wanted)
    assert surrogate(alone, 0) is None and surrogate(alone, 3) is not None


@pytest.fixture
def elsewhere(costly: Study, tmp_path: Path) -> Iterator[Path]:
    """An archive whose first surrogate was fitted on a machine that rounds otherwise."""
    stage = costly.iteration(1) / "surrogate.h5"
    shutil.copy(stage, tmp_path / "held.h5")
    with h5py.File(stage, "r+") as file:
        noise = file["model/objective/0/noise"]
        noise[0] = np.nextafter(noise[0], 1.0)
    try:
        yield again(costly, tmp_path, "last")
    finally:
        shutil.copy(tmp_path / "held.h5", stage)


def test_a_surrogate_of_another_machine_is_told_from_the_same(elsewhere: Path) -> None:
    verdict = replay(elsewhere, 1)
    assert verdict.verdict == "within tolerance"
    assert verdict.difference == "the surrogate has another digest than was recorded"
    with pytest.warns(UserWarning, match="the surrogate of iteration 1 has other bits"):
        surrogate(elsewhere, 1)


# ---- nothing is altered unnoticed ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "found"),
    [
        ("model", "iteration 3: its surrogate's model does not have the digest"),
        ("lost", "/iterations/3/surrogate/model: is missing"),
        ("foreseen", "iteration 1 (rows 8 to 9): its values do not have the digest"),
        ("digest", "iteration 1 (rows 8 to 9): its values do not have the digest"),
        ("number", "/iterations/3/surrogate/model/constraints/1/number/constraints: is missing"),
    ],
)
def test_what_was_altered_is_found(costly: Study, tmp_path: Path, what: str, found: str) -> None:
    path = Path(shutil.copy(costly.archive, tmp_path))
    with h5py.File(path, "r+") as file:
        first, last = (file[f"iterations/{t}/surrogate"] for t in (1, 3))
        if what == "model":
            last["model/objective/0/noise"][0] *= 2
        elif what == "lost":
            del last["model"]
        elif what == "number":
            del last["model/constraints/1/number/constraints"]
        elif what == "foreseen":
            first["foreseen"][0, 0] += 1e-9
        else:
            first.attrs["model_digest"] = "0" * 64
    assert any(line.startswith(found) for line in archive.verify(path))


@pytest.mark.full
def test_what_was_paid_for_is_there_whatever_is_kept(default: Study) -> None:
    found = archive.read_batch(default.archive, 4, default.space)
    assert repr(found.proposals) == repr(default.batch(4).proposals)
    made_up = [outcome_of(p) for p in found.proposals]
    assert repr(archive.read_outcomes(default.archive, found)) == repr(made_up)
    with h5py.File(default.archive) as file:
        recorded = dict(file["iterations/4/surrogate"].attrs)
    assert {"settings", "versions", "environment", "summary", "seconds"} <= recorded.keys()
