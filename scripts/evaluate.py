"""Run the objective at the points of one chunk: see `dngo.study.Study.evaluate`."""

from pathlib import Path
from typing import Any

from dngo.evaluation.limits import Limits
from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    study.receive(snakemake.input)
    study.evaluate(
        int(snakemake.wildcards.iteration),
        int(snakemake.wildcards.chunk),
        Path(snakemake.output.outcomes),
        progress,
        Limits.from_now(snakemake.params.limits),
    )
