"""Shape an aerofoil for the best lift-to-drag ratio, judged by XFOIL (Debian package `xfoil`).

The shape is a camber line with a thickness around it, after Kulfan's class-shape transformation.
Each is a class function times a quadratic Bernstein polynomial in x, the position along the chord
(0 at the nose, 1 at the tail):

    half thickness   sqrt(x) (1 - x) sum_i thickness_i B_i(x)
    camber           x (1 - x) sum_i camber_i B_i(x)

XFOIL solves the flow at a fixed lift coefficient of 0.8, a Reynolds number of one million and low
Mach number. For some shapes its boundary layer iteration does not converge: a natural constraint,
whose formula nobody knows. Such a shape is a failed evaluation (exit status 1).

Parameters, a JSON object on standard input:
    thickness_front, thickness_middle, thickness_rear, camber_front, camber_middle, camber_rear

Outcome, a JSON object as the last line of standard output:
    objective     lift over drag; higher is better
    constraints   "thickness": the aerofoil is at least 12 % of its chord thick (room for a spar)
                  "moment": the pitching moment about the quarter chord is no less than -0.12 (trim)
    metadata      drag, moment, angle of attack in degrees, thickness

XFOIL's files go to the folder of the environment variable DNGO_WORKDIR, or to a temporary one.
"""

import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIFT = 0.8
REYNOLDS = 1_000_000
MIN_THICKNESS = 0.12
MIN_MOMENT = -0.12
POINTS = 80  # a side
ITERATIONS = 200
CONVERGED = 1e-4  # root mean square change at which XFOIL itself stops iterating

NUMBER = r"([-+]?[\d.]+(?:E[-+]?\d+)?)"


def bernstein(coefficients: list[float], x: float) -> float:
    """A quadratic polynomial by its three Bernstein coefficients."""
    a, b, c = coefficients
    return a * (1 - x) ** 2 + 2 * b * x * (1 - x) + c * x**2


def outline(parameters: dict[str, float]) -> tuple[list[tuple[float, float]], float]:
    """Points from the tail over the top to the nose and back below, and the thickness."""
    thickness = [parameters[f"thickness_{part}"] for part in ("front", "middle", "rear")]
    camber = [parameters[f"camber_{part}"] for part in ("front", "middle", "rear")]
    # Cosine spacing puts most points at the nose, where the curvature is.
    stations = [(1 - math.cos(math.pi * i / POINTS)) / 2 for i in range(POINTS + 1)]
    half = [math.sqrt(x) * (1 - x) * bernstein(thickness, x) for x in stations]
    line = [x * (1 - x) * bernstein(camber, x) for x in stations]
    top = [(x, c + t) for x, c, t in zip(stations, line, half, strict=True)]
    bottom = [(x, c - t) for x, c, t in zip(stations, line, half, strict=True)]
    return top[::-1] + bottom[1:], 2 * max(half)


def run_xfoil(
    points: list[tuple[float, float]], folder: Path, condition: str = f"CL {LIFT}"
) -> dict[str, float]:
    """Angle of attack (degrees), lift, drag and moment coefficients of the outline.

    condition: what XFOIL keeps fixed: a lift coefficient, or an angle of attack such as "ALFA 3".

    Raises:
        ArithmeticError: XFOIL found no solution.
    """
    shape = folder / "shape.dat"
    shape.write_text("shape\n" + "".join(f"{x:.6f} {y:.6f}\n" for x, y in points))
    # PLOP, G, F: no graphics. A blank line leaves a menu.
    commands = ["PLOP", "G F", "", f"LOAD {shape.name}", "PANE", "OPER", f"VISC {REYNOLDS}"]
    commands += [f"ITER {ITERATIONS}", condition, "", "QUIT"]
    run = subprocess.run(
        ["xfoil"],
        input="\n".join(commands) + "\n",
        cwd=folder,
        # Debian's build divides by the size of a window that does not exist, which kills it AFTER
        # it has printed the solution. Without a buffer, the output is not lost.
        env=os.environ | {"GFORTRAN_UNBUFFERED_ALL": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    (folder / "xfoil.log").write_text(run.stdout)
    return final_state(run.stdout)


def final_state(log: str) -> dict[str, float]:
    """The last state that XFOIL printed, if it is a solution.

    Before that, it may print other states and complaints that it later overcomes. Only the end
    counts.

    Raises:
        ArithmeticError: the last state is no solution.
    """
    steps = re.findall(
        rf"rms:\s*{NUMBER}.*?a =\s*{NUMBER}\s+CL =\s*{NUMBER}\s+Cm =\s*{NUMBER}\s+CD =\s*{NUMBER}",
        log,
        flags=re.DOTALL,
    )
    if "VISCAL:  Convergence failed" in log[log.rfind("rms:") :]:
        raise ArithmeticError("XFOIL: VISCAL:  Convergence failed")
    if not steps or float(steps[-1][0]) > CONVERGED:
        raise ArithmeticError("XFOIL ended before its boundary layer iteration did")
    _, alpha, lift, moment, drag = map(float, steps[-1])
    if not (math.isfinite(drag) and drag > 0):
        raise ArithmeticError(f"XFOIL: drag of {drag}")
    return {"alpha": alpha, "lift": lift, "drag": drag, "moment": moment}


def main() -> None:
    if shutil.which("xfoil") is None:
        sys.exit("the program xfoil is not installed: apt-get install xfoil")
    points, thickness = outline(json.load(sys.stdin))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(os.environ.get("DNGO_WORKDIR") or temporary)
        try:
            state = run_xfoil(points, folder)
        except ArithmeticError as error:
            sys.exit(str(error))
    outcome = {
        "objective": state["lift"] / state["drag"],
        "constraints": {
            "thickness": thickness >= MIN_THICKNESS,
            "moment": state["moment"] >= MIN_MOMENT,
        },
        "metadata": {**state, "thickness": thickness},
    }
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
