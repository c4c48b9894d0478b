# Propose: choose the points of a batch; those of the batches still in flight are pending.


rule propose:
    input:
        surrogate=dag.surrogate,
        pending=dag.previous_batch,
    output:
        proposals="<study>/iterations/{iteration}/proposals.json",
    log:
        "<study>/logs/propose/{iteration}.log",
    benchmark:
        "<study>/benchmarks/propose/{iteration}.tsv"
    group:
        "model-{iteration}"
    conda:
        "../envs/model.yaml"
    threads: dag.threads("propose")
    resources:
        **dag.resources("propose"),
    script:
        "../scripts/propose.py"
