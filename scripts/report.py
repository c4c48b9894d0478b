"""Write the study's report: see `dngo.report.page`."""

from pathlib import Path
from typing import Any

from dngo.report.page import write_report
from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    write_report(study, **{name: Path(path) for name, path in snakemake.output.items()})
