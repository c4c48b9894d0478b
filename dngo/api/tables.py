"""The tables that a study returns."""

from __future__ import annotations

from typing import Any

import pandas as pd


class Table(pd.DataFrame):
    """A table whose columns of parameters are also found by the names of the parameters.

    table["x"], and Optuna's table["params_x"], are table["parameter_x"].
    """

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key not in self.columns:
            parameter = f"parameter_{key.removeprefix('params_')}"
            key = parameter if parameter in self.columns else key
        return super().__getitem__(key)
