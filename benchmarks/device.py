"""What a fit and a proposal cost on a CPU and on a GPU, as rows and widths grow.

    python benchmarks/device.py                                  # 2 minutes on a GPU: 10^4 and 10^5 rows
    python benchmarks/device.py --rows 1000000 --width 50 512

Networks alone, six inputs, 400 picks. Printed for each device are wall and CPU seconds of both, what the
training has taken of the fit, and whether a second fit gives the same bits.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import torch
from objectives import cube
from scaling import values

from dngo.acquisition import History, propose_batch
from dngo.acquisition.settings import AcquisitionSettings
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

SPACE = cube(6)


def measured(device: str, rows: int, width: int) -> dict[str, Any]:
    """Seconds of a fit and of a batch of 400, and whether the fit repeats its bits."""
    x = np.random.default_rng(rows).random((rows, SPACE.k))
    y, _ = values(x)
    data = TrainingData(x=x, y=y, constraints={"completed": np.ones(rows)})
    settings = SurrogateSettings(kind="adaptive_basis", networks={"device": device, "width": width})
    found: dict[str, Any] = {"device": device, "rows": rows, "width": width}

    def timed(what: str, call: Any) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        found[what] = round(time.perf_counter() - wall, 2)
        found[f"{what}_cpu"] = round(time.process_time() - cpu, 2)
        return result

    def fit() -> Any:
        return fit_model(data, settings, rng=np.random.default_rng(0))

    model, again = timed("fit", fit), timed("fit_again", fit)
    history = History(
        SPACE.decode(x), y, iteration=np.zeros(rows, dtype=int), stage=np.full(rows, "")
    )
    acquisition, rng = AcquisitionSettings(), np.random.default_rng(1)
    timed(
        "propose",
        lambda: propose_batch(model, SPACE, history, size=400, settings=acquisition, rng=rng),
    )
    same = all(
        np.array_equal(a, b)
        for a, b in zip(model.predict(x[:99]), again.predict(x[:99]), strict=True)
    )
    return {**found, "same_bits": same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10_000, 100_000])
    parser.add_argument("--width", nargs="+", type=int, default=[50, 256])
    parser.add_argument("--devices", nargs="+", default=["cpu", "cuda"], choices=["cpu", "cuda"])
    chosen = parser.parse_args()
    if "cuda" in chosen.devices and not torch.cuda.is_available():
        print("PyTorch sees no GPU here; the CPU alone is measured")
    for rows in chosen.rows:
        for width in chosen.width:
            for device in chosen.devices:
                if device == "cpu" or torch.cuda.is_available():
                    print(json.dumps(measured(device, rows, width)), flush=True)


if __name__ == "__main__":
    main()
