"""The configuration of a study: one typed model, read strictly, with errors a person can act on.

`model` is the source of truth, `reading` makes a `Config` of YAML files, `messages` says what is
wrong with them, `upgrade` brings up what archives hold, and `pages` writes
what is generated from the model.
"""

from dngo.config.model import (
    COMPLETED,
    Config,
    Objective,
    identity_of,
    thresholds_of,
)
from dngo.config.pages import keys, schema, with_defaults
from dngo.config.reading import load, validate
from dngo.config.upgrade import CONFIG_VERSION, upgrade

__all__ = [
    "COMPLETED",
    "CONFIG_VERSION",
    "Config",
    "Objective",
    "identity_of",
    "keys",
    "load",
    "schema",
    "thresholds_of",
    "upgrade",
    "validate",
    "with_defaults",
]
