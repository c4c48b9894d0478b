# Report: the study as it stands, in words and figures; `progress` keeps it fresh while the study runs.


rule report:
    input:
        dag.merged,
        dag.shown,
    output:
        summary="<study>/report/summary.txt",
        page=report("<study>/report/report.html", category="Study", labels={"page": "report"}),
        scores="<study>/report/scores.csv",
    log:
        "<study>/logs/report.log",
    benchmark:
        "<study>/benchmarks/report.tsv"
    localrule: True
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/report.py"


rule progress:
    input:
        receipt="<study>/iterations/{iteration}/receipt.json",
        previous=dag.previous_shown,
    output:
        touch("<study>/iterations/{iteration}/shown"),
    log:
        "<study>/logs/progress/{iteration}.log",
    # Whatever brings the study forward comes first.
    priority: -1
    localrule: True
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/progress.py"
