"""Scalable Bayesian optimisation with deep networks, as a Snakemake workflow.

The package holds all logic; `rules/` and `scripts/` only connect it to Snakemake.
Importing `dngo` is cheap: torch is imported by the modules that fit or evaluate a network.
"""

__version__ = "0.1.0"
