# What every rule needs: the validated configuration, and the study's DAG (dngo/workflow/dag.py).

import sys

from dngo.errors import UserError
from dngo.workflow.dag import Dag

try:
    dag = Dag.of(workflow, config)
except UserError as error:
    sys.exit(str(error))

# Scripts get the resolved configuration, whichever files and options it came from. A module's caller
# keeps its own, so this one is not changed but replaced.
config = dag.config


pathvars:
    study=dag.folder,


wildcard_constraints:
    iteration=r"\d+",
    chunk=r"\d+",
