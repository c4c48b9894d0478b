"""What is written from the configuration's model: the JSON schema."""

from __future__ import annotations

import json

from dngo.config.model import Config


def schema() -> str:
    """The JSON schema of `Config`, as `config.schema.json` holds it."""
    return json.dumps(Config.model_json_schema(), indent=2, sort_keys=True) + "\n"
