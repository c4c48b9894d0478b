"""The same networks with two objectives: how often they err, and how much an image costs.

objective.py explains parameters and randomness. The outcome, the last line of standard output:
    objectives      "error": validation error in percent; "multiply_adds" to read an image. Lower is better
    metadata        validation loss (nats per image)

If training diverges, the program says so and exits with status 1.
"""

import json
import os
import sys

import numpy as np
from objective import Diverged, evaluate


def main() -> None:
    parameters = json.load(sys.stdin)
    np.seterr(over="ignore", invalid="ignore")  # divergence is reported in words
    try:
        found = evaluate(parameters, int(os.environ.get("DNGO_SEED", "0")))
    except Diverged as error:
        sys.exit(str(error))
    cost = found["metadata"].pop("multiply_adds")
    objectives = {"error": found["objective"], "multiply_adds": cost}
    print(json.dumps({"objectives": objectives, "metadata": found["metadata"]}))


if __name__ == "__main__":
    main()
