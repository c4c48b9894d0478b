# Merge: append the outcomes of a batch to the archive, in the order of the iterations.


rule merge:
    input:
        outcomes=dag.outcomes,
        previous=dag.previous_merge,
    output:
        receipt=dag.here("<study>/iterations/{iteration}/receipt.json"),
    log:
        dag.here("<study>/logs/merge/{iteration}.log"),
    benchmark:
        dag.here("<study>/benchmarks/merge/{iteration}.tsv")
    localrule: True
    conda:
        "../envs/study.yaml"
    threads: dag.threads("merge")
    resources:
        **dag.resources("merge"),
    script:
        "../scripts/merge.py"
