# Fit: train the surrogate of an iteration on the archive of k batches before.


rule fit:
    input:
        dag.training,
    output:
        surrogate=dag.here("<study>/iterations/{iteration}/surrogate.h5"),
    log:
        dag.here("<study>/logs/fit/{iteration}.log"),
    benchmark:
        dag.here("<study>/benchmarks/fit/{iteration}.tsv")
    # Evaluations of batches in flight would keep the slots busy before the next batch comes.
    priority: 1
    group:
        dag.model_group
    localrule: dag.travels
    conda:
        "../envs/model.yaml"
    threads: dag.threads("fit")
    resources:
        **dag.resources("fit"),
    script:
        "../scripts/fit.py"
