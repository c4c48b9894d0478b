"""A folder whose name is not UTF-8: a study in it works, or is refused by one line before it begins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mine import Mine
from needs import MACHINE, missing
from running import ran
from toy import ROOT

import dngo
from dngo.cli import main
from dngo.plugins import Registry

NAME = os.fsdecode(b"caf\xe9")
TABLE = "x,y,objective,small\n0.1,0.2,1.0,1\n0.3,0.4,2.0,1\n0.5,0.6,3.0,1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, seen from outside."""
    found = tmp_path / NAME
    try:
        found.mkdir()
    except OSError:
        missing(f"{MACHINE}has a file system without such names")
    monkeypatch.chdir(tmp_path)
    return found


def look(config: str, folder: Path) -> None:
    """Every command that reads a study, writing into the folder."""
    out = folder / "out"
    out.mkdir()
    forms = {form: f"x.{form}" for form in Registry("dngo.exports").names()}
    page = ["--html", str(out / "page.html")]
    for words in (
        *([command] for command in ("status", "best", "replay", "verify", "check")),
        ["audit", "--all"],
        ["audit", "--proposal", "1-0"],
        ["report", *page],
        *(["export", "--format", k, "--output", str(out / v)] for k, v in forms.items()),
    ):
        assert main([words[0], config, *words[1:]]) == 0, words
    assert main(["compare", config, f"{NAME}/results/mine", "--html", str(out / "both.html")]) == 0
    assert "caf\ufffd" in (out / "page.html").read_text(encoding="utf-8")
    assert {path.name for path in out.iterdir()} == {*forms.values(), "page.html", "both.html"}


@pytest.mark.full
def test_a_study_is_run_and_looked_at(folder: Path) -> None:
    mine = Mine(folder)
    mine.write()
    words = [sys.executable, "-m", "dngo", "run", f"{NAME}/my.yaml", "--", "--cores", "1"]
    run = subprocess.run(words, capture_output=True, check=False, env={**os.environ})
    assert run.returncode == 0, run.stderr
    assert b"Traceback" not in run.stderr
    assert len((folder / "runs.txt").read_text().split()) == 10
    look(f"{NAME}/my.yaml", folder)


def test_a_study_is_begun_with_a_table_and_in_python_from_outside(folder: Path) -> None:
    """Its configuration then names the folder, and is archived."""
    Mine(folder).write()
    (folder / "table.csv").write_text(TABLE)
    config = f"{NAME}/my.yaml"
    assert main(["import", f"{NAME}/table.csv", "--config", config]) == 0
    study = dngo.open(config)
    study.tell(study.ask(2), [0.5, 0.4], constraints={"small": True})
    assert len(study.table()) == 5
    look(config, folder)


def test_snakemake_that_could_not_keep_its_name_is_refused(folder: Path) -> None:
    Mine(folder).write()
    words = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile"), "--cores", "1"]
    words += ["--configfile", f"{NAME}/my.yaml"]
    run = ran(words)
    assert run.returncode == 1
    *_, last = run.stderr.splitlines()
    assert "Snakemake needs paths in UTF-8; rename the folder" in last
    assert "Traceback" not in run.stderr and not (folder / "results").exists()
