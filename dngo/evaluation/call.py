"""Evaluate a Python function in a process of its own: `python -m dngo.evaluation.call module:function`."""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Call the function with the parameters as keywords; report what it returns."""
    module, _, name = sys.argv[1].partition(":")
    sys.path.insert(0, os.getcwd())
    parameters = json.load(sys.stdin)
    result = getattr(importlib.import_module(module), name)(**parameters)
    if not isinstance(result, dict):
        result = {"objective": float(result)}
    with open(os.environ["DNGO_OUTCOME"], "w", encoding="utf-8") as stream:
        json.dump(result, stream, default=float)  # NumPy's scalars among them


if __name__ == "__main__":
    main()
