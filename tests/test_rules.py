"""The numbers that the engine goes by: one frozen tree, whose digest each batch records."""

from __future__ import annotations

import re
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dngo import provenance
from dngo.acquisition.regions import region
from dngo.rules import Rules, current, using
from dngo.streams import Streams, key_of

ROOT = Path(__file__).resolve().parents[1]


def test_another_tree_counts_within_and_no_longer_after_even_by_an_error() -> None:
    usual = current()
    try:
        with using(usual.but(regions={"largest": 0.2})):
            assert current().regions.largest == 0.2
            assert current().nearby == usual.nearby
            raise KeyError
    except KeyError:
        pass
    assert current() is usual


def test_a_number_changes_what_is_searched() -> None:
    v = np.random.default_rng(0).random((20, 2))
    y, batch = np.sum(v**2, axis=1), np.arange(20)
    plain = region(v, y, batch, 100)
    with using(current().but(regions={"largest": 0.2})):
        smaller = region(v, y, batch, 100)
    assert (plain.half, smaller.half) == (0.4, 0.2)


def test_the_digest_is_of_every_number() -> None:
    tree, found = Rules(), set()
    for branch in fields(tree):
        for number in fields(getattr(tree, branch.name)):
            value = getattr(getattr(tree, branch.name), number.name)
            other = _other(value)
            found.add(tree.but(**{branch.name: {number.name: other}}).digest)
    count = sum(len(fields(getattr(tree, branch.name))) for branch in fields(tree))
    assert len(found | {tree.digest}) == count + 1
    assert Rules().digest == tree.digest


def _other(value: object) -> object:
    if is_dataclass(value):
        first = fields(value)[0].name
        return replace(value, **{first: _other(getattr(value, first))})
    return (*value, 99.0) if isinstance(value, tuple) else value + 1


def test_nobody_changes_a_number_by_accident() -> None:
    with pytest.raises(FrozenInstanceError):
        current().regions.largest = 1.0  # type: ignore[misc]


def test_what_is_recorded_of_a_batch_has_the_digest_of_the_tree_that_counts() -> None:
    with using(current().but(regions={"largest": 0.2})):
        other = current().digest
        assert provenance.environment()["rules"] == other
    assert provenance.environment()["rules"] == current().digest != other


def test_no_module_of_the_engine_has_rules_of_its_own() -> None:
    rooms = [
        *(ROOT / "dngo" / "acquisition").rglob("*.py"),
        *(ROOT / "dngo" / "surrogates").rglob("*.py"),
    ]
    own = [p for p in rooms if re.search(r"^class \w*Rules\b|^RULES\b", p.read_text(), re.M)]
    assert own == []


def test_code_reads_every_number() -> None:
    code = [p for p in (ROOT / "dngo").rglob("*.py") if p.parent.name != "rules"]
    text = "\n".join(p.read_text() for p in code)
    tree = Rules()
    numbers = {n.name for branch in fields(tree) for n in fields(getattr(tree, branch.name))}
    assert len(numbers) > 100
    assert [name for name in sorted(numbers) if not re.search(rf"\.{name}\b", text)] == []


# ---- Random streams by name: no two are the same, whichever stream spawns children

# What is drawn in a study, by whom, in all the depth that there is today.
STAGES = ("design", "design:prior", "fit", "fit:representation", "propose", "outlook", "evaluate:3")
PARTS = (
    *("objective", "cost", "constraint:completed", "scale", "folds", "networks", "heads", "shares"),
    *("process", "sampler", "posterior", "fantasies", "candidates", "refinements", "draws"),
    *("trust_regions", "beyond", "random", "sobol", "optuna", "middle"),
)


def beginning(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(rng.integers(2**63, size=2).tolist())


def test_no_two_streams_are_the_same() -> None:
    """Stages, what they name, children of either by number, and the streams by number of before."""
    found: dict[tuple[int, ...], tuple] = {}

    def add(what: tuple, rng: np.random.Generator) -> None:
        assert found.setdefault(beginning(rng), what) == what

    for iteration in (0, 1, 7):
        add(("rng", iteration), np.random.default_rng(Streams.of(5, iteration).sequence))
        for stage in STAGES:
            rng = Streams.of(5, iteration)(stage)
            below = Streams.below(rng)
            add((iteration, stage), Streams.of(5, iteration)(stage))
            for i, child in enumerate(rng.spawn(30)):
                add((iteration, stage, i), child)
                if i < 3:
                    add((iteration, stage, i, "scale"), Streams.below(child)("scale"))
            for part in PARTS:
                one = below(part)
                for i, child in enumerate(one.spawn(5)):
                    add((iteration, stage, part, i), child)
                add((iteration, stage, part), one)
        for number in range(4):
            for more in ((), (1,), (2,), (1, 1)):
                key = (iteration, number, *more)
                sequence = np.random.SeedSequence(5, spawn_key=key)
                add(("by number", *key), np.random.default_rng(sequence))
    assert len(found) > 2000


def test_a_stream_is_handed_out_once_and_can_be_derived_again() -> None:
    streams = Streams.of(5, 2)
    first = beginning(streams("fit"))
    with pytest.raises(ValueError, match="'fit' was given out before"):
        streams("fit")
    assert beginning(streams.again("fit")) == first == beginning(Streams.of(5, 2)("fit"))
    recorded = np.random.SeedSequence(5, spawn_key=streams.key("fit"))
    assert beginning(np.random.default_rng(recorded)) == first


def test_what_was_drawn_or_spawned_before_changes_no_stream_below() -> None:
    rng = np.random.default_rng(3)
    first = beginning(Streams.below(rng)("networks"))
    rng.random(7), rng.spawn(2)
    assert beginning(Streams.below(rng)("networks")) == first
    assert beginning(Streams.below(np.random.default_rng(4))("networks")) != first


def test_numbers_are_those_of_this_release() -> None:
    """What an archive records is enough to derive it again: neither digest nor order may change."""
    assert key_of("fit") == (3661787363, 1935291416, 3386139311, 773312581)
    assert Streams.of(5, 2)("fit").integers(1000, size=3).tolist() == [756, 120, 913]
