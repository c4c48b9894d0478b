"""Learning curves of gradient boosting on the data sets that scikit-learn ships, recorded as small tables.

    python benchmarks/boosting.py curves
    python benchmarks/curves.py --data curves --tables diabetes,breast_cancer,wine --seeds 1 --budget 40

The first command trains each point of a grid of 336 on three quarters of a data set and judges it on the
rest after each of 52 trees: the mean squared error, or the logarithmic loss. `curves/boosting.npz` has the
curves. It takes some minutes. The second uses them in place of LCBench's.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dngo.space import Space
from dngo.space.parameters import Int, Parameter

Array = NDArray[np.float64]
TREES = 52
FILE = "boosting.npz"
DATA = ("diabetes", "breast_cancer", "wine")
# learning_rate is 2 to the power of -halvings; subsample and max_features are quarters.
PARAMETERS: dict[str, Parameter] = {
    "halvings": Int(type="int", low=0, high=6),
    "max_depth": Int(type="int", low=1, high=4),
    "subsample": Int(type="int", low=2, high=4),
    "max_features": Int(type="int", low=1, high=4),
}


def settings(point: NDArray[np.int_]) -> dict[str, Any]:
    """What scikit-learn is given for a point, in the order of `PARAMETERS`."""
    halvings, depth, subsample, features = map(int, point)
    return {
        "learning_rate": 0.5**halvings,
        "max_depth": depth,
        "subsample": subsample / 4,
        "max_features": features / 4,
        "n_estimators": TREES,
        "random_state": 0,
    }


def grid() -> NDArray[np.int_]:
    """All points, (n, 4), in the order of `PARAMETERS`."""
    ranges = [np.arange(p.low, p.high + 1) for p in PARAMETERS.values()]  # type: ignore[attr-defined]
    return np.stack(np.meshgrid(*ranges, indexing="ij"), axis=-1).reshape(-1, len(ranges))


def recorded(name: str) -> Array:
    """The loss of each point of the grid on held-out rows after each tree: (n, 52)."""
    from sklearn import datasets
    from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
    from sklearn.metrics import log_loss, mean_squared_error
    from sklearn.model_selection import train_test_split

    x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    x, held_x, y, held_y = train_test_split(x, y, test_size=0.25, random_state=0)
    found = []
    for point in grid():
        if name == "diabetes":
            model = GradientBoostingRegressor(**settings(point)).fit(x, y)
            stages = [mean_squared_error(held_y, p) for p in model.staged_predict(held_x)]
        else:
            model = GradientBoostingClassifier(**settings(point)).fit(x, y)
            stages = [log_loss(held_y, p) for p in model.staged_predict_proba(held_x)]
        found.append(stages)
    return np.array(found, dtype=float)


@dataclass
class Boosted:
    """The curves of one data set, as `curves.Table` has those of a task."""

    folder: Path
    task: str
    parameters = PARAMETERS

    @cached_property
    def space(self) -> Space:
        return Space(PARAMETERS)

    @cached_property
    def _curves(self) -> Array:
        with np.load(self.folder / FILE) as file:
            found: Array = file[self.task]
        return found

    def curve(self, v: Array) -> Array:
        """The whole curve of points v (n, 4): (n, 52)."""
        names = [column.name for column in self.space.columns]
        shape = tuple(p.high - p.low + 1 for p in PARAMETERS.values())  # type: ignore[attr-defined]
        whole = np.rint(np.atleast_2d(v)).astype(int)
        at = [whole[:, names.index(n)] - p.low for n, p in PARAMETERS.items()]  # type: ignore[attr-defined]
        found: Array = self._curves[np.ravel_multi_index(at, shape)]
        return found

    def regret(self, error: float) -> float:
        """Of a loss after all trees, as a share of what the median point has above the best."""
        ends = self._curves[:, -1]
        return max(error - float(ends.min()), 0.0) / float(np.median(ends) - ends.min())


def main() -> None:
    """Record the curves."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / FILE, **{name: recorded(name) for name in DATA})


if __name__ == "__main__":
    main()
