"""Studies with a fidelity: what is refused, what a batch holds, and what the best is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from toy import FEW, QUICK_STUDY

import dngo
from dngo import archive
from dngo.acquisition import History
from dngo.acquisition.standing import Standing
from dngo.config import validate
from dngo.config.stop import Stop
from dngo.errors import UserError
from dngo.fronts import on_front
from dngo.replay import replay
from dngo.report.live import status
from dngo.report.text import summary
from dngo.space import Space
from dngo.space.ladder import Ladder
from dngo.space.parameters import Float, Int, Parameter
from dngo.study.ending import reached
from dngo.surrogates.data import TargetScale
from dngo.surrogates.model import Model

SPACE: dict[str, Any] = {
    "x": {"type": "float", "low": 0, "high": 1},
    "epochs": {"type": "int", "low": 1, "high": 100},
    "kind": {"type": "categorical", "choices": ["a", "b"]},
    "rate": {"type": "float", "low": 0, "high": 1, "active_if": {"kind": ["a"]}},
}


def document(**more: Any) -> dict[str, Any]:
    found = {
        "study": "s",
        "objective": {"command": "true"},
        "space": SPACE,
        "fidelity": {"parameter": "epochs", "low": 3, "high": 81},
    }
    return {**found, **more}


def toy_space() -> Space:
    parameters: dict[str, Parameter] = {
        "x": Float(type="float", low=0, high=1),
        "a": Float(type="float", low=0, high=1),
        "epochs": Int(type="int", low=1, high=100),
    }
    return Space(parameters)


@pytest.fixture
def ladder() -> Ladder:
    return Ladder.of(toy_space(), "epochs", 3, 81, 3)


# ---- the section -----------------------------------------------------------------------------------


def test_levels_end_at_the_highest() -> None:
    assert validate(document()).ladder.levels == (3, 9, 27, 81)  # type: ignore[union-attr]
    whole = validate(document(fidelity={"parameter": "epochs"})).ladder
    assert whole is not None and whole.levels[0] == 1 and whole.levels[-1] == 100
    near = Ladder.of(toy_space(), "epochs", 2, 52, 3)
    assert near.levels == (2, 6, 18, 52)


def of(parameter: str = "epochs", **keys: Any) -> dict[str, Any]:
    return {"fidelity": {"parameter": parameter, **keys}}


def with_space(name: str, **keys: Any) -> dict[str, Any]:
    return {"space": {**SPACE, name: {**SPACE[name], **keys}}}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (of("epoch"), "there is no parameter 'epoch'"),
        (of("kind"), "kind is neither a float nor an int"),
        (of("rate"), "rate is conditional"),
        (of("x"), "must be above 0, but x begins at 0"),
        (of(low=81, high=3), "81 must be below high, 3"),
        (of(low=3, high=3), "3 must be below high, 3"),
        (of(high=200), "200 is outside the range of epochs, 1 to 100"),
        (of(low=3.2, high=3.4), "epochs has one value from 3.2 to 3.4"),
        ({"acquisition": {"kind": "random"}}, "random promotes no points"),
        ({"acquisition": {"replicates": "always"}}, "twice at the same level"),
        ({"acquisition": "successive_halving", "fidelity": None}, "needs the section `fidelity`"),
        ({"transfer": ["other.h5"]}, "so far works only without `fidelity`"),
        ({"space_constraints": ["x <= epochs"]}, "names the fidelity epochs"),
        (with_space("epochs", prior={"value": 9}), "no best value to expect"),
        (with_space("x", active_if={"epochs": [3]}), "x depends on epochs"),
    ],
)
def test_a_section_that_cannot_be_or_not_beside_another_is_refused_in_one_line(
    more: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError) as error:
        validate(document(**more))
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_study_without_the_section_is_archived_as_ever() -> None:
    assert "fidelity" not in validate(document(fidelity=None)).model_dump(mode="json")


# ---- promotions ------------------------------------------------------------------------------------


def at(ladder: Ladder, points: list[float], level: int) -> np.ndarray:
    return ladder.at(np.column_stack([points, points]), level)


def test_a_third_of_each_level_is_promoted_and_only_of_what_is_ok(ladder: Ladder) -> None:
    first, second = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], [0.1, 0.2, 0.3]
    history = History(
        v=np.concatenate([at(ladder, first, 0), at(ladder, second, 1)]),
        y=np.array([1, 2, 3, 4, 5, 6, 7, 8, np.nan, 3, np.nan, 2]),
    )
    standing = Standing.of(ladder, history)
    found = standing.halved(standing.outcomes[:, :, 0], 10)
    # One in three at the second level; the three best of the first are all there already.
    assert [(standing.v[one.point, 0], one.level) for one in found] == [(0.3, 2)]
    # By what a model thinks today others are best; three of nine have gone on, and no more do.
    anew = np.where(np.isfinite(standing.outcomes[:, :, 0]), -standing.v[:, :1], np.nan)
    assert {p.level for p in standing.halved(anew, 10)} == {1, 2}
    assert {p.level for p in standing.halved(anew, 10, counted=True)} == {2}


def test_of_several_objectives_the_front_is_promoted_first_and_along_its_length(
    ladder: Ladder,
) -> None:
    # The front is 0.1 to 0.5, along which the first falls as the second rises; the others are dominated.
    first = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    a = np.array([0.0, 0.1, 0.25, 0.9, 1.0, 1.1, 1.2, 1.3, np.nan])
    b = np.array([1.0, 0.9, 0.25, 0.1, 0.0, 1.1, 1.2, 1.3, np.nan])
    history = History(
        v=at(ladder, first, 0), y=np.where(np.isnan(a), np.nan, 0.0), objectives={"a": a, "b": b}
    )
    standing = Standing.of(ladder, history)
    unknown = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {}, {})
    found = standing.halved(standing.worth(unknown), 10)
    # The knee, and then the ends: what is farthest from those that go on already.
    assert {standing.v[one.point, 0] for one in found} == {0.3, 0.1, 0.5}


# ---- studies ---------------------------------------------------------------------------------------


def objective(x: float, a: float, epochs: int) -> float:
    if x > 0.95:
        raise ValueError("this corner does not work")
    return float((x - 0.3) ** 2 + (a - 0.6) ** 2 + 0.3 * (1 + x) / epochs)


SMALL: dict[str, Any] = {
    "fidelity": {"parameter": "epochs", "low": 3, "high": 27},
    "surrogate": QUICK_STUDY["surrogate"],
    "classifier": QUICK_STUDY["classifier"],
    "design": {"size": 9},
    "batch_size": 6,
}


def run(folder: Path, function: Callable[..., Any], kind: str, **more: Any) -> dngo.Session:
    space = {"x": (0, 1), "a": (0, 1), "epochs": dngo.Int(1, 100)}
    more["acquisition"] = FEW if kind == "mcei" else {"kind": kind}
    session = dngo.create("s", space, folder=folder, **SMALL, **more)
    return session.optimize(function, 9 + 3 * 6, workers=0, progress=False)


@pytest.fixture(scope="module", params=["successive_halving", "mcei"])
def session(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dngo.Session:
    return run(tmp_path_factory.mktemp(request.param), objective, request.param)


def table_of(session: dngo.Session) -> tuple[archive.Table, Ladder]:
    ladder = session.config.ladder
    assert ladder is not None
    return session._engine.table(), ladder


def test_a_design_is_at_the_lowest_level_and_no_point_is_twice_at_the_same(
    session: dngo.Session,
) -> None:
    table, ladder = table_of(session)
    assert set(ladder.values(table.v[table.iteration == 0])) == {3.0}
    assert len(set(ladder.space.keys(table.v))) == len(table)
    assert set(ladder.values(table.v)) == set(ladder.levels)


def test_new_points_begin_at_the_lowest_or_near_the_best_at_the_second_and_others_come_from_there(
    session: dngo.Session,
) -> None:
    table, ladder = table_of(session)
    keys, level = ladder.points.keys(ladder.points.of_full(table.v)), ladder.level(table.v)
    ended: Counter[tuple[bytes, int]] = Counter()
    for t in np.unique(table.iteration):
        rows = np.flatnonzero(table.iteration == t)
        for row in rows:
            promoted = table.stage[row] == "promotion"
            assert level[row] <= 1 if not promoted else ended[keys[row], level[row] - 1] == 1
            if not promoted:
                assert level[row] == (table.stage[row] == "trust_regions")
                assert keys[row] not in {key for key, _ in ended}
        ended.update((keys[row], level[row]) for row in rows if table.status[row] == "ok")


def test_the_best_is_the_best_at_the_highest_fidelity(session: dngo.Session) -> None:
    table, _ = table_of(session)
    top = (table.v[:, 1] == 27) & (table.status == "ok")
    assert top.any() and session.best().parameters["epochs"] == 27
    assert session.best().objective == table.objective[top].min()
    # The design is at the lowest level: its values are no measure of a gain.
    assert "best of the initial design" not in session.report()
    if session.has_model:
        assert session.best("model").parameters["epochs"] == 27


def test_before_anything_is_at_the_highest_the_best_is_of_the_highest_that_there_is(
    ladder: Ladder,
) -> None:
    v = np.concatenate([at(ladder, [0.1, 0.2], 0), at(ladder, [0.3, 0.4], 1)])
    ok = np.array([True, True, True, False])
    assert ladder.counts(v, ok).tolist() == [False, False, True, False]
    assert not ladder.counts(v, np.zeros(4, dtype=bool)).any()


def test_replay_gives_the_same_bits(session: dngo.Session) -> None:
    for t in range(session._engine.merged()):
        assert replay(session.path, t).verdict == "identical"


def test_what_is_at_each_level_is_said_and_what_is_expected_of_others(
    session: dngo.Session,
) -> None:
    table, ladder = table_of(session)
    found = status(session._engine)
    counts = [int((ladder.level(table.v) == level).sum()) for level in range(3)]
    assert [one["evaluations"] for one in found["fidelity"]["levels"]] == counts
    assert found["best"]["parameters"]["epochs"] == 27
    text = summary(session._engine)
    assert f"evaluations at epochs 3: {counts[0]}, 9: {counts[1]}, 27: {counts[2]}" in text
    assert "at epochs 27 (proposal" in text
    assert ("predicted at epochs 27, the best of" in text) == session.has_model


def ended(session: dngo.Session, target: Any, high: int = 27) -> str:
    """Why the study would end with this target and this highest fidelity; "" if it would not."""
    records = session._engine
    section = records.config.fidelity.model_copy(update={"high": high})  # type: ignore[union-attr]
    update = {"stop": Stop(target=target), "fidelity": section}
    changed = replace(records, config=records.config.model_copy(update=update))
    return reached(changed, changed.header())


def test_a_target_is_reached_at_the_highest_fidelity_alone(session: dngo.Session) -> None:
    table, ladder = table_of(session)
    best = float(table.objective[(table.status == "ok") & ladder.is_top(table.v)].min())
    assert "stop.target" in ended(session, best)
    assert ended(session, best - 1e-6) == ""
    # Raised in mid-study, the highest has no evaluation yet: what was the best is none any more.
    assert ended(session, best, high=81) == ""


# ---- several objectives ----------------------------------------------------------------------------


def two(x: float, a: float, epochs: int) -> dict[str, float]:
    error = (x - 0.3) ** 2 + (a - 0.6) ** 2 + 0.3 * (1 + x) / epochs
    return {"error": error, "size": 10 ** (3 * x + 0.1 / epochs)}


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> dngo.Session:
    size = {"direction": "minimize", "scale": "log"}
    objectives = {"error": "minimize", "size": size}
    return run(tmp_path_factory.mktemp("two"), two, "mcei", objectives=objectives)


def test_a_front_is_of_the_highest_fidelity(of_two: dngo.Session) -> None:
    table, ladder = table_of(of_two)
    assert len(set(ladder.space.keys(table.v))) == len(table)
    top = np.flatnonzero(ladder.is_top(table.v))
    values = np.column_stack([table.objectives["error"], table.objectives["size"]])
    best = top[on_front(values[top])]
    front = of_two.front()
    assert set(front["id"]) == {table.id(int(row)) for row in best}
    assert set(front["parameter_epochs"]) == {27}
    found = status(of_two._engine)
    assert {one["id"] for one in found["front"]["points"]} == set(front["id"])
    # The front's few points may be close together: the reference is as bad as the design at least.
    first = table.iteration == 0
    for name, worst in found["front"]["reference"].items():
        assert worst >= 0.999 * table.objectives[name][first].max()
    text = summary(of_two._engine)
    assert f"27: {len(top)}" in text and ("predicted at epochs 27" in text) == of_two.has_model
    assert not of_two.has_model or "error 0." in text.split("predicted at")[1]


def test_several_objectives_replay_and_their_targets_wait_for_the_highest_fidelity(
    of_two: dngo.Session,
) -> None:
    for t in range(of_two._engine.merged()):
        assert replay(of_two.path, t).verdict == "identical"
    table, ladder = table_of(of_two)

    top = int(np.flatnonzero(ladder.is_top(table.v))[0])
    target = {name: float(values[top]) for name, values in table.objectives.items()}
    assert "stop.target" in ended(of_two, target) and ended(of_two, target, high=81) == ""
