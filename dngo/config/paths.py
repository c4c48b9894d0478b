"""The paths in a configuration. They are relative to its folder, and `~` means the home folder.

`$` is refused. Snakemake's configuration files have no variables either. If a study's place
depended on the environment, it would not be found again.
"""

from __future__ import annotations

from pathlib import Path

from dngo.config.messages import Lines, place_of, short
from dngo.config.model import Config
from dngo.errors import UserError
from dngo.storage.files import at_home, variable_in, without_variable


def from_folder(config: Config, folder: Path, lines: Lines, source: str, *, typed: bool) -> Config:
    """The configuration of a file in this folder, with its paths relative to the current folder.

    typed: whether `results` comes from a command line; then it is relative to the current folder.
    Raises UserError for a path with a variable or an unknown user.
    """

    def path(key: tuple[str, ...], written: str, beside: Path) -> str:
        place = f"{place_of(key, lines, source)}: {'.'.join(key)}"
        return str(beside / usable(written, beside, place))

    objective = config.objective
    # The objective starts in its configuration's folder, wherever Snakemake starts.
    directory = path(("objective", "working_directory"), objective.working_directory or "", folder)
    for i, written in enumerate(config.transfer):
        path(
            ("transfer", str(i)), written, folder
        )  # unchanged, since it is part of the study's identity
    return config.model_copy(
        update={
            "objective": objective.model_copy(update={"working_directory": directory}),
            "needs": [
                path(("needs", str(i)), written, folder) for i, written in enumerate(config.needs)
            ],
            "results": path(("results",), config.results, Path() if typed else folder),
        }
    )


def usable(written: str, beside: Path, place: str) -> str:
    """A path with the home folder instead of `~`; raises UserError for a variable or an unknown user.

    If a folder really has this name, it is meant: release 0.1.0 made such folders.
    """
    if (beside / written).exists() or Path(written).exists():
        return written
    if found := variable_in(written, beside):
        raise UserError(
            f"{place}: {short(written)}: {found} is not replaced by a value; write "
            f"{without_variable(found)}"
        )
    path = at_home(written)
    if path.startswith("~"):
        user = path.partition("/")[0]
        raise UserError(
            f"{place}: {short(written)}: there is no user {user[1:]!r}; for a folder, write "
            f"./{user}"
        )
    return path
