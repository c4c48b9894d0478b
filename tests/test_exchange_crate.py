"""A study as an RO-Crate: it has every step, in the words that its readers know."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from test_entering import study_of
from test_exchange import entities, export
from test_left import PNG, SVG
from toy import QUICK_STUDY, Toy, advance

import dngo
from dngo import archive
from dngo.audit import audit, page
from dngo.cli import main
from dngo.config import load


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A study that was run, stage by stage; its archive is moved, and its folder is gone."""
    toy = Toy(tmp_path_factory.mktemp("exchange"), iterations=2, batch_size=4, sleep=0.0)
    study = study_of(toy)
    for t in range(3):
        advance(study, t)
    shutil.move(toy.archive, toy.folder / "moved.h5")
    shutil.rmtree(toy.results)
    return toy


@pytest.fixture(scope="module")
def crate(run: Toy) -> Path:
    person = "Ada Lovelace <https://orcid.org/0000-0002-1825-0097>"
    license = "https://spdx.org/licenses/CC-BY-4.0"
    more = ("--author", person, "--license", license)
    export(run.folder / "moved.h5", run.folder / "crate", "ro-crate", *more)
    return run.folder / "crate"


def test_the_crate_tells_every_step(crate: Path, run: Toy) -> None:
    found = entities(crate)
    actions = [e for e in found.values() if e["@type"] == "CreateAction"]
    stages = [e["instrument"]["@id"] for e in actions]
    counts = {s: stages.count(f"scripts/{s}.py") for s in ("fit", "propose", "evaluate", "merge")}
    assert counts == {"fit": 2, "propose": 3, "evaluate": 2 + 1 + 1, "merge": 3}
    assert stages.count("Snakefile") == 1
    # From the last record back to the first evaluation, by what made what.
    made = {}
    for action in actions:
        for part in as_list(action["result"]):
            if part["@id"].startswith("#"):
                made.setdefault(part["@id"], action)
    seen, todo = set(), ["#record-2"]
    while todo:
        part = todo.pop()
        if part in made and part not in seen:
            seen.add(part)
            todo += [o["@id"] for o in as_list(made[part]["object"])]
    assert {"#surrogate-2", "#batch-1", "#outcomes-0-1", "#record-0"} <= seen
    record = archive.iteration_attributes(run.folder / "moved.h5", 1)["digest"]
    assert found["#record-1"]["identifier"] == record
    assert all(e["startTime"] <= e["endTime"] for e in actions if "startTime" in e)
    # The archive in it is the archive.
    assert archive.verify(crate / "archive.h5") == []
    assert load([crate / "config.yaml"]).study == "toy"


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def test_the_crate_is_read_by_its_library(crate: Path, run: Toy) -> None:
    from rocrate.rocrate import ROCrate

    loaded = ROCrate(crate)
    assert loaded.mainEntity.id == "Snakefile"
    assert {s.id for s in loaded.mainEntity["step"]} >= {"#step-fit", "#step-merge"}
    export(run.folder / "moved.h5", run.folder / "crate.zip", "ro-crate")
    assert ROCrate(run.folder / "crate.zip").name == "Study toy"


def painted(x: float) -> dict[str, Any]:
    """An objective that leaves a picture."""
    (dngo.workdir() / "plot.svg").write_bytes(SVG.replace(b"hacked=1", f"x={x}".encode()))
    return {"objective": x, "metadata": {"image": "plot.svg"}}


@pytest.fixture(scope="module")
def pictured(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A study with four pictures of evaluations and one of an outcome from elsewhere."""
    folder = tmp_path_factory.mktemp("pictured")
    study = dngo.create("old", {"x": (0, 1)}, folder=folder, batch_size=4, **QUICK_STUDY)
    (folder / "a.png").write_bytes(PNG)
    said = {"image": str(folder / "a.png")}
    study.tell({"x": 0.123, "objective": 2.0, "metadata": said})
    study.optimize(painted, 4, workers=0)
    assert study.table().status.tolist() == ["ok"] * 5
    study.note("the end", "0-0")
    export(study.path, folder / "crate", "ro-crate")
    return study


def pictures(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("images/*/*")}


def test_the_crate_has_the_pictures_and_says_which_evaluation_left_each(
    pictured: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crate = pictured.path.parents[1] / "crate"
    assert pictures(crate) == pictures(pictured.path.parent) and len(pictures(crate)) == 5
    found = entities(crate)
    made = {
        part["@id"]: action["@id"]
        for action in found.values()
        if action["@type"] == "CreateAction"
        for part in as_list(action["result"])
    }
    assert made["images/0/0.svg"] == "#evaluate-0-0"
    assert "images/0/4.png" in [o["@id"] for o in as_list(found["#merge-0"]["object"])]
    assert found["images/0/4.png"]["encodingFormat"][0] == "image/png"
    assert {"@id": "images/0/0.svg"} in found["./"]["hasPart"]
    # It is a study's folder for those who look at it, or go on with it.
    said = page(audit(crate / "archive.h5", "0-0"))
    assert "images/0/0.svg in the study's folder" in said and "0-0: the end (" in said
    new = "study: new\nobjective: {callable: 'a:b'}\nsurrogate: gp\n"
    (tmp_path / "new.yaml").write_text(f"{new}space: {{x: {{type: float, low: 0, high: 2}}}}\n")
    words = ["fork", str(crate / "archive.h5"), "--config", str(tmp_path / "new.yaml")]
    assert main(words) == 0
    assert pictures(tmp_path / "results" / "new") == pictures(crate)


def test_a_crate_has_no_picture_with_a_secret_and_without_names_has_none(
    pictured: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old"
    shutil.copytree(pictured.path.parent, old)
    (old / "images" / "0" / "0.svg").write_bytes(SVG.replace(b"hacked=1", b"ghp_" + b"a1" * 18))
    (old / "images" / "0" / "1.svg").write_text("somebody's own file")
    (old / "images" / "0" / "2.svg").unlink()
    (old / "images" / "0" / "2.svg").symlink_to(__file__)
    export(old / "archive.h5", tmp_path / "crate", "ro-crate")
    assert pictures(tmp_path / "crate").keys() == {"images/0/3.svg", "images/0/4.png"}
    said = capsys.readouterr().out
    assert "with pictures, as they are: 2" in said
    assert "pictures with what looks like a secret are left out: 1" in said
    export(old / "archive.h5", tmp_path / "nameless", "ro-crate", "--anonymous")
    assert pictures(tmp_path / "nameless") == {}
    said = capsys.readouterr().out
    assert "  pictures are left out: 4\n" in said and "as they are" not in said
    assert "  notes after the last merge are left out: 1\n" in said
    assert not (tmp_path / "nameless" / "notes.json").exists()


QUIET = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def issues(crate: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the profile's own validator says, without a network."""
    from rocrate import vocabs
    from rocrate_validator import services
    from rocrate_validator.models import ValidationSettings
    from rocrate_validator.utils.http import HttpRequester

    # The JSON-LD context that the metadata name, made of that of RO-Crate 1.3, which ships with
    # the library: of the terms used here, 1.1 has other addresses for four.
    old = "https://bioschemas.org/"
    context = {
        **vocabs.RO_CRATE["@context"],
        "ComputationalWorkflow": f"{old}ComputationalWorkflow",
        "FormalParameter": f"{old}FormalParameter",
        "input": f"{old}ComputationalWorkflow#input",
        "output": f"{old}ComputationalWorkflow#output",
    }

    class Response:
        status_code = 200
        headers = {"Content-Type": "application/ld+json"}  # noqa: RUF012

        def json(self) -> Any:
            return {"@context": context}

    def get(self: Any, url: str, *args: Any, **kwargs: Any) -> Response:
        assert url == "https://w3id.org/ro/crate/1.1/context"
        return Response()

    monkeypatch.setattr(HttpRequester, "get", get, raising=False)
    settings = ValidationSettings(
        rocrate_uri=crate,
        profile_identifier="provenance-run-crate-0.5",
        requirement_severity="REQUIRED",
        offline=True,
        cache_path=crate.parent / "cache",
    )
    return [f"{i.violatingEntity}: {i.message}" for i in services.validate(settings).get_issues()]


@QUIET
def test_the_crate_is_valid(crate: Path, pictured: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (crate, pictured.path.parents[1] / "crate"):
        assert issues(folder, monkeypatch) == []


@pytest.mark.full
@QUIET
@pytest.mark.parametrize(
    ("entity", "key"),
    [("Snakefile", "hasPart"), ("#fit-1-step", "instrument"), ("#engine", "result")],
)
def test_the_validator_would_find_a_mistake(
    crate: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entity: str, key: str
) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(crate, broken)
    path = broken / "ro-crate-metadata.json"
    document = json.loads(path.read_text())
    (found,) = [e for e in document["@graph"] if e["@id"] == entity]
    del found[key]
    path.write_text(json.dumps(document))
    assert issues(broken, monkeypatch) != []
