"""The example with captions: its model is right, and its study is small and real."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from running import ran
from test_examples import EXAMPLES, module, outcome, small_study

SMALL = {
    "model": "additive",
    "context": 4,
    "learning_rate": 0.5,
    "momentum": 0.5,
    "batch_size": 100,
    "hidden_size": 100,
    "embedding_size": 50,
    "dropout": 0.2,
    "word_decay": 1e-4,
    "context_decay": 1e-3,
    "factors": 50,
}


@pytest.fixture(scope="module")
def captions() -> tuple[ModuleType, Any]:
    """The model's module, and the scenes."""
    return module("captions", "model"), module("captions", "scenes").load_scenes()


def vocabulary_of(captions: list[list[str]]) -> list[str]:
    return ["", *sorted({w for wordings in captions for c in wordings for w in c.split()})]


@pytest.mark.parametrize("kind", ["additive", "multiplicative"])
def test_captions_gradient_is_the_slope_of_the_loss(
    captions: tuple[ModuleType, Any], kind: str
) -> None:
    model_module, scenes = captions
    part = scenes["train"].captions[:12]
    words, images = vocabulary_of(part), scenes["train"].images[:12].astype(float)
    text = model_module.Text(part, words, SMALL["context"])
    parameters = {**SMALL, "model": kind, "dropout": 0.0}
    model = model_module.LogBilinear(parameters, len(words), 256, np.random.default_rng(0))
    model.weights = {name: w.astype(float) for name, w in model.weights.items()}
    chosen, rng = np.arange(5), np.random.default_rng(1)

    def penalised() -> float:
        loss, _ = model.gradient(text, chosen, images, rng)
        return loss + sum(model.decay[n] * (w**2).sum() / 2 for n, w in model.weights.items())

    _, slopes = model.gradient(text, chosen, images, rng)
    assert set(slopes) == set(model.weights)
    for name, slope in slopes.items():
        direction = rng.standard_normal(slope.shape)
        values = []
        for step in (1e-5, -1e-5):
            model.weights[name] += step * direction
            values.append(penalised())
            model.weights[name] -= step * direction
        expected = (values[0] - values[1]) / 2e-5
        assert (slope * direction).sum() == pytest.approx(expected, rel=1e-4, abs=1e-7), name


def test_captions_learn_to_describe(captions: tuple[ModuleType, Any], tmp_path: Path) -> None:
    place = tmp_path / "progress"
    first = outcome("captions", SMALL, DNGO_SEED="5")
    again = outcome("captions", SMALL, DNGO_SEED="5", DNGO_PROGRESS=str(place))
    assert 20 < first["objective"] < 60
    times = [document["metadata"].pop("cpu_seconds") for document in (first, again)]
    assert first == again
    assert max(times) < 30
    said = [json.loads(line)["objective"] for line in place.read_text().splitlines()]
    assert len(said) == first["metadata"]["epochs"]
    assert -max(said) == first["metadata"]["perplexity"]


@pytest.mark.full
def test_captions_study_is_small_and_real(tmp_path: Path) -> None:
    """The same study with models that train in half a second: some diverge, some describe."""
    space = {
        "context": {"high": 4, "default": 3},
        "learning_rate": {"low": 0.1},
        "batch_size": {"low": 100},
        "hidden_size": {"high": 120, "default": 100},
        "embedding_size": {"values": [50, 60], "default": 50},
        "factors": {"high": 60, "default": 50},
    }
    table = small_study("captions", tmp_path, space=space)
    assert {"ok", "failed"} <= set(table.status)


@pytest.mark.full
def test_captions_ensemble_of_what_best_hands_over(tmp_path: Path) -> None:
    for rank in (1, 2):
        (tmp_path / f"{rank}-0-0.json").write_text(json.dumps({**SMALL, "context": 3 + rank}))
    done = ran(
        [sys.executable, "ensemble.py", *sorted(map(str, tmp_path.iterdir())), "--seeds", "2"],
        cwd=EXAMPLES / "captions",
    )
    assert done.returncode == 0, done.stderr
    first, second, together = (line.split("|") for line in done.stdout.splitlines()[2:])
    assert (first[1].strip(), second[1].strip()) == ("1-0-0", "2-0-0")
    scores = [float(cell.split("±")[0]) for cell in (first[2], second[2], together[2], together[3])]
    assert min(scores) > 20 and len(set(scores)) == 4
