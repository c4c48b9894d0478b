# What every rule needs: the validated configuration, and the study's DAG (dngo/workflow/dag.py).

import sys

# The package beside the Snakefile is the one that runs.
sys.path.insert(0, workflow.basedir)

from dngo.workflow.dag import Dag
from dngo.errors import UserError

try:
    dag = Dag.build(
        configfiles=workflow.overwrite_configfiles,
        overrides=workflow.config_settings.config,
        basedir=workflow.basedir,
        main=workflow.is_main_process,
        dry=workflow.dryrun,
        remote=workflow.remote_exec,
    )
except UserError as error:
    sys.exit(str(error))

# `cores: all` means this machine's: the jobs of a cluster may have more threads than its login node.
if workflow.nodes is not None:
    workflow.global_resources["_cores"] = None

# Scripts get the resolved configuration, whichever files and options it came from.
config.clear()
config.update(dag.config)


pathvars:
    study=dag.folder,


wildcard_constraints:
    iteration=r"\d+",
    chunk=r"\d+",
