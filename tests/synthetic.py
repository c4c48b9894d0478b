"""Archives of any size without an evaluation: through the package's own append, with a real model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from dngo import archive, derive
from dngo.batch import Batch, Outcome, Proposal
from dngo.config import validate
from dngo.storage.digest import digest_parameters
from dngo.study import Study
from dngo.surrogates import TrainingData, fit_model

# What a careless page would run, or take for markup.
HOSTILE = "</script><script>window.hacked=1</script><b>&amp;"
SPACE: dict[str, Any] = {
    "rate": {"type": "float", "low": 1e-4, "high": 1, "log": True},
    "depth": {"type": "int", "low": 1, "high": 6},
    "kind": {"type": "categorical", "choices": ["plain", HOSTILE, 3]},
    "decay": {"type": "float", "low": 0, "high": 1, "active_if": {"kind": ["plain"]}},
    "alpha": {"type": "float", "low": -5, "high": 5},
}


def study(folder: Path, *, iterations: int, size: int, **more: Any) -> Study:
    """A study whose archive holds a design and so many batches, `size` points each."""
    document = {
        "study": "synthetic",
        "results": str(folder),
        "objective": {"command": "false", "direction": "minimize"},
        "space": SPACE,
        "constraints": ["budget"],
        "design": {"size": size},
        "batch_size": size,
        "iterations": iterations,
        "surrogate": {"networks": {"ensemble": 2, "epochs": 5, "steps": 50}},
        **more,
    }
    made = Study(validate(document))
    rng = np.random.default_rng(0)
    for t in range(iterations + 1):
        batch, outcomes = _iteration(made, t, size, rng)
        archive.append(
            made.archive,
            identity=made.config.identity(),
            batch=batch,
            outcomes=outcomes,
            surrogate=_surrogate(made) if t > 0 else None,
        )
    return made


def _iteration(made: Study, t: int, size: int, rng: np.random.Generator) -> tuple[Batch, list]:
    space = made.space
    u = rng.random((size, space.k))
    if t > 0:  # closer to the optimum, as a search comes
        u = 0.5 + (u - 0.5) / np.sqrt(t)
    v = space.sample(u)
    x = space.unit(v)
    value = 0.1 + 20 * np.sum((x - 0.55) ** 2, axis=1) + 0.02 * rng.normal(size=size)
    ran, kept = rng.random(size) > 0.1 * x[:, 0], x.sum(axis=1) < 0.62 * space.k
    proposals, outcomes = [], []
    for i, point in enumerate(space.to_parameters(v)):
        known = t > 0
        proposals.append(
            Proposal(
                iteration=t,
                slot=i,
                parameters=point,
                source="candidate:local" if known and i % 2 else "design:sobol",
                value=float(np.exp(-i / size)) if known else np.nan,
                mean=float(value[i] + 0.05 * rng.normal()) if known else np.nan,
                std=0.06 if known else np.nan,
                feasibility=0.8 if known else np.nan,
                num_pending=i if known else 0,
                stage="trust_region" if known and i % 2 else "",
            )
        )
        status = "failed" if not ran[i] else "ok" if kept[i] else "infeasible"
        start = 1.7e9 + 100.0 * t + 10.0 * (i // 8)
        outcomes.append(
            Outcome(
                iteration=t,
                slot=i,
                parameters_digest=digest_parameters(point),
                status=status,
                objective=float(value[i]) if ran[i] else np.nan,
                constraints={"budget": int(kept[i])} if ran[i] else {},
                duration=9.0,
                started=start,
                finished=start + 9.0,
                message="" if status == "ok" else f"exit status 1: {HOSTILE} at {value[i]:.3f}",
            )
        )
    config = made.config.model_dump(mode="json")
    environment = {"packages": {}, "time": 1.7e9}
    return Batch(
        t, config, 1, 0, [t, 2], t, "0" * 64, [], environment, proposals, derive.versions()
    ), outcomes


def _surrogate(made: Study) -> Path:
    """A real, small model of the design, written once."""
    path = made.folder / "model.h5"
    if not path.exists():
        table = archive.read_table(made.archive, iterations=1)
        ok = table.status == "ok"
        data = TrainingData(
            x=table.x[:500],
            y=np.where(ok, table.objective, np.nan)[:500],
            constraints={"budget": ok.astype(float)[:500]},
        )
        settings = made.config.surrogate
        model = fit_model(data, settings, rng=np.random.default_rng(0))
        with h5py.File(path, "w") as file:
            file.attrs["training_iterations"] = 1
            file.attrs["settings"] = settings.model_dump_json()
            file.attrs["summary"] = "{}"
            file.attrs["versions"] = json.dumps(derive.versions())
            model.save(file.create_group("model"))
    return path
