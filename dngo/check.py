"""What `dngo check` finds before any evaluation is paid for: whether the objective starts, and the
state of a study. One evaluation outside any study shows its input, and how dngo reads its answer.
"""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from dngo import derive
from dngo.batch import Outcome, Proposal
from dngo.config import Config
from dngo.errors import UserError
from dngo.evaluation.command import Call, CannotStart, Places, call_of
from dngo.evaluation.journal import cure
from dngo.evaluation.limits import Limits
from dngo.evaluation.obstacles import obstacle, script_of
from dngo.evaluation.run import Files
from dngo.evaluation.slots import slots
from dngo.redaction import redacted_command
from dngo.stopping.curves import Curve
from dngo.storage.text import visible
from dngo.study import Study

PATIENCE = 60.0  # seconds for an import
SHOWN = 10  # lines of a stream
# These run in the interpreter that the command names. That interpreter may belong to another
# environment.
_PARSE = (
    "import sys; sys.path[:] = sys.path[1:]\n"  # a file beside the script must not stand for Python's own
    "try: compile(open(sys.argv[1], 'rb').read(), sys.argv[1], 'exec')\n"
    "except SyntaxError as error: sys.exit(f'SyntaxError: {error.msg} in line {error.lineno}')"
)
_FIND = (
    "import sys; sys.path[:] = sys.path[1:]; from importlib.util import find_spec\n"
    "sys.path.insert(0, '')\n"
    "try: found = find_spec(sys.argv[1])\n"
    "except ImportError as error: sys.exit(str(error))\n"
    "found or sys.exit('No module named ' + repr(sys.argv[1]))"
)


@dataclass(frozen=True)
class Tried:
    """One evaluation outside any study.

    call: the command and its input.
    report: the text at {outcome}, "" if there is none.
    stops_early: whether the study has `early_stopping`.
    """

    call: Call
    folder: Path
    outcome: Outcome
    output: str
    errors: str
    report: str
    stops_early: bool = False


def first_point(config: Config) -> dict[str, Any]:
    """The parameters of a trial: all defaults, or the middle of a range without a default.

    If the known constraints exclude that point, it is the first point of the design.
    """
    space = config.search_space
    centre = space.defaults()
    if space.holds(centre)[0]:
        return space.to_parameters(centre)[0]
    return derive.design(config)[0].parameters


def check_needs(config: Config) -> None:
    """Raise UserError that names the first file of `needs` that is missing, or that no rule can make."""
    check_names([Path(name).name for name in config.needs])
    for i, name in enumerate(config.needs):
        if not Path(name).exists():
            raise UserError(
                f"needs.{i}: {name}: there is no such file; make it first, or use the study "
                "as a module of the workflow that makes it"
            )


def gpu_missing(config: Config) -> str:
    """A warning if networks are to be trained on a GPU and this machine has none; "" otherwise."""
    found = _on_gpu(config)
    if not found:
        return ""
    import torch

    if torch.cuda.is_available():
        return ""
    return (
        f"{found}: cuda, and PyTorch {torch.__version__} sees no GPU on {socket.gethostname()}: the "
        "first fit fails there, after the design is paid for; set device: cpu, unless the fit runs "
        "on another machine (resources.fit)"
    )


def about_torch(config: Config) -> str:
    """Which PyTorch is installed, and whether that matters to a study."""
    if word := gpu_missing(config):
        return f"Warning: {word}"
    build = f"PyTorch {metadata.version('torch')}"
    if wanted := _on_gpu(config):
        return f"{build} sees a GPU, which {wanted} asks for"
    if any(name.startswith(("nvidia-", "cuda-")) for name in metadata.requires("torch") or ()):
        return (
            f"{build} has CUDA, some 5 GB that this study does not use; the build at "
            "https://download.pytorch.org/whl/cpu has none"
        )
    return f"{build} has no CUDA, and this study needs none"


def _on_gpu(config: Config) -> str:
    """The key that asks for networks trained on a GPU; "" if none does."""
    return _device(config.surrogate.model_dump(), "surrogate") or _device(
        config.classifier.model_dump(), "classifier"
    )


def _device(section: Any, name: str = "") -> str:
    """The key below a section that asks for CUDA; "" if none does."""
    if isinstance(section, dict):
        found = (_device(value, f"{name}.{key}" if name else key) for key, value in section.items())
        return next(filter(None, found), "")
    return name if section == "cuda" and name.endswith("device") else ""


def check_names(needs: Sequence[str]) -> None:
    """Raise UserError for a file whose name Snakemake would read as a pattern of names."""
    for i, name in enumerate(needs):
        if {"{", "}"} & set(name):
            raise UserError(
                f"needs.{i}: {name}: Snakemake would replace the braces by names; rename it"
            )


def resolve(config: Config) -> str:
    """A text that says what an evaluation would start.

    This imports a function as an evaluation would. For a command it looks up the program, and
    Python's scripts are parsed by their own interpreter. Raises CannotStart that names the key.
    """
    objective = config.objective
    folder = Path(objective.working_directory or ".")
    if not folder.is_dir():
        raise CannotStart(f"objective.working_directory: there is no folder {folder}")
    proposal = Proposal(iteration=0, slot=0, parameters=first_point(config), source="check")
    call = call_of(
        objective, proposal, Places(Path("WORKDIR"), Path("CHECKPOINT")), list(config.space), 0
    )
    for name in objective.environment:
        if not name or "=" in name or "\0" in name:
            raise CannotStart(f"objective.environment: {name!r} cannot be the name of a variable")
    if objective.callable:
        words = [sys.executable, "-P", "-m", "dngo.evaluation.call", "--check", objective.callable]
        found, said = _ask(words, call, folder)
        if found is False:
            raise CannotStart(f"objective.callable: {said}")
        return f"{objective.callable} of {said}"
    why = obstacle(call.words, folder, call.environment.get("PATH"))
    if why:
        raise CannotStart(f"objective.command: {call.words[0]!r} cannot be started: {why}")
    _check_python(call, folder)
    program = shutil.which(call.words[0], path=call.environment.get("PATH")) or call.words[0]
    words = redacted_command([program, *call.words[1:]])
    return f"{shlex.join(words)}, in {folder.absolute()}"


def _check_python(call: Call, folder: Path) -> None:
    """Raise CannotStart for a script that Python cannot parse, or a module that it cannot find."""
    program, *rest = call.words
    if not Path(program).name.startswith("python"):
        return
    code, what = (_FIND, rest[1]) if rest[:1] == ["-m"] and len(rest) > 1 else (_PARSE, "")
    what = what or script_of(call.words)
    if not what:
        return
    found, said = _ask([program, "-c", code, what], call, folder)
    if found is False:
        raise CannotStart(f"objective.command: {program} cannot run {what}: {said}")


def _ask(words: list[str], call: Call, folder: Path) -> tuple[bool | None, str]:
    """Whether a program ends with status 0 (None if it takes too long), and its last line."""
    try:
        answer = subprocess.run(
            words,
            input=call.document,
            cwd=folder,
            env=call.environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, f"(not known: importing it takes more than {PATIENCE:.0f} s)"
    except OSError as error:
        return False, str(error.strerror)
    said = (answer.stderr if answer.returncode else answer.stdout).strip()
    return answer.returncode == 0, said.splitlines()[-1] if said else ""


def try_point(study: Study) -> Tried:
    """Evaluate the first point as the study would, but outside the study. Nothing of it is kept.

    Raises CannotStart.
    """
    config = study.config
    proposal = Proposal(iteration=0, slot=0, parameters=first_point(config), source="check")
    folder = Path(tempfile.mkdtemp(prefix="dngo-check-"))
    try:
        files = Files(folder / "work", folder / "out", folder / "err", folder / "checkpoint")
        threads = int(config.resources.evaluate.get("threads", 1))
        share = slots(config.points_at_once, threads, Limits())[0]
        runner = replace(study.runner(share), files_of=lambda proposal: files)
        names, places = list(config.space), files.places
        call = call_of(runner.objective, proposal, places, names, runner.seed_of(proposal))
        outcome = runner.run(proposal, 1)
        reports = (places.outcome, places.outcome.with_suffix(".rejected.json"))
        return Tried(
            call=call,
            folder=Path(config.objective.working_directory or "."),
            outcome=outcome,
            output=_text(files.stdout),
            errors=_text(files.stderr),
            report=runner.mask.text(next((_text(p) for p in reports if p.exists()), "")),
            stops_early=config.early_stopping is not None,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _text(path: Path) -> str:
    try:
        return path.read_bytes()[: 2**16].decode("utf-8", "replace")
    except OSError:
        return ""


def page(trial: Tried) -> str:
    """A trial as text: the input, the answer, and how dngo reads it."""
    outcome = trial.outcome
    report = [("in the file {outcome}", trial.report)] if trial.report else []
    came = [*report, ("on standard output", trial.output), ("on standard error", trial.errors)]
    lines = [
        "Started",
        f"  {shlex.join(redacted_command(trial.call.words))}",
        f"  in {trial.folder.absolute()}",
        "Input, on standard input and in the file {parameters}",
        f"  {trial.call.document}",
        f"Answer, after {outcome.duration:.3g} s",
        *(line for where, text in came for line in _quoted(where, text)),
        "Understood as",
        f"  status       {outcome.status}",
        *(f"  {name:<12} {value:g}" for name, value in _objectives(outcome).items()),
        *(
            f"  {name:<12} {_number(outcome, name)}{'satisfied' if flag else 'violated'}"
            for name, flag in outcome.constraints.items()
        ),
        *([f"  noise        {outcome.noise:g}"] if outcome.noise == outcome.noise else []),
        *([f"  metadata     {json.dumps(outcome.metadata)}"] if outcome.metadata else []),
    ]
    if outcome.curve:
        lines.append(f"  progress     {Curve.of(outcome.curve)}")
    elif trial.stops_early:
        lines.append("  progress     none was reported: early_stopping cannot stop anything")
    if outcome.message:
        lines.append(f"  message      {outcome.message}")
    if not outcome.ran:
        lines += ["What to look at", f"  {cure(outcome.status, outcome.message)}"]
    return "\n".join(lines)


def _number(outcome: Outcome, name: str) -> str:
    """The number that a constraint compared with its bound, "" of a flag."""
    return f"{outcome.numbers[name]:g}: " if name in outcome.numbers else ""


def _objectives(outcome: Outcome) -> dict[str, float]:
    """What is known about each objective, by name."""
    one = {"objective": outcome.objective} if outcome.ran else {}
    return outcome.objectives or one


def _quoted(where: str, text: str) -> list[str]:
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return [f"  {where}: nothing"]
    cut = [f"    [... {len(lines) - SHOWN} lines ...]"] if len(lines) > SHOWN else []
    return [f"  {where}:", *cut, *(f"    {visible(line)}" for line in lines[-SHOWN:])]


def standing(study: Study) -> str:
    """The state of a study as text, and what a run would do; "" for a new study.

    Raises UserError for anything that a run would refuse: an archive or a batch of another study,
    or a folder that cannot be written.
    """
    there = next(p for p in (study.folder, *study.folder.parents) if p.exists())
    if not there.is_dir():
        raise UserError(f"{there}: is not a folder; name another one under `results`")
    header, plan = study.header(), study.plan()
    flying = [batch.iteration for batch in study.in_flight(header.iterations if header else 0)]
    if header is None and not flying:
        return ""
    rows = (
        f"{header.rows} evaluations (iterations 0 to {header.iterations - 1})"
        if header
        else "nothing yet"
    )
    now = f"; in flight: iteration {', '.join(map(str, flying))}" if flying else ""
    changes = study.changes()
    left = f"{len(plan.iterations)} iterations are left" if plan.iterations else plan.reason
    lines = [f"Has begun: {study.archive} holds {rows}{now}; {left}"]
    if header and study.config.has_several:
        lines += _references(study)
    if changes:
        lines.append(
            "Warning: the objective has changed since the earlier evaluations: "
            f"{'; '.join(changes)}"
        )
    return "\n".join(lines)


def _references(study: Study) -> list[str]:
    """A warning for each reference, if no known outcome is better than it."""
    from dngo.report.front import Front

    front = Front.of(study.archive, study.table(), study.config)
    return [
        f"Warning: objectives.{name}.reference: no outcome is better than it, so the hypervolume is 0; "
        f"it must be the worst value of interest of an objective to {study.config.directions[name]}"
        for name in front.beyond_reference
    ]
