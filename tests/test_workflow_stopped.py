"""The real Snakemake is killed, interrupted or given a mistake: the study goes on, and nothing is evaluated twice."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import psutil
import pytest
from needs import mounted
from toy import advance, held, kept, kill_tree, once_each
from waiting import until

from dngo.archive import read_table, verify
from dngo.config import load
from dngo.errors import UserError
from dngo.study import Study

pytestmark = pytest.mark.full


def test_nothing_that_is_held_or_in_flight_is_run_again_whatever_the_flags(brief) -> None:
    study = brief(iterations=1, sleep=0.5)
    random = "acquisition: random\n"
    study.configure(iterations=1, batch_size=6, extra=random)
    process = study.start("--cores", "2")
    until(lambda: len(study.evaluations()) >= 11, process)  # in the middle of the second batch
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    process.communicate()
    before = held(study)
    assert len(before) >= 9
    in_flight = json.loads((study.results / "pending/1/proposals.json").read_text())["proposals"]
    study.configure(iterations=2, batch_size=4, extra=random)
    study.snakemake("-F", "--config", "iterations_per_run=1")
    kept(study, 14, before)
    advance(Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)})), 2)
    once, table = study.evaluations(), read_table(study.archive)
    assert [int((table.iteration == t).sum()) for t in range(3)] == [8, 6, 4]
    found = [p["parameters"]["x"] for p in in_flight]
    assert found == table.v[table.iteration == 1][:, 0].tolist()
    # Everything archived: force every rule, and old files by name, with every trigger.
    target = "results/toy/iterations/0/outcomes/1.json"
    study.snakemake("-F", "all", target, "--rerun-triggers", "mtime", "code", "input", "params")
    assert study.evaluations() == once
    assert verify(study.archive) == []
    outcomes = json.loads((study.folder / target).read_text())["outcomes"]
    assert [o["slot"] for o in outcomes] == [4, 5, 6, 7]


def test_killed_at_random_moments_it_goes_on_without_repeating(brief) -> None:
    study = brief(iterations=1, sleep=0.2)
    seed = int(os.environ.get("DNGO_TEST_SEED", time.time_ns() % 2**32))
    print(f"DNGO_TEST_SEED={seed}")
    rng = random.Random(seed)
    before: dict[str, int] = {}
    for kill in (True, True, True, False):  # `benchmarks/faults.py --kills` does hundreds
        process = study.start("--cores", "2")
        if kill:
            time.sleep(rng.uniform(2.0, 8.0))
            kill_tree(process.pid)
        process.communicate()
        runs = study.runs_of()
        assert {point: runs[point] for point in before} == before
        before = held(study)
    kept(study, 14, before)


def test_a_run_in_the_background_does_not_hear_what_interrupts_others(brief) -> None:
    """`snakemake &` in a script ignores SIGINT, so its jobs must: ended, they would be tried again."""
    study = brief(iterations=0, sleep=0.5)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `&` does, and children inherit it
    try:
        process = study.start("--cores", "2")
    finally:
        signal.signal(signal.SIGINT, before)
    until(lambda: len(study.evaluations()) >= 3, process)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert "Trying to restart" not in output
    once_each(study, 8)


@pytest.mark.parametrize("victim", ["main", "evaluate"])
def test_orphans_are_waited_for_and_dead_owners_succeeded(brief, victim: str) -> None:
    study = brief(iterations=0, sleep=2.0)
    process = study.start("--cores", "2")
    starts = study.results / "pending/0/claims"
    until(lambda: list(starts.glob("*.starts")), process)
    if victim == "main":  # its jobs go on as orphans
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    else:
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.communicate()
    before = held(study)
    study.snakemake("--cores", "2")
    if victim == "main":  # nothing that ran was killed
        once_each(study, 8)
    kept(study, 8, before)


def test_a_mistake_is_one_line_and_nothing_is_planned(brief) -> None:
    study = brief(iterations=1)
    study.configure(iterations=1, batch_size=4, extra="itertions: 3\n")
    last = len((study.folder / "config.yaml").read_text().splitlines())
    output = study.snakemake(check=False)
    assert f"config.yaml:{last}: itertions: unknown key; did you mean 'iterations'?" in output
    assert "Traceback" not in output
    assert not study.results.exists()


def test_an_archive_that_cannot_be_read_stops_the_run_and_is_left_alone(brief) -> None:
    study = brief(iterations=1)
    study.results.mkdir(parents=True)
    study.archive.write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 1000)
    process = study.start()
    output, _ = process.communicate()
    assert process.returncode != 0
    assert "cannot be read as an archive" in output
    assert "Traceback" not in output
    assert study.archive.read_bytes()[8:] == b"x" * 1000


EDITS = {
    "a parameter renamed": ("  x: {type", "  xx: {type", "space.x is gone; space.xx is new"),
    "a constraint renamed": ("[small]", "[tiny]", "constraints was ['small'] and is ['tiny']"),
    "the direction flipped": (
        "  time_limit",
        "  direction: maximize\n  time_limit",
        "objective.direction was 'minimize' and is 'maximize'",
    ),
    "a range narrowed": ("x: {type: float, low: 0", "x: {type: float, low: 0.9", "space.x.low was"),
}


def test_an_edit_of_what_a_study_is_stops_it_before_anything_is_lost(brief) -> None:
    study = brief(iterations=0)
    begun = Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)}))
    advance(begun, 0, merge=False)
    begun.evaluate(0, 0, study.folder / "some.json")  # in the design: there is no archive yet
    good = (study.folder / "config.yaml").read_text()
    before, runs = held(study), study.evaluations()
    for number, (old, new, words) in enumerate(EDITS.values()):
        (study.folder / "config.yaml").write_text(good.replace(old, new))
        # Planned, and the stages alone: a job of a run that began before the edit, or on a cluster.
        if number == 0:
            output = study.snakemake(check=False)
            assert words in " ".join(output.split()), output
            assert "Put the old value back" in output and "Traceback" not in output
        edited = Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)}))
        for stage in (
            lambda s: s.evaluate(0, 0, study.folder / "none.json"),
            lambda s: s.merge(0, study.folder / "none.json"),
            lambda s: s.propose(0, None, study.folder / "none.json"),
        ):
            with pytest.raises(UserError, match="a part that cannot change has") as refused:
                stage(edited)
            assert words in " ".join(str(refused.value).split())
            assert "Put the old value back" in str(refused.value)
    assert study.evaluations() == runs
    assert not study.archive.exists() and not (study.folder / "none.json").exists()
    (study.folder / "config.yaml").write_text(good)
    study.snakemake()
    kept(study, 8, before)


def test_a_results_folder_that_cannot_be_written_is_one_line(brief) -> None:
    study = brief(iterations=0)
    with mounted(study.folder / "disk", "-o", "ro"):
        output = study.snakemake("--config", "results=disk", check=False)
    assert "disk/toy: cannot be written to (Read-only file system); correct that" in output
    assert "Traceback" not in output
    (study.folder / "file").touch()
    output = study.snakemake("--config", "results=file", check=False)
    assert "file: is not a folder; name another one under `results`" in output
    assert "Traceback" not in output
