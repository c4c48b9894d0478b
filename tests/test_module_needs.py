"""What a study needs of the workflow around it, and what that workflow's YAML makes of it: real Snakemake."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest
import yaml
from running import ran
from test_module import Own
from toy import ROOT, advance, planned

from dngo.archive import read_table
from dngo.batch import read_outcomes
from dngo.cli import main
from dngo.config import load
from dngo.config.yaml_1_1 import as_meant
from dngo.errors import UserError
from dngo.study import Study

SNAKEFILE = """
configfile: "own.yaml"


rule all:
    input:
        "{prefix}results/toy/done",


rule data:
    output:
        "data/train.txt",
    shell:
        "echo made >> made.txt; sleep 1; echo 0.3 > {{output}}"


module tuning:
    snakefile: {code!r}
    config: config["dngo"]
    {module}


use rule * from tuning as tuning_*
{more}
"""
NEEDY = """
import json, os, sys
p = json.load(sys.stdin)
with open("runs.txt", "a") as stream:
    stream.write(os.environ["DNGO_ID"] + chr(10))
print(json.dumps({"objective": (p["x"] - float(open("data/train.txt").read())) ** 2, "constraints": {"small": True}}))
"""


class Needy(Own):
    """A study whose objective cannot run without a file that another rule of its workflow makes."""

    def __init__(self, folder: Path, *, prefix: str = "", more: str = ""):
        super().__init__(folder)
        (folder / "objective.py").write_text(NEEDY)
        module = f'prefix: "{prefix}"' if prefix else ""
        code = str(ROOT / "Snakefile")
        text = SNAKEFILE.format(code=code, module=module, more=more, prefix=prefix and prefix + "/")
        (folder / "Snakefile").write_text(text)
        self.write(needs=["data/train.txt"], iterations=0)
        self.place = folder / prefix / "results/toy"


@pytest.mark.full
def test_what_a_study_needs_is_made_before_anything_is_paid_for(tmp_path: Path) -> None:
    own = Needy(tmp_path / "toy", prefix="sub/folder")
    own.snakemake()
    assert (read_table(own.place / "archive.h5").status == "ok").all()
    assert (own.folder / "made.txt").read_text() == "made\n"
    assert not (own.folder / "sub/folder/data").exists()
    # What is made anew is no reason to evaluate again.
    time.sleep(0.01)
    os.utime(own.folder / "data/train.txt")
    assert "Nothing to be done" in own.snakemake("-n")
    own.write(iterations=1)
    # A file that is there and is made anew hides nothing of what is to do behind it.
    dry = planned(own.snakemake("-n", "all", "--forcerun", "data"))
    assert (dry["data"], dry["tuning_evaluate"], dry["tuning_merge"]) == (1, 1, 1)
    (own.folder / "data/train.txt").unlink()
    own.snakemake()
    assert (own.folder / "made.txt").read_text() == "made\nmade\n"
    runs = (own.folder / "runs.txt").read_text().split()
    assert len(runs) == len(set(runs)) == 14


def test_a_name_with_braces_is_one_line_and_a_folder_with_them_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a {b}"
    folder.mkdir()
    monkeypatch.chdir(folder)
    text = "study: a\nobjective: {command: 'true'}\nspace: {x: {type: boolean}}\nneeds: [NAME]\n"
    for name in ("a{t}.txt", "a.txt"):
        (folder / name).touch()
        (folder / "config.yaml").write_text(text.replace("NAME", f"'{name}'"))
        assert main(["check"]) == (name != "a.txt")
    said = "needs.0: a{t}.txt: Snakemake would replace the braces by names; rename it"
    assert said in capsys.readouterr().err
    run = ran([sys.executable, "-m", "dngo", "run", "--", "-n"])
    assert run.returncode == 0, run.stderr


@pytest.mark.full
def test_outcomes_in_flight_are_kept_when_what_is_needed_is_newer(tmp_path: Path) -> None:
    """In a module without a prefix."""
    own = Needy(tmp_path / "toy")
    own.snakemake("--until", "tuning_evaluate")
    assert (own.folder / "made.txt").read_text() == "made\n"
    assert len((own.folder / "runs.txt").read_text().split()) == 8
    found = own.place.glob("pending/0/outcomes/*.json")
    assert [outcome.status for path in found for outcome in read_outcomes(path)] == ["ok"] * 8
    os.utime(own.folder / "data/train.txt")
    dry = planned(own.snakemake("-n"))
    assert "tuning_evaluate" not in dry
    assert dry["tuning_merge"] == 1
    own.snakemake("--forcerun", "data")
    assert len((own.folder / "runs.txt").read_text().split()) == 8


OVERRIDE = """
use rule evaluate from tuning as tuning_evaluate with:
    input: {input}
"""


def test_an_input_without_proposals_is_one_line(tmp_path: Path) -> None:
    more = OVERRIDE.format(input="'data/train.txt'")
    own = Needy(tmp_path / "toy", more=more)
    output = own.snakemake("-n", check=False)
    assert re.search(
        r"^rule tuning_evaluate: its `with: input:` leaves `proposals` out.*remove `input:`.*"
        r"needs: \[data/train.txt\]$",
        output,
        re.M,
    ), output
    assert "Traceback" not in output
    more = OVERRIDE.format(
        input="proposals='results/toy/iterations/{iteration}/proposals.json', data='data/train.txt'"
    )
    own = Needy(tmp_path / "other", more=more)
    assert planned(own.snakemake("-n"))["tuning_propose"] == 1


def test_alone_a_study_is_not_begun_without_what_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Needy(tmp_path / "toy")
    path = own.folder / "config.yaml"
    path.write_text(yaml.safe_dump(own.document["dngo"]))
    line = "needs.0: data/train.txt: there is no such file; make it first, or use the study as a module"
    output = own.snakemake("-s", str(ROOT / "Snakefile"), check=False)
    assert re.search(f"^{re.escape(line)}", output, re.M), output
    assert not own.results.exists()
    monkeypatch.chdir(own.folder)
    assert main(["check"]) == 1
    found = capsys.readouterr()
    assert re.match(rf"config.yaml:\d+: {re.escape(line)}", found.err)
    assert found.out == "", "not valid, then"
    (own.folder / "data").mkdir()
    (own.folder / "data/train.txt").write_text("0.3")
    assert main(["check"]) == 0
    advance(Study(load([path])), 0)
    (own.folder / "data/train.txt").unlink()
    assert main(["check"]) == 0, "nothing is to come that would need it"


# ---- YAML 1.1 -----------------------------------------------------------------------------------

STUDY = {"study": "a", "objective": {"command": "run"}}


def read(folder: Path, space: str, more: str = "") -> dict:
    """A study's section of a file as Snakemake reads it, and as the study has it."""
    path = folder / "own.yaml"
    path.write_text(
        f"seeds: [no, 1e-3]\ndngo:\n  study: a\n  objective: {{command: run}}\n  space: {{{space}}}\n{more}"
    )
    section = yaml.safe_load(path.read_text())["dngo"]
    return dict(as_meant({**section, "iterations": 3}, [path]))


@pytest.mark.parametrize(
    ("space", "wanted"),
    [
        ("x: {type: float, low: 1e-3, high: 1}", {"low": 0.001}),
        ("x: {type: categorical, choices: [1e-3, 1e-2], default: 1e-2}", {"choices": [0.001, 0.01]}),
        ("x: {type: categorical, choices: ['yes', 'no', '1e-3']}", {"choices": ["yes", "no", "1e-3"]}),
        ("x: {type: categorical, choices: [true, auto]}", {"choices": [True, "auto"]}),
        ("x: {type: fixed, value: 1e-3}, y: {type: boolean}", {"value": 0.001}),
        ("x: {type: boolean, active_if: {on: true}}, on: {type: boolean}", {"active_if": {"on": True}}),
    ],
)  # fmt: skip
def test_numbers_and_words_are_those_of_the_file(tmp_path: Path, space: str, wanted: dict) -> None:
    found = read(tmp_path, space)["space"]["x"]
    assert {key: found[key] for key in wanted} == wanted
    assert json.dumps({key: found[key] for key in wanted}) == json.dumps(wanted)  # 1 is not true


@pytest.mark.parametrize(
    ("space", "more", "said"),
    [
        (
            "x: {type: categorical, choices: [yes, no]}",
            "",
            "5: space.x.choices.0: yes is true to Snakemake, which reads YAML 1.1; write true, or 'yes' in "
            "quotes if it is a word",
        ),
        ("x: {type: boolean}", "  seed: 010\n", "6: seed: 010 is 8 to Snakemake"),
        (
            "x: {type: boolean}",
            "  stop: {target: 1:30}\n",
            "6: stop.target: 1:30 is 90 to Snakemake",
        ),
    ],
)
def test_what_would_be_another_thing_is_refused(
    tmp_path: Path, space: str, more: str, said: str
) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, space, more)
    assert str(error.value).startswith(f"{tmp_path / 'own.yaml'}:{said}")


def test_what_comes_to_the_same_is_left_alone(tmp_path: Path) -> None:
    log = "x: {type: float, low: 1, high: 2, log: yes}"
    assert as_meant(STUDY, [tmp_path / "nowhere.yaml"]) == STUDY
    assert read(tmp_path, log)["space"]["x"]["log"] in ("yes", True)
    text = "  resources: {evaluate: {slurm_partition: no}}\n  iterations: 1_000\n"
    found = read(tmp_path, "x: {type: boolean}", text)
    assert found["resources"] == {"evaluate": {"slurm_partition": "no"}}, "text is wanted there"


@pytest.mark.full
def test_snakemake_is_told_the_line(tmp_path: Path) -> None:
    own = Needy(tmp_path / "toy")
    path = own.folder / "own.yaml"
    mode = "    mode: {type: categorical, choices: [on, off]}"
    text = re.sub(r"^(  space:.*\n)", rf"\1{mode}\n", path.read_text(), count=1, flags=re.M)
    path.write_text(text)
    line = 1 + text.splitlines().index(mode)
    output = own.snakemake("-n", check=False)
    assert re.search(
        rf"^own.yaml:{line}: space.mode.choices.0: on is true to Snakemake", output, re.M
    ), output
    assert "Traceback" not in output
