"""Branin's function, a textbook test of global optimisation (Dixon and Szego 1978).

    f = (x2 - 5.1 x1^2 / (4 pi^2) + 5 x1 / pi - 6)^2 + 10 (1 - 1 / (8 pi)) cos(x1) + 10

on x1 in [-5, 10], x2 in [0, 15]. Its three minima, at (-pi, 12.275), (pi, 2.275) and
(3 pi, 2.475), all have the value 5 / (4 pi) = 0.397887.

The parameters "x1" and "x2" come as a JSON object on standard input; the value goes to standard
output as a bare number. An objective without constraints need not report more.
"""

import json
import sys
from math import cos, pi


def branin(x1: float, x2: float) -> float:
    """The function's value at (x1, x2)."""
    valley = x2 - 5.1 * x1**2 / (4 * pi**2) + 5 * x1 / pi - 6
    return valley**2 + 10 * (1 - 1 / (8 * pi)) * cos(x1) + 10


if __name__ == "__main__":
    print(branin(**json.load(sys.stdin)))
