"""Scalable Bayesian optimisation with deep networks, as a Snakemake workflow.

`dngo.minimize` optimises a Python function. `dngo.create` and `dngo.open` return a study: look at
it, ask it for points, tell it outcomes (`dngo.api`). The package holds all logic; `rules/` and
`scripts/` only connect it to Snakemake. Importing `dngo` is cheap: it imports numerical modules
only when they are needed, and torch only to train networks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dngo.version import __version__

if TYPE_CHECKING:
    from dngo.api import Choice, Float, Int, Session, create, maximize, minimize
    from dngo.api import open_study as open
    from dngo.errors import UserError
    from dngo.evaluation.journal import Halted
    from dngo.objects import use
    from dngo.reporting import checkpoint, progress, should_stop, workdir

# The module of each name. `open` is there `open_study`, as Python has an `open`.
_HOMES = {
    **dict.fromkeys(("create", "maximize", "minimize"), "api.beginning"),
    **dict.fromkeys(("Choice", "Float", "Int"), "api.parameters"),
    **dict.fromkeys(("Session", "open"), "api.session"),
    **dict.fromkeys(("checkpoint", "progress", "should_stop", "workdir"), "reporting"),
    "Halted": "evaluation.journal",
    "UserError": "errors",
    "use": "objects",
}
__all__ = ["__version__", *_HOMES]


_ADAPTERS = ("optuna", "sklearn")  # modules that need these packages


def __getattr__(name: str) -> Any:
    if name in _ADAPTERS:
        from importlib import import_module

        return import_module(f"dngo.{name}")
    if name not in _HOMES:
        from dngo.elsewhere import PACKAGE

        if name in PACKAGE:
            # In `from dngo import NAME` Python drops the text of an AttributeError.
            raise ImportError(f"dngo has no {name}: write {PACKAGE[name]}", name=name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    there = "open_study" if name == "open" else name
    return getattr(import_module(f"dngo.{_HOMES[name]}"), there)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
