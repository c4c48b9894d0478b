"""Published systems by one word: which keys a preset sets, how the user's keys change them, and
that archives keep them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from toy import FEW, ROOT, Toy, advance

import dngo
from dngo import archive
from dngo.acquisition.settings import AcquisitionSettings
from dngo.audit import audit, page
from dngo.cli import main
from dngo.config import Config, load, with_defaults
from dngo.config.presets import departures, whole
from dngo.errors import UserError
from dngo.papers import presets
from dngo.presets import PRESETS
from dngo.replay import configuration, replay
from dngo.study import Study

NAMES = list(PRESETS.own)
BEGUN: dict[str, Study] = {}


def written(folder: Path, text: str) -> Path:
    head = """
study: toy
objective: {command: "{python} objective.py"}
space: {x: {type: float, low: 0, high: 1}, y: {type: float, low: 0, high: 1}}
"""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "config.yaml"
    path.write_text(head + text)
    return path


def read(folder: Path, text: str) -> Config:
    return load([written(folder, text)])


def few(name: str) -> dict[str, Any]:
    """Numbers of candidates that take less time; a preset's own kind and rules stay."""
    keys = AcquisitionSettings.classes[whole(name)["acquisition"]["kind"]].model_fields
    some = ("uniform_candidates", "local_candidates", "shortlist", "fantasies")
    return {key: FEW[key] for key in some if key in keys}


def begun(tmp_path_factory: pytest.TempPathFactory, name: str) -> Study:
    """A design and a batch of a preset."""
    if name not in BEGUN:
        folder = tmp_path_factory.mktemp(name)
        toy = Toy(folder, iterations=1, batch_size=3, sleep=0.0)
        text = f"preset: {name}\ndesign: {{size: 6}}\nbatch_size: 3\niterations: 1\n"
        text += "constraints: [small]\n"
        text += f"acquisition: {json.dumps(few(name))}\n"
        if name.startswith("bohamiann"):
            text += "surrogate: {burn_in: 300, thin: 4}\n"  # for time's sake
        if name.endswith("transfer"):
            earlier = begun(tmp_path_factory, "gp-ei-mcmc-2012")
            text += f"transfer: ['{earlier.archive}']\n"
        study = Study(load([written(toy.folder, text)]))
        study.transfer()
        for t in range(2):
            advance(study, t)
        BEGUN[name] = study
    return BEGUN[name]


@pytest.mark.full
@pytest.mark.parametrize("name", NAMES)
def test_a_study_of_each_preset_runs_and_is_replayed(tmp_path_factory, name: str) -> None:
    study = begun(tmp_path_factory, name)
    stages = {audit(study.archive, f"1-{slot}")["proposed"]["stage"] for slot in range(3)}
    assert stages <= {"improvement", "exploration", "draws"}
    assert "improvement" in stages or name == "brofos-2015"
    assert [replay(study.archive, t).verdict for t in range(2)] == ["identical"] * 2
    assert archive.verify(study.archive) == []
    assert page(audit(study.archive, "1-0"))
    assert configuration(study.archive, 1).preset == name


@pytest.mark.parametrize("name", NAMES)
def test_a_preset_is_written_out_whole(tmp_path: Path, name: str) -> None:
    transfer = "transfer: [a.h5]\n" if name.endswith("transfer") else ""
    path = written(tmp_path, f"preset: {name}\n# acquisition:\n#   spacing: 0.3\n{transfer}")
    text = with_defaults(path.read_text())
    assert "#   spacing: 0.0\n" in text
    assert with_defaults(text) == text
    # Without its comment marks the end of it is all that the preset stands for.
    _, _, end = text.partition("# ---- preset: ")
    keys = "\n".join(line[2:] for line in end.splitlines()[1:])
    found = YAML(typ="safe").load(keys)
    assert found == json.loads(json.dumps(whole(name)))
    named = load([path])
    path.write_text(path.read_text().replace(f"preset: {name}\n", "") + keys)
    assert load([path]).model_dump() == {**named.model_dump(), "preset": None}


@pytest.mark.parametrize(
    ("beside", "key", "value", "changed"),
    [
        ("surrogate: {hyperparameter_samples: 3}", "warp", False, ["hyperparameter_samples"]),
        ("surrogate: adaptive_basis", "calibration", "in_sample", []),
        ("surrogate: {networks: {width: 20}}", "prior_mean", "quadratic", ["networks.width"]),
        (
            "surrogate: {networks: {optimizer: adam}}",
            "prior_mean",
            "quadratic",
            ["networks.optimizer", "networks.momentum"],
        ),
        ("surrogate: gp", "warp", True, ["kind"]),
        ("surrogate: {kind: gp, warp: false}", "kind", "gp", ["kind"]),
    ],
)
def test_keys_beside_a_preset_take_the_place_of_its_own(
    tmp_path: Path, capsys, beside: str, key: str, value: Any, changed: list[str]
) -> None:
    config = read(tmp_path, f"preset: dngo-2015\n{beside}\n")
    assert getattr(config.surrogate, key) == value
    names = [f"surrogate.{one}" for one in changed]
    assert departures(config) == names
    (tmp_path / "objective.py").write_text("")
    assert main(["check", str(tmp_path / "config.yaml")]) == 0
    line = f"with your own {', '.join(names)}" if names else "Networks, ICML\n"
    assert line in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "preset: dngo-2105\n": "config.yaml:5: preset: must be one of dngo, dngo-2015",
        "preset: [dngo-2015]\n": "config.yaml:5: preset: must be text",
        "preset: bohamiann-2016-transfer\n": "config.yaml:5: preset: bohamiann-2016-transfer needs",
        "preset: dngo-2015\nsurrogate: {widht: 3}\n": "config.yaml:6: surrogate.widht",
    }.items(),
)
def test_a_mistake_beside_a_preset_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_preset_in_python_is_the_one_of_a_file(tmp_path: Path) -> None:
    keys = {"preset": "dngo-2015", "surrogate": {"networks": {"width": 7}}}
    config = dngo.create("toy", {"x": (0, 1)}, folder=tmp_path, **keys)._engine.config
    known = read(tmp_path, f"preset: dngo-2015\nsurrogate: {json.dumps(keys['surrogate'])}\n")
    assert departures(config) == ["surrogate.networks.width"]
    assert (config.surrogate, config.acquisition) == (known.surrogate, known.acquisition)
    with pytest.raises(UserError, match="bohamiann-2016-transfer needs the key transfer"):
        dngo.create("toy", {"x": (0, 1)}, folder=tmp_path, preset="bohamiann-2016-transfer")


def test_a_preset_of_a_later_release_alters_no_study(tmp_path_factory, monkeypatch) -> None:
    study = begun(tmp_path_factory, "dngo-2015")
    before = configuration(study.archive, 1)
    acquisition = presets.PLAIN | {"fantasies": 99, "refinements": 0}
    later = replace(
        presets.DNGO_2015,
        document={"surrogate": {"kind": "gp"}, "acquisition": acquisition, "seed": 7},
    )
    monkeypatch.setattr(presets, "DNGO_2015", later)
    assert read(tmp_path_factory.mktemp("new"), "preset: dngo-2015\n").acquisition.fantasies == 99
    assert configuration(study.archive, 1) == before
    assert replay(study.archive, 1).verdict == "identical"


@pytest.mark.parametrize("name", NAMES)
def test_no_preset_has_rules_that_its_paper_does_not(name: str) -> None:
    acquisition = whole(name)["acquisition"]
    off = ("trust_region_share", "spacing", "min_feasibility", "boundary_every")
    assert [acquisition[key] for key in off] == [0] * 4
    assert acquisition["replicates"] == "never"
    assert whole(name)["surrogate"]["warp"] is (name == "dngo")  # learnt since


def test_every_preset_and_each_of_its_keys_is_on_its_page() -> None:
    text = (ROOT / "docs" / "presets.md").read_text()
    for name in NAMES:
        assert f"`{name}`" in text
        for section, keys in PRESETS.find(name).document.items():
            for key in keys:
                assert f"`{key}`" in text or f"`{section}.{key}`" in text, key
