"""How good tuned networks are on functions that they were not tuned on, compared with the default
ones.

    dngo best results/self_tuning/archive.h5 --by observed --top 1 --output best
    python report.py best/*.json --seeds 2 --searches 2

It uses families of functions that the study has not seen, in 5 and in 10 inputs. It prints the mean
log density of left-out outcomes, in standard deviations, and the final values of searches by
expected improvement, with a design of 20 points and four batches of 10. The minimum of all these
functions is 0 or hardly above, so the decimal logarithm of the best value says how far a search is
from it.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from objective import Function, drawn, log_density

from dngo.acquisition import History, design, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.space import Space
from dngo.space.parameters import Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

REPORTED_ON = ("bowl", "ripples", "steep", "fractal")
DESIGN, BATCHES, BATCH = 20, 4, 10


def searched(networks: dict[str, Any], function: Function, inputs: int, seed: int) -> float:
    """Decimal logarithm of a search's best value. All networks of a seed have the same design."""
    space = Space({f"x{i}": Float(type="float", low=0, high=1) for i in range(inputs)})
    rng = np.random.default_rng(seed)
    v = design(space, DESIGN, rng=rng, exclude=np.empty((0, inputs)))
    settings = SurrogateSettings(kind="adaptive_basis", networks=networks)
    acquisition = AcquisitionSettings(trust_region_share=0.0)
    for _ in range(BATCHES):
        y = function(v)
        model = fit_model(TrainingData(x=v, y=y, constraints={}), settings, rng=rng)
        picks = propose_batch(
            model, space, History(v, y), size=BATCH, settings=acquisition, rng=rng
        )
        v = np.concatenate([v, picks.v])
    return float(np.log10(function(v).min()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("file", type=Path, help="parameters, as of `dngo best`")
    parser.add_argument("--seeds", type=int, default=2, help="functions of each family; default: 2")
    parser.add_argument("--searches", type=int, default=2, help="of these, searched in 5 inputs")
    arguments = parser.parse_args()
    tuned = json.loads(arguments.file.read_text())
    parts = [("log density", log_density, 5, arguments.seeds)]
    parts += [("log density", log_density, 10, arguments.seeds)]
    parts += [("log10 of the best value", searched, 5, arguments.searches)]
    print("| function, inputs | | default | tuned |\n| --- | --- | --- | --- |")
    for (name, measure, inputs, seeds), family in product(parts, REPORTED_ON):
        found = [
            [
                measure(networks, drawn(family, inputs, seed), inputs, seed)
                for networks in ({}, tuned)
            ]
            for seed in range(seeds)
        ]
        if found:
            default, other = np.mean(found, axis=0)
            print(f"| {family}, {inputs} | {name} | {default:.2f} | {other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
