# Fit: train the surrogate of an iteration on the archive as it was k batches before.


rule fit:
    input:
        dag.training,
    output:
        surrogate="<study>/iterations/{iteration}/surrogate.h5",
    log:
        "<study>/logs/fit/{iteration}.log",
    benchmark:
        "<study>/benchmarks/fit/{iteration}.tsv"
    group:
        "model-{iteration}"
    conda:
        "../envs/model.yaml"
    threads: dag.threads("fit")
    resources:
        **dag.resources("fit"),
    script:
        "../scripts/fit.py"
