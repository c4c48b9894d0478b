# Report: the current study, in text and figures. `progress` updates it while the study runs.


rule report:
    input:
        dag.merged,
        dag.shown,
    output:
        summary=dag.here("<study>/report/summary.txt"),
        page=report(
            dag.here("<study>/report/report.html"), category="Study", labels={"page": "report"}
        ),
        scores=dag.here("<study>/report/scores.csv"),
    log:
        dag.here("<study>/logs/report.log"),
    benchmark:
        dag.here("<study>/benchmarks/report.tsv")
    localrule: True
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/report.py"


rule progress:
    input:
        receipt=dag.here("<study>/iterations/{iteration}/receipt.json"),
        previous=dag.previous_shown,
    output:
        touch(dag.here("<study>/iterations/{iteration}/shown")),
    log:
        dag.here("<study>/logs/progress/{iteration}.log"),
    # Jobs that advance the study come first.
    priority: -1
    localrule: True
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/progress.py"
