"""A package of a user's own adds a kind of acquisition, by an entry point and two small classes."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from toy import Toy, advance

from dngo import archive
from dngo.audit import audit, page
from dngo.cli import main
from dngo.config import load
from dngo.replay import replay
from dngo.study import Study

SECTION = "acquisition: {kind: between, share: 0.4, trust_region_share: 0}"

# Such a package has two classes: the kind's settings, and a stage.
MODULE = '''
from typing import Literal

from pydantic import Field

from dngo.acquisition import Pick
from dngo.acquisition.settings import Modelled


class Between(Modelled):
    """Half way between the two best points, then draws."""

    kind: Literal["between"] = "between"
    share: float = Field(0.5, gt=0, lt=1, description="Where between them.")

    def own_stages(self):
        return [Middle(self.share)]


class Middle:
    name = "middle"

    def __init__(self, share):
        self.share = share

    def picks(self, state, number):
        y = state.history.y
        if not state.has_outcome or number == 0:
            return
        best = state.space.unit(state.history.v[y.argsort()[:2]])
        v = state.space.from_unit(self.share * best[:1] + (1 - self.share) * best[1:])
        v += 1e-9 * state.streams[self.name].random(v.shape)  # a stream of its own name
        if state.spacing.first(v) is not None:
            yield Pick(v[0], state.make_pending(v)[0], "middle")
'''


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toy]:
    """A design and a batch by a kind of a package that lies installed in a folder of its own."""
    folder = tmp_path_factory.mktemp("plugin")
    site, installed = folder / "site", folder / "site" / "between-1.dist-info"
    installed.mkdir(parents=True)
    (site / "between.py").write_text(MODULE)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: between\nVersion: 1\n")
    (installed / "entry_points.txt").write_text("[dngo.acquisition]\nbetween = between:Between\n")
    sys.path.append(str(site))
    try:
        toy = Toy(folder, iterations=1, batch_size=4, sleep=0.0)
        toy.configure(iterations=1, batch_size=4, extra=f"{SECTION}\n")
        run = Study(load([toy.folder / "config.yaml"], {"results": str(folder / "results")}))
        for t in range(2):
            advance(run, t)
        yield toy
    finally:
        sys.path.remove(str(site))


def test_its_stage_picks_and_is_recorded_and_replayed(study: Toy) -> None:
    told = [audit(study.archive, f"1-{slot}") for slot in range(4)]
    assert [one["proposed"]["stage"] for one in told] == ["middle", "draws", "draws", "draws"]
    assert "the stage of middle" in page(told[0])
    assert archive.verify(study.archive) == []
    assert [replay(study.archive, t).verdict for t in range(2)] == ["identical"] * 2


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ("{kind: between, share: 2}", "acquisition.share"),
        ("{kind: between, shares: 0.4}", "acquisition.shares"),
        ("{kind: between, kappa: 1}", "acquisition.kappa"),
        ("betwen", "mcei"),
    ],
)
def test_its_mistakes_are_one_line(study: Toy, capsys, section: str, word: str) -> None:
    study.configure(iterations=1, batch_size=4, extra=f"acquisition: {section}\n")
    assert main(["check", str(study.folder / "config.yaml")]) == 1
    error = capsys.readouterr().err
    assert word in error
    assert len(error.splitlines()) == 1
