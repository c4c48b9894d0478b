"""How good configurations are in the end: trained for longer, on all images except the test images.

    dngo best results/cnn/archive.h5 --by observed --top 1 --output best
    python final.py best/*.json --seeds 5

In the paper (section 4.3) this training has 350 epochs instead of the study's 200; here it has 35
instead of 20. It uses the training and the validation images. The output has mean and standard
deviation of the test error over the seeds, in percent.
"""

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from network import Diverged
from objective import judged

EPOCHS = 35


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("files", nargs="+", type=Path, help="parameters, as of `dngo best`")
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each; default: 5")
    arguments = parser.parse_args()
    print("| configuration | test error, % |")
    print("| --- | --- |")
    for file in arguments.files:
        p = json.loads(file.read_text())
        try:
            errors = [
                judged(p, ["train", "validation"], "test", EPOCHS, seed)[0]
                for seed in range(arguments.seeds)
            ]
        except Diverged as error:
            sys.exit(f"{file}: {error}")
        spread = f" ± {np.std(errors, ddof=1):.1f}" if len(errors) > 1 else ""
        print(f"| {file.stem} | {np.mean(errors):.1f}{spread} |", flush=True)


if __name__ == "__main__":
    main()
