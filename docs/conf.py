"""How the documentation is built: `make docs`, every warning an error, without a network."""

import re
from itertools import groupby
from typing import Any

import dngo

project = "dngo"
author = "The dngo developers"
version = release = dngo.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinxarg.ext"]
exclude_patterns = ["_build"]
templates_path = ["_templates"]
myst_enable_extensions = ["deflist", "colon_fence"]
myst_heading_anchors = 3  # a heading is a place that a link can name, as on a code host
default_role = "code"  # what stands in backticks in a docstring
suppress_warnings = ["autosummary.import_cycle"]  # a package's __init__ imports from its modules

html_theme = "furo"
html_title = f"dngo {release}"
html_show_copyright = False
html_show_sphinx = False

autodoc_default_options = {"members": True, "show-inheritance": True, "ignore-module-all": True}
autodoc_member_order = "bysource"

# What people type into the search, and the page that answers. Sphinx puts such words first; without them
# the reference of the code comes before the page that explains.
SEARCHED = {
    "api": "python, function, notebook, jupyter, ask and tell, callback",
    "audit": "audit, why this point, why, explain, provenance, reproduce, replay",
    "concepts": "batch, batch size, parallel, iteration, asynchronous, pending",
    "constraints": "constraint, crash, failure, infeasible, threshold, failed, feasibility",
    "costs": "overhead, cpu time, how long",
    "early-stopping": "early stopping, pruning, pruner, learning curve, median, asha, progress, epoch",
    "entering": "import, add results, earlier data, enter, csv",
    "environment": "gpu, cuda, conda, container, apptainer, environment",
    "exchange": "export, csv, parquet, optuna, pandas, ro-crate, dataframe",
    "faults": "kill, power cut, disk full, recovery, lost",
    "fidelities": "fidelity, multi-fidelity, hyperband, successive halving, checkpoint, mesh",
    "from-ax": "ax, botorch",
    "from-optuna": "optuna, sampler",
    "from-sbatch": "sbatch, shell script, loop",
    "front": "pareto, several objectives, multi-objective, hypervolume, trade-off, front",
    "mistakes": "error, error message, mistake, help",
    "modules": "module, reference, docstring",
    "objective": "objective, noise, command, script, report, metadata, minimize, maximize",
    "own-repository": "workflow, snakefile, rule",
    "presets": "preset, paper, spearmint, dngo-2015, bohamiann, published",
    "report": "plot, figure, report, html, visualization, label, pdf",
    "slurm": "slurm, slurm account, partition, sbatch, cluster, time limit, pbs, lsf, kubernetes",
    "start": "installation, pip, uv, torch, disk space, resume, continue, restart, quick start, interrupt",
    "systems": "surrogate, acquisition, stop, target, gaussian process, network, transfer",
}


def name_searched(app: Any, docname: str, source: list[str]) -> None:
    """Put the words that lead to a page into its index."""
    if docname in SEARCHED:
        words = ", ".join(f"! {word}" for word in SEARCHED[docname].split(", "))
        title, _, rest = source[0].partition("\n")
        source[0] = f"{title}\n\n```{{index}} {words}\n```\n{rest}"


def keep_columns(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Show a paragraph of a docstring that is set in columns as it stands."""
    paragraphs = [list(group) for _, group in groupby(lines, key=lambda line: bool(line.strip()))]
    lines.clear()
    for paragraph in paragraphs:
        columns = any(re.search(r"[^\s.] {2,}\S", line) for line in paragraph)
        if columns and not paragraph[0].startswith(" "):
            lines += ["::", "", *(f"    {line}" for line in paragraph)]
        else:
            lines += paragraph


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("autodoc-process-docstring", keep_columns)
    app.connect("source-read", name_searched)
