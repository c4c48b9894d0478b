# A study: Bayesian optimisation of an expensive objective, one batch of points after another.
#
#   config.yaml ─► design ─┐
#                          ▼
#     ┌──── results/STUDY/archive.h5 ◄──────────────────────────────────────────┐
#     ▼                                                                         │
#    fit ─► surrogate.h5 ─► propose ─► proposals.json ─► evaluate × chunks ─► merge
#
# Each rule in rules/ is one stage. Its script in scripts/ passes paths to the package dngo/.
# Paths: <study>/iterations/{iteration}/..., where iteration 0 is the initial design.
# The archive is not an output of any rule, so Snakemake never deletes it. The iterations that
# it holds are not in the DAG, so a finished evaluation is never planned again.

from snakemake.utils import min_version

min_version("9.27")


include: "rules/common.smk"


rule all:
    input:
        dag.targets,


include: "rules/fit.smk"
include: "rules/propose.smk"
include: "rules/evaluate.smk"
include: "rules/merge.smk"
include: "rules/report.smk"
include: "rules/conclude.smk"


onstart:
    dag.begin()


onsuccess:
    dag.end(success=True)


onerror:
    dag.end(success=False)
    workflow.logger_manager.logfile_hint()
    sys.exit(1)  # the user knows why; Snakemake would add that a job did not complete
