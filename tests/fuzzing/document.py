"""The report of an objective, damaged: it must be one outcome, and a storable one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

from dngo.batch import Outcome, read_outcomes, write_outcomes
from dngo.evaluation.document import judge
from fuzzing.damage import damaged_bytes, damaged_json
from fuzzing.guard import Result, guarded

DOCUMENTS = [
    {"objective": 0.1},
    {
        "objective": 1,
        "constraints": {"a": True, "b": False},
        "noise": 0.1,
        "metadata": {"n": [1, {}]},
    },
    0.25,
]


def document(folder: Path, rng: random.Random) -> Iterator[tuple[str, Result]]:
    """A hundred reports of an objective, each of which must be one outcome, and a storable one."""

    def judge_all() -> int:
        for _ in range(100):
            report = json.dumps(damaged_json(rng.choice(DOCUMENTS), rng)).encode()
            if rng.random() < 0.5:
                _, report = damaged_bytes(report, rng)
            line = report.decode("utf-8", rng.choice(["replace", "surrogateescape"]))
            verdict = judge(
                *rng.choice([(report, ""), (None, line)]), rng.choice([{}, {"a": None, "b": None}])
            )
            outcome = Outcome(0, 0, "", verdict.status, message=verdict.message, **verdict.fields)
            write_outcomes(folder / "outcome.json", [outcome])
            assert [repr(o) for o in read_outcomes(folder / "outcome.json")] == [repr(outcome)]
        return 0

    yield "documents", guarded(judge_all)
