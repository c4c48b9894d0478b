"""Choose the batch of one iteration: see `dngo.study.Study.propose`."""

from pathlib import Path
from typing import Any

from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    study.propose(
        int(snakemake.wildcards.iteration),
        Path(snakemake.input.surrogate[0]) if snakemake.input.surrogate else None,
        Path(snakemake.output.proposals),
        progress,
    )
