"""The section `resources:` of the configuration: the resources that each rule's jobs ask for."""

from __future__ import annotations

import re

from pydantic import Field, model_validator

from dngo.config.messages import Located, shown
from dngo.space.parameters import Section

Resource = dict[str, int | float | str]
# Words of schedulers, and Snakemake's name for what they mean.
OTHER_NAMES = {
    **dict.fromkeys(("time", "walltime", "timelimit", "time_limit"), "runtime (minutes)"),
    **dict.fromkeys(("memory", "mem_gb", "ram"), "mem_mb"),
    **dict.fromkeys(("partition", "queue"), "slurm_partition"),
    **dict.fromkeys(("cpus", "ncpus", "cores", "ntasks"), "threads"),
    "account": "slurm_account",
}


class Resources(Section):
    """Resources of each rule, by Snakemake's names: mem_mb, runtime (minutes), slurm_partition ..."""

    fit: Resource = Field(
        default_factory=dict,
        description="On a cluster one job fits and proposes. It gets the sum of both runtimes and the "
        "larger mem_mb. A partition, an account and so on must be the same for both. "
        "Default: 4000 and 20 each.",
    )
    propose: Resource = Field(default_factory=dict, description="See fit.")
    evaluate: Resource = Field(
        default_factory=dict,
        description="Default: `default-resources` of the profile, 2000 and 60.",
    )
    merge: Resource = Field(
        default_factory=dict,
        description="This job runs on Snakemake's machine, even if other jobs run on a cluster.",
    )

    @model_validator(mode="after")
    def _check(self) -> Resources:
        for rule in type(self).model_fields:
            for name, value in getattr(self, rule).items():
                where = ("resources", rule, name)
                if name == "threads" and not re.fullmatch(r"0*[1-9][0-9]*(\.0*)?", str(value)):
                    raise Located(where, f"must be an integer, 1 or greater, not {shown(value)}")
                if name.endswith(("_mb", "_mib")) and not isinstance(value, int):
                    unit = "megabytes" if name.endswith("_mb") else "mebibytes"
                    raise Located(where, f"must be an integer, of {unit}, not {shown(value)}")
                if isinstance(value, int | float) and not value >= 0:
                    raise Located(where, f"must be 0 or greater, not {shown(value)}")
        return self
