"""Evaluations that other programs write as JSON: one document, or one on each line.

They become rows whose columns are named as in tables of the same programs (`dngo.exchange.shapes`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.exchange.rows import Row, check_cells
from dngo.storage.text import visible

MOST = 2**28  # bytes of a file
DEEPEST = 8  # of mappings within mappings that become columns
NO_ROWS = "is JSON; a table is CSV or Parquet; this is no list of mappings"
# SMAC's numbers for states: of release 2 and, with its own names, of release 1.
_SMAC = {0: "running", 1: "success", 2: "crashed", 3: "timeout", 4: "memoryout"}


def read(path: Path) -> list[Row]:
    """The rows of a file of JSON; raises UserError if nobody is known to write such a one."""
    if path.stat().st_size > MOST:
        raise UserError(f"{path}: has more than {MOST} bytes of JSON; save it as CSV or Parquet")
    try:
        text = path.read_text(encoding="utf-8-sig")
        rows = list(_rows(_parsed(text)))
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise UserError(f"{path}: {NO_ROWS}") from None
    if not rows:
        raise UserError(f"{path}: {NO_ROWS}")
    check_cells(path, sum(len(row.values) for row in rows))
    return rows


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _rows(document: Any) -> Iterator[Row]:
    if isinstance(document, Mapping):
        if {"data", "configs"} <= document.keys():
            yield from _of_smac(document)
        elif {"keys", "params", "target"} <= document.keys():
            names = document["keys"]
            for i, (point, target) in enumerate(
                zip(document["params"], document["target"], strict=True), start=1
            ):
                values = dict(zip(names, point, strict=True)) if isinstance(point, list) else point
                yield Row(
                    f"entry {i}", {"target": target} | {f"params.{n}": v for n, v in values.items()}
                )
        elif {"x_iters", "func_vals"} <= document.keys():
            yield from _of_skopt(document)
        else:
            yield Row("entry 1", dict(_flat(document, _separator(document))))
        return
    for i, one in enumerate(document, start=1):
        if not isinstance(one, Mapping):
            raise ValueError("not a list of mappings")
        if {"tid", "result", "misc"} <= one.keys():
            yield _of_hyperopt(one)
        elif "#loss" in one:
            yield Row(f"line {i}", {k: v for k, v in one.items() if not isinstance(v, list | dict)})
        else:
            yield Row(f"entry {i}", dict(_flat(one, _separator(one))))


def _separator(one: Mapping[str, Any]) -> str:
    # Ray's tables have config/x; most programs write a dot.
    return "/" if isinstance(one.get("config"), Mapping) and "trial_id" in one else "."


def _flat(
    values: Mapping[str, Any], separator: str, before: str = "", depth: int = DEEPEST
) -> Iterator[tuple[str, Any]]:
    """The values in a mapping of mappings, each with the names that lead to it."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            if depth:
                yield from _flat(value, separator, f"{before}{name}{separator}", depth - 1)
        elif not isinstance(value, list):
            yield f"{before}{visible(str(name))}", value


def _of_smac(document: Mapping[str, Any]) -> Iterator[Row]:
    configs = document["configs"]
    for i, run in enumerate(document["data"], start=1):
        if isinstance(run, Mapping):  # 2.3 and later
            run = [
                run[k]
                for k in ("config_id", "instance", "seed", "budget", "cost", "time", "status")
            ]
        elif isinstance(run[0], list):  # 1.4
            run = [*run[0], *run[1]]
        elif len(run) > 10:  # with its CPU time
            run = [*run[:6], run[7]]
        number, _, _, budget, cost, seconds, status = run[:7]
        word = status["__enum__"] if isinstance(status, Mapping) else _SMAC.get(status, str(status))
        values = {"smac/config_id": number, "status": word, "time": seconds, "smac/budget": budget}
        ran = word.lower().endswith("success")
        costs = cost if isinstance(cost, list) else [cost]
        values |= (
            {"cost": costs[0]}
            if len(costs) == 1
            else {f"metrics/{j}": c for j, c in enumerate(costs)}
        )
        if not ran:  # SMAC writes a penalty as the cost of what failed
            values |= {
                name: None for name in values if name == "cost" or name.startswith("metrics/")
            }
        values |= {f"config/{n}": v for n, v in configs[str(number)].items()}
        yield Row(f"run {i}", values)


def _of_skopt(document: Mapping[str, Any]) -> Iterator[Row]:
    names = document.get("dimensions") or document["names"]
    for i, (point, value) in enumerate(
        zip(document["x_iters"], document["func_vals"], strict=True), start=1
    ):
        yield Row(f"entry {i}", {**dict(zip(names, point, strict=True)), "func_vals": value})


def _of_hyperopt(trial: Mapping[str, Any]) -> Row:
    result = trial["result"]
    values = {"hyperopt/tid": trial["tid"], "status": result.get("status", "new")}
    values["loss"] = result.get("loss")
    values |= {f"result/{n}": v for n, v in result.items() if not isinstance(v, dict | list)}
    # A parameter that a condition has left out has no value.
    values |= {f"vals/{n}": v[0] for n, v in trial["misc"]["vals"].items() if v}
    return Row(f"trial {trial['tid']}", values)
