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
