"""`dngo run`: the command that starts Snakemake with this workflow. It works in any folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dngo.errors import UserError
from dngo.locate import find_study
from dngo.provenance import workflow_folder
from dngo.storage.files import cannot_be_written
from dngo.workflow import snakefile


def command(config: Path, results: str | None, given: Sequence[str]) -> list[str]:
    """The command line that runs a study, or goes on with it.

    results: the folder of the studies, if not the configured one.
    given: the user's words for Snakemake; they override ours.
    Raises UserError if the configuration is missing or not valid.
    """
    if not config.exists():
        raise UserError(f"{config}: there is no such file; `dngo init` writes one")
    study = find_study([config], {"results": results} if results else None)
    words = [sys.executable, "-P", "-m", "snakemake", "--snakefile", snakefile()]
    words += ["--configfile", os.path.abspath(config)]
    if not _has(given, "--workflow-profile"):
        words += ["--workflow-profile", str(workflow_folder() / "profiles" / "default")]
    # The working folder and .snakemake/ stay the same, wherever the command is typed.
    if not _has(given, "--directory", "-d"):
        folder = os.path.abspath(study.beside)
        if cannot_be_written(folder):
            raise UserError(
                f"{folder}: nothing can be written there, and Snakemake keeps its notes in that folder; "
                "copy the configuration to another one"
            )
        words += ["--directory", folder]
    words += _with_profiles(given, config.parent)
    if results:
        place = f"results={os.path.abspath(study.config.results)}"
        at = words.index("--config") + 1 if "--config" in words else len(words)
        words[at:at] = [place] if "--config" in words else ["--config", place]
    return words


def _has(given: Sequence[str], *options: str) -> bool:
    return any(word.partition("=")[0] in options for word in given)


def _with_profiles(given: Sequence[str], beside: Path) -> list[str]:
    """The words, with a path for each profile that Snakemake would not find by its name.

    A profile may lie beside the configuration, or in this package (`slurm`).
    """
    words, is_profile = [], False
    for word in given:
        option, equals, value = word.partition("=")
        if word.startswith("-"):
            is_profile = option == "--profile"
        name = value if equals else word
        if is_profile and not (word.startswith("-") and not equals) and not _is_known(name):
            for folder in (beside, workflow_folder()):
                if (folder / name / "config.yaml").exists():
                    path = os.path.abspath(folder / name)
                    word = f"{option}={path}" if equals else path
                    break
        words.append(word)
    return words


def _is_known(profile: str) -> bool:
    """Whether Snakemake finds a profile by its name."""
    # The import takes seconds, and ten more while Slurm's controller is away.
    from snakemake.cli import get_profile_dir

    return bool(get_profile_dir(profile))
