"""Run the objective at the points of one chunk: see `dngo.study.Study.evaluate`."""

import math
import time
from pathlib import Path
from typing import Any

from dngo.evaluation.objective import Limits
from dngo.workflow.job import job

snakemake: Any = globals()["snakemake"]

with job(snakemake) as (study, progress):
    given = snakemake.params.limits
    limits = Limits(
        deadline=time.monotonic() + given.get("seconds", math.inf),
        memory=given.get("memory", math.inf),
    )
    study.evaluate(
        int(snakemake.wildcards.iteration),
        int(snakemake.wildcards.chunk),
        Path(snakemake.output.outcomes),
        progress,
        limits,
    )
