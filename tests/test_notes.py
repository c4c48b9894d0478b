"""Notes and tags of people: kept through resume, merge and fork, and shown where people look."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from toy import QUICK_STUDY

import dngo
from dngo.archive import iteration_attributes, verify
from dngo.archive.publishing import publish
from dngo.audit import audit, page
from dngo.cli import main
from dngo.errors import UserError
from dngo.report import summary
from dngo.report.page import study_page, version
from dngo.study import entries


@pytest.fixture
def study(tmp_path: Path, monkeypatch) -> Any:
    monkeypatch.chdir(tmp_path)
    made = dngo.create("old", {"x": (0, 1)}, folder=tmp_path, batch_size=2, **QUICK_STUDY)
    made.optimize(lambda x: x, 3, workers=0, batch_size=3, progress=False)
    made.write_config("old.yaml", objective="module:f")
    return made


def texts(study: Any) -> list[tuple[str, str, list[str]]]:
    return [(n.point, n.text, n.tags) for n in entries.notes(study.path)]


NOTES = [("0-1", "leak in the pump", ["leak", "pump"]), ("", "new sensors since May", [])]


def enter() -> None:
    words = ["leak in the pump", "--point", "0-1", "--tag", "leak", "pump"]
    assert main(["note", *words, "--config", "old.yaml"]) == 0
    assert main(["note", "new sensors since May", "--config", "old.yaml"]) == 0


def test_a_note_is_kept_through_merge_and_resume_and_each_counts_once(study, capsys) -> None:
    enter()
    assert texts(study) == NOTES
    for point in study.ask(2):
        study.note("measured twice", point, tags=["careful"])
        study.tell(point, 0.5)
    assert len(study.table()) == 5  # merged
    notes = [*NOTES, ("1-0", "measured twice", ["careful"]), ("1-1", "measured twice", ["careful"])]
    assert texts(study) == notes and verify(study.path) == []
    # The archive alone has them, and so has its copy for a paper, without who wrote them.
    (study.path.parent / "notes.json").unlink()
    assert texts(study) == notes
    publish(study.path, Path("copy.h5"), anonymous=True)
    assert verify(Path("copy.h5")) == []
    record = json.loads(iteration_attributes(Path("copy.h5"), 1)["merged"])["notes"]
    assert len(record) == 4 and all(n["origin"]["by"].startswith("person-") for n in record)
    # A later merge takes only what is new.
    study.note("the last", "0-0")
    study.tell(study.ask(1), 0.25)
    assert len(study.table()) == 6
    record = json.loads(iteration_attributes(study.path, 2)["merged"])["notes"]
    assert [n["text"] for n in record] == ["the last"]
    assert texts(study) == [*notes, ("0-0", "the last", [])]
    capsys.readouterr()
    assert main(["note", "--config", "old.yaml", "--point", "0-1"]) == 0
    assert capsys.readouterr().out.startswith("0-1: leak in the pump [leak, pump] (")


def test_a_note_that_is_typed_twice_is_written_once(study, capsys) -> None:
    enter()
    with pytest.raises(UserError, match=r"is your last one there already; nothing was written"):
        study.note("leak in the pump", "0-1", tags=["leak", "pump"])
    assert texts(study) == NOTES
    # A remark may be true again, later or elsewhere.
    study.note("mended", "0-1")
    study.note("leak in the pump", "0-1", tags=["leak", "pump"])
    study.note("leak in the pump", "0-0", tags=["leak", "pump"])
    assert len(texts(study)) == 5


def test_the_report_and_the_audit_show_notes(study) -> None:
    before = version(study._engine)
    assert before == version(study._engine)
    enter()
    assert version(study._engine) != before, "the page is made again"
    said = page(audit(study.path, "0-1"))
    assert "leak in the pump [leak, pump]" in said and "new sensors since May" in said
    assert "leak in the pump" not in page(audit(study.path, "0-0"))
    assert "leak in the pump" in summary(study._engine)
    html = study_page(study._engine)
    found = re.search(r'id="block-points">([^<]*)<', html)
    assert found
    points = json.loads(gzip.decompress(b64decode(found[1])))
    column = dict(zip(points["names"], points["rows"], strict=True))
    assert column["note"] == ["", "leak in the pump", ""]
    assert column["tags"] == ["", "leak, pump", ""]


def test_a_fork_takes_the_notes_on_its_points_and_on_the_study_along(study) -> None:
    enter()
    gone = min(study.table().itertuples(), key=lambda row: row.parameter_x)
    study.note("will be left out", gone.id)
    text = Path("old.yaml").read_text().replace("study: old", "study: new")
    text = re.sub(r"low: 0(\.0)?\b", f"low: {gone.parameter_x + 1e-9}", text)
    Path("new.yaml").write_text(text)
    assert main(["fork", str(study.path), "--config", "new.yaml"]) == 0
    new = dngo.open("new.yaml")
    where = new.table().set_index("parameter_x").id
    table = study.table().set_index("id").parameter_x
    kept = [n for n in NOTES if n[0] != gone.id]
    assert texts(new) == [(where[table[p]] if p else "", text, tags) for p, text, tags in kept]
    for note in entries.notes(new.path):
        assert note.origin["imported_from"].startswith("study old")
    assert len(texts(study)) == 3 and verify(new.path) == []


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--point", "7-12", "text"], "there is no such proposal; the iterations are 0 to 0"),
        (["--point", "0-3", "text"], "there is no such proposal"),
        (["--point", "best", "text"], "is not a proposal; proposals have names such as 7-12"),
        (["--point", "00-1", "text"], "is not a proposal; proposals have names such as 7-12"),
        (["--point", "3"], "is not a proposal; proposals have names such as 7-12"),
        (["--tag", "a,b"], "a tag is a word, without a comma"),
        (["x" * 501], "has 501 characters; the most are 500"),
    ],
)
def test_a_mistake_in_a_note_is_one_line(study, capsys, words: list[str], why: str) -> None:
    assert main(["note", *words, "--config", "old.yaml"]) == 1
    said = capsys.readouterr().err
    assert why in said and len(said.splitlines()) == 1 and texts(study) == []


def test_a_damaged_file_of_notes_is_named_and_stops_no_evaluation(study) -> None:
    enter()
    path = study.path.parent / "notes.json"
    path.write_text(path.read_text()[:-9])
    study.tell(study.ask(1), 1.0)
    with pytest.raises(UserError, match=r"notes\.json: is damaged .* the notes in it"):
        study.note("another")
    path.unlink()
    assert len(study.table()) == 4


@pytest.mark.parametrize("name", ["notes.json", "waiting.json"])
def test_what_lies_in_the_place_of_a_file_is_named(study, capsys, name: str) -> None:
    (study.path.parent / name).mkdir()
    words = {"notes.json": ["note", "text"], "waiting.json": ["add", "--set", "x=0.5"]}[name]
    assert main([*words, "--config", "old.yaml"]) == 1
    said = capsys.readouterr().err
    assert f"{name}: cannot be read (Is a directory)" in said and len(said.splitlines()) == 1
