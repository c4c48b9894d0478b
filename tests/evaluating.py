"""What the tests of evaluations share: objectives, runners, a job's share of a batch."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
from waiting import until

from dngo.batch import Outcome, Proposal
from dngo.config import Objective
from dngo.evaluation.chunk import Attempts, evaluate
from dngo.evaluation.limits import Limits
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.slots import slots
from dngo.storage.digest import digest_parameters

POINT = Proposal(3, 7, {"x": 0.5, "mode": "a b; rm -rf $HOME", "flag": True}, "test")


def python(code: str, **kwargs: Any) -> Objective:
    return Objective(command=[sys.executable, "-c", code], **kwargs)


def runner(
    objective: Objective, folder: Path, constraints: list[str] | None = None, **kwargs: Any
) -> Runner:
    files = Files(folder / "work", folder / "out", folder / "err")
    names = ["x", "mode", "flag", "inactive"]
    return Runner(
        objective, names, dict.fromkeys(constraints or []), lambda proposal: files, **kwargs
    )


def outcome_of(
    objective: Objective, tmp_path: Path, constraints: list[str] | None = None, **kwargs: Any
) -> Outcome:
    one = runner(objective, tmp_path, constraints, **kwargs)
    outcome = one.run(POINT, 1)
    one.tidy(POINT)
    return outcome


class Share:
    """A job's share of a batch, with runs counted."""

    def __init__(self, folder: Path, size: int = 3):
        self.folder = folder
        (folder / "outcomes").mkdir(parents=True, exist_ok=True)
        (folder / "claims").mkdir(exist_ok=True)
        self.proposals = [Proposal(0, i, {"x": i / 10}, "test") for i in range(size)]
        self.runs: list[str] = []

    def outcome_file(self, proposal: Proposal) -> Path:
        return self.folder / "outcomes" / f"{proposal.slot}.json"

    def claim_file(self, proposal: Proposal) -> Path:
        return self.folder / "claims" / str(proposal.slot)

    def adopt(self, proposal: Proposal, attempts: int) -> Outcome | None:
        return None

    def tidy(self, proposal: Proposal) -> None:
        pass

    def run(self, proposal: Proposal, attempts: int) -> Outcome:
        self.runs.append(proposal.id)
        return Outcome(0, proposal.slot, digest_parameters(proposal.parameters), "ok", 1.0)

    def evaluate(self, archived=lambda p: None, attempts: Attempts = Attempts()) -> list[Outcome]:
        return evaluate(
            self.proposals,
            self.outcome_file,
            self.claim_file,
            [self],
            archived=archived,
            attempts=attempts,
        )


class SideBySide(Share):
    """Points that a real objective evaluates, two at a time."""

    def __init__(self, folder: Path, number: int, code: str, **limits: float):
        super().__init__(folder, number)
        self.shares = slots(2, 1, Limits(**limits))
        self.runners = [
            Runner(
                python(code, environment=slot.environment),
                ["x"],
                {},
                lambda p: Files(folder / f"work{p.slot}", folder / f"{p.slot}.out", folder / f"{p.slot}.err"),
                limits=slot.limits,
                cpus=slot.cpus,
            )
            for slot in self.shares
        ]  # fmt: skip

    def evaluate_all(self, **kwargs: Any) -> list[Outcome]:
        return evaluate(
            self.proposals,
            self.outcome_file,
            self.claim_file,
            self.runners,
            archived=lambda p: None,
            **kwargs,
        )


RUNNER = """
import json, sys
from pathlib import Path
from dngo.batch import Proposal
from dngo.config import Objective
from dngo.evaluation.chunk import evaluate
from dngo.evaluation.run import Files, Runner
from dngo.evaluation.supervision import Interrupted
folder = Path(sys.argv[1])
one = Runner(Objective(**json.loads(sys.argv[2])), ["x"], {},
             lambda p: Files(folder / "work", folder / "out", folder / "err"))
try:
    evaluate([Proposal(0, 0, {"x": 1}, "test")], lambda p: folder / "outcomes" / "0.json",
             lambda p: folder / "claims" / "0", [one], archived=lambda p: None)
except Interrupted:
    sys.exit(130)
"""


def supervised(share: Share, **objective: Any) -> subprocess.Popen[bytes]:
    """A process that evaluates a single point; returned once its objective has begun."""
    words = [sys.executable, "-c", RUNNER, str(share.folder), json.dumps(objective)]
    share.proposals = [Proposal(0, 0, {"x": 1}, "test")]
    process = subprocess.Popen(words)
    until((share.folder / "started").exists, process)
    return process


def processes_of(folder: Path) -> list[psutil.Process]:
    """What runs for an evaluation in this folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            ours = process.environ().get("DNGO_WORKDIR") == str(folder / "work")
            if ours and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def again(share: Share, objective: Objective, **kwargs: Any) -> Outcome:
    """The outcome that the next owner of the same point gets."""
    share.run, share.adopt, share.tidy = (  # type: ignore[method-assign]
        getattr(runner(objective, share.folder, **kwargs), n) for n in ("run", "adopt", "tidy")
    )
    return share.evaluate()[0]
