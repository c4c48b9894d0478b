"""An objective or a space that changes in the middle of a study: it is noticed and recorded, and
refused if the user asks for that."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from mine import GOOD, Mine
from toy import advance

from dngo.archive import iteration_attributes, verify
from dngo.audit import audit, page
from dngo.config import Objective
from dngo.errors import UserError
from dngo.evaluation.fingerprint import data_of, differences, fingerprint
from dngo.report.data import View
from dngo.report.health import same_objective
from dngo.study import Study


def evaluated(mine: Mine) -> Study:
    """The study with its design in the archive."""
    study = mine.study
    assert study.begin() == ""
    advance(study, 0)
    return study


def test_an_objective_that_changes_is_noticed_once_and_recorded(mine: Mine) -> None:
    mine.write()
    study = evaluated(mine)
    assert study.begin() == ""
    mine.write(**{"objective.py": GOOD + "# another one"})
    assert mine.study.changes() == ["objective.py has changed"]
    assert mine.study.begin() == "objective.py has changed"
    assert mine.study.begin() == "", "once"
    study.journal.path.unlink()  # the archive knows it as well
    assert mine.study.begin() == "objective.py has changed"
    mine.write('{command: "{python} -u objective.py"}', **{"objective.py": GOOD + "# another one"})
    (words,) = mine.study.changes()
    assert words.startswith("objective.command was '{python} objective.py' and is '{python} -u")
    study = mine.study
    advance(study, 1)
    made = [json.loads(iteration_attributes(study.archive, t)["merged"]) for t in (0, 1)]
    assert made[0]["objective"]["command"] == "{python} objective.py"
    assert len({one["objective"]["files"]["objective.py"] for one in made}) == 2
    assert verify(study.archive) == []
    (check,) = same_objective(View.of(study.archive))
    assert "changed by iteration 1" in check.finding
    assert "{python} -u objective.py; objective.py: " in page(audit(study.archive, "1-0"))


def test_strict_refuses_what_is_not_the_same(mine: Mine, capsys) -> None:
    mine.write('{command: "{python} objective.py", strict: true}')
    evaluated(mine)
    mine.write('{command: "{python} objective.py", strict: true}', **{"objective.py": GOOD + "#"})
    assert mine.dngo("check") == 1
    assert "objective.strict: the objective has changed since" in capsys.readouterr().err
    for stage in (mine.study.begin, lambda: mine.study.evaluate(0, 0, mine.folder / "none")):
        with pytest.raises(UserError, match="Restore it, or set"):
            stage()
    mine.write('{command: "{python} objective.py", strict: true}')
    assert mine.study.begin() == ""


def test_an_archive_that_knows_no_objective_warns_of_nothing() -> None:
    now = fingerprint(Objective(command="true"))
    assert differences({}, now) == []
    assert differences(now, now) == []


def test_check_refuses_what_a_run_refuses_and_names_the_way_on(mine: Mine, capsys) -> None:
    mine.write()
    evaluated(mine)
    assert mine.dngo("check") == 0
    assert "Has begun: results/mine/archive.h5 holds 8 evaluations" in capsys.readouterr().out
    path = mine.folder / "my.yaml"
    path.write_text(
        path.read_text().replace("x: {type: float, low: 0", "x: {type: float, low: 0.1")
    )
    assert mine.dngo("check") == 1
    said = capsys.readouterr().err
    assert "space.x.low was 0.0 and is 0.1" in said
    assert "dngo fork results/mine/archive.h5 --config" in said


LOGGING = GOOD + "\nopen(sys.argv[1], 'a').write('one more' + chr(10))\n"


def test_a_file_that_evaluations_write_is_no_part_of_the_objective(mine: Mine) -> None:
    """Whatever it is called, and whether it was there before; also where strict."""
    words = '{command: "{python} objective.py notes.txt", strict: true}'
    mine.options |= {"iterations": 3, "points_per_job": 2}
    for there in ({"notes.txt": "mine\n"}, {}):
        mine.write(words, **{"objective.py": LOGGING, **there})
        study = mine.study
        assert study.begin() == ""
        advance(study, 0)
        assert mine.study.changes() == [] and mine.study.begin() == ""
        study.journal.path.unlink()
        assert mine.study.begin() == ""
        advance(study, 1)
        assert list(same_objective(View.of(study.archive))) == []
        shutil.rmtree(mine.folder / "results")
        (mine.folder / "notes.txt").unlink()


def test_data_that_people_change_between_two_runs_is_noticed(mine: Mine) -> None:
    words = '{command: "{python} objective.py data.txt"}'
    mine.write(words, **{"data.txt": "1\n"})
    evaluated(mine)
    assert mine.study.begin() == ""
    mine.write(words, **{"data.txt": "2\n"})
    later = time.time() + 60
    os.utime(mine.folder / "data.txt", (later, later))
    assert mine.study.changes() == ["data.txt has changed"]
    # As well of what the study needs, however the function is started.
    for objective in (words, "{callable: 'objective:f'}"):
        shutil.rmtree(mine.folder / "results", ignore_errors=True)
        mine.options["more"] = "needs: [more.txt]"
        mine.write(objective, **{"more.txt": "1\n", "data.txt": "1\n"})
        assert mine.study.begin() == "" and mine.study.begin() == ""
        (mine.folder / "more.txt").write_text("2\n")
        assert mine.study.changes() == []  # evaluations may have written it
        os.utime(mine.folder / "more.txt", (later, later))
        assert mine.study.begin() == "more.txt has changed" and mine.study.begin() == ""
    (mine.folder / "tool").write_text("#!/bin/sh\n")
    (mine.folder / "tool").chmod(0o755)
    named = Objective(
        command=["./tool", "tool", "a.py", "data.txt"], working_directory=str(mine.folder)
    )
    (mine.folder / "a.py").touch()
    assert set(data_of(named)) == {"data.txt"}
