"""Functions on which networks should win: many inputs, correlations that a kernel does not know.

    python benchmarks/batches.py --problems networks --schedule 100 5 100 --seeds 1

Drawn networks in 50 to 200 inputs, one of them on 10 of 60; policies, themselves networks, that swing a
pole up on a cart; a function that is rough in one corner alone, and one with jumps. All are minimised in
the unit cube. Nothing is tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]  # u (n, k), unit cube -> (n,)
WIDTH, GAIN = 64, 1.6  # of a drawn network's two layers, and of their weights


def drawn_network(k: int, seed: int) -> Function:
    """A network of two layers of tanh units with random weights."""
    rng = np.random.default_rng([k, seed])
    first = rng.standard_normal((k, WIDTH)) * GAIN * np.sqrt(12 / k)
    second = rng.standard_normal((WIDTH, WIDTH)) * GAIN / np.sqrt(WIDTH)
    biases = [rng.standard_normal(WIDTH) * 0.5 for _ in range(2)]
    last = rng.standard_normal(WIDTH) / np.sqrt(WIDTH)

    def value(u: Array) -> Array:
        hidden = np.tanh((u - 0.5) @ first + biases[0])
        return np.asarray(np.tanh(hidden @ second + biases[1]) @ last)

    return value


def some_inputs(k: int, relevant: int, seed: int) -> Function:
    """A drawn network of a few of k inputs."""
    function = drawn_network(relevant, seed)
    inputs = np.random.default_rng(seed).permutation(k)[:relevant]
    return lambda u: function(u[:, inputs])


def swinging(units: int) -> tuple[int, Function]:
    """How many weights a policy of so many units has, and what 200 steps of it cost on average.

    It sees the pole's angle and speed and the cart's place and speed, and pushes the cart.
    """
    k = 7 * units + 1

    def value(u: Array) -> Array:
        q, n = (u - 0.5) * 4, len(u)
        inner, bias = q[:, : 5 * units].reshape(n, 5, units), q[:, 5 * units : 6 * units]
        outer, push = q[:, 6 * units : 7 * units], q[:, -1]
        x, dx, dth, cost = np.zeros((4, n))
        th = np.full(n, np.pi)  # it hangs
        for _ in range(200):
            seen = np.stack([np.cos(th), np.sin(th), dth / 4, x / 2, dx / 2], 1)
            hidden = np.tanh(np.einsum("ni,nih->nh", seen, inner) + bias)
            force = 10 * np.tanh((hidden * outer).sum(1) + push)
            sin, cos = np.sin(th), np.cos(th)
            mass = 1.0 + 0.2 * sin**2
            ddx = (force + 0.2 * sin * (0.6 * dth**2 - 9.81 * cos)) / mass
            turn = (1.0 + 0.2) * 9.81 * sin - force * cos - 0.2 * 0.6 * dth**2 * sin * cos
            dx = dx + 0.03 * ddx
            x = x + 0.03 * dx
            dth = np.clip(dth + 0.03 * turn / (0.6 * mass), -15, 15)
            th = th + 0.03 * dth
            dx, x = np.where(np.abs(x) > 3, 0, dx), np.clip(x, -3, 3)
            cost += (1 - np.cos(th)) / 2 + 0.02 * x**2 + 0.001 * force**2 / 10
        return cost / 200

    return k, value


def rough_corner(k: int, seed: int) -> Function:
    """A turned cone that is rough near a few planes through its tip, and smooth elsewhere."""
    rng = np.random.default_rng([k, seed, 3])
    tip = rng.random(k) * 0.6 + 0.2
    turn = np.linalg.qr(rng.standard_normal((k, k)))[0]

    def value(u: Array) -> Array:
        z = (u - tip) @ turn
        waves = np.abs(np.sin(3 / (0.15 + np.abs(z[:, :5])))).mean(1)
        found = np.sqrt((z**2).sum(1) / k) + 0.3 * waves * np.exp(-4 * np.abs(z[:, 5]))
        return np.asarray(found)

    return value


def jumps(k: int, seed: int) -> Function:
    """A bowl with jumps across twelve turned sets of planes."""
    rng = np.random.default_rng([k, seed, 4])
    lowest, planes = rng.random(k), rng.standard_normal((k, 12)) / np.sqrt(k) * 2

    def value(u: Array) -> Array:
        step = np.floor(3 * ((u - 0.5) @ planes) + 0.5)
        found = ((u - lowest) ** 2).mean(1) + 0.15 * np.abs(np.sin(step * 1.7)).mean(1)
        return np.asarray(found)

    return value


# The number of inputs of each, and the function.
NETWORKS: dict[str, tuple[int, Function]] = {
    **{f"network{k}": (k, drawn_network(k, 1)) for k in (50, 100, 200)},
    "network10of60": (60, some_inputs(60, 10, 2)),
    "policy29": swinging(4),
    "policy71": swinging(10),
    "rough_corner20": (20, rough_corner(20, 1)),
    "jumps20": (20, jumps(20, 1)),
}
