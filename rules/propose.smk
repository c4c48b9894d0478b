# Propose: choose the points of a batch. Points of batches in flight are pending.


rule propose:
    input:
        surrogate=dag.surrogate,
        pending=dag.previous_batch,
    output:
        proposals="<study>/iterations/{iteration}/proposals.json",
    log:
        dag.here("<study>/logs/propose/{iteration}.log"),
    benchmark:
        dag.here("<study>/benchmarks/propose/{iteration}.tsv")
    # Evaluations of batches in flight would keep the slots busy before the next batch comes.
    priority: 1
    group:
        dag.model_group
    localrule: dag.travels
    conda:
        "../envs/model.yaml"
    threads: dag.threads("propose")
    resources:
        **dag.resources("propose"),
    script:
        "../scripts/propose.py"
