# Conclude: say that the study is at its end, and what its best point is, for rules that come after it.


rule conclude:
    input:
        dag.merged,
    output:
        done=dag.here("<study>/done"),
        best=dag.here("<study>/best.json"),
    log:
        dag.here("<study>/logs/conclude.log"),
    localrule: True
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/conclude.py"
