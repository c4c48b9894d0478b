"""When to stop: the expected gain, and a study that ends in the middle of a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from proposing import model_of, points
from spaces import cube
from toy import QUICK_STUDY, Toy

import dngo
from dngo.acquisition import History
from dngo.acquisition.outlook import LEVELS, Outlook, look_ahead
from dngo.archive import iteration_attributes, read_header, read_table, verify
from dngo.batch import Batch
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.replay import replay
from dngo.retry import retry
from dngo.rules import current, using
from dngo.study import Study

QUICK = current().but(outlook={"functions": 32, "uniform": 128, "local": 64})


def test_the_outlook_is_in_units_of_the_objective_and_shrinks_near_the_optimum() -> None:
    space = cube(2)
    outlooks = []
    for n in (6, 40):
        v = points(space, n)
        y = 1000.0 * np.sum((v - 0.3) ** 2, axis=1)
        model = model_of(space, v, y)
        picks = np.array([[0.3, 0.3], [0.32, 0.29]])
        history = History(v, y)
        rng = np.random.default_rng(0)
        with using(QUICK):
            found = look_ahead(model, space, history, picks, rng=rng)
            again = look_ahead(model, space, history, picks, rng=np.random.default_rng(0))
        assert found is not None and found == again
        assert 0 <= found.batch <= found.further <= np.max(found.distances)
        outlooks.append(found)
    assert 0 < outlooks[1].further < outlooks[0].further < 1000
    nothing = History(v, np.full(len(v), np.nan))
    rng = np.random.default_rng(0)
    assert look_ahead(model, space, nothing, picks, rng=rng) is None


def test_probabilities_and_distances_are_each_others_inverse() -> None:
    levels = np.array(LEVELS)
    outlook = Outlook(0.0, 0.0, tuple(np.maximum(10.0 * levels - 2.5, 0.0)))
    assert outlook.within(0.0) == pytest.approx(0.25)  # a quarter finds nothing better
    assert outlook.within(-1e-9) == 0.0 and outlook.within(8.0) == 1.0
    for p in (0.3, 0.5, 0.9):
        assert outlook.within(outlook.distance(p)) == pytest.approx(p)
    assert Outlook(0.0, 0.0, (0.0,) * len(LEVELS)).within(0.0) == 1.0


def ids(toy: Toy) -> list[str]:
    runs = toy.evaluations()
    assert set(runs.values()) == {1}, "a point was evaluated twice"
    return sorted(line.split()[0] for line in runs)


def staged(study: Study, t: int) -> Batch:
    """One iteration, stage by stage, as the rules do it."""
    study.clear_end(t)
    folder = study.iteration(t)
    (folder / "outcomes").mkdir(parents=True, exist_ok=True)
    study.fit(t, folder / "surrogate.h5")
    batch = study.propose(t, folder / "surrogate.h5", folder / "proposals.json")
    for chunk in range(max(batch.num_chunks, 1)):
        study.evaluate(t, chunk, folder / "outcomes" / f"{chunk}.json")
    study.merge(t, folder / "receipt.json")
    return batch


@pytest.mark.full
def test_a_study_ends_in_the_middle_of_a_run_and_goes_on_when_asked(
    brief, capsys, monkeypatch
) -> None:
    toy = brief(points_per_job=8)
    toy.configure(iterations=2, batch_size=3, extra="stop: {expected_improvement: 1000}\n")
    toy.snakemake()
    monkeypatch.chdir(toy.folder)
    # None of the planned batches is evaluated or archived.
    first = ids(toy)
    assert len(first) == len(read_table(toy.archive)) == 8
    assert main(["status", "config.yaml"]) == 0
    told = capsys.readouterr().out
    assert "Expected gain  ended: five batches are expected to gain" in told
    assert "distance of the best value from the best imaginable" in told
    plan = Study(load(["config.yaml"])).plan()
    assert not plan.iterations and plan.reason.startswith("five batches are expected to gain")
    # A target is looked at after every iteration, too: here once all is planned.
    toy.configure(iterations=2, batch_size=3, extra="stop: {target: 100}\n")
    assert "stop.target is 100" in staged(Study(load(["config.yaml"])), 1).ended
    assert ids(toy) == first
    # Without a criterion the same command goes on, and what was left out is done now.
    toy.configure(iterations=1, batch_size=3)
    study = Study(load(["config.yaml"]))
    assert study.plan().iterations == (1,)
    batch = staged(study, 1)
    assert len(ids(toy)) == len(read_table(toy.archive)) == 11
    assert set(first) < set(ids(toy))
    assert verify(toy.archive) == []
    assert replay(toy.archive, 1).verdict == "identical"
    outlook = json.loads(iteration_attributes(toy.archive, 1)["outlook"])
    assert outlook["further"] >= outlook["batch"] >= 0
    assert outlook["distances"] == list(batch.outlook["distances"])


def test_a_study_ends_once_its_space_has_no_point_left(tmp_path: Path, capsys) -> None:
    ran: list[int] = []

    def function(x: int) -> float:
        ran.append(x)
        return x + 0.01 * len(ran)

    def go_on(**settings: object) -> dngo.Session:
        study = dngo.create("small", {"x": dngo.Choice([0, 1, 2])}, folder=tmp_path, **settings)
        return study.optimize(function, 5, workers=0, batch_size=2)

    study = go_on()
    assert sorted(ran) == [0, 1, 2]
    said = capsys.readouterr().err
    assert said.count("no further batch: no point of the space is left to propose") == 1
    assert study.ask(1) == [] == study.ask(2)  # neither leaves an empty iteration behind
    study = go_on()
    assert sorted(ran) == [0, 1, 2] and study.best().parameters == {"x": 0}
    assert read_header(study.path).iterations == 1
    # Points that are evaluated again are points.
    study = go_on(acquisition={"kind": "mcei", "replicates": "always"})
    assert len(ran) == len(study.table()) == 5


def test_batches_in_flight_end_as_well(tmp_path: Path) -> None:
    study = dngo.create("two", {"x": range(6)}, folder=tmp_path, batches_in_flight=2)
    asked = study.ask(4)
    with pytest.raises(UserError, match="iteration 0 waits for outcomes"):
        study.ask(4)
    for _ in range(4):
        for point in asked:
            study.tell(point, point.parameters["x"])
        asked = study.ask(4)
    assert not asked and sorted(study.table().parameter_x) == list(range(6))
    header = read_header(study.path)
    assert header is not None and header.iterations <= 4


def test_what_people_enter_after_the_end_is_evaluated_and_nothing_else(tmp_path: Path) -> None:
    study = dngo.create("small", {"x": range(6)}, folder=tmp_path, design={"size": 6}, iterations=5)
    for point in study.ask():
        study.tell(point, status="failed") if point.parameters["x"] == 4 else study.tell(point, 1.0)
    assert study.ask(2) == []
    engine = study._engine
    assert engine.plan().iterations == () and "left to propose" in engine.plan().reason
    assert len(retry(engine)) == 1
    assert engine.plan().iterations[0] == 1
    (again,) = study.ask(2)
    study.tell(again, 0.0)
    assert study.ask(2) == [] and study.best().parameters == {"x": 4}
    assert engine.plan().iterations == ()


def test_a_target_that_is_reached_leaves_only_what_people_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"stop": {"target": 0.5}, "design": {"size": 4}, "iterations": 9, "batch_size": 3}
    study = dngo.create("target", {"x": (0, 1)}, folder=tmp_path, **settings)
    for point in study.ask():
        study.tell(point, 0.1)
    assert len(study.table()) == 4
    with monkeypatch.context() as context:
        context.setattr("dngo.derive.Basis.fit", lambda *a, **k: pytest.fail("a fit for nothing"))
        study.tell({"x": 0.123, "objective": 7.0})
        assert run(study) == [["api"]] and run(study) == []
    study.add({"x": 0.25})
    assert study._engine.plan().iterations == (2,)
    assert [p.parameters for p in study.ask()] == [{"x": 0.25}]


def run(study: dngo.Session, change: dict[str, object] | None = None) -> list[list[str]]:
    """What Snakemake does: the iterations that are planned. Returns the sources of their points."""
    engine = Study(study._engine.config.model_copy(update=change or {}))
    found = []
    for t in engine.plan().iterations:
        folder = engine.iteration(t)
        if t:
            engine.fit(t, folder / "surrogate.h5")
        batch = engine.propose(t, folder / "surrogate.h5" if t else None, folder / "proposals.json")
        for p in batch.evaluated:
            study.tell(p, float(p.parameters["x"]))
        assert engine.num_chunks(t) >= 0
        engine.merge(t, folder / "receipt.json")
        found.append(sorted({p.source.partition(":")[0] for p in batch.proposals}))
    return found


def test_batches_that_no_model_chose_are_no_iterations(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"design": {"size": 3}, "batch_size": 2, "surrogate": QUICK_STUDY["surrogate"]}
    study = dngo.create("entered", {"x": (0, 1)}, folder=tmp_path, iterations=1, **settings)
    assert run(study) == [["default", "design"], ["joint"]]
    study.add({"x": 0.25})
    assert run(study) == [["user"]] and run(study) == []
    with monkeypatch.context() as context:
        context.setattr("dngo.derive.Basis.fit", lambda *a, **k: pytest.fail("a fit for nothing"))
        study.tell({"x": 0.77, "objective": -1.0})
        assert run(study) == [["api"]] and run(study) == []
    assert study.best().parameters == {"x": 0.77}
    assert verify(study.path) == []
    assert replay(study.path, 3).verdict == "imported"
    assert replay(study.path, 2).verdict == "identical"
    assert "iteration 3 of 3" in repr(study)
    (chosen,) = run(study, {"iterations": 2})
    assert "joint" in chosen and not {"user", "api"} & set(chosen)
    assert run(study, {"iterations": 2}) == []


def test_a_fidelity_promotes_all_points_of_a_small_space(tmp_path: Path) -> None:
    space = {"x": range(3), "epochs": dngo.Int(1, 9)}
    fidelity = {"parameter": "epochs", "low": 1, "high": 9}
    study = dngo.create("small", space, folder=tmp_path, fidelity=fidelity, **QUICK_STUDY)
    study.optimize(lambda x, epochs: x + 1 / epochs, 40, workers=0, batch_size=2)
    rows = study.table()[["parameter_x", "parameter_epochs"]].itertuples(index=False)
    assert sorted(map(tuple, rows)) == [(x, n) for x in range(3) for n in (1, 3, 9)]
