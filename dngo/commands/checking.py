"""`dngo check`: checks a configuration before any evaluation is paid for."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dngo.archive.transfer import Earlier
    from dngo.config import Config
    from dngo.space import Space
    from dngo.study import Study


def register(commands: Any) -> None:
    """Add the command to the parser."""
    check = commands.add_parser(
        "check", help="check whether a configuration is valid, and whether it can run"
    )
    check.add_argument("config", nargs="?", default="config.yaml", help="default: config.yaml")
    check.add_argument(
        "--run",
        dest="trial",
        action="store_true",
        help="evaluate one point outside any study, and show its outcome",
    )
    check.add_argument(
        "--cluster",
        nargs="?",
        const="slurm",
        metavar="PROFILE",
        help="also show one job of each rule to Slurm, and run one probe job; default: slurm",
    )
    page = check.add_mutually_exclusive_group()
    page.add_argument("--schema", action="store_true", help="print the JSON schema and exit")
    page.add_argument("--keys", action="store_true", help="print docs/configuration.md and exit")
    page.add_argument(
        "--defaults",
        action="store_true",
        help="print the file, with the default of each key that is commented out, and exit",
    )
    check.set_defaults(run=_check)


def _check(arguments: argparse.Namespace) -> int:
    from dngo.check import page, try_point
    from dngo.config import keys, load, schema, with_defaults
    from dngo.config.reading import with_line
    from dngo.errors import UserError
    from dngo.locate import find_study

    if arguments.schema or arguments.keys:
        print(schema() if arguments.schema else keys(), end="")
        return 0
    load([arguments.config])  # mistakes must name the file as the user typed it
    if arguments.defaults:
        print(with_defaults(Path(arguments.config).read_text(encoding="utf-8")), end="")
        return 0
    study = find_study([arguments.config])
    try:
        lines = _looked_at(study)
    except UserError as error:
        raise with_line(error, arguments.config) from None
    if not arguments.trial:
        print(f"{arguments.config}: valid")  # never printed before an error
    print("\n".join(lines), flush=True)
    if arguments.trial:
        found = try_point(study)
        print(f"\n{page(found)}")
        if not found.outcome.ran:
            return 1
    if arguments.cluster:
        _ask_cluster(Path(arguments.config), study, arguments.cluster)
    return 0


def _ask_cluster(config: Path, study: Study, profile: str) -> None:
    """Go on as a Snakemake that asks the cluster instead of running the study."""
    from dngo.workflow.start import command
    from dngo.workflow.words import CHECK

    words = command(config, None, ["--profile", profile, "--quiet", "all"])
    sys.stdout.flush()
    environment = {**os.environ, CHECK: str(study.folder.absolute())}
    os.execve(words[0], words, environment)


def _looked_at(study: Study) -> list[str]:
    """Lines about a study: its size, its state and its command; raises UserError."""
    from dngo.check import about_torch, check_needs, resolve, standing
    from dngo.config.placeholders import words_of
    from dngo.config.presets import departures
    from dngo.presets import PRESETS

    config = study.config
    space = config.search_space
    points = config.design_size + config.iterations * config.batch_size
    lines = [
        f"Study {config.study}: {_aims(config)} over {space.k} parameters ({_size(space)})",
        f"Up to {points} evaluations: a design of {config.design_size}, then {config.iterations} "
        f"batches of {config.batch_size}, {config.points_per_job} in each job",
        f"Results in {study.folder}",
    ]
    if config.preset is not None:
        changed = departures(config)
        own = f", with your own {', '.join(changed)}" if changed else ""
        lines.append(f"Preset {config.preset}: {PRESETS.find(config.preset).paper}{own}")
    if config.space_constraints:
        lines.append(f"Known constraints: {len(config.space_constraints)}; {_feasible(space)}")
    lines += _without_use(config)
    lines += [*_not_asked_for(config), *_time_is_short(config)]
    lines += [f"Learns from {earlier}" for earlier in _learns_from(study)]
    lines += [line for line in [standing(study)] if line]
    lines += [f"Warning: {line}" for line in config.exposed]
    if study.plan().iterations:
        check_needs(config)
    lines.append(f"Objective: {resolve(config)}")
    if config.objective.command:
        lines += _of_command(config, words_of(config.objective.command))
    lines.append(about_torch(config))
    return lines


def _of_command(config: Config, words: list[str]) -> list[str]:
    """Lines about the words of a command: what is left out, and what only a shell would read."""
    from dngo.check import first_point
    from dngo.config.placeholders import without_brackets
    from dngo.evaluation.obstacles import for_a_shell, left_out, read_by_a_shell
    from dngo.space.parameters import choices, is_listed, text

    shown = first_point(config)
    lines = left_out(words, {n: n not in shown for n, p in config.space.items() if p.active_if})
    texts = {n: [text(c) for c in choices(p)] for n, p in config.space.items() if is_listed(p)}
    words = without_brackets(words)
    found = (for_a_shell(words), read_by_a_shell(words, texts))
    return lines + [f"Warning: objective.command: {word}" for word in found if word]


def _size(space: Space) -> str:
    """The number of points as text: of those that keep the constraints, if they can be counted."""
    if space.size == float("inf"):
        return "infinitely many points"
    counted = space.count() if space.conditions or space.size < 2**16 else space.size
    if counted != counted:  # too many to look at each
        return f"{space.size:g} points, without the constraints"
    return f"{counted:,.0f} points" if counted < 1e7 else f"{counted:g} points"


def _aims(config: Config) -> str:
    """The aims as text."""
    each = [f"{direction} {name}" for name, direction in config.directions.items()]
    return ", ".join(each) or config.direction


def _learns_from(study: Study) -> Sequence[Earlier]:
    """The earlier studies that this one learns from; raises UserError if one cannot be read."""
    if not study.config.transfer:
        return []
    from dngo.archive import transfer
    from dngo.study.beginning import read_transfer

    # A study that has begun has a copy; the sources may be gone.
    if study.archive.exists():
        return transfer.recorded(study.archive)
    return read_transfer(study)


def _feasible(space: Space) -> str:
    """The share of a space that keeps its known constraints; raises UserError if no point is found."""
    space.feasible.find()
    share = space.feasible.share()
    if any(c.gap is not None and c.columns for c in space.conditions):
        return "points that keep the equality are drawn directly"
    return f"about {share:.2g} of the space keeps them" if share else "less than 1e-4 of the space"


def _without_use(config: Config) -> list[str]:
    """Warnings about keys of a space that have no effect."""
    from dngo.config.messages import short
    from dngo.space import Space
    from dngo.space.grids import ROUNDING, Grid

    lines = []
    for name, parameter in config.space.items():
        low, high, step = (getattr(parameter, key, None) for key in ("low", "high", "step"))
        if step is not None and low is not None and high is not None:
            last = Grid.of(low, high, step).nearest(high)
            if high - last > ROUNDING * step:
                lines.append(
                    f"Warning: space.{name}: steps of {step:.15g} from {low:.15g} end at {last:.15g}, "
                    f"below high ({high:.15g})"
                )
    for i, text in enumerate(config.space_constraints):
        if not any(c.columns for c in Space(dict(config.space), [text]).conditions):
            lines.append(
                f"Warning: space_constraints.{i}: {short(text)!r} always holds with the "
                "fixed values"
            )
    return lines


def _not_asked_for(config: Config) -> list[str]:
    """Warnings about resources with the name that a scheduler has for them."""
    from dngo.config.resources import OTHER_NAMES

    found = config.resources.model_dump(exclude_defaults=True)
    return [
        f"Warning: resources.{rule}.{name}: Slurm is not asked for it; Snakemake's name is "
        f"{OTHER_NAMES[name]}"
        for rule, names in found.items()
        for name in names
        if name in OTHER_NAMES
    ]


def _time_is_short(config: Config) -> list[str]:
    """A warning if a job may not have time for all of its points."""
    minutes, seconds = config.resources.evaluate.get("runtime"), config.objective.time_limit
    if seconds is None or not isinstance(minutes, int | float) or config.points_at_once == "auto":
        return []
    needed = -(-config.points_per_job // config.points_at_once) * seconds / 60
    if needed <= minutes:
        return []
    return [
        f"Warning: the points of a job may take {needed:.0f} minutes (points_per_job x "
        f"objective.time_limit), but resources.evaluate.runtime is {minutes:g}; further "
        "jobs will go on"
    ]
