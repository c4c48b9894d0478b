"""What an evaluation leaves for people: notes, tags and pictures, and never another file."""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluating import outcome_of, python
from toy import QUICK_STUDY

import dngo
from dngo.batch import read_outcomes, read_pictures, write_outcomes
from dngo.cli import main
from dngo.evaluation.pictures import held as held_picture
from dngo.evaluation.pictures import kept, packed, unpacked
from dngo.report.page import study_page
from dngo.storage.picture import LARGEST, kind_of, put

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SVG = b'<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg"><script>hacked=1</script></svg>'


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The evaluation's own folder, and where its picture is kept in the study's."""
    workdir = tmp_path / "my" / "work" / "3" / "7"
    workdir.mkdir(parents=True)
    return workdir, tmp_path / "my" / "images" / "3" / "7"


@pytest.mark.parametrize(("name", "data", "kind"), [("a.png", PNG, "png"), ("b/c.SVG", SVG, "svg")])
def test_a_picture_in_its_folder_is_kept(folders, name: str, data: bytes, kind: str) -> None:
    workdir, place = folders
    (workdir / name).parent.mkdir(exist_ok=True)
    (workdir / name).write_bytes(data)
    for said in (name, str(workdir / name)):
        assert kept({"image": said, "n": 1}, workdir, place) == {"image": said, "n": 1}
        assert place.with_name(f"7.{kind}").read_bytes() == data
    # A later start leaves another kind: one picture is there, not two.
    (workdir / "z.jpg").write_bytes(b"\xff\xd8\xff\xe0 and so on")
    kept({"image": "z.jpg"}, workdir, place)
    assert [path.name for path in place.parent.iterdir()] == ["7.jpg"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("../../../../secret.png", "lies neither in the evaluation's folder"),
        ("link.png", "lies neither in the evaluation's folder"),
        ("passwd.png", "is no PNG, JPEG or SVG picture"),
        ("large.png", "is larger than 1 MiB"),
        ("pipe.png", "it is no regular file"),
        ("none.png", "no such file"),
        ("a\0b.png", "null"),
        ("y" * 5000 + ".svg", ""),
        ("\x1b[2J\n.svg", ""),
    ],
)
def test_anything_else_is_left_out_with_the_reason(folders, name: str, why: str) -> None:
    workdir, place = folders
    secret = workdir.parents[3] / "secret.png"
    secret.write_bytes(PNG)
    (workdir / "link.png").symlink_to(secret)
    (workdir / "passwd.png").write_text("root:x:0:0")
    (workdir / "large.png").write_bytes(PNG + bytes(LARGEST))
    os.mkfifo(workdir / "pipe.png")
    found = kept({"image": name}, workdir, place)
    said = found["image_left_out"]
    assert found["image"] == name and why in said and said.isprintable() and len(said) < 300
    assert "image_left_out" in kept({"image": str(secret)}, workdir, place)
    assert not list(place.parent.glob("*"))
    # Other images are words.
    for image in ("ubuntu:22.04", 3, ["a.png"], None):
        assert kept({"image": image}, *folders) == {"image": image}


@pytest.mark.parametrize(
    "text", ["<html><svg>", "<svgs>", "", "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg/>"]
)
def test_what_only_looks_like_a_picture_is_none(text: str) -> None:
    with pytest.raises(ValueError, match="is no PNG"):
        kind_of(text.encode())


def test_pictures_travel_with_outcomes_up_to_a_size(tmp_path: Path, monkeypatch) -> None:
    outcome = outcome_of(python("print(1)"), tmp_path)
    outcomes = [replace(outcome, slot=i, metadata={"image": "a.png"}) for i in range(4)]
    outcomes[3] = replace(outcomes[3], metadata={"image": "ubuntu:22.04"})
    for i in (0, 1, 3):
        put(PNG, tmp_path / f"{i}")
    monkeypatch.setattr("dngo.evaluation.pictures.MOST_BYTES", len(PNG) + 3)
    sent, texts = packed(outcomes, lambda o: tmp_path / str(o.slot))
    assert list(texts) == [outcomes[0].id] and [o.slot for o in sent] == [0, 1, 2, 3]
    assert "has more than 0 MiB of pictures" in sent[1].metadata["image_left_out"]
    assert sent[2:] == outcomes[2:]
    write_outcomes(tmp_path / "sent.json", sent, pictures=texts)
    assert read_outcomes(tmp_path / "sent.json") == sent
    assert read_pictures(tmp_path / "sent.json") == texts
    assert unpacked(sent[0], texts[sent[0].id], tmp_path / "there") == outcomes[0]
    assert (tmp_path / "there.png").read_bytes() == PNG
    for text in ("no picture", "bm8gcGljdHVyZQ=="):
        assert "image_left_out" in unpacked(outcomes[0], text, tmp_path / "not").metadata
    assert not list(tmp_path.glob("not*"))


def painted(x: float) -> dict[str, Any]:
    """An objective that leaves a picture, a note and tags."""
    (dngo.workdir() / "plot.svg").write_bytes(SVG.replace(b"hacked=1", f"hacked={x}".encode()))
    said = {"note": f"<b>at</b> {x:.3f}", "tags": ["fine", "<i>"], "image": "plot.svg"}
    return {"objective": x, "metadata": said}


def test_the_report_and_the_audit_show_what_evaluations_left(tmp_path: Path, capsys) -> None:
    study = dngo.create("painted", {"x": (0, 1)}, folder=tmp_path, batch_size=3, **QUICK_STUDY)
    study.optimize(painted, 3, workers=2)
    assert sorted(held(study)) == ["0/0.svg", "0/1.svg", "0/2.svg"]
    page = study_page(study._engine)
    points = json.loads(_block(page, "points"))
    column = dict(zip(points["names"], points["rows"], strict=True))
    assert column["tags"] == ["fine, <i>"] * 3 and column["note"][0].startswith("<b>at</b>")
    table = study.table()
    for row, x in enumerate(table["parameter_x"]):
        address = _block(page, f"image-{row}")
        assert address.startswith("data:image/svg+xml;base64,")
        assert f"hacked={x}" in base64.b64decode(address.partition(",")[2]).decode()
    assert "<script>hacked" not in page and "<b>at</b>" not in page
    assert main(["audit", str(study.path), "--proposal", "0-1"]) == 0
    said = capsys.readouterr().out
    assert all(one in said for one in ("images/0/1.svg in the study's", "fine, <i>", "Note "))
    # An earlier start may have left a picture where a later one left none that could be kept.
    left_out = {"image": "plot.svg", "image_left_out": "plot.svg: is larger than 1 MiB"}
    assert not held_picture(left_out) and held_picture({"image": "plot.svg"})
    # The folder is the study's: a link that is put there later leads nowhere.
    picture = study.path.parent / "images" / "0" / "1.svg"
    picture.unlink()
    assert main(["audit", str(study.path), "--proposal", "0-1"]) == 0
    assert "not beside the archive" in capsys.readouterr().out
    picture.symlink_to(Path(__file__))
    page = study_page(study._engine)
    assert "block-image-1" not in page and "2 of 3 pictures are shown" in page


def _block(page: str, name: str) -> str:
    found = re.search(rf'id="block-{name}">([^<]*)<', page)
    assert found is not None, name
    return gzip.decompress(base64.b64decode(found[1])).decode()


def held(study: Any) -> dict[str, bytes]:
    """The pictures of a study's folder, by path."""
    folder = study.path.parent / "images"
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*.*")}


def test_a_picture_that_is_reported_is_kept_as_one_of_an_evaluation(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "a.svg").write_bytes(SVG)
    (tmp_path / "plots" / "b.png").write_bytes(PNG)
    study = dngo.create("told", {"x": (0, 1)}, folder=tmp_path, **QUICK_STUDY)
    first, second = study.ask(2)
    study.tell(first, 1.0, metadata={"image": "plots/a.svg"})
    # Of a table: relative to its folder. Nobody asked for the second of these points.
    (tmp_path / "plots" / "more.csv").write_text(
        "id,x,objective,metadata\n"
        f'{second.id},,2.0,"{{""image"": ""b.png""}}"\n'
        ',0.125,3.0,"{""image"": ""a.svg""}"\n'
        ',0.25,4.0,"{""image"": ""../none.png""}"\n'
    )
    study.write_config("told.yaml", objective="module:f")
    assert main(["tell", "plots/more.csv", "--config", "told.yaml"]) == 0
    assert "../none.png: lies neither in the folder of the table" in capsys.readouterr().err
    study.tell(study.ask(1), 5.0)
    assert study.table().status.tolist() == ["ok"] * 5
    assert held(study) == {"0/0.svg": SVG, "0/1.png": PNG, "1/1.svg": SVG}
    assert study.table()["metadata_image_left_out"].notna().sum() == 1
    said = {"x": 0.75, "objective": 6.0, "metadata": {"image": "c.png"}}
    (why,) = study.tell(said).pictures.values()
    assert why == f"c.png: no such file in {tmp_path}"
    # A point that waits and is withdrawn takes its picture along.
    said = {"x": 0.625, "objective": 6.0, "metadata": {"image": "plots/b.png"}}
    (entry,) = study.tell(said).waiting
    assert f"entered/{entry.name}.png" in held(study)
    study.skip(entry.name, "a mistake")
    assert f"entered/{entry.name}.png" not in held(study)


def test_a_picture_that_cannot_be_removed_keeps_no_outcome_out(tmp_path: Path) -> None:
    study = dngo.create("told", {"x": (0, 1)}, folder=tmp_path, **QUICK_STUDY)
    # Nothing removes it, like a file that is open on another machine.
    (study.path.parent / "images" / "entered" / "aa.png").mkdir(parents=True)
    assert study.tell({"x": 0.5, "objective": 1.0}).waiting


def test_a_fork_and_an_import_bring_pictures_along(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    old = dngo.create("old", {"x": (0, 1)}, folder=tmp_path, batch_size=3, **QUICK_STUDY)
    old.optimize(painted, 3, workers=0)
    (old.path.parent / "images" / "0" / "1.svg").unlink()  # somebody made room
    before = held(old)
    (tmp_path / "new.yaml").write_text(
        "study: new\nobjective: {callable: 'a:b'}\nsurrogate: gp\n"
        f"space: {{x: {{type: float, low: {min(old.table().parameter_x) + 1e-9}, high: 2}}}}\n"
    )
    # As people type it, from the current folder.
    assert main(["fork", "old", "--config", str(tmp_path / "new.yaml")]) == 0
    new = dngo.open(tmp_path / "new.yaml")
    table, earlier = new.table(), old.table().set_index("parameter_x")
    assert len(table) == 2 and held(old) == before
    wanted = {
        f"0/{row.slot}.svg": before[path]
        for row in table.itertuples()
        if (path := f"0/{earlier.slot[row.parameter_x]}.svg") in before
    }
    assert held(new) == wanted and wanted
    assert table.metadata_note.tolist() == [earlier.metadata_note[x] for x in table.parameter_x]
    # A table beside its pictures.
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "old.csv").write_text(
        'x,objective,metadata\n1,2,"{""image"": ""a.png""}"\n1.5,2,"{""image"": ""b.png""}"\n'
    )
    text = (tmp_path / "new.yaml").read_text().replace("study: new", "study: third")
    (tmp_path / "third.yaml").write_text(text)
    # A refused table leaves nothing behind.
    (tmp_path / "bad.csv").write_text((tmp_path / "old.csv").read_text() + "7,1,\n")
    assert main(["import", "bad.csv", "--config", "third.yaml"]) == 1
    assert not (tmp_path / "results" / "third").exists()
    assert main(["import", "old.csv", "--config", "third.yaml"]) == 0
    assert held(dngo.open(tmp_path / "third.yaml")) == {"0/0.png": PNG}
    said = capsys.readouterr().err
    assert "old.csv: pictures: line 3: left out: b.png: no such file in the folder of the" in said
