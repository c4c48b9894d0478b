"""dngo from Python: look at a study, ask it for points and tell it outcomes, or optimise a function.

To look at a study you need only its archive. Asking, telling and evaluating run the stages of the
workflow. They use the same folder and the same claims. So you can switch between Python and
Snakemake after any batch.
"""

from dngo.api.beginning import create, maximize, minimize
from dngo.api.looking import Best, Fitted, Result
from dngo.api.parameters import Choice, Float, Int
from dngo.api.session import Session, open_study
