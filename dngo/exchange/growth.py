"""What a forked study asks for and the old one did not, as the old evaluations have it.

A new objective or constraint is among the metadata of the evaluations, or was a number that a
constraint bounded. A new parameter had one value at all points, or is among the metadata too.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dngo.batch import UNINFORMATIVE, Outcome, Proposal
from dngo.config import Config
from dngo.errors import UserError
from dngo.outcomes import constraint_value, number
from dngo.space import Space
from dngo.space.parameters import Fixed

Evaluations = Iterable[list[tuple[Proposal, Outcome]]]


@dataclass
class Growth:
    """What is new in a study, and where its values come from.

    objectives: the name in the old study of each named one here, "" if it had none there; None for a
    new one. constraints: the names of new ones.
    given, defaults: values of new parameters, at all earlier points, and at those whose metadata do
    not have the parameter.
    found: how many evaluations have each new name in their metadata.
    """

    path: Path
    config: Config
    objectives: dict[str, str | None]
    constraints: list[str]
    given: dict[str, Any]
    defaults: dict[str, Any]
    found: dict[str, int] = field(default_factory=dict)

    @property
    def said(self) -> list[str]:
        """A line for each name that the metadata have."""
        several = [n for n, old in self.objectives.items() if old is None]
        names = {"objectives": several, "constraints": self.constraints, "space": [*self.defaults]}
        return [
            f"{section}.{name}: taken from the metadata of {self.found[name]} evaluations"
            for section, each in names.items()
            for name in each
            if self.found.get(name)
        ]

    @property
    def values(self) -> dict[str, Any]:
        """The values of new parameters at points whose metadata do not have them."""
        return {n: v for n, v in self.defaults.items() if v is not None} | self.given

    def point_of(self, proposal: Proposal, outcome: Outcome) -> dict[str, Any]:
        """The values of a point's parameters, with the new ones that are known."""
        said = {n: outcome.metadata[n] for n in self.defaults if n in outcome.metadata}
        return {**self.values, **said, **proposal.parameters}

    def outcome_of(self, outcome: Outcome) -> Outcome:
        """An outcome with the objectives and constraints of the new study; raises UserError."""
        try:
            return self._with_constraints(self._with_objectives(outcome))
        except ValueError as error:
            raise UserError(f"{self.path}: proposal {outcome.id}: {error}") from None

    def _with_objectives(self, outcome: Outcome) -> Outcome:
        if all(name == old for name, old in self.objectives.items()):
            return outcome
        measured = measured_in(outcome)
        values, noises = _objectives(outcome), outcome.noises or {"": outcome.noise}
        known, noise = {}, {}
        for name, old in self.objectives.items():
            value = measured.get(name) if old is None else values.get(old)
            found = math.nan if value is None else number(f"objective {name}", value)
            if math.isfinite(found):
                known[name] = found
            if old is not None and not math.isnan(noises.get(old, math.nan)):
                noise[name] = noises[old]
        one = len(self.objectives) == 1
        return replace(
            outcome,
            objective=next(iter(known.values()), math.nan) if one else math.nan,
            objectives=known,
            noise=next(iter(noise.values()), math.nan) if one else math.nan,
            noises={} if one else noise,
            # As it ran, it did not report the new ones.
            curve=[] if None in self.objectives.values() else outcome.curve,
        )

    def _with_constraints(self, outcome: Outcome) -> Outcome:
        measured = {**outcome.metadata, **_objectives(outcome)}
        flags, numbers = dict(outcome.constraints), dict(outcome.numbers)
        for name in self.constraints:
            threshold = self.config.reported[name]
            value = constraint_value(name, measured.get(name), threshold)
            if value is None or math.isnan(value):
                continue
            if threshold is None:
                flags[name] = int(value)
            else:
                numbers[name] = value
        return replace(outcome, constraints=flags, numbers=numbers)


def grown(
    path: Path,
    config: Config,
    identity: Mapping[str, Any],
    old: Space,
    evaluations: Evaluations,
    given: Mapping[str, Any],
    objective: str = "",
) -> Growth:
    """What a study asks for beside what an archive's study did, and where it comes from.

    identity, old: of the archive's study. evaluations: all of its, some at a time.
    given: values of new parameters that all earlier points had. objective: the name here of an
    objective that had no name.
    Raises UserError if a new name has no value, if the aims differ, or if `given` does not fit.
    """
    constraints = [n for n in config.constraints if n not in identity["constraints"]]
    defaults = _defaults(config.search_space, old, given)
    several = [n for n in config.directions if n not in identity.get("objectives", {})]
    names = [*several, *constraints, *defaults]
    found = dict.fromkeys(names, 0)
    lacking: dict[str, list[str]] = {name: [] for name in several}
    for part in evaluations if names else ():
        for _, outcome in part:
            measured = measured_in(outcome)
            for name in found.keys() & measured if outcome.status not in UNINFORMATIVE else ():
                found[name] += 1
            if any(map(math.isfinite, _objectives(outcome).values())):
                for name in set(several) - measured.keys():
                    lacking[name].append(outcome.id)
    for name, value in defaults.items():
        if value is None and not found[name]:
            raise UserError(
                f"space.{name}: is new; say which value all earlier points had with --with "
                f"{name}=VALUE, or make that value its default"
            )
    objectives = _renamed(path, config, identity, found, objective)
    for name, earlier in objectives.items():
        if earlier is None and lacking[name]:
            raise UserError(
                f"objectives.{name}: is new, and the metadata of {lacking[name][0]}, which ran, lack it "
                f"({len(lacking[name])} in all)"
            )
    return Growth(path, config, objectives, constraints, dict(given), defaults, found)


def measured_in(outcome: Outcome) -> dict[str, Any]:
    """The values by name that an evaluation reported beside its objective."""
    return {**outcome.metadata, **outcome.numbers}


def _objectives(outcome: Outcome) -> dict[str, float]:
    return outcome.objectives or {"": outcome.objective}


def _renamed(
    path: Path,
    config: Config,
    identity: Mapping[str, Any],
    found: Mapping[str, int],
    objective: str,
) -> dict[str, str | None]:
    """The old name of each named objective, None if it is new; raises UserError."""
    theirs = identity.get("objectives") or {"": identity["direction"]}
    ours = config.directions or {"": config.direction}
    if objective and (objective not in ours or "" not in theirs):
        known = ", ".join(config.directions) or "without a name"
        raise UserError(
            f"--objective {objective}: names the only objective of the old study among those of the new "
            f"one, which are {known}"
        )
    renamed = {name: name if name in theirs else None for name in ours}
    if "" in theirs and "" not in ours:
        unknown = [objective] if objective else [n for n in ours if not found[n]] or [*ours]
        if len(unknown) > 1:
            raise UserError(
                f"objectives: which of {', '.join(unknown)} is the objective that {path} has without a "
                "name? Say it with --objective NAME"
            )
        renamed[unknown[0]] = ""
    kept = {old: ours[name] for name, old in renamed.items() if old is not None}
    if kept != theirs:
        raise UserError(
            f"{path}: its aim is to {_aims(theirs)}, and study {config.study} has to {_aims(ours)}"
        )
    return {name: old for name, old in renamed.items() if name}


def _aims(directions: Mapping[str, str]) -> str:
    """The aim for each objective, in words: minimize or maximize."""
    return ", ".join(
        f"{direction} {name}".strip() for name, direction in sorted(directions.items())
    )


def _defaults(space: Space, old: Space, given: Mapping[str, Any]) -> dict[str, Any]:
    """Each new parameter that is not given, with its default; None if it has none."""
    for name in given:
        if name not in space.parameters:
            raise UserError(f"--with {name}: is no parameter of the new space")
        if name in old.parameters:
            raise UserError(f"--with {name}: earlier points already have values of this parameter")
    return {
        name: parameter.value
        if isinstance(parameter, Fixed)
        else getattr(parameter, "default", None)
        for name, parameter in space.parameters.items()
        if name not in old.parameters and name not in given
    }
