"""`dngo check --cluster`: whether Slurm takes a job of each rule, and what one probe job finds.

Nothing of the study runs. The probe asks for what an evaluation asks for.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dngo.errors import UserError
from dngo.provenance import workflow_folder
from dngo.workflow.slurm import jobs, probe
from dngo.workflow.slurm.calls import GOODBYE
from dngo.workflow.slurm.reasons import minutes
from dngo.workflow.slurm.refusals import Refusal
from dngo.workflow.slurm.submission import ALIVE, Sample, Submitter
from dngo.workflow.words import CHECK

LOOK, SAY = 1.0, 15.0  # seconds between looks at the probe, and between words about a wait
UNSEEN = 30.0  # seconds for which a network file system may hide the log of a probe that has ended
CLOCK = 5.0  # seconds by which clocks may differ
_TAKEN = "--format=%T|%r|%j|%a|%P|%q|%l|%m|%C|%k"


class Check:
    """One check. folder: the study's, or the nearest above it that exists."""

    def __init__(self, submitter: Submitter, logs: Path, folder: Path):
        self._submitter, self._calls = submitter, submitter.calls
        self._logs, self._folder = logs, folder
        self.fine = True

    def run(self, samples: Sequence[Sample]) -> bool:
        """Test each rule, then run the probe. Returns whether all is well; raises KeyboardInterrupt."""
        if not samples:
            print("Nothing is left to evaluate, so no job can be tested.")
            return True
        for sample in samples:
            self._test(sample)
        if not self.fine:
            return False
        evaluates = [each for each in samples if "evaluate" in each.job.rules]
        self._probe((evaluates or samples)[-1])
        return self.fine

    def _say(self, what: str, said: str, *, fine: bool = True) -> None:
        self.fine = self.fine and fine
        print(f"{what:<22}{said}", flush=True)

    def _test(self, sample: Sample) -> None:
        rules = jobs.rules(sample.job)
        answer = self._submitter.test(sample)
        if answer.status is None:
            self._say(rules, "Slurm does not answer (sbatch --test-only)", fine=False)
        elif answer.status:
            refusal = Refusal.read(answer.said)
            cure = jobs.cure(sample.job, refusal.key) if refusal.key else ""
            self._say(rules, f"refused: {refusal.words}. {cure}".strip(), fine=False)
        elif limit := self._submitter.beyond_partition(sample):
            cure = jobs.cure(sample.job, "runtime")
            self._say(rules, f"the partition allows {limit:g} minutes. {cure}", fine=False)
        else:
            self._say(rules, "Slurm takes such a job (sbatch --test-only)")

    # ---- the probe ------------------------------------------------------------------------------

    def _probe(self, sample: Sample) -> None:
        self._logs.mkdir(parents=True, exist_ok=True)
        name = f"check-{uuid.uuid4().hex[:8]}"
        token, log = self._logs / f"{name}.token", self._logs / f"{name}.log"
        token.touch()
        words = [sys.executable, "-P", probe.__file__, str(token.absolute())]
        command = shlex.join([*words, str(self._folder.absolute()), str(workflow_folder())])
        try:
            number = self._submit(sample, command, log, f"dngo check {name}")
            if number:
                self._watch(sample, number, log)
        finally:
            for path in (token, log):
                path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._logs.rmdir()

    def _submit(self, sample: Sample, command: str, log: Path, comment: str) -> str:
        """The number of the probe; "" if Slurm does not take it."""
        submission = self._submitter.submission(sample.job, command, log, comment)
        answer = self._submitter.submit(submission, (), lambda: False)
        number = self._submitter.number(answer) if answer.status == 0 else ""
        if number:
            self._say("probe", f"job {number}, which asks for what an evaluation asks for")
        elif answer.status == 0:
            words = f"sbatch printed no job number: {answer.words}; `squeue --me` shows the job"
            self._say("probe", words, fine=False)
        else:
            self._say("probe", f"not taken: {answer.words or 'no answer'}", fine=False)
        return number

    def _watch(self, sample: Sample, number: str, log: Path) -> None:
        said = began = over = time.monotonic()
        taken, last, state = False, "", ""
        try:
            while True:
                row = self._row(number)
                state, reason = (row[0], row[1]) if row else ("", "")
                if row and not taken:
                    self._taken(sample, row)
                    taken = True
                found = _line(log)
                if found is not None:
                    return self._found(found)
                now = time.monotonic()
                if state in ALIVE or state == "COMPLETING" or now - began < 3 * LOOK:
                    over = now
                elif now - over > UNSEEN:
                    return self._unseen(number, state, log)
                why = reason if state == "PENDING" and reason != "None" else state.lower()
                if why and (why != last or now - said >= 4 * SAY) and now - began >= SAY:
                    waits = f"job {number} waits: {why}. Ctrl-C cancels it"
                    self._say("", waits)
                    said, last = now, why
                time.sleep(LOOK)
        except KeyboardInterrupt:
            self._cancel(number)
            raise

    def _row(self, number: str) -> list[str]:
        """What `squeue` says of a job; empty if it does not know it."""
        answer = self._calls.ask("squeue", "--noheader", "--states=all", f"--jobs={number}", _TAKEN)
        lines = answer.out.strip().splitlines() if answer.status == 0 else []
        row = lines[-1].split("|", 9) if lines else []
        return row if len(row) == 10 else []

    def _taken(self, sample: Sample, row: Sequence[str]) -> None:
        """What Slurm made of the probe, and where that differs from what was asked for."""
        shown = ["none" if each in ("(null)", "") else each for each in row]
        _, _, name, account, partition, qos, limit, memory, cpus, comment = shown
        run = self._submitter.run
        renamed = "" if name == run else " (a plugin of the site changed it)"
        self._say("  name", f"{name}{renamed}")
        self._say("  comment", comment)
        self._say("  account, partition", f"{account}, {partition}; QOS {qos}")
        given = minutes(limit)
        less = (
            f", but the study asks for {sample.minutes:g} minutes" if given < sample.minutes else ""
        )
        self._say("  time", f"{limit}{less}", fine=not less)
        asked = sample.job.resources.get("mem_mb")
        self._say("  memory, CPUs", f"{memory} (asked: {asked or 'none'} MB), {cpus}")

    def _found(self, found: dict[str, Any]) -> None:
        """What the probe saw on its node."""
        ours = ".".join(map(str, sys.version_info[:3]))
        imports = f", but dngo cannot be imported: {found['imports']}" if found["imports"] else ""
        differs = "" if found["python"] == ours else f" (here {ours})"
        self._say(
            "  Python", f"{found['python']}{differs} on {found['node']}{imports}", fine=not imports
        )
        apart = found["time"] - time.time()
        far = "; set it: durations and leases need it" if abs(apart) > CLOCK else ""
        self._say("  clock", f"differs by {abs(apart):.0f} s or less{far}", fine=not far)
        self._say(
            "  temporary files", f"{found['temporary']} (TMPDIR: {found['tmpdir'] or 'not set'})"
        )
        there = (
            "seen, and can be written" if found["study"] else "is NOT seen there, or not writable"
        )
        self._say("  folder", f"{self._folder}: {there}", fine=found["study"])
        if not found["files"]:
            self._say("", "a file that was written here a moment ago is not seen there", fine=False)

    def _unseen(self, number: str, state: str, log: Path) -> None:
        how = self._submitter.ending(number)
        words = f"job {number} has ended ({how or state or 'Slurm does not know it'})"
        words += f", and its log is not here: can the node write to {log.parent.absolute()}?"
        self._say("probe", words, fine=False)

    def _cancel(self, number: str) -> None:
        until = time.monotonic() + GOODBYE
        self._calls.last("scancel", "--quiet", number, until=until)
        left = self._submitter.left([number], False, until)
        self._say(
            "probe", f"`scancel {number}` did not end it" if left else f"job {number} cancelled"
        )


def _line(log: Path) -> dict[str, Any] | None:
    """What the probe printed, if it has; None otherwise."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):
        if line.startswith('{"time"'):
            return dict(json.loads(line))
    return None


def check(executor: Any, samples: Sequence[Sample]) -> None:
    """Check, and end this process: nothing of the study may run. Exit status 1: something is wrong."""
    folder = Path(os.environ[CHECK]).absolute()
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    try:
        status = 0 if Check(executor._submitter, executor.slurm_logdir, there).run(samples) else 1
    except KeyboardInterrupt:
        status = 130
    except UserError as error:
        print(error, file=sys.stderr)
        status = 1
    sys.stdout.flush()
    os._exit(status)
