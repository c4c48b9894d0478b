"""`dngo retry`: points that failed because of a mistake are evaluated again, and no others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mine import GOOD, Mine, ends
from toy import advance

import dngo
from dngo import derive
from dngo.archive import read_repeated, read_table, verify
from dngo.audit import audit, page
from dngo.batch import RAN
from dngo.cli import main
from dngo.errors import UserError
from dngo.replay import replay
from dngo.retry import retry
from dngo.study import Study


def ran_through(study: Study) -> None:
    """A run of all that is planned, stage by stage."""
    study.begin()
    for t in study.plan().iterations:
        advance(study, t)


def test_a_study_that_a_mistake_has_consumed_goes_on(mine: Mine) -> None:
    """All iterations evaluated, all failed: as it was before runs stopped for that."""
    mine.options["more"] = "stop: {failures: 0}"
    mine.write(**{"objective.py": "import nowhere"})
    ran_through(mine.study)
    assert not mine.study.plan().iterations
    with pytest.raises(UserError, match="no message of the failed points contains 'else'; the"):
        retry(mine.study, message="else")
    assert len(retry(mine.study, since=1)) == 2
    assert len(retry(mine.study, message="NOWHERE")) == 8, "those of the design; the others wait"
    with pytest.raises(UserError, match="each point that failed there is already retried"):
        retry(mine.study)
    assert len(mine.study.plan().iterations) == 5, "ten points, in batches of two"
    mine.write()
    mine.options["more"] = ""
    ran_through(mine.study)
    study = mine.study
    table = read_table(study.archive)
    assert len(table) == 20 and verify(study.archive) == []
    assert (table.status[:10] == "failed").all() and np.isin(table.status[10:], RAN).all()
    assert len((mine.folder / "runs.txt").read_text().split()) == 10
    repeated = {f"{t}-{s}" for t, n in ((0, 8), (1, 2)) for s in range(n)}
    assert read_repeated(study.archive) == repeated
    # The model learns from the last outcome of a point, and not from the repeated ones.
    known = derive.Basis(study.archive, study.config, 7, 7).known
    assert (known.status == "lost").sum() == 10 and (known.status == "failed").sum() == 0
    with pytest.raises(UserError, match="each point that failed there is already retried"):
        retry(study)


def test_a_retry_comes_first_in_the_next_batch_and_is_retried_if_it_fails_again(mine: Mine) -> None:
    mine.options |= {"iterations": 3, "more": "stop: {failures: 0}"}
    line = "os.environ['DNGO_ID'][-1] in '37' and sys.exit('no')\np = json"
    mine.write(**{"objective.py": GOOD.replace("p = json", line)})
    study = mine.study
    study.begin()
    study.propose(0, None, study.folder / "proposals.json")
    ends(study)
    assert [e.origin["repeats"] for e in retry(study)] == ["0-3", "0-7"], "in flight, too"
    study.merge(0, study.folder / "receipt.json")
    study.fit(1, study.folder / "surrogate.h5")
    batch = study.propose(1, study.folder / "surrogate.h5", study.folder / "proposals.json")
    repeated = [(p.source, p.origin["repeats"]) for p in batch.proposals]
    assert repeated == [("retry", "0-3"), ("retry", "0-7")]
    mine.write(**{"objective.py": "raise SystemExit('no')"})
    ends(study, 1)
    study.merge(1, study.folder / "receipt.json")
    assert [e.origin["repeats"] for e in retry(study)] == ["1-0", "1-1"]
    assert replay(study.archive, 1).verdict == "identical"


@pytest.mark.parametrize("way", ["fork", "csv", "parquet"])
def test_what_was_repeated_teaches_nothing_in_a_study_that_begins_with_it(
    tmp_path: Path, way: str
) -> None:
    how = {"folder": tmp_path, "design": {"size": 3}, "acquisition": "random"}
    old = dngo.create("old", {"x": (0, 1)}, **how)
    for point in old.ask():
        old.tell(point, **({"status": "failed"} if point.slot == 1 else {"objective": 2.0}))
    old.table()
    retry(old._engine)
    (again,) = old.ask(1)
    old.tell(again, 1.0)
    assert old.table().status.tolist() == ["ok", "failed", "ok", "ok"]
    config = tmp_path / "new.yaml"
    config.write_text(
        "study: new\nobjective: {callable: 'a:b'}\nspace: {x: {type: float, low: 0, high: 1}}\n"
    )
    if way == "fork":
        assert main(["fork", str(old.path), "--config", str(config)]) == 0
    else:
        table = tmp_path / f"old.{way}"
        words = ["--format", way, "--output", str(table)]
        assert main(["export", str(old.path), *words]) == 0
        assert main(["import", str(table), "--config", str(config)]) == 0
    study = dngo.open(config)._engine
    assert read_table(study.archive).status.tolist() == ["ok", "failed", "ok", "ok"]
    assert read_repeated(study.archive) == {"0-1"} and verify(study.archive) == []
    known = derive.Basis(study.archive, study.config, 1, 1).known
    assert known.status.tolist() == ["ok", "lost", "ok", "ok"]
    assert "Repeats                 0-1" in page(audit(study.archive, "0-3"))
    assert study.entries() == [] and replay(study.archive, 0).verdict == "imported"
