"""Write that the study has ended, and its best point: see `dngo.report.conclude`."""

from pathlib import Path
from typing import Any

from dngo.report import conclude
from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    conclude(study, **{name: Path(path) for name, path in snakemake.output.items()})
