"""What Snakemake needs: the DAG of a run, what a script does around its one call, the Slurm executor."""
