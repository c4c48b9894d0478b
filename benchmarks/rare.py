"""Problems that few points satisfy, beside rivals: one to three feasible ones in a design of 20, or none.

    python benchmarks/rare.py                                    # ten problems, three seeds, all methods
    python benchmarks/rare.py --problems welded plant --seeds 1 --methods dngo random
    python benchmarks/rare.py --problems tuned                   # what rules are tuned on

The ten of `REPORTED` are engineering problems from books, and small solvers: a flowsheet with a recycle, a
control loop, a course of doses, a filter. Nothing is tuned on them; families.py declares what is.
Studies are those of studies.py, with SCBO beside where BoTorch is installed.
"""

from __future__ import annotations

import math

import numpy as np
from families import RARE_NUMBERS, several
from numpy.typing import NDArray
from real import REAL
from scipy.integrate import solve_ivp
from studies import Problem, Report, compare, number, of, problem, whole

from dngo.space import Space

Array = NDArray[np.float64]
REPORTED: dict[str, Problem] = {}

# ---- from books ----------------------------------------------------------------------------------


@problem(
    REPORTED,
    face=number(2.6, 3.6),
    module=number(0.7, 0.8),
    teeth=whole(17, 28),
    l1=number(7.3, 8.3),
    l2=number(7.3, 8.3),
    d1=number(2.9, 3.9),
    d2=number(5.0, 5.5),
)
def reducer(
    face: float, module: float, teeth: int, l1: float, l2: float, d1: float, d2: float
) -> Report:
    """Weight of a speed reducer, eleven bounds (Golinski 1970)."""
    tooth, whole_tooth = module**2 * teeth, (module * teeth) ** 2
    weight = 0.7854 * face * module**2 * (3.3333 * teeth**2 + 14.9334 * teeth - 43.0934)
    weight += -1.508 * face * (d1**2 + d2**2) + 7.4777 * (d1**3 + d2**3)
    weight += 0.7854 * (l1 * d1**2 + l2 * d2**2)
    bend = [
        math.sqrt((745 * length / (module * teeth)) ** 2 + extra)
        for length, extra in ((l1, 16.9e6), (l2, 157.5e6))
    ]
    return weight, {
        "bending": 27 / (face * tooth) - 1,
        "contact": 397.5 / (face * whole_tooth) - 1,
        "sag1": 1.93 * l1**3 / (module * teeth * d1**4) - 1,
        "sag2": 1.93 * l2**3 / (module * teeth * d2**4) - 1,
        "shaft1": bend[0] / (110 * d1**3) - 1,
        "shaft2": bend[1] / (85 * d2**3) - 1,
        "space": module * teeth / 40 - 1,
        "narrow": 5 * module / face - 1,
        "wide": face / (12 * module) - 1,
        "fit1": (1.5 * d1 + 1.9) / l1 - 1,
        "fit2": (1.1 * d2 + 1.9) / l2 - 1,
    }


@problem(REPORTED, wire=number(0.05, 2), coil=number(0.25, 1.3), turns=number(2, 15))
def spring(wire: float, coil: float, turns: float) -> Report:
    """Weight of a spring, with bounds on sag, shear, surge and width (Belegundu 1982)."""
    shear = (4 * coil**2 - wire * coil) / (12566 * (coil * wire**3 - wire**4))
    return (turns + 2) * coil * wire**2, {
        "sag": 1 - coil**3 * turns / (71785 * wire**4),
        "shear": shear + 1 / (5108 * wire**2) - 1,
        "surge": 1 - 140.45 * wire / (coil**2 * turns),
        "width": (wire + coil) / 1.5 - 1,
    }


@problem(
    REPORTED, shell=whole(1, 30), head=whole(1, 30), radius=number(10, 100), length=number(10, 240)
)
def vessel(shell: int, head: int, radius: float, length: float) -> Report:
    """Cost of a vessel under pressure whose plates are multiples of 1/16 inch (Sandgren 1990)."""
    ts, th = shell / 16, head / 16
    cost = 0.6224 * ts * radius * length + 1.7781 * th * radius**2
    cost += 3.1661 * ts**2 * length + 19.84 * ts**2 * radius
    volume = math.pi * radius**2 * (length + 4 / 3 * radius)
    return cost, {
        "shell": 0.0193 * radius - ts,
        "head": 0.00954 * radius - th,
        "volume": 1_296_000 - volume,
    }


@problem(
    REPORTED, height=number(10, 80), width=number(10, 50), web=number(0.9, 5), flange=number(0.9, 5)
)
def ibeam(height: float, width: float, web: float, flange: float) -> Report:
    """Sag of an I-beam, with bounds on its section and its stress (Gold and Krishnamurty 1997)."""
    inner = height - 2 * flange
    inertia = web * inner**3 / 12 + width * flange**3 / 6
    inertia += 2 * width * flange * ((height - flange) / 2) ** 2
    upright = web * inner**3 + 2 * width * flange * (4 * flange**2 + 3 * height * inner)
    across = inner * web**3 + 2 * flange * width**3
    return 5000 / inertia, {
        "section": 2 * width * flange + web * inner - 300,
        "stress": 180_000 * height / upright + 15_000 * width / across - 6,
    }


@problem(REPORTED, **{f"x{i}": number(-10, 10) for i in range(7)})
def g9(**x: float) -> Report:
    """Hock and Schittkowski's problem 100: a polynomial with four bounds in seven inputs."""
    a, b, c, d, e, f, g = (x[f"x{i}"] for i in range(7))
    value = (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6
    value += 7 * f**2 + g**4 - 4 * f * g - 10 * f - 8 * g
    return value, {
        "first": 2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127,
        "second": 7 * a + 3 * b + 10 * c**2 + d - e - 282,
        "third": 23 * a + b**2 + 6 * f**2 - 8 * g - 196,
        "fourth": 4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
    }


# ---- small solvers -------------------------------------------------------------------------------


@problem(
    REPORTED,
    temperature=number(320, 460),
    volume=number(1, 60),
    feed=number(0.5, 10),
    recycle=number(0.05, 0.99),
    purge=number(0.01, 0.5, log=True),
    stages=whole(5, 60),
)
def plant(
    temperature: float, volume: float, feed: float, recycle: float, purge: float, stages: int
) -> Report:
    """A reactor, a column and a recycle, minus what they earn a day; no steady state, no report.

    A makes B, and B makes tar. The column splits by its stages, and what is not purged returns.
    """
    k1, k2 = 2e7 * math.exp(-6800 / temperature), 4e11 * math.exp(-11500 / temperature)
    a, b, tar = 5.0, 0.0, 0.0
    split = 1 - math.exp(-stages / 8) * (0.4 + recycle)
    for _ in range(300):
        flow = a + b + tar
        time_in = volume / flow
        a_out = a / (1 + k1 * time_in)
        b_out = (b + a - a_out) / (1 + k2 * time_in)
        tar_out = a + b + tar - a_out - b_out
        heavy = (1 - purge) * tar_out
        back = (recycle * a_out, (1 - split) * recycle * b_out, heavy * recycle)
        new = (feed + back[0], back[1], back[2])
        moved = max(abs(new[0] - a), abs(new[1] - b), abs(new[2] - tar))
        a, b, tar = new
        if not math.isfinite(a) or a + b + tar > 40 or k1 * time_in > 60:
            raise ArithmeticError("the recycle grows without end")
        if moved < 1e-9:
            break
    else:
        raise ArithmeticError("no steady state")
    product = split * b_out
    heat = 90 * k1 * volume * a_out / flow
    steam = 1.2 * flow * (1 + recycle) + 0.15 * stages
    earned = 60 * product - 12 * feed - 1.5 * steam - 0.5 * volume**0.7
    impure = (1 - split) * b_out + 0.02 * tar_out + 0.01 * a_out
    return -earned, {
        "purity": impure / (product + impure) - 0.07,
        "steam": steam - 18,
        "heat": heat - 250,
        "tar": tar_out / (product + 1e-9) - 0.10,
    }


@problem(
    REPORTED,
    p=number(0.1, 10, log=True),
    i=number(0.01, 3, log=True),
    d=number(0.01, 5, log=True),
    filtered=number(0.01, 1, log=True),
    weight=number(0, 1.5),
)
def loop(p: float, i: float, d: float, filtered: float, weight: float) -> Report:
    """A controller of a plant of third order with dead time: its error; no report where it diverges."""
    steps, dt, delay = 600, 0.05, 10
    x, total, before, slope = [0.0, 0.0, 0.0], 0.0, 0.0, 0.0
    pushes, seen, error = [0.0] * delay, [], 0.0
    roughness, last = 0.0, 0.0
    for t in range(steps):
        wanted, y = 1.0, x[2]
        total += i * (wanted - y) * dt
        slope += (d * (before - y) / dt - slope) * dt / (filtered + dt)
        before = y
        push = p * (weight * wanted - y) + total + slope
        roughness, last = max(roughness, abs(push - last)), push
        pushes.append(push)
        load = 0.5 if t > steps // 2 else 0.0
        u = pushes[t] - load
        x = [
            x[0] + dt * (u - x[0]) / 0.8,
            x[1] + dt * (x[0] - x[1]),
            x[2] + dt * (x[1] - x[2]) / 1.5,
        ]
        if abs(x[2]) > 20:
            raise ArithmeticError("it diverges")
        seen.append(x[2])
        error += abs(wanted - x[2]) * dt
    first, second = np.array(seen[: steps // 2]), np.array(seen[steps // 2 :])
    return error, {
        "overshoot": float(first.max() - 1.05),
        "dip": float(1 - second.min() - 0.45),
        "settled": float(np.abs(first[-80:] - 1).max() - 0.15),
        "push": float(roughness - 2.0),
    }


@problem(
    REPORTED,
    first=number(10, 150),
    dose=number(5, 100),
    hours=number(4, 24),
    share=number(0.3, 1),
    slow=number(0.05, 2, log=True),
)
def dosing(first: float, dose: float, hours: float, share: float, slow: float) -> Report:
    """A course of doses in two compartments with saturable loss: side effects; bounds on the levels."""
    times = np.arange(0, 72, hours)
    state, worst, course = np.zeros(3), 0.0, []
    for n, begin in enumerate(times):
        given = first if n == 0 else dose
        state = state + np.array([given * share, given * (1 - share), 0.0])
        end = min(begin + hours, 72.0)

        def rates(t: float, c: Array) -> list[float]:
            gut, blood, tissue = c
            lost = 9.0 * blood / (12.0 + blood)
            return [
                -slow * gut,
                slow * gut - lost - 0.3 * blood + 0.1 * tissue,
                0.3 * blood - 0.1 * tissue,
            ]

        found = solve_ivp(
            rates, (begin, end), state, t_eval=np.linspace(begin, end, 12), method="LSODA"
        )
        course.append(found.y)
        state = found.y[:, -1]
    blood = np.concatenate([c[1] for c in course])
    late = np.concatenate([c[1] for c in course[len(course) // 3 :]])
    tissue = np.concatenate([c[2] for c in course])
    worst = float(np.mean(np.maximum(blood - 8, 0)) + 0.02 * tissue.max() + 0.5 * len(times) / 10)
    return worst, {
        "peak": float(blood.max() - 30),
        "trough": float(6 - late.min()),
        "early": float(6 - np.concatenate([c[1] for c in course])[6]),
        "tissue": float(tissue.max() - 80),
    }


@problem(REPORTED, **{f"p{i}": number(0.1, 3) for i in range(7)})
def ladder(**parts: float) -> Report:
    """A lowpass ladder of seven parts between two resistors: its size; bounds on ripple and stopband."""
    values = [parts[f"p{i}"] for i in range(7)]

    def loss(w: Array) -> Array:
        chain = np.broadcast_to(np.eye(2, dtype=complex), (len(w), 2, 2))
        for i, value in enumerate(values):
            one = np.tile(np.eye(2, dtype=complex), (len(w), 1, 1))
            one[:, int(i % 2 == 0), int(i % 2 == 1)] = 1j * w * value
            chain = chain @ one
        a, b, c, d = chain[:, 0, 0], chain[:, 0, 1], chain[:, 1, 0], chain[:, 1, 1]
        return np.asarray(20 * np.log10(np.abs(a + b + c + d) / 2))

    passed, stopped = loss(np.linspace(0.02, 1, 60)), loss(np.linspace(1.6, 4, 40))
    return float(sum(values)), {
        "ripple": float(passed.max() - 4.0),
        "edge": float(loss(np.array([0.9]))[0] - 3.0),
        "stop": float(15 - stopped.min()),
    }


# ---- tuned on ------------------------------------------------------------------------------------


def of_family(name: str) -> Problem:
    """A function of families.py with several bounds."""
    drawn = several(name)

    def evaluate(u: Array, rng: np.random.Generator) -> tuple[Array, dict[str, Array]]:
        values, excess = drawn(u)
        excess[np.isnan(values)] = np.nan  # a crash reports nothing
        return values, {f"c{i}": column for i, column in enumerate(excess.T)}

    return Problem(Space({f"x{i}": number(0, 1) for i in range(drawn.k)}), evaluate)


TUNED = {name: of_family(name) for name in RARE_NUMBERS}
BESIDE = ("dngo", "random", "optuna_multivariate", "cma_ranks", "optuna_tpe", "scbo")

if __name__ == "__main__":
    REPORTED["welded"] = REAL["welded"]
    compare(__doc__, of(REPORTED | TUNED), REPORTED, BESIDE, {"tuned": TUNED})
