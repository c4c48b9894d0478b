"""Tables as other programs write them: their points are those that are meant, or one line says why not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from running import ran

import dngo
from dngo.cli import main
from dngo.errors import UserError
from dngo.exchange import rows

SPACE = """
study: files
objective: {command: 'false'}
acquisition: random
space:
  x: {type: float, low: 0, high: 10}
  k: {type: categorical, choices: [a, "caf\\u00e9"]}
  b: {type: boolean}
"""
HEADER, ROW = "x,k,b,objective\n", "1.5,a,true,0.5\n"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.yaml"
    path.write_text(SPACE)
    return path


def told(config: Path, content: str | bytes, capsys: pytest.CaptureFixture[str]) -> str:
    """What `dngo tell` says of a table of this content on standard error; "" if it takes it."""
    table = config.with_name("table.csv")
    table.write_bytes(content if isinstance(content, bytes) else content.encode())
    status = main(["tell", "--config", str(config), str(table)])
    error = capsys.readouterr().err
    assert (status == 0) == (error == "") and error.count("\n") <= 1
    return error.replace(f"{table}: ", "").strip()


@pytest.mark.parametrize(
    "content",
    [
        HEADER + ROW,
        "\ufeff" + HEADER + ROW,
        "sep=,\n" + HEADER + ROW,
        "\n\n" + HEADER + ROW,
        "x, k ,b, objective\n1.5,a, true,0.5\n",
        (HEADER + ROW).replace("\n", "\r\n"),
        (HEADER + ROW).replace("\n", "\r"),
        "x,k,b,objective,,\n1.5,a,TRUE,0.5,,\n",
    ],
)
def test_a_table_is_read_as_its_program_wrote_it(config: Path, content: str, capsys) -> None:
    assert told(config, content, capsys) == ""
    (entry,) = dngo.open(config)._engine.entries()
    assert entry.parameters == {"x": 1.5, "k": "a", "b": True}
    assert entry.outcome is not None and entry.outcome.objective == 0.5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "has no point"),
        (HEADER, "has no point"),
        ('[{"x": 1}]', "is JSON; a table is CSV or Parquet"),
        (' {"x": 1}\n{"x": 2}', "is JSON; a table is CSV or Parquet"),
        ((HEADER + ROW).encode("utf-16-le"), "is not CSV; save it as CSV in UTF-8"),
        (b"PK\x03\x04" + bytes(100), "is a workbook or a zip file; save its table as CSV"),
        (b"\x1f\x8b\x08" + bytes(100), "is compressed; unpack it first"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "is HDF5; `dngo fork` begins a study with an archive"),
        (b"\x80\x04\x95" + bytes(100), "is a pickle"),
        ((HEADER + ROW).replace("true", "1"), "line 2: b: '1' is not one of [false, true]"),
        (HEADER.replace("k", " x"), "has two columns called 'x'"),
        ("n;x\n1;2\n", "its cells are separated by semicolons"),
        ("n\tx\n1\t2\n", "its cells are separated by tabs"),
        (b"x,y\n1,2\n\xe9,1\n", ":3: is not written in UTF-8"),
        ("x,y\n1,2\n".encode("utf-16"), ":1: is not written in UTF-8"),
        ('x,y\n1,"2\n', "a quote is opened and not closed"),
        ("x,k,b,objective\n1,2\n", ":2: has 2 cells under 4 columns"),
        ("," + HEADER + "0," + ROW, "unknown name ''"),
    ],
)
def test_what_is_no_table_is_said_in_one_line(
    config: Path, content: str | bytes, said: str, capsys
) -> None:
    found = told(config, content, capsys)
    assert said in found and "codec" not in found and "field" not in found
    assert dngo.open(config)._engine.entries() == []


def test_a_letter_with_an_accent_is_one_letter(config: Path, capsys) -> None:
    """Programs write it as one sign or as two, and no eye tells them apart."""
    assert told(config, HEADER + "1,cafe\u0301,true,0.5\n", capsys) == ""
    (entry,) = dngo.open(config)._engine.entries()
    assert entry.parameters["k"] == "caf\u00e9"
    config.write_text(SPACE.replace("[a,", '["cafe\\u0301",'))
    with pytest.raises(UserError, match=r"space.k: .* look alike"):
        dngo.open(config)


def test_a_table_of_more_cells_than_memory_holds_is_refused(
    config: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "MOST_CELLS", 40)
    lines = [f"{i / 2},a,true,0.5\n" for i in range(1, 13)]
    assert told(config, HEADER + "".join(lines[:10]), capsys) == ""
    said = "cells, more than a study can use"
    assert said in told(config, HEADER + "".join(lines), capsys)


def test_a_small_file_that_unpacks_to_more_is_refused(config: Path, capsys) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    path = config.with_name("t.parquet")
    parquet.write_table(pa.table({"x": np.zeros(rows.MOST_CELLS + 1, np.float32)}), path)
    assert path.stat().st_size < 10**6
    said = "cells, more than a study can use"
    assert said in told(config, path.read_bytes(), capsys)


@pytest.mark.parametrize(
    ("of_trial", "of_study", "said"),
    [
        (["a"], None, "trial 0: small: 'a' is neither true nor false"),
        ({"a": 1}, None, "trial 0: small: 'a' is neither true nor false"),
        ([-1.0], 7, ""),
        ([-1.0], ["other"], "unknown name 'constraint_other'"),
        (None, None, "trial 0: constraints must be {small: true or false}: small is missing"),
    ],
)
def test_what_stands_for_constraints_in_an_optuna_study_may_be_anything(
    config: Path, of_trial: Any, of_study: Any, said: str, capsys
) -> None:
    import optuna
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    config.write_text(SPACE + "constraints: [small]\n")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    backend = optuna.storages.journal.JournalFileBackend(str(config.with_name("log")))
    study = optuna.create_study(storage=optuna.storages.JournalStorage(backend))
    if of_study is not None:
        study.set_user_attr("constraints", of_study)
    some = CategoricalDistribution(("a", True, False))
    known: dict[str, Any] = {
        "params": {"x": 1.0, "k": "a", "b": True},
        "distributions": {"x": FloatDistribution(0, 10), "k": some, "b": some},
        "system_attrs": {} if of_trial is None else {"constraints": of_trial},
    }
    study.add_trial(optuna.trial.create_trial(value=0.5, **known))
    found = told(config, config.with_name("log").read_bytes(), capsys)
    assert found.startswith(said) and bool(found) == bool(said)


def test_the_name_of_a_column_moves_no_cursor(config: Path, capsys) -> None:
    found = told(config, HEADER.replace("x", "x,\x1b[2J") + "1,2,a,true,1\n", capsys)
    assert found.isprintable() and "unknown name" in found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run"], "nothing can be written there, and Snakemake keeps"),
        (["add", "--config", "config.yaml", "--set", "x=1", "k=a", "b=true"], "nothing can be"),
        (["init", "other.yaml"], "nothing can be written there"),
        (["check"], ""),
        (["add", "unreadable.csv"], "unreadable.csv: cannot be read (Permission denied)"),
    ],
)
def test_a_folder_that_nothing_can_be_written_to_is_named(
    config: Path, words: list[str], said: str, request: pytest.FixtureRequest
) -> None:
    folder = config.parent
    folder.joinpath("unreadable.csv").touch(mode=0)
    folder.chmod(0o555)
    start = [sys.executable, "-m", "dngo"]
    if os.geteuid() == 0:  # who may write anywhere
        request.getfixturevalue("setpriv")
        start = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *start]
    try:
        done = ran([*start, *words], cwd=folder)
    finally:
        folder.chmod(0o755)
    assert (done.returncode == 0) == (said == "") == (done.stderr == "")
    assert done.stderr.count("\n") <= 1 and said in done.stderr
    assert not said.startswith("nothing") or done.stderr.startswith(f"{folder}")
