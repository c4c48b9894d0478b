"""dngo from Python: a study to look at, to ask and to tell; a function to optimise.

To look you need nothing but an archive. Asking, telling and evaluating go through the stages of the
workflow, on the same folder and under the same claims, so a study may change hands between Python and
Snakemake at any batch.
"""

from dngo.api.beginning import create, maximize, minimize
from dngo.api.looking import Best, Fitted, Result
from dngo.api.parameters import Choice, Float, Int
from dngo.api.session import Session, open_study

__all__ = [
    "Best",
    "Choice",
    "Fitted",
    "Float",
    "Int",
    "Result",
    "Session",
    "create",
    "maximize",
    "minimize",
    "open_study",
]
