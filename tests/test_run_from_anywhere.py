"""`dngo init` and `dngo run`: your own study, from an empty folder, typed in any folder."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from running import ran
from toy import BRIEF, advance, held, kept, kill_tree
from waiting import until

from dngo.archive import read_table
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.init import begin, parameter
from dngo.provenance import workflow_folder
from dngo.study import Study
from dngo.workflow.start import command

# Proposals cost nothing here: what is tested is where and how things run.
QUICK = [*BRIEF, "--cores", "2", "--config", "acquisition=random", "points_per_job=4"]


def dngo(*words: str | Path, folder: Path, **options) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dngo", *map(str, words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        **options,
    )


def answer(*words: str | Path, folder: Path, status: int = 0) -> str:
    process = dngo(*words, folder=folder)
    output, _ = process.communicate()
    assert process.returncode == status, output
    assert "Traceback" not in output
    return output


# ---- dngo init ----------------------------------------------------------------------------------

LINES = ["x 0 1", "rate 1e-4 1 log", "n 1 64 log", "t -5 5", "kind a,null,1", "f 0.5 2"]


def reported(path: Path, given: dict) -> dict:
    """What the objective that was written says of a point."""
    words = [sys.executable, path.with_name("objective.py")]
    return json.loads(ran(words, input=json.dumps(given), check=True).stdout)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_what_is_written_is_valid_and_runs(tmp_path: Path, direction: str) -> None:
    path = tmp_path / "deep" / "my.yaml"
    written = begin(path, {"direction": direction, "parameters": LINES, "study": None})
    assert written == [path, path.with_name("objective.py")]
    config = load([path])
    assert config.study == "deep"
    assert list(config.space) == [line.split()[0] for line in LINES]
    assert config.objective.direction == direction
    (defaults,) = config.search_space.to_parameters(config.search_space.defaults())
    value = reported(path, defaults)["objective"]
    assert value != 0
    assert (value > 0) == (direction == "minimize")


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    for name in ("config.yaml", "objective.py"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(UserError, match=f"{name}: is there already, and nothing was written"):
            begin(path, {})
        assert [p.name for p in tmp_path.iterdir()] == [name]
        assert (tmp_path / name).read_text() == "mine"
        (tmp_path / name).rename(tmp_path / "kept")
        (tmp_path / "kept").unlink()
    # An objective that is there already is named as the command, and left alone.
    (tmp_path / "objective.py").write_text("mine")
    assert begin(path, {"objective": "{python} objective.py"}) == [path]


def test_answers_that_make_no_study_are_one_line(here: Path, capsys) -> None:
    for words, said in (
        (["x 1"], "is not NAME LOW HIGH"),
        (["x 1 0"], "answers: space.x"),
        (["x 0 1", "--objective", "run {q}"], "{q} is not a parameter"),
        (["x 0 1", "--parameter", "x 0 2"], "x: this name is given twice"),
        (["x 0 1", "--constraint", "c", "--constraint", "c < 1"], "c: this name is given twice"),
    ):
        assert main(["init", "--parameter", *words]) == 1
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert list(here.iterdir()) == []


def test_it_asks_for_what_is_not_given(tmp_path: Path) -> None:
    lines = ["x 0 2", "what?", "kind a,b", "z 1 9 if kind=a", "w 0 1 log", "x 0 3", ""]
    lines += ["heat <= 3", "heat < <", "ok", ""]
    replies = iter(["mine", "maximize", *lines, "./run.sh {x}"])
    questions = []

    def prompt(question: str, **options: object) -> str:
        questions.append(question)
        return next(replies)

    assert begin(tmp_path / "my.yaml", {}, prompt) == [tmp_path / "my.yaml"]
    config = load([tmp_path / "my.yaml"])
    assert (config.study, config.objective.direction) == ("mine", "maximize")
    assert (list(config.space), config.objective.command) == (["x", "kind", "z"], "./run.sh {x}")
    assert config.space["z"].active_if == {"kind": ["a"]}
    assert {n: str(t) for n, t in config.reported.items()} == {"heat": "<= 3", "ok": "None"}
    assert "x: a whole number from 0 to 2; x 0.0 2.0 is a real one" in questions[3]
    assert "'what?': is not NAME LOW HIGH" in questions[4]
    assert "log: true needs values above zero" in questions[7]
    assert "x: this name is given twice" in questions[8]
    assert "'heat < <': is not NAME <= BOUND" in questions[11]
    given = {"study": "a", "direction": "minimize", "parameters": LINES, "objective": "a"}
    begin(tmp_path / "other.yaml", given, prompt)
    assert len(questions) == 14, "what is given is not asked for"


def test_an_end_of_input_writes_nothing_and_is_one_line(here: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("mine\n"))
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["init"]) == 1
    error = capsys.readouterr().err.strip().splitlines()
    assert error[-1] == "init: the input ended before the last question; nothing was written"
    assert list(here.iterdir()) == []


def test_conditions_and_constraints_are_written_and_run(tmp_path: Path, capsys) -> None:
    path = tmp_path / "my.yaml"
    words = [w for p in ("kind 1,2", "m 0 1 if kind=2", "t 300 500") for w in ("--parameter", p)]
    held = ["--constraint", "heat >= 0.5", "--constraint", "ok"]
    assert main(["init", str(path), *words, *held, "--yes"]) == 0
    said = "t: a whole number from 300 to 500; t 300.0 500.0 is a real one"
    assert said in capsys.readouterr().out
    config = load([path])
    assert config.space["m"].active_if == {"kind": ["2"]}
    for given in ({"kind": "1", "t": 400}, {"kind": "2", "t": 400, "m": 0.5}):
        assert reported(path, given)["constraints"] == {"heat": 0.5, "ok": True}


LINES_OF_NONE = ["x", "x 1", "x a b", "x 0 1 2", "x 0 1 linear", "x 0 if kind=a", "n 1_0 20"]


@pytest.mark.parametrize("line", [*LINES_OF_NONE, "x 0 1 if kind"])
def test_a_parameter_that_is_none_is_one_line(line: str) -> None:
    said = "'kind' is not OTHER=VALUE" if line.endswith("kind") else "is not NAME LOW HIGH"
    with pytest.raises(UserError, match=said):
        parameter(line)


# ---- dngo run -----------------------------------------------------------------------------------


@pytest.mark.full
def test_killed_and_gone_on_with_from_other_folders_and_found_from_everywhere(toy) -> None:
    study = toy(iterations=0, sleep=0.3)
    elsewhere = study.folder / "else" / "where"
    elsewhere.mkdir(parents=True)
    path = os.path.relpath(study.folder / "config.yaml", elsewhere)
    process = dngo("run", path, "--", *QUICK, folder=elsewhere)
    until(lambda: len(study.evaluations()) >= 3, process)
    # In mid-run, from a third folder.
    shown = json.loads(answer("status", study.folder / "config.yaml", "--json", folder=Path("/")))
    assert shown["evaluations"] >= 2
    assert Path("/", shown["folder"]) == study.results
    kill_tree(process.pid)
    process.communicate()
    before = held(study)
    assert len(before) >= 2
    answer("run", "toy/config.yaml", "--", *QUICK, folder=study.folder.parent)
    kept(study, 8, before)
    assert list(elsewhere.iterdir()) == []
    assert not (study.folder.parent / ".snakemake").exists()
    # Snakemake itself, started in the configuration's folder, knows it as its own.
    assert "Nothing to evaluate" in study.snakemake("-n")


@pytest.mark.full
def test_a_study_that_was_begun_where_snakemake_ran_goes_on_there(toy) -> None:
    study = toy(iterations=0)
    above = study.folder.parent
    # What 0.1.0 did in this folder: results beside it.
    begun = Study(load([study.folder / "config.yaml"], {"results": str(above / "results")}))
    advance(begun, 0)
    study.configure(iterations=1, batch_size=6)
    answer("run", "config.yaml", "--", *QUICK, folder=study.folder)
    assert not study.results.exists()
    table = read_table(above / "results" / "toy" / "archive.h5")
    assert len(table) == 14
    assert sorted(study.evaluations().values()) == [1] * 14


@pytest.mark.full
def test_signals_and_the_exit_status_are_snakemakes(toy) -> None:
    study = toy(iterations=0, sleep=0.5)
    process = dngo("run", "--", *QUICK, folder=study.folder)
    until(study.evaluations, process)
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate()
    assert process.returncode != 0
    assert "stopped early" in output
    assert not (study.results / ".run.claim").exists(), "Snakemake itself was told"
    assert "unrecognized arguments: --no-such-option" in answer(
        "run", "--", "--no-such-option", folder=study.folder, status=2
    )


def test_mistakes_are_one_line(tmp_path: Path) -> None:
    assert answer("run", folder=tmp_path, status=1).strip() == (
        "config.yaml: there is no such file; `dngo init` writes one"
    )
    begin(tmp_path / "config.yaml", {})
    text = (tmp_path / "config.yaml").read_text()
    (tmp_path / "config.yaml").write_text(text.replace("iterations:", "iteratons:"))
    assert len(answer("run", folder=tmp_path, status=1).splitlines()) == 1


def test_profiles_are_found_here_beside_the_configuration_and_in_the_package(
    toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(iterations=0)
    monkeypatch.chdir(study.folder.parent)

    def profile(*given: str) -> str:
        words = command(Path("toy/config.yaml"), None, given)
        return words[words.index("--profile") + 1]

    assert profile("--profile", "slurm", "-n") == str(workflow_folder() / "slurm")
    for place in (study.folder, study.folder.parent):
        (place / "slurm").mkdir()
        (place / "slurm" / "config.yaml").write_text("cores: 1\n")
        found = profile("--profile", "slurm")
        assert Path(found).resolve() == place / "slurm"
    words = command(Path("toy/config.yaml"), "there", ["--config", "iterations=3", "-d", "x"])
    assert words.count("--config") == 1
    assert f"results={study.folder.parent / 'there'}" in words
    assert "--directory" not in words
    # Snakemake's modules take seconds, and wait ten more while Slurm's controller is away.
    code = "from dngo.workflow.start import *; import sys; command(Path('toy/config.yaml'), None, ['-n'])"
    answered = subprocess.check_output(
        [sys.executable, "-c", f"{code}; print('snakemake' in sys.modules)"], text=True
    )
    assert answered == "False\n"


def test_a_parameter_that_no_study_can_have_is_asked_for_again(tmp_path: Path) -> None:
    questions = []

    def prompt(question: str, **options: object) -> str:
        questions.append(question)
        return replies.pop(0)

    replies = ["mine", "minimize", "x 0 1 log", "x 1 2 log", "x 0 3", "", "", "./run.sh"]
    begin(tmp_path / "my.yaml", {}, prompt)
    assert "log: true needs values above zero" in questions[3]
    assert "x: this name is given twice" in questions[5]
    assert load([tmp_path / "my.yaml"]).space["x"].log


def test_bash_completes_commands_and_options() -> None:
    script = 'eval "$1"; COMP_WORDS=(dngo st); COMP_CWORD=1; _shtab_dngo; echo "${COMPREPLY[@]}"'
    text = ran([sys.executable, "-m", "dngo", "--print-completion", "bash"], check=True).stdout
    found = ran(["bash", "-c", script, "bash", text])
    assert "status" in found.stdout.split(), found.stderr
