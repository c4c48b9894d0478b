"""Append one iteration to the archive: see `dngo.study.Study.merge`."""

from pathlib import Path
from typing import Any

from dngo.report import headline
from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    study.receive(snakemake.input.outcomes)
    study.merge(int(snakemake.wildcards.iteration), Path(snakemake.output.receipt))
    print(f"Study {study.config.study}: {headline(study)}")
