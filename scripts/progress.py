"""Update the report while the study runs: see `dngo.report.page`."""

import traceback
from typing import Any

from dngo.report.page import refresh
from dngo.workflow.job import job

snakemake: Any  # put here by Snakemake

with job(snakemake) as (study, progress):
    try:
        refresh(study)
    except Exception:  # a figure that cannot be drawn must not stop a study
        traceback.print_exc()
