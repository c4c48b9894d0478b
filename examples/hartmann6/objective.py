"""Hartmann's function in six dimensions, a test of global optimisation (Dixon and Szego 1978).

    f = - sum_i weight_i exp(- sum_j scale_ij (x_j - centre_ij)^2)

on the unit cube. It has four wells. The floor of the deepest is -3.32237, at
(0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573).

The parameters "x1" to "x6" come as a JSON object on standard input; the value goes to standard
output as a bare number. An objective without constraints need not report more.
"""

import json
import sys
from math import exp

WEIGHTS = (1.0, 1.2, 3.0, 3.2)
SCALES = (
    (10.0, 3.0, 17.0, 3.5, 1.7, 8.0),
    (0.05, 10.0, 17.0, 0.1, 8.0, 14.0),
    (3.0, 3.5, 1.7, 10.0, 17.0, 8.0),
    (17.0, 8.0, 0.05, 10.0, 0.1, 14.0),
)
CENTRES = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)


def hartmann6(x: list[float]) -> float:
    """The function's value at x, six numbers in [0, 1]."""
    value = 0.0
    for weight, scales, centres in zip(WEIGHTS, SCALES, CENTRES, strict=True):
        distance = sum(s * (a - c) ** 2 for s, a, c in zip(scales, x, centres, strict=True))
        value -= weight * exp(-distance)
    return value


if __name__ == "__main__":
    parameters = json.load(sys.stdin)
    print(hartmann6([parameters[f"x{i}"] for i in range(1, 7)]))
