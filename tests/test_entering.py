"""Points and outcomes that people enter: each counts once, in order, and no paid evaluation is
lost."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from toy import Toy, advance, finish

import dngo
from dngo import archive, inward
from dngo.api.stages import ask_ahead
from dngo.archive import verify
from dngo.cli import main
from dngo.config import load
from dngo.entering import Source, add, skip, tell
from dngo.errors import UserError
from dngo.replay import replay
from dngo.storage.claim import Claim
from dngo.study import Study

SURROGATE = "surrogate: {kind: gp, hyperparameter_samples: 1}\n"


def study_of(toy: Toy) -> Study:
    """The study of a toy, with models that are quickly fitted."""
    path = toy.folder / "config.yaml"
    lines = [f"{line}\n" for line in path.read_text().splitlines() if "networks:" not in line]
    lines = [line for line in lines if line != SURROGATE]
    path.write_text("".join(lines) + SURROGATE + "classifier: {networks: {steps: 20, epochs: 1}}\n")
    return Study(load([toy.folder / "config.yaml"], {"results": str(toy.folder / "results")}))


def without_models(made: Toy) -> Study:
    """The study of a toy whose points are random: of what is the same whatever proposes them."""
    made.configure(iterations=2, batch_size=4, extra="acquisition: random\n")
    return study_of(made)


def points(*found: tuple[float, float]) -> Source:
    return Source.of_values([{"x": x, "y": y} for x, y in found], "user", "here")


def measured(*found: tuple[float, float, float]) -> Source:
    rows = [{"x": x, "y": y, "objective": o, "small": "true"} for x, y, o in found]
    return Source.of_values(rows, "imported", "here")


def sources(study: Study, t: int) -> list[str]:
    return [p.source for p in archive.read_batch(study.archive, t, study.space).proposals]


def replays(study: Study) -> list[str]:
    return [replay(study.archive, t).verdict for t in range(study.merged())]


def test_added_points_stand_at_the_head_and_are_evaluated_once(toy) -> None:
    made = toy(batch_size=4)
    study = study_of(made)
    entries = add(study, points((0.25, 0.5)))
    advance(study, 0)
    assert sources(study, 0)[:2] == ["user", "default"] and len(sources(study, 0)) == 8
    # More than a batch has room for: the others wait for the one after.
    later = add(study, points(*((0.1 * i, 0.125) for i in range(6))))
    advance(study, 1)
    assert sources(study, 1) == ["user"] * 4
    assert [e.name for e in study.entries()] == [e.name for e in later[4:]]
    advance(study, 2)
    assert sources(study, 2)[:2] == ["user", "user"] and "user" not in sources(study, 2)[2:]
    assert study.waiting.read() == []
    assert max(made.evaluations().values()) == 1 and sum(made.evaluations().values()) == 16
    first = archive.read_batch(study.archive, 0, study.space).proposals[0]
    assert first.origin["entry"] == entries[0].name and "@" in first.origin["by"]
    assert first.origin["time"] > 1.7e9 and first.parameters == {"x": 0.25, "y": 0.5}
    # What the model expected of it is in its row, as of any other.
    batch = archive.read_batch(study.archive, 1, study.space).proposals
    assert all(math.isfinite(p.mean) and math.isnan(p.value) for p in batch)
    assert verify(study.archive) == []
    assert replays(study) == ["identical"] * 3


def test_told_outcomes_are_known_to_the_next_model_and_never_evaluated(toy) -> None:
    made = toy(batch_size=4)
    study = study_of(made)
    told = tell(study, measured((0.7, 0.7, 9.0)))
    assert [e.outcome.objective for e in told.waiting if e.outcome] == [9.0]
    advance(study, 0)
    tell(study, measured((0.31, 0.61, -5.0), (0.2, 0.2, 3.0)))
    advance(study, 1)
    assert sources(study, 0)[-1] == "imported" and len(sources(study, 0)) == 8  # it counts
    assert sources(study, 1)[-2:] == ["imported"] * 2 and len(sources(study, 1)) == 6
    model, _ = archive.read_surrogate(study.archive, 1)
    assert model is not None and model.summary()["observations"] == 10
    table = archive.read_table(study.archive)
    assert table.told.sum() == 3 and table.objective[table.told].tolist() == [9.0, -5.0, 3.0]
    assert sum(made.evaluations().values()) == 11
    assert verify(study.archive) == []
    assert replays(study) == ["identical"] * 2


def test_told_outcomes_take_the_place_of_the_design(toy) -> None:
    made = toy(batch_size=4, iterations=1)
    study = study_of(made)
    rows = np.random.default_rng(0).random((9, 2))
    tell(study, measured(*((*row, float(row.sum())) for row in rows)))
    for t in range(2):  # the first iteration evaluates nothing
        advance(study, t)
    assert sources(study, 0) == ["imported"] * 9
    assert len(sources(study, 1)) == 4 and not {"default", "design:sobol"} & {*sources(study, 1)}
    assert sum(made.evaluations().values()) == 4
    assert verify(study.archive) == [] and replays(study)[1] == "identical"


def test_every_way_to_ask_after_a_reported_design_asks_a_model(tmp_path: Path) -> None:
    for ask in (lambda s: s.ask(1), lambda s: ask_ahead(s._engine, 1, 4)):
        study = dngo.create(None, {"x": (0, 1)}, surrogate="gp", batch_size=4)
        study.tell([{"x": x} for x in (0.1, 0.3, 0.6, 0.8)], [0.4, 0.1, 0.5, 0.9])
        (point,) = ask(study)
        assert (point.iteration, point.stage != "design") == (1, True)


def test_what_failed_elsewhere_is_no_part_of_a_design(toy) -> None:
    made = toy(batch_size=4)
    study = study_of(made)
    rows = [{"x": 0.1 * i, "y": 0.2, "status": "failed"} for i in range(9)]
    tell(study, Source.of_values(rows, "imported", "here"))
    advance(study, 0)
    assert sources(study, 0) == ["default", *["design:sobol"] * 7, *["imported"] * 9]


@pytest.mark.full
def test_told_outcomes_while_batches_overlap(toy) -> None:
    made = toy(batch_size=3, iterations=4)
    made.configure(batch_size=3, iterations=4, extra="batches_in_flight: 2\n")
    study = study_of(made)
    advance(study, 0)
    tell(study, measured((0.31, 0.61, -5.0)))
    advance(study, 1, merge=False)
    tell(study, measured((0.2, 0.2, 3.0)))
    # The fit of the next begins before the batch of this one is there: both know what was told.
    study.fit(2, study.iteration(2) / "surrogate.h5")
    tell(study, measured((0.1, 0.2, 4.0)))
    study.propose(2, study.iteration(2) / "surrogate.h5", study.iteration(2) / "proposals.json")
    finish(study, 1)
    finish(study, 2)
    advance(study, 3)
    assert [sources(study, t).count("imported") for t in range(4)] == [0, 1, 1, 1]
    assert replays(study) == ["identical"] * 4


def test_nothing_enters_twice_when_killed_between(toy, monkeypatch) -> None:
    made = toy()
    study = without_models(made)
    add(study, points((0.25, 0.5)))
    tell(study, measured((0.7, 0.7, 9.0)))
    # Killed before the file knows,
    monkeypatch.setattr(type(study.waiting), "drop", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        advance(study, 0)
    assert len(study.waiting.read()) == 2 and study.entries() == []
    monkeypatch.setattr(type(study.waiting), "drop", lambda *_: None)  # and it never hears of it
    advance(study, 0)
    advance(study, 1)
    found = [p for t in range(2) for p in sources(study, t)]
    assert found.count("user") == 1 and found.count("imported") == 1
    assert max(made.evaluations().values()) == 1 and replays(study) == ["identical"] * 2


def test_a_lost_archive_is_written_again_with_what_was_told(toy) -> None:
    study = study_of(toy(batch_size=4))
    add(study, points((0.25, 0.5)))
    tell(study, measured((0.7, 0.7, 9.0)))
    advance(study, 0)
    digest = archive.prefix_digest(study.archive, 1)
    study.archive.unlink()
    (study.iteration(0) / "receipt.json").replace(study.paths.earlier_receipt(0))
    study.adopt()
    finish(study, 0)
    assert archive.prefix_digest(study.archive, 1) == digest


MISTAKES = [
    (points((1.5, 0.5)), "x: 1.5 is outside 0 to 1"),
    (Source.of_values([{"x": 0.5}], "user", "here"), "y has no value"),
    (points((0.5, 0.5)), "is proposal 0-0, which was evaluated"),
    (points((0.125, 0.5), (0.125, 0.5)), "is there twice, also as number 1"),
    (points((0.375, 0.5)), "waits already, as "),
    (points((0.11, 0.22), (2, 2)), "point 2: x: 2 is outside 0 to 1"),
]


def test_mistakes_are_one_line_each_and_write_nothing(toy) -> None:
    study = study_of(toy(batch_size=4))
    advance(study, 0)
    add(study, points((0.375, 0.5)))
    before = study.waiting.path.read_bytes()
    for source, message in MISTAKES:
        with pytest.raises(UserError, match=message.replace(".", r"\.")) as error:
            add(study, source)
        assert len(str(error.value).splitlines()) == 1
        assert study.waiting.path.read_bytes() == before
    with pytest.raises(UserError, match="is proposal 0-0, which was evaluated"):
        tell(study, measured((0.5, 0.5, 1.0)))
    told = tell(study, measured((0.5, 0.5, 1.0), (0.9, 0.1, 1.0)), skip_invalid=True)
    assert list(told.skipped) == ["point 1"] and len(told.waiting) == 1


def test_a_known_constraint_is_kept_by_what_is_added(toy) -> None:
    made = toy()
    made.configure(iterations=1, batch_size=4, extra='space_constraints: ["x + y <= 1"]\n')
    study = study_of(made)
    with pytest.raises(UserError, match=r"breaks the known constraint 'x \+ y <= 1'"):
        add(study, points((0.75, 0.5)))
    tell(study, measured((0.75, 0.5, 1.0)))  # what was measured is a fact, wherever it lies
    assert not (made.folder / "runs.txt").exists()


def test_a_withdrawn_point_is_not_evaluated_and_teaches_nothing(toy) -> None:
    made = toy()
    study = without_models(made)
    advance(study, 0, merge=False)
    skip(study, "0-3", "the sample broke")
    skip(study, "0-4", "so did this one")
    with pytest.raises(UserError, match="0-3: has its outcome: withdrawn"):
        skip(study, "0-3", "again")
    finish(study, 0)
    advance(study, 1)
    ids = {line.split()[0] for line in made.evaluations()}
    assert "0-3" not in ids and "0-2" in ids
    table = archive.read_table(study.archive)
    assert table.status[[3, 4]].tolist() == ["withdrawn"] * 2
    outcome = archive.read_outcomes(study.archive, study.batch(0))[3]
    assert outcome.metadata["withdrawn"]["reason"] == "the sample broke"
    completed = inward.training_data(table, study.config).constraints["completed"]
    assert np.flatnonzero(np.isnan(completed)).tolist() == [3, 4]
    with pytest.raises(UserError, match="0-3: is in the archive"):
        skip(study, "0-3", "too late")
    assert verify(study.archive) == [] and replays(study) == ["identical"] * 2
    # Nothing is known about it, so it may be proposed again.
    add(study, Source.of_values([study.batch(0).proposals[3].parameters], "user", "here"))


def test_an_outcome_that_is_withdrawn_after_the_fit_of_its_batch_teaches_nothing(toy) -> None:
    study = study_of(toy(batch_size=4))
    advance(study, 0)
    (entry,) = tell(study, measured((0.1, 0.2, 5.0))).waiting
    study.fit(1, study.iteration(1) / "surrogate.h5")  # and the run was killed here
    with study.held(1.0), pytest.raises(UserError, match="may propose a batch with it"):
        skip(study, entry.name, "another run goes on")
    assert study.entries()
    skip(study, entry.name, "a slip")
    assert not study.iteration(1).joinpath("surrogate.h5").exists()
    advance(study, 1)
    assert not study.batch(1).told and "imported" not in sources(study, 1)
    assert replays(study) == ["identical"] * 2


def test_what_is_being_evaluated_is_neither_skipped_nor_told(toy) -> None:
    study = study_of(toy(batch_size=4))
    advance(study, 0, merge=False)
    proposal = study.batch(0).proposals[2]
    values = proposal.parameters
    with Claim(study.paths.claim_file(proposal)).held(wait=1, what="it"):
        with pytest.raises(UserError, match="0-2: is being evaluated by process"):
            skip(study, "0-2", "changed my mind")
        with pytest.raises(UserError, match="0-2: is being evaluated by process"):
            tell(study, measured((values["x"], values["y"], 1.0), (0.9, 0.1, 1.0)))
    assert not study.paths.outcome_file(proposal).exists() and study.entries() == []


def test_what_a_dead_job_left_counts(toy) -> None:
    study = study_of(toy(batch_size=4))
    advance(study, 0, merge=False)
    proposal = study.batch(0).proposals[2]
    places = study.paths.files(proposal).places
    places.workdir.mkdir(parents=True)
    places.parameters.write_text(json.dumps(proposal.parameters))
    places.outcome.write_text('{"objective": 1.5, "constraints": {"small": true}}')
    with pytest.raises(UserError, match="0-2: has its outcome: ok"):
        skip(study, "0-2", "changed my mind")
    finish(study, 0)
    assert archive.read_table(study.archive).objective[2] == 1.5


def test_an_outcome_told_of_a_point_in_flight_is_its_outcome(toy) -> None:
    made = toy(batch_size=4)
    study = study_of(made)
    advance(study, 0, merge=False)
    values = study.batch(0).proposals[5].parameters
    told = tell(study, measured((values["x"], values["y"], 0.5)))
    assert told.concluded == ["0-5"] and told.waiting == []
    finish(study, 0)
    assert "0-5" not in {line.split()[0] for line in made.evaluations()}
    outcome = archive.read_outcomes(study.archive, study.batch(0))[5]
    assert outcome.objective == 0.5 and "@" in outcome.metadata["told"]["by"]


def test_the_commands(toy, capsys, monkeypatch) -> None:
    made = toy(batch_size=4, iterations=0)
    study = study_of(made)
    monkeypatch.chdir(made.folder)
    Path("mine.csv").write_text("x,y\n0.2,0.3\n0.4,0.3\n")
    assert main(["add", "mine.csv"]) == 0
    assert main(["add", "--set", "x=0.6", "y=0.3"]) == 0
    name = capsys.readouterr().out.splitlines()[-3].split(":")[0]
    assert main(["skip", name, "--reason", "no"]) == 0
    assert main(["tell", "--set", "x=0.9", "y=0.9", "objective=2", "small=false"]) == 0
    assert main(["add", "--set", "z=0.6"]) == 1
    assert "--set z=0.6: must be NAME=VALUE, with a name of x, y" in capsys.readouterr().err
    for option in ("study", "status"):
        assert main(["tell", "--set", "x=0.6", "y=0.3", "objective=2", f"--{option}", "other"]) == 1
        assert f"--{option}: works only with a file" in capsys.readouterr().err
    assert main(["status"]) == 0
    assert "Waiting        2 points to evaluate, 1 told" in capsys.readouterr().out
    advance(study, 0)
    assert sources(study, 0)[:2] == ["user"] * 2 and sources(study, 0)[-1] == "imported"
    rows = archive.read_batch(study.archive, 0, study.space).proposals
    assert rows[1].origin["row"] == "line 3" and rows[1].origin["file"] == "mine.csv"
    assert main(["audit", str(made.archive), "--proposal", "0-1"]) == 0
    assert "mine.csv, line 3" in capsys.readouterr().out
    assert archive.read_table(made.archive).status[-1] == "infeasible"
    assert np.all(np.array(list(made.evaluations().values())) == 1)


@pytest.mark.full
def test_entering_while_a_study_is_killed_and_runs_on(brief) -> None:
    """Whatever happens in between: what was entered is there once, and nothing is evaluated twice."""
    made = brief(iterations=1, batch_size=5, sleep=0.3)
    study = study_of(made)
    made.configure(iterations=1, batch_size=5, extra="acquisition: random\n")
    rng = np.random.default_rng(5)
    added, told, withdrawn = set(), set(), set()
    for run in range(3):
        process = subprocess.Popen(
            made.command("--cores", "2"),
            cwd=made.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while process.poll() is None and (run == 2 or len(added) < 2 * (run + 1)):
            if len(added) < 4:
                x, y = rng.random(2).round(6) * 0.9
                added |= {e.name for e in add(study, points((x, y)))}
                told |= {e.name for e in tell(study, measured((x, y + 0.05, 1.0))).waiting}
            with contextlib.suppress(UserError, OSError, IndexError):  # it is merged already
                batch = study.in_flight(study.merged())[-1]
                name = batch.evaluated[int(rng.integers(len(batch.evaluated)))].id
                if len(withdrawn) < 4:
                    skip(study, name, "for the test")
                    withdrawn.add(name)
            time.sleep(0.5)
        if run < 2:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    made.snakemake("--cores", "2", "--config", "iterations=2")
    rows = [p for t in range(study.merged()) for p in study.batch(t).proposals]
    for names, kind in ((added, "user"), (told, "imported")):
        assert sorted(p.origin["entry"] for p in rows if p.source == kind) == sorted(names)
    status = dict(zip((p.id for p in rows), archive.read_table(made.archive).status, strict=True))
    assert {name for name, how in status.items() if how == "withdrawn"} == withdrawn != set()
    ids = [line.split()[0] for line in made.runs.read_text().splitlines()]
    evaluated = {p.id for p in rows if not p.told} - withdrawn
    assert set(ids) == evaluated
    # A kill repeats at most what was running then.
    assert len(ids) <= len(evaluated) + 2 * 2
    assert verify(made.archive) == [] and study.entries() == []
