"""The convolutional network of examples/cnn: its colours, its corruptions, its training, a small study."""

from __future__ import annotations

import colorsys
import json
import os
import shlex
import sys
from pathlib import Path

import pytest
import torch
from running import ran
from test_examples import EXAMPLES, defaults, module, run, small_study

from dngo import config
from dngo.exchange import csv_table
from dngo.exchange.points import points_of

BOUNDS = "hue_shift saturation_scale saturation_shift value_scale value_shift pixel_dropout scaling"
NOTHING = dict.fromkeys(f"{BOUNDS} dropout_1 dropout_2".split(), 0.0)
# Two epochs in place of twenty.
QUICK = "import objective; objective.EPOCHS = 2; objective.main()"


def test_cnn_colours_are_those_of_the_standard_library() -> None:
    network = module("cnn", "network")
    x = torch.rand(7, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    x[0], x[1], x[2, :2] = 0, 0.5, 0.25  # black, grey, and where two channels are equal
    hsv = network.to_hsv(x)
    assert torch.allclose(network.to_rgb(*hsv), x, atol=1e-6)
    hue, saturation, value = (field.flatten().tolist() for field in hsv)
    pixels = x.movedim(1, -1).reshape(-1, 3).tolist()
    found = zip([h / 6 for h in hue], saturation, value, strict=True)
    for pixel, here in zip(pixels, found, strict=True):
        assert here == pytest.approx(colorsys.rgb_to_hsv(*pixel), abs=1e-5)


def test_cnn_corrupts_as_far_as_it_says() -> None:
    """Without any bound an image is a window of itself; with one it stays within that."""
    network = module("cnn", "network")
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(200, 3, 10, 10, generator=generator)
    standard = (x - network.CENTRE) / network.SPREAD
    windows = torch.stack(
        [standard[:, :, i : i + 8, j : j + 8] for i in range(3) for j in range(3)]
    )
    seen = network.corrupted(x, NOTHING, generator)
    nearest = (windows - seen).abs().amax(dim=(2, 3, 4)).min(dim=0)
    assert float(nearest.values.max()) < 1e-4
    assert set(nearest.indices.tolist()) == set(range(9))
    grey = torch.full_like(x, 0.5)  # whose hue and saturation say nothing
    values = network.corrupted(grey, {**NOTHING, "value_shift": 0.2}, generator)
    values = values * network.SPREAD + network.CENTRE
    assert 0.29 < float(values.min()) < 0.33 < 0.67 < float(values.max()) < 0.71
    dropped = network.corrupted(grey, {**NOTHING, "pixel_dropout": 0.3}, generator) == 0
    assert float(dropped.float().mean()) == pytest.approx(0.3, abs=0.01)
    blot = torch.zeros(200, 3, 10, 10)
    blot[:, :, 3:7, 3:7] = 1
    sizes = network.corrupted(blot, {**NOTHING, "scaling": 0.3}, generator)[:, 0]
    areas = ((sizes * network.SPREAD + network.CENTRE).sum(dim=(1, 2)) / 16) ** 0.5
    assert 0.7 < float(areas.min()) < 0.85 < 1.2 < float(areas.max()) < 1.4


def test_cnn_begins_as_the_paper_says() -> None:
    network = module("cnn", "network")
    p = {**defaults("cnn"), "deviation": 1.5, "input_deviation": 0.1}
    model = network.network(p, torch.Generator().manual_seed(0))
    layers = [layer for layer in model if isinstance(layer, torch.nn.Conv2d)]
    assert [layer.kernel_size[0] for layer in layers] == [3, 3, 3, 1]
    assert model(torch.zeros(5, 3, 8, 8)).shape == (5, 10)
    for layer in layers:
        expected = (0.1 if layer is layers[0] else 1.5) / layer.weight[0].numel() ** 0.5
        assert float(layer.weight.detach().std()) == pytest.approx(expected, rel=0.15)


@pytest.mark.full
def test_cnn_learns_and_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    good = {**defaults("cnn"), **NOTHING, "learning_rate": 1.2, "deviation": 1.4}
    done = [
        ran(
            [sys.executable, "-c", QUICK.replace("2", "8", 1)],
            cwd=EXAMPLES / "cnn",
            input=json.dumps(good),
            env={**os.environ, "DNGO_SEED": "3", **more},
        )
        # Nor does it matter whether somebody wants to know how far it has come.
        for more in ({}, {"DNGO_PROGRESS": str(tmp_path / "progress")})
    ]
    first, again = (json.loads(one.stdout) for one in done)
    assert first["objective"] < 75  # of ten classes
    assert first["objective"] == again["objective"]
    assert first["metadata"]["cpu_seconds"] < 40
    said = [json.loads(line) for line in (tmp_path / "progress").read_text().splitlines()]
    assert [line["step"] for line in said] == list(range(1, len(said) + 1)) and len(said) > 1


def test_cnn_diverges_in_words() -> None:
    result = run("cnn", {**defaults("cnn"), "learning_rate": 0.0, "momentum": 2.0})
    assert result.returncode == 1
    assert result.stderr.startswith("training diverged: ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.full
def test_cnn_study_is_small_and_real(tmp_path: Path) -> None:
    objective = {"command": f"{{python}} -c {shlex.quote(QUICK)}"}
    table = small_study("cnn", tmp_path, objective=objective)
    assert (table.status == "ok").sum() >= 4


def test_cnn_page_has_the_table_of_its_results() -> None:
    folder = EXAMPLES / "cnn"
    rows = csv_table.read(folder / "results.csv")
    points, problems = points_of(config.load([folder / "config.yaml"]).search_space, rows)
    assert not problems
    assert points[0] == defaults("cnn")
    summary = module(".", "table").summary([row.values for row in rows], minimize=True)
    assert summary in (folder / "README.md").read_text()
