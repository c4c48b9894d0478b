"""The configuration of a study: its keys, which fit each other."""

from __future__ import annotations

from pydantic import ValidationInfo, model_validator

from dngo.config.keys import Keys
from dngo.config.together import check
from dngo.space.parameters import archived


class Config(Keys):
    """A study."""

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Config:
        check(self, is_new=not archived(info))
        return self
