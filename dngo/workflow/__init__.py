"""What Snakemake needs: the DAG of a run, its messages, its jobs and the Slurm executor."""

from dngo.provenance import workflow_folder


def snakefile() -> str:
    """The Snakefile, for `module NAME: snakefile: snakefile()` in a workflow of one's own."""
    return str(workflow_folder() / "Snakefile")
