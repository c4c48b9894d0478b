"""Write the study's report: see `dngo.report`."""

from pathlib import Path
from typing import Any

from dngo.job import job
from dngo.report import write_report

snakemake: Any = globals()["snakemake"]

with job(snakemake) as (study, progress):
    write_report(study, **{name: Path(path) for name, path in snakemake.output.items()})
