"""The same aerofoils at an angle of attack of their own: as much lift as can be had for little drag.

Shapes and their solution are those of objective.py. Parameters: its six, and the angle of attack (degrees).
The outcome, the last line of standard output:
    objectives     "lift": higher is better; "drag": lower is better (coefficients by the chord)
    constraints    "thickness" and "moment", as numbers: configuration and search know what they are held to
    metadata       moment, angle of attack in degrees

Near the stall XFOIL seldom converges: such a point is a failed evaluation (exit status 1).
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
