"""The resources that the rules ask a cluster for: the study's `resources`, and defaults for the rest."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from dngo.config import Config
from dngo.errors import UserError

# For a cluster job with few observations. 100,000 observations take 800 MB and a minute.
DEFAULTS: dict[str, dict[str, Any]] = {
    "fit": {"mem_mb": 4000, "runtime": 20},
    "propose": {"mem_mb": 4000, "runtime": 20},
}
# For more observations: MB for each of them, and observations for each minute. Both allow for
# several times what was measured (benchmarks/results/scaling.csv), since nodes may be slower, and a
# study may have several objectives.
MB_EACH = 0.008
EACH_MINUTE = 20_000
TOGETHER = {"fit": "propose", "propose": "fit"}  # they are one job on a cluster
RULES = ("fit", "propose", "evaluate", "merge")


def asked(config: Config, rule: str, *, cluster: bool, rows: int = 0) -> dict[str, Any]:
    """The resources of a rule, without its threads.

    rows: observations that a fit may have.  On a cluster fit and propose are one job: a partition
    that only one of them names holds for both.
    """
    found = dict(getattr(config.resources, rule))
    if cluster and rule in TOGETHER:
        other = getattr(config.resources, TOGETHER[rule])
        words = {name: value for name, value in other.items() if isinstance(value, str)}
        found = {**_by_size(rule, rows), **words, **found}
    found.pop("threads", None)
    return found


def _by_size(rule: str, rows: int) -> dict[str, Any]:
    """What a fit or a proposal needs, if the configuration does not say it."""
    least = DEFAULTS[rule]
    return {
        "mem_mb": max(least["mem_mb"], 1000 + math.ceil(MB_EACH * rows)),
        "runtime": max(least["runtime"], 10 + math.ceil(rows / EACH_MINUTE)),
    }


def check(config: Config, workflow: Any, argv: Sequence[str] = sys.argv) -> None:
    """Raise UserError if a resource of the configuration has no effect, or contradicts another.

    workflow: Snakemake's. A resource on its command line may override the configuration. One in a
    profile may not.
    """
    for name in ("fit", "propose"):
        for key, value in getattr(config.resources, name).items():
            other = getattr(config.resources, TOGETHER[name]).get(key, value)
            if workflow.nodes is not None and value != other and str in (type(value), type(other)):
                raise UserError(
                    f"resources.{name}.{key}: fit and propose are one job, so {key} must be "
                    f"the same in both, but is {value} and {other}"
                )
    settings, named = workflow.resource_settings, workflow.modifier.modify_rulename
    for name in RULES:
        given = getattr(config.resources, name)
        _heard(
            name, given, settings.overwrite_resources.get(named(name), {}), "set-resources", argv
        )
        threads = settings.overwrite_threads.get(named(name))
        if threads is not None:
            _heard(name, given, {"threads": threads}, "set-threads", argv)


def _heard(
    rule: str, given: Mapping[str, Any], wins: Mapping[str, Any], option: str, argv: Sequence[str]
) -> None:
    if any(word.partition("=")[0] == f"--{option}" for word in argv):
        return
    for key in given.keys() & set(wins):
        raise UserError(
            f"resources.{rule}.{key}: {given[key]} has no effect, since `{option}` of the profile says "
            f"{getattr(wins[key], 'raw', wins[key])}; remove {rule}'s {key} there"
        )
