"""`batches_in_flight: auto`: as few batches in flight as keep the slots busy, and nothing evaluated twice."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from toy import QUICK, QUICK_STUDY, advance, held, kept, kill_tree, once_each
from waiting import until

import dngo
from dngo import archive
from dngo.archive.pace import Course
from dngo.config import load
from dngo.replay import replay
from dngo.study import Study, overlapping
from dngo.study.overlapping import MOST, Pace, pace_of, seen
from dngo.workflow.dag import Dag
from dngo.workflow.turns import attend


@pytest.mark.parametrize(
    ("pace", "batches"),
    [
        (Pace(work=1000, between=10), 1),  # hardly a wait
        (Pace(work=100, between=50), 2),
        (Pace(work=17, between=22, model=12), 3),
        (Pace(work=10, between=1000), MOST),
        (
            Pace(work=0.1, between=12, model=10),
            2,
        ),  # fits set the pace: more in flight gains nothing
        (Pace(work=0.1, between=10, model=10), 1),
    ],
)
def test_it_is_the_least_number_that_keeps_the_slots_busy(pace: Pace, batches: int) -> None:
    assert pace.batches == batches
    assert pace.busy(batches) >= 0.95 * pace.busy(MOST)
    assert batches == 1 or pace.busy(batches - 1) < 0.95 * pace.busy(MOST)


def test_a_later_run_goes_by_the_durations_that_were_seen() -> None:
    """Eight slots, evaluations of 10 to 24 s, and two fits of 12 s."""
    lasts = np.linspace(10.0, 24.0, 8)
    courses = {
        0: Course(0, math.nan, 0.0, np.full(8, 3.0), 3.0 + lasts),
        1: Course(1, 30.0, 42.0, np.full(8, 45.0), 45.0 + lasts),
        2: Course(2, 80.0, 92.0, np.full(8, 95.0), 95.0 + lasts),
    }
    pace = pace_of(courses, 8)
    assert pace == Pace(work=17.0, between=7.0 + 3.0 + 12.0 + 3.0, model=12.0)
    assert pace.batches == 3
    days = {t: replace(c, finished=c.started + 1e4 * lasts) for t, c in courses.items()}
    found = pace_of(days, 8)
    assert found is not None and found.batches == 2, "only the longest of a batch is waited for"


def test_until_a_model_is_merged_the_design_says_how_long_an_evaluation_takes() -> None:
    course = Course(0, math.nan, 0.0, np.zeros(8), np.linspace(10.0, 24.0, 8))
    for times, batches in ((1, 3), (1000, 2)):
        found = pace_of({0: replace(course, finished=times * course.finished)}, 8)
        assert found is not None and found.batches == batches
    assert pace_of({0: replace(course, started=np.empty(0), finished=np.empty(0))}, 8) is None


def pending(path: Path) -> list[list[int]]:
    header = archive.read_header(path)
    assert header is not None
    found = [archive.iteration_attributes(path, t) for t in range(header.iterations)]
    return [[int(t) for t in each["pending"]] for each in found]


@pytest.mark.full
def test_a_fit_waits_for_its_turn_in_a_run(brief) -> None:
    """The plan lets the third fit begin after the design. By the design's durations two in flight do."""
    study = brief(iterations=3, batch_size=8, sleep=4.2)
    study.snakemake(*QUICK, "--cores", "2")
    once_each(study, 32)
    assert pending(study.archive)[3] in ([2], [])


def test_one_slot_has_nothing_to_overlap(toy) -> None:
    """As with the default study, whose job has all cores."""
    dag = Dag(Study(load([toy(iterations=2).folder / "config.yaml"])))
    found = []
    for cores in (1, 2):
        dag.cores = cores
        dag.overlap(None)
        found.append(dag.study.flying)
    assert found == [1, MOST]


def test_a_fit_has_its_turn_by_the_batches_that_are_merged(toy, monkeypatch) -> None:
    """Decided anew after each merge. Where nothing runs, no merge would end a wait."""
    study = Study(load([toy(iterations=9).folder / "config.yaml"], {"acquisition": "random"}))
    study.overlap(8)
    paces = iter([Pace(work=10, between=1000), Pace(work=1000, between=10)])
    monkeypatch.setattr(overlapping, "seen", lambda records: next(paces))
    dag = SimpleNamespace(study=study)
    scheduler = SimpleNamespace(running={"a job"}, job_selector=sorted)
    attend(SimpleNamespace(scheduler=scheduler), study)

    def started() -> list[int]:
        """Of the fits of 1 to 5, and of a job without a turn: 0."""
        return [job.number for job in scheduler.job_selector([Job(t, dag) for t in range(6)])]

    advance(study, 0)
    assert started() == started() == [0, 1, 2, 3]
    advance(study, 1)
    assert started() == [0, 1, 2]
    scheduler.running.clear()
    assert started() == [0, 1, 2]
    assert len(scheduler.job_selector([Job(4, dag)])) == 1


@dataclass(order=True, frozen=True)
class Job:
    """What Snakemake shows of a job that fits the model of an iteration; 0: of one that does not."""

    number: int
    dag: Any = field(compare=False)

    def is_group(self) -> bool:
        return False

    @property
    def rule(self) -> Any:
        return SimpleNamespace(module_globals={"dag": self.dag})

    @property
    def wildcards(self) -> Any:
        return SimpleNamespace(iteration=str(self.number))

    @property
    def output(self) -> Any:
        return SimpleNamespace(**{"surrogate" if self.number else "receipt": "a file"})


def test_a_study_of_an_earlier_release_goes_on_as_it_was(toy) -> None:
    """Its archive says 1, and its file does not name the key: also in the run after the next."""
    where = [toy(iterations=1).folder / "config.yaml"]
    for t, said in enumerate(({"batches_in_flight": 1}, {})):
        study = Study(load(where, {"acquisition": "random", **said}))
        assert study.overlap(2) == 1
        advance(study, t)
    assert pending(study.archive) == [[]] * 2
    assert Study(load(where, {"batches_in_flight": "auto"})).overlap(8) >= 1
    assert seen(study) is not None


def test_a_study_begun_in_python_learns_from_all_that_is_known(tmp_path: Path) -> None:
    study = dngo.create("s", {"x": (0, 1)}, folder=tmp_path, batch_size=2, **QUICK_STUDY)
    for _ in range(3):
        for point in study.ask():
            study.tell(point, point.parameters["x"])
    study.ask()
    with pytest.raises(dngo.UserError, match="waits for outcomes"):
        study.ask()
    path = study.path
    assert pending(path) == [[], [], []]
    assert archive.iteration_attributes(path, 2)["training_iterations"] == 2
    assert (
        "batches_in_flight"
        not in study.write_config(tmp_path / "s.yaml", objective="m:f").read_text()
    )


@pytest.mark.full
def test_a_run_overlaps_by_default_and_a_kill_repeats_nothing(brief) -> None:
    study = brief(iterations=2, sleep=0.7)
    process = study.start(*QUICK, "--cores", "2")
    flying = [study.results / "pending" / str(t) / "proposals.json" for t in (1, 2)]

    def both() -> bool:
        return all(path.exists() for path in flying) and bool(list(flying[1].parent.glob("o*/*")))

    until(both, process)
    kill_tree(process.pid)
    process.communicate()
    before, chosen = held(study), [path.read_text() for path in flying if path.exists()]
    assert len(before) > 8
    study.snakemake(*QUICK, "--cores", "2")
    kept(study, 20, before)
    for text in chosen:
        batch = json.loads(text)
        again = archive.iteration_attributes(study.archive, batch["iteration"])
        assert again["training_iterations"] == batch["training_iterations"]
    assert pending(study.archive) == [[], [], [1]]
    last = archive.iteration_attributes(study.archive, 2)
    assert json.loads(last["config"])["batches_in_flight"] == "auto"
    assert last["training_iterations"] == 1
    assert replay(study.archive, 2).verdict == "identical"
    assert os.listdir(study.results / "pending") == []


def test_an_iteration_outside_of_a_run_learns_from_all_that_is_merged(toy) -> None:
    study = Study(load([toy().folder / "config.yaml"], {"acquisition": "random"}))
    for t in range(3):
        advance(study, t)
    assert pending(study.archive) == [[], [], []]
