"""Whether an archive is what was written: every value, and nothing but what was written."""

from __future__ import annotations

from pathlib import Path

from dngo.archive.digests import genesis_digest, iteration_digest
from dngo.archive.layout import columns_of
from dngo.archive.reading import reading


def verify(path: Path) -> list[str]:
    """Check the chain of digests; one line for each thing that does not fit, none if all is well."""
    problems: list[str] = []
    with reading(path) as file:
        previous, row = genesis_digest(file), 0
        iterations = int(file.attrs["iterations"])
        for t in range(iterations):
            group = file.get(f"iterations/{t}")
            if group is None:
                problems.append(f"iteration {t}: its record is missing")
                break
            first, rows = int(group.attrs["first_row"]), int(group.attrs["rows"])
            if first != row:
                problems.append(f"iteration {t}: starts at row {first}, and row {row} was expected")
            if str(group.attrs["previous"]) != previous:
                problems.append(f"iteration {t}: does not follow the digest of the one before")
            found = iteration_digest(file, group)
            if found != str(group.attrs["digest"]):
                problems.append(
                    f"iteration {t} (rows {first} to {first + rows - 1}): its values do not have "
                    "the digest that was recorded"
                )
            previous, row = str(group.attrs["digest"]), first + rows
        if str(file.attrs["digest"]) != previous:
            problems.append("the archive's digest is not that of its last iteration")
        if int(file.attrs["rows"]) != row:
            problems.append(f"the archive counts {file.attrs['rows']} rows, and has {row}")
        if set(file["iterations"]) != {str(t) for t in range(iterations)}:
            problems.append(f"the archive counts {iterations} iterations, and has other ones")
        for name in ("proposals", "outcomes"):
            for column in columns_of(file[name]):
                if len(column) != row:
                    problems.append(
                        f"{column.name}: has {len(column)} rows, and {row} are expected"
                    )
    return problems
