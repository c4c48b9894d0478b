"""A study under the real Snakemake: it runs, goes on from existing results, and says what it
found."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import h5py
import pytest
from running import ran
from test_module import copied, edit
from toy import QUICK, ROOT, Toy, advance, once_each, planned
from waiting import until

from dngo import archive
from dngo.archive import read_table
from dngo.audit import audit
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.evaluation.limits import Limits
from dngo.evaluation.slots import slots
from dngo.study import Plan, Study
from dngo.workflow.dag import Dag

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toy, str]:
    """A study of one iteration that one run has brought to its end, and what that run said."""
    sizes = {"iterations": 1, "batch_size": 6, "points_per_job": 8}
    study = Toy(tmp_path_factory.mktemp("first") / "toy", **sizes, sleep=0.0)
    return study, study.snakemake()


@pytest.fixture
def finished(first: tuple[Toy, str], tmp_path: Path) -> Toy:
    """That study in a folder of the test's own: 14 points, evaluated once each."""
    study = first[0].copied(tmp_path / "toy")
    once_each(study, 14)
    return study


def test_a_study_runs_and_says_what_it_found(first: tuple[Toy, str]) -> None:
    study, output = first
    once_each(study, 14)
    assert "Best point, proposal" in output
    assert "the default parameters" in output
    assert "best of the initial design" in output
    for name in ("summary.txt", "report.html"):
        assert (study.results / "report" / name).stat().st_size > 200
    # The report was refreshed after each iteration but the last, which has the final one.
    assert len(list(study.results.glob("iterations/*/shown"))) == 1
    # A surrogate is judged by the batch it proposed, and knows more than the mean of what it saw.
    with open(study.results / "report" / "scores.csv", newline="") as stream:
        scores = [row for row in csv.DictReader(stream) if row["part"] == "all"]
    assert [row["iteration"] for row in scores] == ["1"]
    assert float(scores[-1]["log_density"]) > float(scores[-1]["constant"])
    with h5py.File(study.archive) as file:
        assert "model" in file["iterations/1/surrogate"]
        assert json.loads(file["iterations/1"].attrs["environment"])["packages"]["torch"]
    assert not any((study.results / "pending").iterdir())
    # What was printed is bundled, and told by the audit.
    assert all(path.suffix == ".zip" for path in (study.results / "logs" / "points").iterdir())
    assert "stdout" in audit(study.archive, "1-1")["printed"]
    # Nothing is left to do, and that is said.
    again = study.snakemake()
    assert "Nothing to evaluate" in again
    once_each(study, 14)


def test_only_the_archive_is_left_and_the_study_goes_on_within_its_bounds(finished: Toy) -> None:
    study = finished
    for path in study.results.iterdir():
        if path != study.archive:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(study.folder / ".snakemake")
    study.configure(iterations=4, batch_size=6)
    study.snakemake(*QUICK, "iterations_per_run=1")
    once_each(study, 20)
    (log,) = (study.folder / ".snakemake" / "log").glob("*.log")
    dry = planned(log.read_text())
    assert (dry["fit"], dry["propose"], dry["merge"], dry["evaluate"]) == (1, 1, 1, 1)
    # What ends a study bounds it as well.
    where = {"results": str(study.results.parent)}

    def plan(stop: dict[str, float]) -> Plan:
        return Study(load([study.folder / "config.yaml"], {**where, "stop": stop})).plan()

    assert "stop.evaluations is reached" in plan({"evaluations": 20}).reason
    assert "stop.target is 1000" in plan({"target": 1000}).reason
    assert plan({"target": -1}).iterations == (3, 4)


def test_edited_code_and_raised_iterations_plan_only_new_ones(brief, tmp_path: Path) -> None:
    study = brief(iterations=0, points_per_job=8)
    code = copied(tmp_path / "code") / "Snakefile"
    study.snakemake(*QUICK, snakefile=code)
    edit(code.parent)
    study.configure(iterations=1, batch_size=6)
    dry = planned(study.snakemake("-n", snakefile=code))
    assert (dry["fit"], dry["propose"], dry["merge"], dry["evaluate"]) == (1, 1, 1, 1)


def test_a_copied_archive_goes_on_elsewhere(finished: Toy) -> None:
    study = finished
    elsewhere = study.folder / "elsewhere" / "toy"
    elsewhere.mkdir(parents=True)
    shutil.copy(study.archive, elsewhere)
    where = ("--config", "results=elsewhere", "iterations=2")
    dry = planned(study.snakemake("-n", *where))
    assert (dry["propose"], dry["evaluate"], dry["merge"]) == (1, 1, 1)
    changes = {"results": str(elsewhere.parent), "iterations": 2, "acquisition": "random"}
    advance(Study(load([study.folder / "config.yaml"], changes)), 2)
    assert len(read_table(elsewhere / "archive.h5")) == 20
    assert len(read_table(study.archive)) == 14
    assert sorted(study.evaluations().values()) == [1] * 20


def test_a_lost_archive_is_written_again_from_what_lies_on_disk(finished: Toy) -> None:
    study = finished
    digest = archive.read_header(study.archive).digest
    study.archive.unlink()
    dry = planned(study.snakemake("-n"))
    assert dry["merge"] == 2  # and the stages before, which find what they made
    again = Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)}))
    again.begin()
    for t in again.plan().iterations:
        advance(again, t)
    once_each(study, 14)
    assert archive.read_header(study.archive).digest == digest


def test_a_job_of_this_machine_has_the_cores_that_its_points_can_use(toy) -> None:
    config = toy().folder / "config.yaml"
    study = Study(load([config], {"points_per_job": 6, "points_at_once": "auto"}))
    for cores, threads in ((None, 1), (1, 1), (4, 4), (16, 6)):
        dag = Dag(study)
        dag.cores = cores
        assert dag.threads("evaluate") == threads
        assert dag.limits == {"cpus": threads}
        assert dag.threads("fit") == 1
        given = len(os.sched_getaffinity(0))
        assert len(slots("auto", 1, Limits.from_now(dag.limits))) == min(threads, given)


def test_status_while_it_runs_and_afterwards_passes_over_files_of_the_users_own(
    toy, capsys
) -> None:
    study = toy(iterations=0, sleep=1.0)
    for folder in ("iterations", "pending"):
        for name in ("2.bak", "notes", "²", "-1", "007"):
            (study.results / folder / name).mkdir(parents=True)
            (study.results / folder / name / "proposals.json").write_text("[]")
    options = [str(study.folder / "config.yaml"), "--results", str(study.folder / "results")]
    process = study.start("--cores", "2")
    until(lambda: len(study.evaluations()) >= 3, process)
    assert main(["status", *options]) == 0
    text = capsys.readouterr().out
    assert re.search(r"In flight      iteration 0: [2-6] of 8 evaluated, [0-2] running", text), text
    # Evaluated points count, although nothing is merged yet.
    count = int(re.search(r"Evaluations    (\d), \1 of them not merged yet", text)[1])
    assert count >= 2
    assert re.search(r"Best           \S+, proposal 0-\d", text), text
    process.communicate()
    once_each(study, 8)
    assert main(["status", *options, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["evaluations"] == 8
    assert data["in_flight"] == []
    assert set(data["best"]["parameters"]) == {"x", "y"}
    assert data["stage_seconds"]["evaluate"] > 4
    assert main(["report", *options]) == 0
    assert "Where to look next" in capsys.readouterr().out


DAMAGED = ("[]", "", "null", '{"format": 1}', '{"format": "1"}', "[" * 10_000, '{"format": 9}')


def test_damaged_files_are_named(toy) -> None:
    study = toy()
    (study.results / "pending/0").mkdir(parents=True)
    for content in DAMAGED:
        (study.results / "pending/0/proposals.json").write_text(content)
        with pytest.raises(UserError, match=r"pending/0/proposals.json: (is damaged|format 9)"):
            Study(
                load([study.folder / "config.yaml"], {"results": str(study.results.parent)})
            ).plan()


def made_by_make() -> dict[str, str]:
    """What a run of `make run` is given, typed in a shell that knows no environment."""
    words = ["make", "--eval", "given:; @env -0", "given"]
    environment = {**os.environ, "PATH": os.defpath}
    out = ran(words, cwd=ROOT, env=environment, check=True)
    return dict(line.split("=", 1) for line in out.stdout.split("\0") if "=" in line)


def test_what_a_run_prints_at_its_end_can_be_typed_as_it_stands(
    finished: Toy, tmp_path: Path
) -> None:
    """Also where the environment is not activated, as after `make run`, which has a PATH of its own."""
    study = finished
    found = made_by_make()
    assert found["PATH"] != found["DNGO_SHELL_PATH"] == os.defpath
    own = f"{Path(sys.executable).parent}:{os.defpath}"
    for given in ({"PATH": os.defpath}, {"PATH": own, "DNGO_SHELL_PATH": os.defpath}):
        output = ran(study.command("--cores", "2"), cwd=study.folder, env={**os.environ, **given})
        (line,) = [one for one in (output.stdout + output.stderr).splitlines() if " watch " in one]
        words = shlex.split(line.split("  (")[0])
        assert words[0].endswith("/dngo")
        done = ran(words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert "14 evaluations" in done.stdout
