"""Scalable Bayesian optimisation with deep networks, as a Snakemake workflow.

The package holds all logic; `rules/` and `scripts/` only connect it to Snakemake.
Importing `dngo` is cheap: numerical modules are imported where needed, torch where a GPU is.
"""

__version__ = "0.2.0"
