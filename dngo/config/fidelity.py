"""The section `fidelity` of a study's configuration: the parameter that starts low for new points."""

from __future__ import annotations

from pydantic import Field

from dngo.space.parameters import Finite, Section


class Fidelity(Section):
    """A parameter that starts low for new points: epochs, the points of a mesh, a share of the data."""

    parameter: str = Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$",
        description="Its name: a float or an int of the space. The best point is the best at its highest "
        "value.",
    )
    low: Finite | None = Field(
        None, gt=0, description="The value at new points; the parameter's lowest value if left out."
    )
    high: Finite | None = Field(
        None,
        gt=0,
        description="The value that counts in the end; the parameter's highest value if left out.",
    )
    factor: float = Field(
        3.0,
        ge=1.5,
        le=100,
        description="The ratio of each level to the level before it. It is adjusted slightly, so that "
        "the levels end at `high`. Of this many points at a level, one is promoted to the next "
        "level.",
    )
