"""The study under the real Snakemake: it runs, it is killed, and nothing is evaluated twice."""

from __future__ import annotations

import csv
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import h5py
import psutil
import pytest
from toy import ROOT, Toy

from dngo import archive
from dngo.archive import read_table, verify
from dngo.audit import audit
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.evaluation.limits import Limits
from dngo.evaluation.slots import slots
from dngo.study import Study
from dngo.workflow.dag import Dag


def kill_tree(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Kill a process and all its descendants, wherever their process groups are."""
    process = psutil.Process(pid)
    for member in [process, *process.children(recursive=True)]:
        try:
            member.send_signal(number)
        except psutil.Error:
            continue


def planned(output: str) -> dict[str, int]:
    """Jobs by rule in a dry run's statistics."""
    return {r: int(n) for r, n in re.findall(r"^(\w+) +(\d+)$", output, re.M)}


def once_each(toy: Toy, rows: int) -> None:
    """The archive has this many rows, intact, and every one was evaluated exactly once."""
    table = read_table(toy.archive)
    assert len(table) == rows
    assert verify(toy.archive) == []
    runs = toy.evaluations()
    assert sorted(runs.values()) == [1] * rows
    assert len(set(zip(table.iteration, table.slot, strict=True))) == rows


def test_a_study_runs_and_says_what_it_found(toy) -> None:
    study = toy(iterations=2)
    output = study.snakemake()
    once_each(study, 20)
    assert "Best point, proposal" in output
    assert "the default parameters" in output
    assert "best of the initial design" in output
    for name in ("summary.txt", "report.html"):
        assert (study.results / "report" / name).stat().st_size > 200
    # The report was refreshed after each iteration but the last, which has the final one.
    assert len(list(study.results.glob("iterations/*/shown"))) == 2
    # Each surrogate is judged by the batch it proposed, and knows more than the mean of what it saw.
    with open(study.results / "report" / "scores.csv", newline="") as stream:
        scores = [row for row in csv.DictReader(stream) if row["part"] == "all"]
    assert [row["iteration"] for row in scores] == ["1", "2"]
    assert float(scores[-1]["log_density"]) > float(scores[-1]["constant"])
    with h5py.File(study.archive) as file:
        assert "model" in file["iterations/2/surrogate"]
        assert json.loads(file["iterations/1"].attrs["environment"])["packages"]["torch"]
    assert not any((study.results / "pending").iterdir())
    # What was printed is bundled, and told by the audit.
    assert all(path.suffix == ".zip" for path in (study.results / "logs" / "points").iterdir())
    assert "stdout" in audit(study.archive, "2-1")["printed"]
    # Nothing is left to do, and that is said.
    again = study.snakemake()
    assert "Nothing to evaluate" in again
    once_each(study, 20)


def test_killed_at_random_moments_it_goes_on_without_repeating(toy) -> None:
    study = toy(iterations=2, sleep=0.2)
    seed = int(os.environ.get("DNGO_TEST_SEED", time.time_ns() % 2**32))
    print(f"DNGO_TEST_SEED={seed}")
    rng = random.Random(seed)
    held: dict[str, int] = {}  # how often each point had run when it had an outcome
    for kill in (True, True, True, True, False):
        process = study.start("--cores", "2")
        if kill:
            time.sleep(rng.uniform(2.0, 8.0))
            kill_tree(process.pid)
        process.communicate()
        runs = Counter(line.split()[0] for line in study.evaluations().elements())
        for point, count in held.items():
            assert runs[point] == count, "a point that had an outcome was run again"
        known = {_id(p) for p in _outcome_files(study)} | _archived_ids(study)
        held = {point: runs[point] for point in known}
    assert len(read_table(study.archive)) == len(held) == 20
    assert verify(study.archive) == []


def _outcome_files(study: Toy) -> list[Path]:
    return list((study.results / "pending").glob("*/outcomes/*.json"))


def _id(path: Path) -> str:
    return f"{path.parents[1].name}-{path.stem}"


def _archived_ids(study: Toy) -> set[str]:
    if not study.archive.exists():
        return set()
    table = read_table(study.archive)
    return {f"{t}-{s}" for t, s in zip(table.iteration, table.slot, strict=True)}


def test_only_the_archive_is_left_and_the_study_goes_on(toy) -> None:
    study = toy(iterations=0)
    study.snakemake()
    once_each(study, 8)
    for path in study.results.iterdir():
        if path != study.archive:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(study.folder / ".snakemake")
    study.configure(iterations=1, batch_size=6)
    dry = planned(study.snakemake("-n"))
    assert (dry["fit"], dry["propose"], dry["merge"], dry["evaluate"]) == (1, 1, 1, 2)
    study.snakemake()
    once_each(study, 14)


def test_edited_code_and_raised_iterations_plan_only_new_ones(toy, tmp_path: Path) -> None:
    study = toy(iterations=1)
    copy = tmp_path / "code"
    for name in ("rules", "scripts", "dngo", "envs", "profiles"):
        shutil.copytree(ROOT / name, copy / name)
    shutil.copy(ROOT / "Snakefile", copy)
    study.snakemake(snakefile=copy / "Snakefile")
    for path in [*copy.rglob("*.py"), *copy.rglob("*.smk"), copy / "Snakefile"]:
        path.write_text(path.read_text() + "\n# a comment\n")
    assert "evaluate" not in planned(study.snakemake("-n", snakefile=copy / "Snakefile"))
    study.configure(iterations=2, batch_size=6)
    dry = planned(study.snakemake("-n", snakefile=copy / "Snakefile"))
    assert (dry["fit"], dry["propose"], dry["merge"], dry["evaluate"]) == (1, 1, 1, 2)
    study.snakemake(snakefile=copy / "Snakefile")
    once_each(study, 20)


def test_nothing_the_archive_or_the_disk_holds_is_run_again_whatever_the_flags(toy) -> None:
    study = toy(iterations=1, sleep=0.5)
    process = study.start("--cores", "2")
    while len(study.evaluations()) < 11:  # in the middle of the second batch
        time.sleep(0.05)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does
    process.communicate()
    held = {_id(p) for p in _outcome_files(study)} | _archived_ids(study)
    assert len(held) >= 9
    study.snakemake("-F")
    once = study.evaluations()
    assert len(read_table(study.archive)) == 14
    assert all(n == 1 for line, n in once.items() if line.split()[0] in held)
    # Everything archived: force every rule, ask for old files by name, with every trigger.
    study.snakemake("-F", "--rerun-triggers", "mtime", "code", "input", "params")
    target = "results/toy/iterations/0/outcomes/1.json"
    study.snakemake("-f", target)
    study.snakemake("-F", "results/toy/iterations/1/receipt.json")
    assert study.evaluations() == once
    assert verify(study.archive) == []
    outcomes = json.loads((study.folder / target).read_text())["outcomes"]
    assert [o["slot"] for o in outcomes] == [4, 5, 6, 7]


def test_a_run_in_the_background_does_not_hear_what_interrupts_others(toy) -> None:
    """`snakemake &` in a script ignores SIGINT, so its jobs must: ended, they would be tried again."""
    study = toy(iterations=0, sleep=0.5)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as `&` does, and children inherit it
    try:
        process = study.start("--cores", "2")
    finally:
        signal.signal(signal.SIGINT, before)
    while len(study.evaluations()) < 3:
        time.sleep(0.05)
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "Trying to restart" not in output
    once_each(study, 8)


def test_a_copied_archive_goes_on_elsewhere(toy) -> None:
    study = toy(iterations=0)
    study.snakemake()
    elsewhere = study.folder / "elsewhere" / "toy"
    elsewhere.mkdir(parents=True)
    shutil.copy(study.archive, elsewhere)
    study.snakemake("--config", "results=elsewhere", "iterations=1")
    table = read_table(elsewhere / "archive.h5")
    assert len(table) == 14
    assert len(read_table(study.archive)) == 8
    assert sorted(study.evaluations().values()) == [1] * 14


def test_a_lost_archive_is_written_again_from_what_lies_on_disk(toy) -> None:
    study = toy(iterations=1)
    study.snakemake()
    digest = archive.read_header(study.archive).digest
    study.archive.unlink()
    study.snakemake()
    once_each(study, 14)
    assert archive.read_header(study.archive).digest == digest
    assert main(["replay", str(study.archive)]) == 0


def test_a_batch_in_flight_keeps_its_points_and_jobs(toy) -> None:
    study = toy(iterations=1, sleep=0.5)
    process = study.start("--cores", "2")
    while len(study.evaluations()) < 10:
        time.sleep(0.05)
    kill_tree(process.pid)
    process.communicate()
    in_flight = json.loads((study.results / "pending/1/proposals.json").read_text())["proposals"]
    study.configure(iterations=2, batch_size=4)
    study.snakemake()
    table = read_table(study.archive)
    assert [int((table.iteration == t).sum()) for t in range(3)] == [8, 6, 4]
    found = [p["parameters"]["x"] for p in in_flight]
    assert found == table.v[table.iteration == 1][:, 0].tolist()


@pytest.mark.parametrize("victim", ["main", "evaluate"])
def test_orphans_are_waited_for_and_dead_owners_succeeded(toy, victim: str) -> None:
    study = toy(iterations=0, sleep=2.0)
    process = study.start("--cores", "2")
    starts = study.results / "pending/0/claims"
    while not list(starts.glob("*.starts")):
        time.sleep(0.05)
        assert process.poll() is None
    if victim == "main":  # its jobs go on as orphans
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    else:
        for child in psutil.Process(process.pid).children():
            child.kill()
        process.communicate()
    study.snakemake("--cores", "2")
    once_each(study, 8)


def test_two_snakemakes_do_not_share_a_study(toy) -> None:
    study = toy(iterations=0, sleep=1.5)
    process = study.start("--cores", "1")
    while not (study.results / ".run.claim").exists():
        time.sleep(0.05)
    output = study.snakemake("--cores", "1", check=False)
    assert "is held by process" in output
    assert "Traceback" not in output
    output, _ = process.communicate()
    assert process.returncode == 0, output
    once_each(study, 8)


def test_overlapping_batches(toy) -> None:
    study = toy(iterations=3)
    study.configure(iterations=3, batch_size=4, extra="batches_in_flight: 2\n")
    study.snakemake()
    once_each(study, 20)
    pending = [list(archive.iteration_attributes(study.archive, t)["pending"]) for t in range(4)]
    assert pending == [[], [], [1], [2]]
    trained = [
        archive.iteration_attributes(study.archive, t)["training_iterations"] for t in range(4)
    ]
    assert trained == [0, 1, 1, 2]


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


def test_iterations_per_run_and_stop_bound_what_is_planned(toy) -> None:
    study = toy(iterations=3)
    study.snakemake("--config", "iterations_per_run=2")
    once_each(study, 14)
    output = study.snakemake("-n", "--config", "stop={evaluations: 14}")
    assert "stop.evaluations is reached" in output
    output = study.snakemake("-n", "--config", "stop={target: 1000}")
    assert "stop.target is 1000" in output
    assert planned(study.snakemake("-n", "--config", "stop={target: -1}"))["merge"] == 2


def test_status_while_it_runs_and_afterwards(toy, capsys) -> None:
    study = toy(iterations=0, sleep=1.0)
    options = [str(study.folder / "config.yaml"), "--results", str(study.folder / "results")]
    process = study.start("--cores", "2")
    while len(study.evaluations()) < 3:
        time.sleep(0.05)
    assert main(["status", *options]) == 0
    text = capsys.readouterr().out
    assert re.search(r"In flight    iteration 0: [2-6] of 8 evaluated, [0-2] running", text), text
    # What was evaluated counts, though nothing is merged yet.
    count = int(re.search(r"Evaluations  (\d), \1 of them not merged yet", text)[1])
    assert count >= 2
    assert re.search(r"Best         \S+, proposal 0-\d", text), text
    process.communicate()
    main(["status", *options, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["evaluations"] == 8
    assert data["in_flight"] == []
    assert set(data["best"]["parameters"]) == {"x", "y"}
    assert data["stage_seconds"]["evaluate"] > 4
    assert main(["report", *options]) == 0
    assert "Where to look next" in capsys.readouterr().out


def test_a_mistake_is_one_line_and_nothing_is_planned(toy) -> None:
    study = toy(iterations=1)
    study.configure(iterations=1, batch_size=4, extra="itertions: 3\n")
    last = len((study.folder / "config.yaml").read_text().splitlines())
    output = study.snakemake(check=False)
    assert f"config.yaml:{last}: itertions: unknown key; did you mean 'iterations'?" in output
    assert "Traceback" not in output
    assert not study.results.exists()


def test_an_archive_that_cannot_be_read_stops_the_run_and_is_left_alone(toy) -> None:
    study = toy(iterations=1)
    study.results.mkdir(parents=True)
    study.archive.write_bytes(b"\x89HDF\r\n\x1a\n" + b"x" * 1000)
    process = study.start()
    output, _ = process.communicate()
    assert process.returncode != 0
    assert "cannot be read as an archive" in output
    assert "Traceback" not in output
    assert study.archive.read_bytes()[8:] == b"x" * 1000


# ---- what a study is, is fixed by its first batch -----------------------------------------------


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


def test_an_edit_of_what_a_study_is_stops_it_before_anything_is_lost(toy) -> None:
    study = toy(iterations=0, sleep=0.5)
    process = study.start("--cores", "2")
    while len(list(study.results.glob("pending/0/outcomes/*.json"))) < 2:
        time.sleep(0.05)
        assert process.poll() is None
    kill_tree(process.pid)  # in the design: there is no archive yet
    process.communicate()
    good = (study.folder / "config.yaml").read_text()
    before = study.evaluations()
    for old, new, words in EDITS.values():
        (study.folder / "config.yaml").write_text(good.replace(old, new))
        # Planned, and the stages alone: a job of a run that began before the edit, or on a cluster.
        output = study.snakemake(check=False)
        assert words in " ".join(output.split()), output
        assert "put the old value back" in output and "Traceback" not in output
        edited = Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)}))
        for stage in (
            lambda s: s.evaluate(0, 0, study.folder / "none.json"),
            lambda s: s.merge(0, study.folder / "none.json"),
            lambda s: s.propose(0, None, study.folder / "none.json"),
        ):
            with pytest.raises(UserError, match="what cannot change has"):
                stage(edited)
    assert study.evaluations() == before
    assert not study.archive.exists() and not (study.folder / "none.json").exists()
    (study.folder / "config.yaml").write_text(good)
    study.snakemake()
    runs = study.evaluations()  # the two that the kill stopped half-way wrote no line then
    assert sorted(runs.values()) == [1] * 8
    assert len(read_table(study.archive)) == 8


def test_files_of_the_users_own_are_passed_over_and_damaged_ones_named(toy) -> None:
    study = toy(iterations=0)
    for folder in ("iterations", "pending"):
        for name in ("2.bak", "notes", "²", "-1", "007"):
            (study.results / folder / name).mkdir(parents=True)
            (study.results / folder / name / "proposals.json").write_text("[]")
    study.snakemake()
    once_each(study, 8)
    options = [str(study.folder / "config.yaml"), "--results", str(study.folder / "results")]
    assert main(["status", *options]) == 0
    (study.results / "pending/2").mkdir(parents=True)
    for content in (
        "[]",
        "",
        "null",
        '{"format": 1}',
        '{"format": "1"}',
        "[" * 10_000,
        '{"format": 9}',
    ):
        (study.results / "pending/2/proposals.json").write_text(content)
        with pytest.raises(UserError, match=r"pending/2/proposals.json: (is damaged|format 9)"):
            Study(
                load([study.folder / "config.yaml"], {"results": str(study.results.parent)})
            ).plan()


# ---- what stops a run, and what does not --------------------------------------------------------


def test_what_cannot_be_started_stops_the_run_and_the_same_command_goes_on(toy) -> None:
    study = toy(iterations=0)
    good = (study.folder / "config.yaml").read_text()
    (study.folder / "config.yaml").write_text(good.replace("{python} objective.py", "progam {x}"))
    process = study.start("--cores", "1")
    output, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "objective.command: 'progam' cannot be started: No such file or directory" in output
    assert "Traceback" not in output
    assert output.count("evaluate: objective.command") <= 2, "the others are not tried"
    assert not list(study.results.glob("pending/0/outcomes/*"))
    (study.folder / "config.yaml").write_text(good)
    study.snakemake()
    once_each(study, 8)


def test_a_results_folder_that_cannot_be_written_is_one_line(toy) -> None:
    study = toy(iterations=0)
    disk = study.folder / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "dngo", disk], check=False).returncode:
        pytest.skip("cannot mount a file system")
    try:
        output = study.snakemake("--config", "results=disk", check=False)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
    assert "disk/toy: cannot be written to (Read-only file system); mend that" in output
    assert "Traceback" not in output
    (study.folder / "file").touch()
    output = study.snakemake("--config", "results=file", check=False)
    assert "file: is not a folder; name another one under `results`" in output
    assert "Traceback" not in output


def made_by_make() -> dict[str, str]:
    """What a run of `make run` is given, typed in a shell that knows no environment."""
    words = ["make", "--eval", "given:; @env -0", "given"]
    environment = {**os.environ, "PATH": os.defpath}
    out = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return dict(line.split("=", 1) for line in out.stdout.split("\0") if "=" in line)


@pytest.mark.parametrize("make", [False, True])
def test_what_a_run_prints_at_its_end_can_be_typed_as_it_stands(
    toy, tmp_path: Path, make: bool
) -> None:
    """Also where the environment is not activated, as after `make run`, which has a PATH of its own."""
    study = toy(iterations=0)
    environment = {**os.environ, "PATH": os.defpath}
    if make:
        found = made_by_make()
        assert found["PATH"] != found["DNGO_SHELL_PATH"] == os.defpath
        environment["DNGO_SHELL_PATH"] = os.defpath
        environment["PATH"] = f"{Path(sys.executable).parent}:{os.defpath}"
    output = subprocess.run(
        study.command("--cores", "2"),
        cwd=study.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    (line,) = [one for one in (output.stdout + output.stderr).splitlines() if " watch " in one]
    words = shlex.split(line.split("  (")[0])
    assert words[0].endswith("/dngo")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "8 evaluations" in done.stdout
