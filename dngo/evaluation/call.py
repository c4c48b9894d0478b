"""Evaluate a Python function in a process of its own.

`python -m dngo.evaluation.call REPORT PARENT module:function`; see `dngo.evaluation.start` for the
first two.
"""

from __future__ import annotations

import importlib
import json
import os
import sys

from dngo.evaluation.start import prepare


def main() -> None:
    """Call the function with the parameters as keywords; report what it returns."""
    report, (module, _, name) = int(sys.argv[1]), sys.argv[3].partition(":")
    prepare(report, int(sys.argv[2]))
    sys.path.insert(0, os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:
        reason = f"{sys.argv[3]!r} cannot be imported: {type(error).__name__}: {error}"
        os.write(report, reason.encode("utf-8", "replace")[:2000])
        raise
    os.close(report)
    result = function(**json.load(sys.stdin))
    if not isinstance(result, dict):
        result = {"objective": float(result)}
    # Whole or not at all: what lies there when this process is killed counts.
    temporary = f"{os.environ['DNGO_OUTCOME']}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(result, stream, default=float)  # NumPy's scalars among them
    os.replace(temporary, os.environ["DNGO_OUTCOME"])


if __name__ == "__main__":
    main()
