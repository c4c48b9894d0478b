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
