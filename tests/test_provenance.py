"""From the archive alone: every batch is derived again, every proposal explained."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from fuzzing.archive import rechain
from running import ran
from toy import Toy, advance, finish

from dngo.cli import main
from dngo.config import load
from dngo.replay import replay
from dngo.study import Study

pytestmark = pytest.mark.full  # its study is made once


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    toy = Toy(tmp_path_factory.mktemp("provenance"), iterations=2, batch_size=5, sleep=0.0)
    toy.configure(iterations=2, batch_size=5, extra="batches_in_flight: 2\n")
    study = Study(load([toy.folder / "config.yaml"], {"results": str(toy.folder / "results")}))
    advance(study, 0)
    for t in (1, 2):  # two batches are in flight
        advance(study, t, merge=False)
    finish(study, 1)
    finish(study, 2)
    # The archive is moved, and the folder it came from is gone.
    shutil.move(toy.archive, toy.folder / "moved.h5")
    shutil.rmtree(toy.results)
    return toy


def test_every_iteration_replays_to_the_same_bits(study: Toy, capsys) -> None:
    assert main(["replay", str(study.folder / "moved.h5")]) == 0
    assert capsys.readouterr().out.splitlines() == [f"iteration {t}: identical" for t in range(3)]


def test_replay_names_the_first_number_that_differs(study: Toy, tmp_path: Path) -> None:
    altered = tmp_path / "altered.h5"
    shutil.copy(study.folder / "moved.h5", altered)
    with h5py.File(altered, "r+") as file:
        row = file["iterations/2"].attrs["first_row"] + 2
        file["proposals/mean"][row] += 1.0
        rechain(file)
    verdict = replay(altered, 2)
    assert verdict.verdict == "different"
    assert "mean of the proposals [2]" in verdict.difference
    with h5py.File(altered, "r+") as file:
        file["proposals/mean"][row] -= 1.0 - 1e-9
        rechain(file)
    assert replay(altered, 2).verdict == "within tolerance"
    with h5py.File(altered, "r+") as file:  # what the surrogate learnt from: nothing replays
        known = int(np.flatnonzero(np.isfinite(file["outcomes/objective"][:8]))[0])
        file["outcomes/objective"][known] += 0.1
        rechain(file)
    assert replay(altered, 2).verdict == "different"


# Variables that make a library choose the kernels of another processor.
OTHERS = {"blas": {"OPENBLAS_CORETYPE": "Prescott"}, "torch": {"ATEN_CPU_CAPABILITY": "default"}}


def elsewhere(*paths: Path) -> list[str]:
    """The verdicts on the last iteration of a process with other kernels."""
    code = (
        "import sys; from pathlib import Path; from dngo.replay import replay\n"
        "for name in sys.argv[1:]: print(replay(Path(name), 2))"
    )
    words = [sys.executable, "-c", code, *paths]
    done = ran(words, env={**os.environ, **OTHERS["blas"]}, check=True)
    return done.stdout.splitlines()


def test_another_processor_is_no_difference_and_is_named(study: Toy) -> None:
    environment = {**os.environ, **OTHERS["blas"], **OTHERS["torch"]}
    words = [sys.executable, "-m", "dngo", "replay", str(study.folder / "moved.h5")]
    done = ran(words, env=environment)
    assert done.returncode == 0, done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "iteration 0: identical"  # a design is computed with no kernel
    other = [line for line in lines if "identical" not in line]
    assert other
    for line in other:
        assert re.match(
            r"iteration \d: within tolerance; another processor: [45] of 5 points lie", line
        )
        assert all(re.search(rf"; {name} was \S.* and is \S", line) for name in OTHERS)


def test_what_was_altered_is_no_matter_of_the_processor_and_which_one_it_was_may_not_be_known(
    study: Toy, tmp_path: Path
) -> None:
    altered, old = tmp_path / "altered.h5", tmp_path / "old.h5"
    for path in (altered, old):
        shutil.copy(study.folder / "moved.h5", path)
    with h5py.File(altered, "r+") as file:
        row = file["iterations/2"].attrs["first_row"]
        file["proposals/mean"][row] += file["proposals/std"][row]
        rechain(file)
    with h5py.File(old, "r+") as file:
        for group in (file["iterations/2"], file["iterations/2/surrogate"]):
            made = json.loads(group.attrs["environment"])
            del made["kernels"]
            group.attrs["environment"] = json.dumps(made, sort_keys=True)
        rechain(file)
    assert str(replay(altered, 2)).startswith("iteration 2: different: mean of the proposals [0]")
    assert replay(old, 2).verdict == "identical"
    of_altered, of_old = elsewhere(altered, old)
    assert of_altered.startswith("iteration 2: different; another processor: ")
    assert "differ by at most 1 deviations" in of_altered
    assert of_old.startswith("iteration 2: different: ")
    assert "the processor that made it is not known" in of_old
    assert "5 of 5 points lie" in of_old


def test_the_kernels_of_a_fit_and_of_a_batch_are_recorded(study: Toy) -> None:
    with h5py.File(study.folder / "moved.h5") as file:
        for group in (file["iterations/2"], file["iterations/2/surrogate"]):
            found = json.loads(group.attrs["environment"])["kernels"]
            assert found["blas"].startswith("openblas ") and found["numpy"] and found["torch"]


def test_audit_of_every_proposal(study: Toy, capsys) -> None:
    path = str(study.folder / "moved.h5")
    with h5py.File(path) as file:
        ids = [
            f"{t}-{s}"
            for t, s in zip(file["proposals/iteration"], file["proposals/slot"], strict=True)
        ]
    for name in ids:
        assert main(["audit", path, "--proposal", name]) == 0
        text = capsys.readouterr().out
        assert f"Proposal {name} in" in text
        assert not re.search(r"\bnan\b", text)
    main(["audit", path, "--proposal", "2-1", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["proposed"]["pending"] == [*(f"1-{i}" for i in range(5)), "2-0"]
    assert data["proposed"]["training_rows"] == 8
    assert len(data["nearest_before"]) == 3
    assert data["environment"]["packages"]["torch"]
    assert main(["audit", path, "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(ids)


def test_mistakes_are_one_line(study: Toy, capsys) -> None:
    path = str(study.folder / "moved.h5")
    for words in (["--proposal", "9-9"], ["--proposal", "nine"]):
        assert main(["audit", path, *words]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["replay", path, "--iteration", "17"]) == 1
    assert "it holds 0 to 2" in capsys.readouterr().err
    assert main(["verify", "/nowhere.h5"]) == 1
    assert "there is no such archive" in capsys.readouterr().err


def test_secrets_are_not_recorded(study: Toy) -> None:
    os.environ["A_SECRET"] = "hunter2"
    from dngo.provenance import environment

    assert "hunter2" not in json.dumps(environment())
    del os.environ["A_SECRET"]
