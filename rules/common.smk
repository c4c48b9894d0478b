# Every rule needs the validated configuration and the study's DAG (dngo/workflow/dag.py).

import sys

from dngo.errors import UserError
from dngo.workflow.dag import Dag

try:
    dag = Dag.of(workflow, config)
except UserError as error:
    sys.exit(str(error))

# Scripts get the resolved configuration, from whichever files and options. A module's caller
# keeps its own configuration, so `config` is replaced and not changed.
config = dag.config


pathvars:
    study=dag.folder,


wildcard_constraints:
    iteration=r"\d+",
    chunk=r"\d+",
