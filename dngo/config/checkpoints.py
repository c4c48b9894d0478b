"""The section `checkpoints` of a study's configuration: how many folders of points to keep."""

from __future__ import annotations

from pydantic import Field

from dngo.space.parameters import Section


class Checkpoints(Section):
    """The folders `{checkpoint}`. A point keeps its folder from fidelity to fidelity."""

    keep: int = Field(
        100,
        ge=0,
        le=1_000_000,
        description="How many folders stay after a batch is merged. Only points that may still be "
        "promoted keep one: first the best points of each level, then the newest. A point "
        "without its folder begins again.",
    )
