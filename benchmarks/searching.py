"""What the benchmarks that one core is enough for have in common: a search, and results that last."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import yaml
from pydantic import ValidationError

from dngo.acquisition import History, propose_batch
from dngo.acquisition.picks import Picks
from dngo.acquisition.settings import Acquisition, AcquisitionSettings
from dngo.config.presets import whole
from dngo.kinds import Kinds
from dngo.presets import PRESETS
from dngo.space import Space
from dngo.surrogates import Model, TrainingData, fit_model
from dngo.surrogates.settings import SurrogateKind, SurrogateSettings


class Settings(TypedDict, total=False):
    """How a batch is chosen; what is left out is as the package has it."""

    surrogate: SurrogateKind
    acquisition: Acquisition


# A Gaussian process of few hyperparameter samples, searched with few candidates: cheap enough for hundreds.
SMALL = Settings(
    surrogate=SurrogateSettings(kind="gp", hyperparameter_samples=5),
    acquisition=AcquisitionSettings(
        uniform_candidates=1024,
        local_candidates=512,
        shortlist=256,
        fantasies=5,
        refinements=2,
        ascents=2,
    ),
)


def add_settings(parser: argparse.ArgumentParser, flag: str, section: str) -> None:
    """An option that takes keys of a section of the configuration, as often as it is given."""
    parser.add_argument(
        flag, nargs="+", action="extend", default=[], metavar="KEY=VALUE", help=f"{section}:"
    )


def add_preset(parser: argparse.ArgumentParser, **how: Any) -> None:
    """An option that takes a published system, by one word."""
    text = "a published system (docs/presets.md)"
    parser.add_argument("--preset", choices=PRESETS.names(), help=text, **how)


def of_preset(name: str | None, section: str) -> dict[str, Any]:
    """A section of a preset, as `settings_of` takes it; empty without one."""
    return {} if name is None else dict(whole(name)[section])


def settings_of(
    parser: argparse.ArgumentParser, kinds: Kinds, pairs: list[str], **otherwise: Any
) -> Any:
    """Settings by KEY=VALUE, over others; a mistake ends the program with a line."""
    given = dict(otherwise)
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            parser.error(f"{pair}: is to be KEY=VALUE")
        given[key] = yaml.safe_load(value)
    try:
        return kinds(**given)
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        parser.error("; ".join(wrong))
    except ValueError as error:
        parser.error(str(error))


def next_batch(
    space: Space,
    history: History,
    data: TrainingData,
    *,
    size: int,
    key: tuple[int, ...],
    surrogate: SurrogateKind | None = None,
    acquisition: Acquisition | None = None,
) -> tuple[Model, Picks]:
    """A model of what is known, and what is picked by it; both the package's defaults if left out.

    key: names the random streams of the fit and of the picks.
    """
    rng = np.random.default_rng([*key, 0])
    model = fit_model(data, surrogate or SurrogateSettings(), rng=rng)
    picks = propose_batch(
        model,
        space,
        history,
        size=size,
        settings=acquisition or AcquisitionSettings(),
        rng=np.random.default_rng([*key, 1]),
    )
    return model, picks


class Results:
    """What was measured, in a file with a line for each key, so that a benchmark goes on where it was."""

    def __init__(self, path: Path):
        self.path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self.known: dict[tuple, Any] = {tuple(key): value for key, value in map(json.loads, lines)}

    def of(self, key: tuple, measure: Callable[[], Any]) -> Any:
        """The result of a key, measured unless the file has it."""
        if key not in self.known:
            self.known[key] = measure()
            with self.path.open("a") as stream:
                stream.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]
