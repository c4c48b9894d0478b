"""Append one iteration to the archive: see `dngo.study.Study.merge`."""

from pathlib import Path
from typing import Any

from dngo.job import job
from dngo.report import headline

snakemake: Any = globals()["snakemake"]

with job(snakemake) as (study, progress):
    study.merge(int(snakemake.wildcards.iteration), Path(snakemake.output.receipt))
    progress.say(f"Study {study.config.study}: {headline(study)}")
