"""The same aerofoils, each at its own angle of attack: much lift for little drag.

objective.py explains the shapes and their solution. Parameters: its six, and the angle of attack
(degrees). The outcome, the last line of standard output:
    objectives     "lift": higher is better; "drag": lower is better (coefficients by the chord)
    constraints    "thickness" and "moment", as numbers; their bounds stand in the configuration
    metadata       moment, angle of attack in degrees

Near the stall XFOIL seldom converges. Such a point is a failed evaluation (exit status 1).
"""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from objective import outline, run_xfoil


def main() -> None:
    if shutil.which("xfoil") is None:
        sys.exit("the program xfoil is not installed: apt-get install xfoil")
    parameters = json.load(sys.stdin)
    points, thickness = outline(parameters)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("DNGO_WORKDIR") or temporary)
        try:
            state = run_xfoil(points, folder, f"ALFA {parameters['angle']:.4f}")
        except ArithmeticError as error:
            sys.exit(str(error))
    outcome = {
        "objectives": {"lift": state["lift"], "drag": state["drag"]},
        "constraints": {"thickness": thickness, "moment": state["moment"]},
        "metadata": {"alpha": state["alpha"]},
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
