"""Train the surrogate of one iteration: see `dngo.study.Study.fit`."""

from pathlib import Path
from typing import Any

from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    study.fit(int(snakemake.wildcards.iteration), Path(snakemake.output.surrogate), progress)
