# Report: the study as it stands, in words and plots.


rule report:
    input:
        dag.merged,
    output:
        summary="<study>/report/summary.txt",
        convergence=report(
            "<study>/report/convergence.svg", category="Study", labels={"plot": "convergence"}
        ),
        parameters=report(
            "<study>/report/parameters.svg", category="Study", labels={"plot": "parameters"}
        ),
        calibration=report(
            "<study>/report/calibration.svg", category="Study", labels={"plot": "calibration"}
        ),
        scores="<study>/report/scores.csv",
    log:
        "<study>/logs/report.log",
    benchmark:
        "<study>/benchmarks/report.tsv"
    conda:
        "../envs/study.yaml"
    script:
        "../scripts/report.py"
