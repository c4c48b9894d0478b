# Evaluate: run the objective at the points of one chunk of a batch, `points_at_once` at a time.


rule evaluate:
    input:
        proposals="<study>/iterations/{iteration}/proposals.json",
        needs=dag.needs,
    output:
        outcomes="<study>/iterations/{iteration}/outcomes/{chunk}.json",
    log:
        "<study>/logs/evaluate/{iteration}/{chunk}.log",
    retries: dag.retries
    conda:
        "../envs/evaluate.yaml"
    threads: dag.threads("evaluate")
    resources:
        **dag.resources("evaluate"),
    params:
        limits=dag.limits,
    script:
        "../scripts/evaluate.py"
