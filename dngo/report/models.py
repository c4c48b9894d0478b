"""Which models proposed the points of a batch: parts of the surrogate, local models, or none."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from dngo import archive
from dngo.batch import TOLD

LOCAL, NONE = "local models", "no model"
PROCESS, NETWORKS = "Gaussian process", "networks"
_KINDS = {"gp": PROCESS, "adaptive_basis": NETWORKS, "bohamiann": NETWORKS}


def models_of(sources: list[str], parts: dict[str, float]) -> dict[str, float]:
    """The share of each model in picks with these sources, in order of size.

    parts: the weights of the global surrogate's parts; empty if no surrogate was used.
    """
    found: Counter[str] = Counter()
    for source in sources:
        if source.startswith("local:"):
            found[NONE if source == "local:step" else LOCAL] += 1
        elif (
            not parts
            or source in ("default", "random", "sobol", *TOLD)
            or source.startswith("design")
        ):
            found[NONE] += 1
        else:
            for name, weight in parts.items():
                found[name] += weight  # type: ignore[assignment]
    return {name: number / len(sources) for name, number in found.most_common() if number > 0}


def parts_of(summary: dict[str, Any], config: dict[str, Any]) -> dict[str, float]:
    """The weights of a surrogate's parts, from the summary of its fit and its batch's configuration."""
    if not summary:
        return {}
    shares = [v for name, v in summary.items() if name.endswith("gp_share")]
    if shares:
        share = float(np.mean(shares))
        return {name: w for name, w in ((PROCESS, share), (NETWORKS, 1.0 - share)) if w > 0}
    kind = str(config["surrogate"]["kind"])
    if kind == "auto":
        return {PROCESS if any("gp_" in name for name in summary) else NETWORKS: 1.0}
    return {_KINDS.get(kind, kind): 1.0}


def by_batch(path: Path, iterations: range) -> list[dict[str, float]]:
    """`models_of` of some iterations of an archive."""
    found = []
    with archive.reading(path) as file:
        for t in iterations:
            group = file[f"iterations/{t}"]
            first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
            sources = file["proposals/source"].asstr()[first : first + rows].tolist()
            parts = {}
            if "surrogate" in group:
                summary = json.loads(group["surrogate"].attrs["summary"])
                parts = parts_of(summary, json.loads(group.attrs["config"]))
            found.append(models_of(sources, parts) if rows else {})
    return found


def said(models: dict[str, float]) -> str:
    """The shares as text, without those below half a percent."""
    return ", ".join(f"{name} {share:.0%}" for name, share in models.items() if share >= 0.005)
