"""Results lie beside the configuration; studies that were begun elsewhere go on where they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy import Toy, advance

from dngo import create
from dngo.cli import main
from dngo.errors import UserError
from dngo.locate import find_study
from dngo.study import Study


def begin_as_before(study: Toy, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Begin a study as 0.1.0 did, its results beside `folder`, where Snakemake ran; their place."""
    monkeypatch.chdir(folder)
    path = os.path.relpath(study.folder / "config.yaml")
    begun = Study(find_study([path], {"results": "results"}).config)
    begun.propose(0, None, folder / "proposals.json")
    return begun.folder.resolve()


def test_results_lie_beside_the_configuration_wherever_a_command_is_typed(
    toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(iterations=0)
    for folder in (study.folder, study.folder.parent, Path("/")):
        monkeypatch.chdir(folder)
        for path in (study.folder / "config.yaml", os.path.relpath(study.folder / "config.yaml")):
            assert find_study([path]).folder.resolve() == study.results.resolve()
    typed = find_study([study.folder / "config.yaml"], {"results": "there"})
    assert typed.folder == Path("there/toy"), "what is typed is relative to where it is typed"


def test_a_study_begun_in_another_folder_goes_on_there(
    toy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    study = toy(iterations=0)
    above = study.folder.parent
    place = begin_as_before(study, above, monkeypatch)
    assert place == above / "results" / "toy"
    for folder in (above, study.folder, Path("/")):
        monkeypatch.chdir(folder)
        found = find_study([study.folder / "config.yaml"])
        assert found.folder.resolve() == place
        assert main(["status", str(study.folder / "config.yaml")]) == 0
        shown = capsys.readouterr().out
        assert f"Study          toy, in {found.folder}\n" in shown
        assert "iteration 0: 0 of 8 evaluated" in shown


def test_a_study_of_the_same_name_is_never_taken_for_another(
    toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(iterations=0)
    above = study.folder.parent
    begin_as_before(study, above, monkeypatch)
    other = Toy(above / "other", iterations=0, batch_size=6, sleep=0)
    # Where a command is typed they might be meant, and it is said which one to write down.
    with pytest.raises(
        UserError, match=r"results/toy holds a study of this name .* `results: \.\./results`"
    ):
        find_study(["other/config.yaml"])
    # From anywhere else nothing is mistaken for it.
    monkeypatch.chdir(other.folder)
    assert find_study(["config.yaml"]).folder == Path("results/toy")
    # What it says helps: a configuration that was moved goes on with its study.
    text = (other.folder / "config.yaml").read_text()
    (other.folder / "config.yaml").write_text(text + "results: ../results\n")
    monkeypatch.chdir("/")
    assert find_study([other.folder / "config.yaml"]).folder.resolve() == above / "results" / "toy"


def test_of_two_studies_of_one_configuration_none_is_guessed(
    toy, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(iterations=0)
    begin_as_before(study, study.folder.parent, monkeypatch)
    begin_as_before(study, study.folder, monkeypatch)
    assert find_study(["config.yaml"]).folder == Path("results/toy")
    monkeypatch.chdir(study.folder.parent)
    with pytest.raises(UserError, match=r"results/toy and toy/results/toy both hold study toy"):
        find_study(["toy/config.yaml"])


@pytest.mark.parametrize("place", ["config.yaml", "results/toy/archive.h5", "results/toy", "."])
def test_whoever_looks_names_a_study_as_they_like(
    toy, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    study = toy(iterations=0)
    monkeypatch.chdir(study.folder)
    advance(Study(find_study(["config.yaml"]).config), 0)
    commands = [[name, place] for name in ("status", "report", "best", "verify", "replay")]
    commands += [["audit", place, "--proposal", "0-1"], ["compare", place, place]]
    output = str(tmp_path / "out.csv")
    for words in [*commands, ["export", place, "--format", "csv", "--output", output]]:
        assert main(words) == 0, (words, capsys.readouterr().err)
    assert "every value has its recorded digest" in capsys.readouterr().out


def test_an_archive_apart_from_its_study_is_looked_at_but_has_no_course(
    toy, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    study = toy(iterations=0)
    monkeypatch.chdir(study.folder)
    advance(Study(find_study(["config.yaml"]).config), 0)
    study.archive.rename("apart.h5")
    assert main(["best", "apart.h5"]) == 0
    assert main(["status", "apart.h5"]) == 1
    assert "lies outside its study's folder" in capsys.readouterr().err
    for words in (["verify"], ["audit", "--all"], ["export", "--format", "csv", "--output", "x"]):
        assert main(words) == 1
        assert "there is no archive yet" in capsys.readouterr().err
    for command in ("best", "verify", "status"):
        assert main([command, "apart.h5", "--results", "results"]) == 1
        assert "is an archive: leave out --results" in capsys.readouterr().err
    assert main(["verify", "results"]) == 1
    assert "holds neither an archive.h5 nor a config.yaml" in capsys.readouterr().err
    begun = create("begun", {"x": (0, 1)}, folder=".")
    with pytest.raises(UserError, match="no batch has ended"):
        begun.best()
    begun.tell(begun.ask(2)[0], 1.0)
    assert main(["verify", "begun"]) == 1
    assert "repeat the call that began it" in capsys.readouterr().err
    assert main(["check", "apart.h5"]) == 1
    assert "is an archive; name the study's configuration" in capsys.readouterr().err
    assert main(["check", "results"]) == 1
    assert "is a folder; name the configuration in it" in capsys.readouterr().err
