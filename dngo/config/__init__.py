"""The configuration of a study: a typed model that is read strictly. Its errors say what to change.

`model` is the source of truth. `reading` makes a `Config` from YAML files, and `messages` explains
mistakes in them. `upgrade` converts the configurations in old archives. `pages` writes the pages
that are generated from the model.
"""

from dngo.config.keys import COMPLETED, Objective, identity_of, thresholds_of
from dngo.config.model import Config
from dngo.config.pages import keys, schema, with_defaults
from dngo.config.reading import load, resolved, validate
from dngo.config.upgrade import CONFIG_VERSION, upgrade
