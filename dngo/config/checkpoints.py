"""The section `checkpoints` of a study's configuration: how many folders of points are kept."""

from __future__ import annotations

from pydantic import Field

from dngo.space.parameters import Section


class Checkpoints(Section):
    """The folders `{checkpoint}`, which follow points from fidelity to fidelity."""

    keep: int = Field(
        100,
        ge=0,
        le=1_000_000,
        description="Folders that stay once a batch is merged, of points that may still be promoted: the "
        "best of each level first, then the newest. A point whose folder is gone begins anew.",
    )
