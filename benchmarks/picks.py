"""What a batch of picks costs, against what its arithmetic costs on this machine.

    python benchmarks/picks.py                # 400 picks at N = 2,500, 11 inputs, 20,000 candidates
    python benchmarks/picks.py --scaling      # from 100 to 10,000 picks, from 100 to 100,000 observations

All picks by MCEI (no trust regions, no draws), one thread, CPU seconds. The floor counts, for adaptive
bases, every multiplication, hyperbolic tangent and expected improvement that the algorithm cannot do
without, each at the rate that the same kernel reaches here on large arrays; and the bytes of the
covariances that each pick must read and write, at the rate of a copy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from objectives import cube

from dngo.acquisition import History, propose_batch
from dngo.acquisition.measures import expected_improvement
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.rules import current
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings

CANDIDATES = 20_000
ONLY_MCEI = AcquisitionSettings(
    trust_region_share=0.0, vanishing=0.0, uniform_candidates=16_000, local_candidates=4_000
)


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A noisy valley; half of the points where a search would have put them."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    x[n // 2 :] = np.clip(0.4 + 0.15 * rng.standard_normal((n - n // 2, d)), 0, 1)
    y = np.sum((x - 0.4) ** 2, axis=1) + 0.3 * np.sin(9 * x[:, 0]) * x[:, 1]
    return x, y + 0.3 * rng.standard_normal(n)


def measure(kind: str, n: int, d: int, picks: int, settings: Acquisition):
    """CPU seconds of the fit and of the batch, and the sources of its points."""
    space, (x, y) = cube(d), problem(n, d)
    began = time.process_time()
    data = TrainingData(x=space.encode(x), y=y, constraints={"completed": np.ones(n)})
    model = fit_model(data, SurrogateSettings(kind=kind), rng=np.random.default_rng(1))
    fitted = time.process_time()
    batch = propose_batch(
        model,
        space,
        History(x, y, iteration=np.arange(n) // picks),
        size=picks,
        settings=settings,
        rng=np.random.default_rng(2),
    )
    assert len(batch) == picks
    return fitted - began, time.process_time() - fitted, batch.source


def rate(work: float, kernel: Callable[[], object]) -> float:
    """Units of work in a CPU second, the best of five."""
    seconds = []
    for _ in range(5):
        began = time.process_time()
        kernel()
        seconds.append(time.process_time() - began)
    return work / min(seconds)


def floor(d: int, picks: int, settings: Acquisition) -> dict[str, float]:
    """CPU seconds that the arithmetic of a batch takes at this machine's rates, part by part."""
    s = SurrogateSettings(kind="adaptive_basis")
    c, h, fantasies = s.networks.ensemble, s.hyperparameter_samples, settings.fantasies
    w = s.networks.width
    features = w + 1
    a = np.random.default_rng(0).standard_normal((1000, 1000))
    wide = np.random.default_rng(0).standard_normal(2_000_000)
    flops = rate(2e9, lambda: a @ a)
    tanhs = rate(2e6, lambda: np.tanh(wide))
    gains = rate(2e6, lambda: expected_improvement(wide, wide, np.abs(wide)))
    copies = rate(16 * 2e6, lambda: wide.copy())
    # Once for every candidate, and once more for the shortlist.
    shortlist = max(settings.shortlist, 10 * picks)
    points = CANDIDATES + settings.refinements * current().improvement.children + shortlist
    layers = d * w + (s.networks.layers - 1) * w * w + features * features  # and the rotation
    network = points * c * 2 * layers / flops + points * c * s.networks.layers * w / tanhs
    scoring = points * c * h * 2 * 2 * features / flops + points * c * h / gains
    # At every pick: a block that could be best; then one update.
    again = picks * current().shortlist.block
    moments = again * c * h * 2 * (features * features + fantasies * features) / flops
    gained = again * c * h * fantasies / gains
    update = picks * c * h * 3 * 8 * features * features / copies  # read, add, write
    return {
        "networks": network,
        "first scores": scoring,
        "scores at each pick": moments + gained,
        "rank-one updates": update,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--observations", type=int, default=2500)
    parser.add_argument("--inputs", type=int, default=11)
    parser.add_argument("--picks", type=int, default=400)
    parser.add_argument("--scaling", action="store_true")
    options = parser.parse_args()
    n, d, picks = options.observations, options.inputs, options.picks
    if options.scaling:
        for kind in ("adaptive_basis", "auto"):
            for q in (100, 1000, 10_000):
                _, seconds, _ = measure(kind, n, d, q, AcquisitionSettings())
                print(f"{kind}: {q} picks at N = {n}: {seconds:.2f} s", flush=True)
            for m in (100, 1000, 10_000, 100_000):
                fit, seconds, _ = measure(kind, m, d, picks, AcquisitionSettings())
                print(
                    f"{kind}: {picks} picks at N = {m}: {seconds:.2f} s, fit {fit:.2f} s",
                    flush=True,
                )
        return
    parts = floor(d, picks, ONLY_MCEI)
    least = sum(parts.values())
    print("floor: " + ", ".join(f"{k} {v:.3f} s" for k, v in parts.items()) + f"; {least:.3f} s")
    for name, kind, settings in (
        ("adaptive_basis, MCEI alone", "adaptive_basis", ONLY_MCEI),
        ("auto, MCEI alone", "auto", ONLY_MCEI),
        ("auto, defaults", "auto", AcquisitionSettings()),
    ):
        fit, seconds, sources = measure(kind, n, d, picks, settings)
        where = {s: sources.count(s) for s in sorted(set(sources))}
        ratio = f", {seconds / least:.1f} times the floor" if kind == "adaptive_basis" else ""
        print(f"{name}: {picks} picks {seconds:.2f} s{ratio}; fit {fit:.2f} s; {where}", flush=True)


if __name__ == "__main__":
    main()
