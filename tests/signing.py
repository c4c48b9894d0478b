"""New digests for an archive that a test has changed, as if it had been written so."""

from __future__ import annotations

from pathlib import Path

import h5py

from dngo.archive.digests import genesis_digest, is_replaceable, iteration_digest, model_digest


def sign(path: Path) -> None:
    """Write the chain of digests anew, from the first iteration to the last."""
    with h5py.File(path, "r+") as file:
        digest = genesis_digest(file)
        for t in range(int(file.attrs["iterations"])):
            group = file[f"iterations/{t}"]
            if is_replaceable(group) and "model" in group["surrogate"]:
                group["surrogate"].attrs["model_digest"] = model_digest(group["surrogate/model"])
            group.attrs["previous"] = digest
            digest = iteration_digest(file, group)
            group.attrs["digest"] = digest
        file.attrs["digest"] = digest
