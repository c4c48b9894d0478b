"""Learning from earlier studies: what is taken, what is refused, and that the archive alone replays
it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import dngo
from dngo import archive, inward
from dngo.archive import transfer
from dngo.batch import Batch, Outcome, Proposal, write_outcomes
from dngo.cli import main
from dngo.config import Config, validate
from dngo.errors import UserError
from dngo.exchange.fork import fork
from dngo.replay import replay
from dngo.report import regret, status, summary
from dngo.storage.digest import digest_parameters
from dngo.study import Study

SPACE: dict[str, Any] = {
    "x": {"type": "float", "low": 0, "high": 1},
    "rate": {"type": "float", "low": 0.01, "high": 100, "log": True},
    "c": {"type": "categorical", "choices": ["p", "q"]},
}
NETWORKS = {"ensemble": 2, "width": 8, "steps": 30}
FEW = {"chains": 2, "posterior_samples": 4, "burn_in": 40, "thin": 5}
QUICK = {
    "gp": {"kind": "gp", "hyperparameter_samples": 2},
    "bohamiann": {"kind": "bohamiann", "networks": {"width": 8}, **FEW},
    "auto": {"kind": "auto", "networks": NETWORKS, "hyperparameter_samples": 2},
    "adaptive_basis": {"kind": "adaptive_basis", "networks": NETWORKS},
}


def configured(folder: Path, study: str = "new", **more: Any) -> Config:
    document = {
        "study": study,
        "results": str(folder / "results"),
        "objective": {"command": "run"},
        "space": SPACE,
        "design": {"size": 3},
        "batch_size": 2,
        "classifier": {"networks": NETWORKS},
        **more,
    }
    return validate(document)


def worth(p: dict[str, Any]) -> float:
    return (p["x"] - 0.3) ** 2 + 0.1 * np.log10(p.get("rate", 1)) ** 2 + (p.get("c") == "q")


def outcome(p: Proposal, sign: float = 1.0) -> Outcome:
    status = "failed" if p.slot % 5 == 4 else "ok"
    return Outcome(
        p.iteration,
        p.slot,
        digest_parameters(p.parameters),
        status,
        objective=sign * worth(p.parameters) if status == "ok" else np.nan,
        duration=1.0,
    )


def earlier(
    folder: Path, study: str = "old", n: int = 20, seed: int = 0, said: Any = outcome, **more: Any
) -> Path:
    """The archive of a study that ended."""
    config = configured(folder, study, **more)
    space, rng = config.search_space, np.random.default_rng(seed)
    points = space.to_parameters(space.sample(rng.random((n, space.k))))
    proposals = [Proposal(0, i, p, "design:sobol") for i, p in enumerate(points)]
    document = json.loads(config.resolved())
    batch = Batch(0, document, 1, 0, [0, 0], 0, "", [], {}, proposals)
    sign = 1.0 if config.objective.direction == "minimize" else -1.0
    path = folder / f"{study}.h5"
    archive.append(
        path,
        identity=config.identity(),
        batch=batch,
        outcomes=[said(p, sign) for p in proposals],
        surrogate=None,
    )
    return path


def advance(study: Study, t: int) -> None:
    """One iteration, whose outcomes are written down without running anything."""
    surrogate = None
    if t > 0:
        surrogate = study.folder / f"surrogate{t}.h5"
        study.fit(t, surrogate)
    batch = study.propose(t, surrogate, study.folder / f"proposals{t}.json")
    for p in batch.proposals:
        write_outcomes(study.paths.outcome_file(p), [outcome(p)])
    study.merge(t, study.folder / f"receipt{t}.json")


def test_rows_in_the_space_are_taken_in_its_terms(tmp_path: Path) -> None:
    wide = {**SPACE, "x": {"type": "float", "low": -1, "high": 1}}
    wide["c"] = {"type": "categorical", "choices": ["r", "q", "p"]}
    wide["more"] = {"type": "int", "low": 1, "high": 3}
    path = earlier(tmp_path, n=60, space=wide)
    space = configured(tmp_path).search_space
    (found,) = transfer.read([str(path)], transfer.Wanted(space))
    table = archive.read_table(path)
    points = archive.read_space(path).to_parameters(table.v)
    inside = [p["x"] >= 0 and p["c"] in ("p", "q") for p in points]
    kept = np.flatnonzero((table.status == "ok") & inside).tolist()
    assert 0 < len(kept) < 40
    assert found.y.tolist() == table.objective[kept].tolist()
    for got, i in zip(space.to_parameters(found.v), kept, strict=True):
        assert got == {n: points[i][n] for n in SPACE}
    assert (found.rows, found.unsuccessful) == (60, 12)
    assert found.outside == 60 - 12 - len(kept)
    assert str(found.outside) in str(found)


def test_of_a_fidelity_that_is_no_more_a_parameter_the_highest_level_is_taken(here: Path) -> None:
    """The values of lower ones are those of something else."""

    def loss(x: float, epochs: int) -> float:
        return x + 10 / epochs

    old = dngo.minimize(
        loss, {"x": (0, 1), "epochs": dngo.Int(1, 3)}, 12, name="old", seed=1,
        fidelity={"parameter": "epochs"}, acquisition="successive_halving",
    )  # fmt: skip
    new = dngo.minimize(
        lambda x: x, {"x": (0, 1)}, 1, name="new", transfer=[str(old.path)], acquisition="random"
    )
    (earlier,) = transfer.recorded(new.path)
    epochs = old.table().parameter_epochs
    assert 0 < len(earlier.y) == (epochs == 3).sum() < 12 == len(earlier.y) + earlier.outside
    np.testing.assert_allclose(earlier.y, earlier.v[:, 0] + 10 / 3)


def test_numbers_that_have_thresholds_are_taken_feasible_or_not(tmp_path: Path) -> None:
    def said(p: Proposal, sign: float) -> Outcome:
        digest, heat = digest_parameters(p.parameters), {"heat": 9.0 + p.slot}
        if p.slot == 4:
            return Outcome(0, p.slot, digest, "failed")
        kept = {"heat": int(p.slot != 2), "cold": 1}
        return Outcome(0, p.slot, digest, "ok" if kept["heat"] else "infeasible", 1.0, kept, heat)

    bounds = [{"heat": "<= 400"}, {"cold": ">= 3"}]
    path = earlier(tmp_path, n=6, said=said, constraints=bounds)
    new = configured(tmp_path, transfer=[str(path)], constraints=[{"heat": "<= 11"}])
    study = Study(new)
    transfer_file = study.transfer()
    assert transfer_file is not None
    advance(study, 0)
    (found,) = transfer.recorded(study.archive)
    x, heat = found.numbers["heat"]
    assert heat.tolist() == [9.0, 10.0, 11.0, 12.0, 14.0]
    rows = [0, 1, 2, 3, 5]
    assert x.tobytes() == archive.read_table(path).x[rows].tobytes()
    assert archive.verify(study.archive) == []
    data = inward.training_data(study.table(), new, earlier=[found])
    (task,) = data.earlier_numbers["heat"]
    assert task.y.tolist() == heat.tolist()


def test_what_was_maximised_is_turned_round(tmp_path: Path) -> None:
    space = configured(tmp_path).search_space
    up = earlier(tmp_path, "up", objective={"command": "run", "direction": "maximize"})
    down = earlier(tmp_path, "down")
    a, b = transfer.read([str(up), str(down)], transfer.Wanted(space))
    assert np.array_equal(a.y, b.y)
    assert (a.task, b.task) == ("up", "down")


@pytest.mark.full
@pytest.mark.parametrize("kind", sorted(QUICK))
def test_the_archive_alone_replays_with_the_sources_gone(tmp_path: Path, kind: str) -> None:
    paths = [earlier(tmp_path, name, seed=i) for i, name in enumerate("ab")]
    config = configured(tmp_path, transfer=[str(p) for p in paths], surrogate=QUICK[kind])
    study = Study(config)
    study.plan()
    assert not study.folder.exists(), "planning writes nothing"
    study.transfer()  # as a run begins
    for path in paths:
        path.unlink()
    study.plan()
    for t in range(2):
        advance(study, t)
    assert archive.verify(study.archive) == []
    assert [replay(study.archive, t).verdict for t in range(2)] == ["identical"] * 2
    # The sources taught it something: without them the same study proposes other points.
    alone = Study(configured(tmp_path, "alone", surrogate=QUICK[kind]))
    for t in range(2):
        advance(alone, t)
    assert alone.batch(1).proposals[0].parameters != study.batch(1).proposals[0].parameters
    # A lost archive is written again with what it was told.
    before = archive.prefix_digest(study.archive, 0)
    study.archive.unlink()
    study.plan()
    advance(study, 0)
    assert archive.prefix_digest(study.archive, 0) == before


def test_a_fork_of_another_name_needs_no_earlier_file(tmp_path: Path) -> None:
    path = earlier(tmp_path)
    study = Study(configured(tmp_path, transfer=[str(path)]))
    advance(study, 0)
    path.unlink()
    assert main(["fork", str(study.archive), "--name", "other"]) == 0
    (was,), (found,) = map(
        transfer.recorded, (study.archive, study.folder.parent / "other/archive.h5")
    )
    assert found.sha256 == was.sha256 and np.array_equal(found.x, was.x)


def test_an_altered_transferred_value_shows(tmp_path: Path) -> None:
    study = Study(configured(tmp_path, transfer=[str(earlier(tmp_path))]))
    advance(study, 0)
    with h5py.File(study.archive, "r+") as file:
        file["transfer/0/y"][3] += 1e-9
    assert archive.verify(study.archive)


def test_it_cannot_change_once_the_study_has_begun(tmp_path: Path) -> None:
    path = str(earlier(tmp_path))
    advance(Study(configured(tmp_path, transfer=[path])), 0)
    for other in ([], [path, path]):
        with pytest.raises(UserError, match="transfer") as error:
            Study(configured(tmp_path, transfer=other)).plan()
        assert "\n" not in str(error.value)


def _text(path: Path) -> None:
    path.write_text("x,y\n1,2\n")


def _altered(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["outcomes/objective"][1] = 0.0


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (_text, ""),
        (_altered, ""),
        (Path.unlink, "no such archive"),
        (_folder, "is a folder; name the archive in it, "),
    ],
)
def test_a_file_that_is_no_sound_archive_is_one_line(tmp_path: Path, spoil: Any, said: str) -> None:
    path = earlier(tmp_path)
    spoil(path)
    with pytest.raises(UserError, match=said) as error:
        Study(configured(tmp_path, transfer=[str(path)])).plan()
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"x": SPACE["x"]}, "lacks the parameters"),
        ({**SPACE, "x": {"type": "float", "low": 5, "high": 6}}, "none of its"),
    ],
)
def test_a_study_of_something_else_is_one_line(tmp_path: Path, space: Any, words: str) -> None:
    path = earlier(tmp_path, space=space)
    with pytest.raises(UserError, match=words) as error:
        Study(configured(tmp_path, transfer=[str(path)])).plan()
    assert "\n" not in str(error.value)


def test_no_evaluation_counts_twice(tmp_path: Path) -> None:
    """The same study at one place, at another, or at another time; or as what a fork begins with."""
    path, other = earlier(tmp_path), earlier(tmp_path, "other")
    later = tmp_path / "later.h5"
    shutil.copy(path, later)
    config = configured(tmp_path, "old")
    batch = Batch(1, json.loads(config.resolved()), 1, 0, [1, 0], 0, "", [], {}, [])
    archive.append(later, identity=config.identity(), batch=batch, outcomes=[], surrogate=None)
    for twice in (path, later):
        with pytest.raises(UserError, match=r"is the study of .* once more") as error:
            Study(configured(tmp_path, transfer=[str(path), str(other), str(twice)])).plan()
        assert "\n" not in str(error.value)
    Study(configured(tmp_path, transfer=[str(path), str(other)])).plan()
    forked = Study(configured(tmp_path, "forked", transfer=[str(path)]))
    with pytest.raises(UserError, match="its evaluations come along by the fork"):
        fork(forked, path)
    assert not forked.folder.exists()
    fork(Study(configured(tmp_path, "forked", transfer=[str(other)])), path)


def test_the_report_says_what_was_learnt_from_and_the_regret(tmp_path: Path) -> None:
    path = earlier(tmp_path)
    study = Study(configured(tmp_path, transfer=[str(path)], optimum=-0.5, iterations=0))
    advance(study, 0)
    text = summary(study)
    assert f"Learnt from 16 evaluations of old ({path}); 4 not ok and 0 outside" in text
    table = archive.read_table(study.archive)
    lost = table.objective[table.status == "ok"] + 0.5
    found = regret(study, table)
    wanted = {"minimum": lost.min(), "cumulative": lost.sum(), "average": lost.mean()}
    assert found == pytest.approx(wanted)
    assert f"minimum {lost.min():.6g}" in text
    assert status(study)["regret"] == found
