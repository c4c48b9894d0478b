"""Mistakes in the set-up: each is named and costs at most one evaluation a slot; then the study
goes on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mine import GOOD, Mine, ends
from toy import BRIEF, advance

from dngo.archive import read_table, verify
from dngo.audit import audit, page
from dngo.batch import RAN
from dngo.evaluation.command import CannotStart
from dngo.evaluation.journal import Halted, Journal
from dngo.replay import replay

# What is mistaken, the objective's section, its files; what is said; evaluations that it costs.
MISTAKES = {
    "the module is mistyped": (
        "{callable: 'mir:f'}",
        {"mine.py": "def f(x, y): return x"},
        "objective.callable: 'mir:f' cannot be imported: ModuleNotFoundError",
        0,
    ),
    "the function is mistyped": (
        "{callable: 'mine:g'}",
        {},
        "objective.callable: 'mine:g' cannot be imported: AttributeError",
        0,
    ),
    "the function takes other arguments": (
        "{callable: 'mine:f'}",
        {"mine.py": "def f(a, b): return a"},
        "objective.callable: 'mine:f' cannot be called: ",
        0,
    ),
    "the script is not there": (
        "{command: '{python} objectiv.py'}",
        {},
        "would run 'objectiv.py', but there is no such file in",
        0,
    ),
    "a line for a shell": (
        "{command: 'cd sub && {python} objective.py'}",
        {},
        "objective.command: '&&' is a word for a shell, but the command runs without one",
        0,
    ),
    "the script is not executable": (
        "{command: ./objective.py}",
        {},
        "'./objective.py' cannot be started: ",
        0,
    ),
    "the interpreter line is wrong": (
        "{command: ./run.sh}",
        {"run.sh": "#!/usr/bin/pyhton\n"},
        "its first line names the interpreter '/usr/bin/pyhton', which does not exist",
        0,
    ),
    "the program is mistyped": (
        "{command: 'pyhton objective.py'}",
        {},
        "no program of this name is in PATH",
        0,
    ),
    "the folder is not there": (
        "{command: '{python} objective.py', working_directory: sub}",
        {},
        "objective.working_directory: ",
        0,
    ),
    "another environment's interpreter": (
        "",
        {"objective.py": "import pybamm_of_mine"},
        "objective.command: its interpreter lacks a module",
        1,
    ),
    "the program cannot be read": (
        "",
        {"objective.py": "def f(:"},
        "SyntaxError: invalid syntax",
        1,
    ),
    "a parameter of another name": (
        "",
        {"objective.py": "import json, sys; print(json.load(sys.stdin)['z'])"},
        "space, objective.environment: the program asks for a name that it does not get",
        1,
    ),
    "nothing is reported": (
        "",
        {"objective.py": "pass"},
        "objective: the program must report a number",
        1,
    ),
    "other constraints are reported": (
        "",
        {"objective.py": 'print(\'{"objective": 1, "constraints": {"tiny": true}}\')'},
        "constraints: the configuration and the report must have the same names",
        1,
    ),
    "a wrapper that finds nothing": (
        "{command: 'env A=1 nowhere'}",
        {},
        "objective.command: a program or file in it does not exist",
        1,
    ),
}


# What a run does with the others is the same, and no test need start Snakemake for it.
BY_SNAKEMAKE = (
    "the module is mistyped",  # seen as the run begins
    "another environment's interpreter",  # by a job
)


@pytest.mark.full
def test_no_mistake_costs_more_than_one_evaluation_a_slot_and_the_study_goes_on(
    mine: Mine, capsys
) -> None:
    """One user makes them all, one after another, in one study on one slot; then it is right."""
    spent = 0
    mine.options |= {"batch": 6, "iterations": 0}
    for name, (objective, files, words, cost) in MISTAKES.items():
        mine.write(objective, **files)
        for file in (mine.folder / "run.sh",):
            if file.exists():
                file.chmod(0o755)
        assert mine.dngo("check", *(["--run"] if cost else [])) == 1, name
        said = capsys.readouterr()
        assert words in said.out + said.err, name
        if name in BY_SNAKEMAKE:
            status, output = mine.snakemake()
            assert status != 0, name
            last = output[output.index("stopped early") :]
            assert "type the same command again" in last and "dngo check --run my.yaml" in last
        else:
            mine.study.begin()
            with pytest.raises(CannotStart) as stop:
                ends(mine.study)
            last = str(stop.value)
        assert words in last, f"{name}: {last}"
        spent += cost
        assert len(mine.outcomes) == spent, f"{name}: {mine.outcomes}"
    mine.write()
    assert mine.dngo("check", "--run") == 0
    assert not (mine.folder / "results/mine/archive.h5").exists(), "checking touches no study"
    (mine.folder / "runs.txt").unlink()
    status, output = mine.snakemake(*BRIEF)
    assert status == 0, output
    table = read_table(mine.study.archive)
    assert len(table) == 8 and verify(mine.study.archive) == []
    assert int((table.status == "ok").sum() + (table.status == "infeasible").sum()) == 8 - spent
    runs = (mine.folder / "runs.txt").read_text().split()
    assert len(runs) == len(set(runs)) == 8 - spent, "nothing ran twice"
    # What the mistakes have cost is evaluated once more, though all iterations are used up.
    assert mine.dngo("retry", "--failed") == 0
    assert f"{spent} points will be evaluated" in capsys.readouterr().out
    status, output = mine.snakemake(*BRIEF)
    assert status == 0, output
    after = read_table(mine.study.archive)
    assert len(after) == 8 + spent and verify(mine.study.archive) == []
    again, failed = after.v[8:], np.flatnonzero(~np.isin(after.status, RAN))
    assert sorted(again.tolist()) == sorted(after.v[failed].tolist())
    assert (after.status[:8] == table.status).all() and np.isin(after.status[8:], RAN).all()
    runs = (mine.folder / "runs.txt").read_text().split()
    assert len(runs) == len(set(runs)) == 8, "once each: the others, and those that had failed"
    assert [str(replay(mine.study.archive, t).verdict) for t in range(2)] == ["identical"] * 2
    assert "Repeats                 0-" in page(audit(mine.study.archive, "1-0"))
    assert mine.study.plan().iterations == ()


# ---- when a run stops ---------------------------------------------------------------------------


def test_twenty_alike_stop_a_run_and_each_run_goes_on(mine: Mine) -> None:
    mine.options["design"] = mine.options["points_per_job"] = 30
    code = "import os; raise SystemExit('diverged at ' + os.environ['DNGO_ID'])"
    mine.write(**{"objective.py": code})
    study = mine.study
    study.begin()
    study.propose(0, None, study.folder / "proposals.json")
    said = "the last 20 evaluations all ended in the same way: failed: exit status 1"
    with pytest.raises(Halted, match=said):
        ends(study)
    assert mine.outcomes == ["failed"] * 20
    with pytest.raises(Halted):  # nor does another job start anything
        ends(study)
    assert mine.outcomes == ["failed"] * 20
    study.begin()
    ends(study)
    assert mine.outcomes == ["failed"] * 30
    said = "all 30 evaluations of the design failed, like this: failed: exit"
    with pytest.raises(Halted, match=said):
        study.merge(0, study.folder / "receipt.json")
    table = read_table(study.archive)
    assert len(table) == 30 and (table.status == "failed").all(), "what has ended is in the archive"
    study.begin()
    assert study.plan().iterations == (1,)
    study.merge(0, study.folder / "receipt.json")  # and that it is there is no reason to stop


# Failures in turns, of two ways, or between what runs: facts about the points.
NOW_AND_THEN = GOOD.replace(
    "p = json",
    "os.environ['DNGO_ID'].endswith(('1', '4')) and sys.exit('a')\n"
    "os.environ['DNGO_ID'].endswith(('2', '5')) and sys.exit('b')\np = json",
)


@pytest.mark.parametrize(
    ("failures", "code", "ended"),
    [(0, "raise KeyError('diverged')", {"failed"}), (3, NOW_AND_THEN, {"failed", "ok"})],
)
def test_what_fails_now_and_then_or_with_one_key_stops_nothing(
    mine: Mine, failures: int, code: str, ended: set[str]
) -> None:
    more = f"stop: {{failures: {failures}}}"
    mine.options |= {"design": 30, "points_per_job": 30, "more": more}
    mine.write(**{"objective.py": code})
    study = mine.study
    study.begin()
    advance(study, 0)
    found = read_table(study.archive).status
    assert len(found) == 30 and set(found) >= ended


def test_once_something_has_run_a_mistake_in_a_corner_stops_nothing(mine: Mine) -> None:
    line = "os.environ['DNGO_ID'] == '0-0' or os.environ['DNGO_NOTHING']\np = json"
    mine.write(**{"objective.py": GOOD.replace("p = json", line)})
    study = mine.study
    study.begin()
    study.propose(0, None, study.folder / "proposals.json")
    ends(study)
    assert mine.outcomes.count("failed") == 7


def test_what_runs_when_a_run_stops_is_kept(mine: Mine) -> None:
    """Side by side: one shows a mistake, the other one is at work then, and its outcome counts."""
    mine.options["more"] = "points_at_once: 2"
    slow = GOOD.replace(
        "p = json",
        "import time\nif os.environ['DNGO_ID'] == '0-0': time.sleep(3)\n"
        "else: import nowhere\np = json",
    )
    mine.write(**{"objective.py": slow})
    study = mine.study
    study.begin()
    study.propose(0, None, study.folder / "proposals.json")
    with pytest.raises(Halted, match="no evaluation has worked yet"):
        ends(study)
    assert sorted(mine.outcomes) in (["failed", "infeasible"], ["failed", "ok"])
    mine.write()
    study.begin()
    ends(study)
    study.merge(0, study.folder / "receipt.json")
    runs = (mine.folder / "runs.txt").read_text().split()
    assert len(runs) == len(set(runs)) == 7, "nothing ran twice"
    assert len(read_table(study.archive)) == 8


def test_a_journal_is_a_help_and_no_condition(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "run.jsonl")
    journal.heed(1)  # nobody's run
    journal.note_stop("why")
    assert journal.stopped == "" and not journal.path.exists()
    line = json.dumps({"id": "0-1", "status": "failed", "message": "x" * 200})
    for text in ("", "{", "null\n", "[1]\n" + line, '{"ran": true}\n{"id": 1}\n\xff\n' + line[:30]):
        journal.path.write_text(text)
        journal.heed(1)
    journal.path.write_text('{"ran": true}\n' + line + "\n")
    with pytest.raises(Halted, match="the last 1 evaluations"):
        journal.heed(1)
