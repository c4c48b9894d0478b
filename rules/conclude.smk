# Conclude: write that the study has ended, and its best point, for later rules.


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
