"""Studies as modules of a workflow of the user's: real Snakemake, without our profile."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml
from running import ran
from toy import QUICK, ROOT, Toy, advance, held, kept, kill_tree, planned
from waiting import until

from dngo.archive import read_table
from dngo.config import load
from dngo.report import conclude
from dngo.study import Study

SNAKEFILE = """
configfile: "own.yaml"


rule all:
    input:
        "answer.txt",


module first:
    snakefile: {code!r}
    config: config["dngo"]


use rule * from first as first_*


# One rule is changed: Snakemake reads the module once more.
use rule evaluate from first as first_evaluate with:
    priority: 5


module second:
    snakefile: {code!r}
    config: config["other"]
    prefix: "sub/folder"


use rule * from second as second_*


onstart:
    print("the user's own onstart")


rule answer:
    input:
        best="results/toy/best.json",
        done=["results/toy/done", rules.second_conclude.output.done],
        text=config["greeting"],
    output:
        "answer.txt",
    shell:
        "cat {{input.text}} {{input.best}} > {{output}}"
"""


class Own(Toy):
    """A workflow with two studies in it, `toy` and sub/folder/.../`other`, and a rule after both."""

    def __init__(self, folder: Path, *, code: Path = ROOT, sleep: float = 0.0):
        super().__init__(folder, iterations=1, batch_size=6, sleep=sleep)
        study = yaml.safe_load((folder / "config.yaml").read_text())
        study |= {"acquisition": "random", "points_per_job": 8}
        self.document = {
            "greeting": "hello.txt",
            "dngo": study,
            "other": {**study, "study": "other", "design": {"size": 2}, "iterations": 0},
        }
        (folder / "hello.txt").write_text("hello\n")
        (folder / "config.yaml").unlink()
        (folder / "Snakefile").write_text(SNAKEFILE.format(code=str(code / "Snakefile")))
        self.write()

    def write(self, **changes: object) -> None:
        """Write own.yaml, with these changes to the first study."""
        self.document["dngo"].update(changes)
        (self.folder / "own.yaml").write_text(yaml.safe_dump(self.document))

    def command(self, *options: str, snakefile: Path | None = None) -> list[str]:
        cores = [] if "--cores" in options else ["--cores", "2"]
        return [sys.executable, "-m", "snakemake", *cores, *options]


def copied(folder: Path) -> Path:
    """The code in a folder of its own, where it may be edited; compiled, as it is here."""
    for name in ("rules", "scripts", "dngo", "envs", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))
    shutil.copy(ROOT / "Snakefile", folder)
    return folder


def edit(code: Path) -> None:
    """All that Snakemake reads, and a module of the package."""
    read = [*code.glob("scripts/*"), *code.glob("rules/*"), code / "Snakefile"]
    for path in [*(path for path in read if path.is_file()), code / "dngo/study/__init__.py"]:
        path.write_text(path.read_text() + "\n# a comment\n")


@pytest.mark.full
def test_two_studies_and_a_rule_that_waits_for_their_end(tmp_path: Path) -> None:
    code = copied(tmp_path / "code")
    own = Own(tmp_path / "toy", code=code)
    # The end is that of the study, not of a run.
    own.write(iterations_per_run=1)
    output = own.snakemake("results/toy/done", check=False)
    assert "the user's own onstart" in output
    assert "study toy is not at its end: 1 iterations are left" in output
    assert not (own.results / "done").exists()
    assert len(read_table(own.archive)) == 8
    own.snakemake()
    table = read_table(own.archive)
    other = read_table(own.folder / "sub/folder/results/other/archive.h5")
    assert (len(table), len(other)) == (14, 2)
    assert sum(own.evaluations().values()) == 16  # the two studies have points in common
    text = (own.folder / "answer.txt").read_text()
    best = json.loads(text.removeprefix("hello\n"))
    assert best["objective"] == min(table.objective[table.status == "ok"])
    assert set(best["parameters"]) == {"x", "y"}
    assert json.loads((own.results / "done").read_text())["evaluations"] == 14
    for folder in (own.results, own.folder / "sub/folder/results/other"):
        assert not (folder / ".run.claim").exists()
        assert (folder / "logs" / "evaluate" / "0" / "0.log").exists(), "logs have the prefix, too"
    assert sorted(p.name for p in own.folder.iterdir() if p.name != ".snakemake") == sorted(
        [
            *("Snakefile", "answer.txt", "hello.txt", "objective.py", "own.yaml", "results"),
            *("runs.txt", "sub"),
        ]
    )

    # Finished: nothing is planned, whatever of ours changes, by Snakemake's own triggers. What is the user's
    # keeps them.
    edit(code)
    own.write(retries=7, resources={"evaluate": {"runtime": 5}})
    snakefile = (own.folder / "Snakefile").read_text()
    (own.folder / "Snakefile").write_text(snakefile.replace('"cat {', '"cat -u {'))
    assert planned(own.snakemake("-n")) == {"all": 1, "answer": 1, "total": 2}
    # As a section of the whole configuration, which stays the user's.
    text = (own.folder / "Snakefile").read_text()
    (own.folder / "Snakefile").write_text(text.replace('config: config["dngo"]', "config: config"))
    assert "Nothing to be done" in own.snakemake("-n", "results/toy/done")
    # A study that goes on is planned, and what depends on its end.
    own.write(iterations=2)
    assert planned(own.snakemake("-n")) == {
        **dict.fromkeys(("all", "answer", "first_conclude", "first_fit"), 1),
        **{"first_propose": 1, "first_merge": 1, "first_evaluate": 1, "total": 7},
    }
    assert (own.results / "done").exists()  # a plan changes nothing


@pytest.mark.full
def test_killed_edited_and_claimed_in_mid_run(tmp_path: Path) -> None:
    code = copied(tmp_path / "code")
    own = Own(tmp_path / "toy", code=code, sleep=0.5)
    process = own.start("results/toy/done")
    until(lambda: len(own.evaluations()) >= 11, process)  # in the middle of the second batch
    # No other Snakemake works on the study meanwhile; on one that has nothing to do here it may.
    (own.folder / "config.yaml").write_text(yaml.safe_dump(own.document["dngo"]))
    (own.folder / "other.yaml").write_text(yaml.safe_dump(own.document["other"]))
    root = [sys.executable, "-m", "snakemake", "-s", ROOT / "Snakefile", "--cores", "1"]
    process.send_signal(signal.SIGSTOP)  # or it might be at its end before the other has begun
    done = ran(root, cwd=own.folder)
    assert done.returncode == 1
    assert "is held by process" in done.stderr
    kill_tree(process.pid)
    process.communicate()
    before = held(own)
    assert len(before) >= 10
    edit(code)
    own.write(retries=7)
    words = ("--rerun-incomplete", "--nolock", "results/toy/done")
    own.snakemake(*words)
    kept(own, 14, before)
    log = max((own.folder / ".snakemake" / "log").glob("*.log"))
    assert not {"first_fit", "first_propose"} & set(planned(log.read_text()))


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('config: config["dngo"]', "", "module: `config:` has no study in it"),
        ('config: config["dngo"]', 'config: {**config["dngo"], "sed": 1}', "module: config: sed"),
        (
            'config: config["other"]',
            'config: {**config["other"], "results": "/r"}',
            "module: its prefix cannot be put before `results: /r`",
        ),
        ('prefix: "sub/folder"', 'replace_prefix: {"results/": "r/"}', "module: its prefix cannot"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, before: str, after: str, message: str) -> None:
    own = Own(tmp_path / "toy")
    text = (own.folder / "Snakefile").read_text()
    (own.folder / "Snakefile").write_text(text.replace(before, after))
    output = own.snakemake("-n", check=False)
    assert re.search(rf"^{re.escape(message)}", output, re.M), output
    assert "Traceback" not in output


@pytest.mark.full
def test_the_root_has_the_end_too_and_a_study_that_goes_on_has_it_no_more(toy) -> None:
    study = toy(iterations=0, sleep=0.2, points_per_job=8)
    study.without = ("--omit-from", "report", "progress")
    begun = Study(load([study.folder / "config.yaml"], {"results": str(study.results.parent)}))
    advance(begun, 0)
    done, best = study.results / "done", study.results / "best.json"
    conclude(begun, done, best)
    assert json.loads(best.read_text())["id"].startswith("0-")
    process = study.start(*QUICK, "iterations=1", "--cores", "2")
    until(lambda: len(study.evaluations()) >= 9, process)
    assert not done.exists()
    process.communicate()
    assert json.loads(done.read_text())["evaluations"] == 14
    assert os.stat(done).st_mtime_ns >= os.stat(study.archive).st_mtime_ns
