"""How good the best configurations of a study are on the test scenes, alone and together.

    dngo best results/captions/archive.h5 --by observed --top 3 --output best
    python ensemble.py best/*.json
    python ensemble.py best/*.json --seeds 5

Each configuration is trained anew from each seed. All are judged on the test scenes, which no study
looks at. There are three scores: each configuration alone; an ensemble of different configurations,
the best and the next ones; and an ensemble of as many models of the best configuration, with
different initial weights. The models of an ensemble vote on each next word of the beam search.
The output has means and standard deviations of BLEU-4 over the seeds. A training that diverges is
repeated with a further seed, and counted.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from model import Diverged, LogBilinear
from objective import score, trained, vocabulary
from scenes import Scenes, load_scenes


def cell(scores: list[float]) -> str:
    """Mean and standard deviation."""
    spread = f" ± {np.std(scores, ddof=1):.2f}" if len(scores) > 1 else ""
    return f"{np.mean(scores):.2f}{spread}"


def trainings(
    parameters: dict[str, Any], scenes: dict[str, Scenes], count: int
) -> tuple[list[LogBilinear], int]:
    """Some models of these parameters, and how many trainings diverged; raises Diverged if most
    do."""
    models: list[LogBilinear] = []
    diverged = 0
    while len(models) < count:
        try:
            models.append(trained(parameters, scenes, len(models) + diverged)[0])
        except Diverged:
            diverged += 1
            if diverged > count:
                raise
    return models, diverged


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+", type=Path, help="of `dngo best`, the best one first")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each; default: 5")
    arguments = parser.parse_args()
    scenes = load_scenes()
    words, count = vocabulary(scenes["train"]), arguments.seeds

    def judged(models: list[LogBilinear]) -> float:
        return score(models, scenes["test"], words)[0]

    models, names = [], []
    for file in arguments.files:
        try:
            found, diverged = trainings(json.loads(file.read_text()), scenes, count)
        except Diverged as error:
            sys.exit(f"{file}: {error}")
        models.append(found)
        names.append(f"{file.stem} ({diverged} more diverged)" if diverged else file.stem)
    print("| models | different configurations | the best one, from different seeds |")
    print("| --- | --- | --- |")
    for name, alone in zip(names, models, strict=True):
        print(f"| {name} | {cell([judged([model]) for model in alone])} | |", flush=True)
    for k in range(2, len(models) + 1):
        several = [judged([models[i][s] for i in range(k)]) for s in range(count)]
        same = [judged([models[0][(s + i) % count] for i in range(k)]) for s in range(count)]
        print(f"| {k} together | {cell(several)} | {cell(same)} |", flush=True)


if __name__ == "__main__":
    main()
