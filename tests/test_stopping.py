"""Early stopping: rules are pure functions of curves, and a stopped evaluation is never
repeated."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from evaluating import POINT, outcome_of, python, runner
from hypothesis import given
from hypothesis import strategies as st

from dngo.batch import Outcome, write_outcomes
from dngo.config import Objective, validate
from dngo.errors import UserError
from dngo.evaluation.stopping import MOST, Flying, Judge, read_snapshot, write_snapshot
from dngo.evaluation.supervision import Interrupted, StopSignal
from dngo.stopping.curves import Curve, thinned
from dngo.stopping.model import Predicted
from dngo.stopping.settings import Asha, Decision, Median, Quantile, Stopping
from dngo.thresholds import Reported

GOOD = [Curve(tuple((float(s), i + 10 / s, 0.0) for s in range(1, 51))) for i in range(12)]
RULES = [
    Median(),
    Quantile(share=0.8),
    Median(patience=0),
    Median(patience=3, min_steps=2),
    Asha(),
    Asha(eta=2, min_steps=3),
    Predicted(),
    Predicted(share=0.3, chance=0.2),
]


def curve(*values: float, first: int = 1) -> Curve:
    return Curve(tuple((float(i), v, 0.0) for i, v in enumerate(values, start=first)))


# ---- rules --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_worst_is_stopped_and_the_best_is_not(rule: Stopping) -> None:
    bad, good = curve(*[100.0] * 12), curve(*[-1.0] * 12)
    found = rule.decide(bad, GOOD, 1.0)
    assert found is not None and (found.step, found.value, found.target) == (12, 100.0, 50)
    assert (found.worse_than, found.of) == (12, 12)
    assert rule.decide(good, GOOD, 1.0) is None
    # The other way round where large values are good.
    assert rule.decide(bad, GOOD, -1.0) is None
    assert rule.decide(curve(*[-100.0] * 12), GOOD, -1.0) is not None


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_nothing_is_stopped_too_early_or_without_others(rule: Stopping) -> None:
    bad = curve(*[100.0] * 12)
    assert rule.decide(Curve(), GOOD, 1.0) is None
    assert rule.decide(bad, [], 1.0) is None
    assert rule.decide(bad, GOOD[: rule.min_curves - 1], 1.0) is None
    assert rule.decide(curve(100.0, 100.0), GOOD, 1.0) is None
    # At the end it is there already.
    assert rule.decide(curve(*[100.0] * 50), GOOD, 1.0) is None
    # While none has ended nobody knows how far they go, unless people say so.
    running = [Curve(c.points, ended=False) for c in GOOD]
    stopped = rule.decide(bad, running, 1.0)
    assert (stopped is None) == (rule.min_steps is None)
    # Others that have not come so far say nothing of this step.
    short = [Curve(c.points[:4]) for c in GOOD]
    assert rule.decide(bad, [*short, GOOD[0]], 1.0) is None


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_what_is_no_number_is_the_worst(rule: Stopping) -> None:
    assert rule.decide(curve(*[math.nan] * 12), GOOD, 1.0) is not None
    nothing = [curve(*[math.nan] * 50)] * 12
    assert rule.decide(curve(*[5.0] * 12), nothing, 1.0) is None
    assert (
        rule.decide(curve(*[math.nan] * 12), nothing, 1.0) is None
    )  # it is worse than none of them
    # A value of before counts: the best so far.
    assert rule.decide(curve(-1.0, *[math.nan] * 11), GOOD, 1.0) is None


VALUES = st.integers(-100, 100).map(float)
CURVES = st.lists(
    st.lists(VALUES, min_size=1, max_size=12).map(lambda values: curve(*values)), max_size=15
)


@given(CURVES, st.lists(VALUES, min_size=1, max_size=12), st.sampled_from(RULES))
def test_a_rule_looks_at_ranks_alone(others: list[Curve], own: list[float], rule: Stopping) -> None:
    """So a logarithm of the objective changes nothing, and neither does the order of the others."""

    def bent(c: Curve) -> Curve:
        return Curve(tuple((step, math.exp(value / 10), s) for step, value, s in c.points))

    found = rule.decide(curve(*own), others, 1.0)
    assert (rule.decide(curve(*own), others[::-1], 1.0)) == found
    again = rule.decide(bent(curve(*own)), [bent(c) for c in others], 1.0)
    assert (again is None) == (found is None)
    if found is not None and again is not None:
        assert (again.worse_than, again.of) == (found.worse_than, found.of)


@given(CURVES, st.lists(VALUES, min_size=1, max_size=12), st.sampled_from(RULES))
def test_the_best_of_all_is_never_stopped(
    others: list[Curve], own: list[float], rule: Stopping
) -> None:
    best = curve(*[min([*own, *(v for c in others for _, v, _ in c.points)])] * len(own))
    assert rule.decide(best, others, 1.0) is None


def test_patience_is_of_every_report_in_a_span() -> None:
    rule = Median(patience=2, min_steps=1)
    assert rule.decide(curve(100, 100, -1, 100, 100), GOOD, 1.0) is None  # its best so far is good
    assert rule.decide(curve(0, 100, 100), GOOD, 1.0) is None
    assert rule.decide(curve(100, 100), GOOD, 1.0) is None
    assert rule.decide(curve(100, 100, 100), GOOD, 1.0) is not None


def test_an_evaluation_of_a_low_fidelity_is_not_stopped_at_its_end(tmp_path: Path) -> None:
    """Those of a higher one go further: it seemed to be in the middle, and its result was lost."""
    low = [curve(*[i + 1.0] * 16) for i in range(8)]
    high = [replace(curve(*[0.5] * 48, first=17), level=1) for _ in range(3)]
    path = tmp_path / "curves.json"
    write_snapshot(path, [*low, *high])
    levels = {"7-0": 0, "7-1": 1}
    judge = Judge(
        Median(patience=0, min_curves=3), read_snapshot(path), [], 1.0, levels.__getitem__
    )
    assert judge.decide("7-0", curve(*[9.0] * 16)) is None
    found = judge.decide("7-0", curve(*[9.0] * 15))
    assert found is not None and found.target == 16
    # One at the higher level is compared with those that got there, as far as they go.
    found = judge.decide("7-1", curve(*[9.0] * 40, first=17))
    assert found is not None and (found.of, found.target) == (3, 64)


def test_a_prediction_goes_by_how_much_a_step_said_of_the_end() -> None:
    """Where ranks stay what they are, the second half is stopped; where they are shuffled, nothing is."""
    rule = Predicted(min_steps=2, share=0.1)
    mixed = [(7 * i + 3) % 20 for i in range(20)]
    kept = [curve(*[i + 1.0] * 10) for i in range(20)]
    crossed = [curve(*[i + 1.0] * 9, end + 1.0) for i, end in enumerate(mixed)]
    middle = curve(*[12.5] * 5)
    found = rule.decide(middle, kept, 1.0)
    assert found is not None and found.chance is not None and found.chance < rule.chance
    assert "chance of a good end" in str(found)
    assert rule.decide(middle, crossed, 1.0) is None
    assert rule.decide(curve(*[1.5] * 5), kept, 1.0) is None
    for own in (0.5, 8.5, 19.5):  # nothing is known of it but how many ends are good
        chance = rule.chance_of(curve(*[own] * 5), crossed, 1.0)
        assert chance == pytest.approx(rule.share, abs=0.03)
    # What is good is a share of all, also of those that were stopped.
    stopped = [curve(*[30.0 + i] * 3) for i in range(60)]
    more = rule.chance_of(middle, [*kept, *stopped], 1.0)
    assert more is not None and more > found.chance


def test_a_decision_is_a_sentence_and_survives_json() -> None:
    found = Decision("median", 9.0, 0.47, 9.0, 61, 70, 50.0)
    assert str(found) == "stopped at step 9 of 50, 0.47, worse than 61 of 70 at that step (median)"
    for decision in (found, Decision("asha", 2.5, math.nan, 2.0, 3, 3, 2.5)):
        again = Decision.of_plain(json.loads(json.dumps(decision.plain(), allow_nan=False)))
        assert repr(again) == repr(decision)


# ---- several objectives -------------------------------------------------------------------------

SEVERAL = [rule for rule in RULES if rule.takes_several]


def pairs(a: list[float], b: list[float]) -> Curve:
    return Curve(tuple((i + 1.0, *v, 0.0) for i, v in enumerate(zip(a, b, strict=True))))


def test_of_several_objectives_without_constraints_what_runs_counts_too(tmp_path: Path) -> None:
    """The names of the objectives were lost, so no line of the others could be read."""
    (tmp_path / "work" / "3").mkdir(parents=True)
    line = json.dumps({"step": 1, "objectives": {"error": 0.5, "size": 2}})
    (tmp_path / "work" / "3" / "progress.jsonl").write_text(f"{line}\n")
    flying = [Flying(1, tmp_path / "outcomes", tmp_path / "work")]
    judge = Judge(Median(), [], flying, (1.0, 1.0), constraints=Reported({}, ("error", "size")))
    assert [curve.points[0][:3] for curve in judge._others("1-0")] == [(1.0, 0.5, 2.0)]


@pytest.mark.parametrize("rule", SEVERAL, ids=str)
def test_what_lies_behind_many_fronts_is_stopped(rule: Stopping) -> None:
    """Small a and large b are good. The others are four fronts of three."""
    others = [
        pairs([float(front + i)] * 50, [float(2 * i - front)] * 50)
        for front in range(4)
        for i in range(3)
    ]
    behind = pairs([9.0] * 12, [-9.0] * 12)
    found = rule.decide(behind, others, (1.0, -1.0))
    assert found is not None and (found.worse_than, found.of) == (12, 12)
    assert "at step 12 of 50, 9 and -9, worse than 12 of 12" in str(found)
    assert Decision.of_plain(json.loads(json.dumps(found.plain(), allow_nan=False))) == found
    # Nobody is better where it is the best in one objective, however bad the other.
    assert rule.decide(pairs([9.0] * 12, [99.0] * 12), others, (1.0, -1.0)) is None
    nothing = pairs([math.nan] * 12, [math.nan] * 12)
    assert rule.decide(nothing, others, (1.0, -1.0)) is not None


PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12).map(
    lambda rows: pairs(*map(list, zip(*rows, strict=True)))
)


@given(st.lists(PAIRS, max_size=15), PAIRS, st.sampled_from(SEVERAL), st.booleans())
def test_the_first_front_is_never_stopped(
    others: list[Curve], own: Curve, rule: Stopping, turned: bool
) -> None:
    """The best of all in an objective, alone, is on it."""
    least = min(p[1] for c in [*others, own] for p in c.points) - 1
    best = Curve(tuple((p[0], least, *p[2:]) for p in own.points))
    assert rule.decide(best, others, (1.0, -1.0 if turned else 1.0)) is None


def test_curves_of_several_keep_the_ends_of_each(tmp_path: Path) -> None:
    rows = [(float(i), float((i * 37) % 1009), float((i * 71) % 1009), 0.0) for i in range(1009)]
    kept = thinned(rows)
    assert len(kept.points) <= 200 and kept.points[-1] == rows[-1]
    for j in (0, 1):
        values = [v for _, v, _ in kept.of_objective(j).points]
        assert (min(values), max(values)) == (0.0, 1008.0)
    write_snapshot(tmp_path / "c.json", [kept, pairs([1.0], [math.nan])])
    first, second = read_snapshot(tmp_path / "c.json")
    assert first.bests_until(500.0, (1.0, -1.0)) is not None and len(first.points) <= 50
    assert second.bests_until(1.0, (1.0, -1.0)) == (1.0, math.inf)
    assert second.bests_until(2.0, (1.0, -1.0)) is None


# ---- the key ------------------------------------------------------------------------------------

STUDY: dict[str, Any] = {
    "study": "toy",
    "objective": {"command": "run"},
    "space": {"x": {"type": "float", "low": 0, "high": 1}},
}


def test_a_rule_for_one_objective_is_refused_in_a_line() -> None:
    several = {"objectives": {"a": {"direction": "minimize"}, "b": {"direction": "maximize"}}}
    assert validate({**STUDY, **several, "early_stopping": True}).early_stopping == Median()
    with pytest.raises(
        UserError, match=r"early_stopping\.kind: model works only with one objective"
    ) as error:
        validate({**STUDY, **several, "early_stopping": "model"})
    assert "\n" not in str(error.value)


# ---- an evaluation ------------------------------------------------------------------------------

REPORTS = """
import json, os, signal, sys, time
{before}
for step in range(1, 50):
    with open(os.environ["DNGO_PROGRESS"], "a") as stream:
        stream.write(json.dumps({{"step": step, "objective": 100.0}}) + chr(10))
    time.sleep(0.02)
time.sleep(1000)
"""
CHECKPOINT = """
def save(*_):
    {body}
signal.signal(signal.SIGTERM, save)
"""


def judge(rule: Stopping = Median(), sign: float = 1.0) -> Judge:
    return Judge(rule, GOOD, [], sign)


def stopped(body: str, tmp_path: Path, rule: Stopping = Median()) -> Outcome:
    code = REPORTS.format(before=CHECKPOINT.format(body=body))
    return outcome_of(python(code), tmp_path, judge=judge(rule))


def test_a_stopped_program_is_no_failure_and_has_time_to_write_a_checkpoint(tmp_path: Path) -> None:
    place = str(tmp_path / "checkpoint")
    outcome = stopped(f"time.sleep(0.5); open({place!r}, 'w').close(); sys.exit(3)", tmp_path)
    assert outcome.status == "stopped" and (tmp_path / "checkpoint").exists()
    assert math.isnan(outcome.objective)
    assert outcome.curve[-1][1] == 100.0
    decision = Decision.of_plain(outcome.stop)
    assert outcome.message == str(decision) and (decision.kind, decision.of) == ("median", 12)
    assert 5 <= decision.step <= outcome.curve[-1][0] < 50  # type: ignore[operator]


LAST = """
open(os.environ["DNGO_PROGRESS"], "a").write(json.dumps({"step": 50, "objective": 0.25}) + chr(10))
"""


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("pass", "stopped", ""),  # it ignores the signal, and is killed
        # Its progress has come to the last step: it ended by itself.
        (f"{LAST.strip()}; print(0.25); sys.exit(0)", "ok", "late, but valid: stopped at step"),
        # Programs that answer SIGTERM by ending their loop print their current result.
        ("print(0.25); sys.exit(0)", "stopped", "; it printed '0.25' then"),
    ],
)
def test_what_a_program_reports_after_the_signal_counts_if_it_had_come_to_its_end(
    tmp_path: Path, body: str, status: str, said: str
) -> None:
    outcome = stopped(body, tmp_path, Median(grace=0.5))
    assert outcome.status == status and said in outcome.message
    assert (outcome.objective == 0.25) == (status == "ok") == (outcome.stop == {})


def test_what_it_says_of_constraints_counts_if_it_was_progress(tmp_path: Path) -> None:
    code = REPORTS.format(before="").replace(
        '"objective": 100.0', '"objective": 100.0, "constraints": {"fits": False}'
    )
    outcome = outcome_of(python(code), tmp_path, ["fits", "ends"], judge=judge())
    assert (outcome.status, outcome.constraints) == ("stopped", {"fits": 0})


def test_a_function_is_asked_and_may_end_well(tmp_path: Path) -> None:
    (tmp_path / "asked.py").write_text(
        "import dngo, time\n"
        "def deaf(x, mode, flag, ends=lambda: False):\n"
        "    for step in range(1, 50):\n"
        "        dngo.progress(step, 100.0)\n"
        "        time.sleep(0.02)\n"
        "    while not ends(): time.sleep(0.02)\n"
        "    return 1.0\n"
        "def f(x, mode, flag): return deaf(x, mode, flag, dngo.should_stop)\n"
    )
    for name, rule in (("f", Median()), ("deaf", Median(grace=0.2))):
        objective = Objective(callable=f"asked:{name}", working_directory=str(tmp_path))
        outcome = outcome_of(objective, tmp_path, judge=judge(rule))
        assert outcome.status == "stopped" and math.isnan(outcome.objective)


def test_a_stop_is_a_fact_once_it_is_noted(tmp_path: Path) -> None:
    """Its supervisor dies between the decision and the outcome: it is not started again."""

    class Dies(Judge):
        @property
        def grace(self) -> float:
            raise Interrupted  # the request is out; nobody waits for its end

    dies = Dies(Median(), GOOD, [], 1.0)
    one = runner(python(REPORTS.format(before="")), tmp_path, judge=dies)
    with pytest.raises(Interrupted):
        one.run(POINT, 1)
    found = runner(python("raise SystemExit('again')"), tmp_path).adopt(POINT, 1)
    assert found is not None and found.status == "stopped" and found.curve
    assert found.message.startswith(str(Decision.of_plain(found.stop)))


def test_a_batch_brings_the_newest_curves_along(tmp_path: Path) -> None:
    path = tmp_path / "curves.json"
    known = [Curve(((1.0, float(i), 0.5), (2.0, math.nan, 0.6))) for i in range(MOST + 7)]
    write_snapshot(path, known)
    found = read_snapshot(path)
    assert repr([[p[:2] for p in c.points] for c in found]) == repr(
        [[p[:2] for p in c.points] for c in known[-MOST:]]
    )
    for text in ("", "{}", '{"curves": 3}', '{"curves": [[[1], []]]}', '{"curves": [[1]]}'):
        path.write_text(text)
        assert read_snapshot(path) == []
    assert read_snapshot(tmp_path / "none.json") == []


def test_evaluations_in_flight_are_seen_by_each_other(tmp_path: Path) -> None:
    """Curves of running evaluations come from their files, and of ended ones from outcomes; its own
    is left out."""
    outcomes, work = tmp_path / "outcomes", tmp_path / "work"
    outcomes.mkdir()
    for slot, curve_ in enumerate(GOOD[:6]):
        folder = work / str(slot)
        folder.mkdir(parents=True)
        lines = (json.dumps({"step": s, "objective": v}) for s, v, _ in curve_.points[:30])
        (folder / "progress.jsonl").write_text("\n".join(lines) + "\n")
        if slot < 3:
            ended = Outcome(0, slot, "0" * 64, "ok", 1.0, curve=curve_.plain())
            write_outcomes(outcomes / f"{slot}.json", [ended])
    (outcomes / "damaged.json").write_text("{")
    (outcomes / "7.json").write_text("{")
    rule = Median(min_curves=5, patience=0)
    flying = [Flying(0, outcomes, work), Flying(1, tmp_path / "none", tmp_path / "none")]
    judge = Judge(rule, [], flying, 1.0)
    found = judge.decide("0-5", curve(*[100.0] * 12))
    assert found is not None and (found.worse_than, found.of, found.target) == (5, 5, 50)
    assert judge.decide("0-0", curve(*[-100.0] * 12)) is None


def test_a_job_that_is_ended_does_not_wait_for_the_grace(tmp_path: Path) -> None:
    with StopSignal.for_a_while():
        timer = threading.Timer(1.5, setattr, (StopSignal, "requested", True))
        timer.start()
        outcome = stopped("pass", tmp_path, Median(grace=1000, patience=0))
        timer.join()
    assert outcome.status == "stopped"


def test_a_program_that_ignores_the_signal_is_killed(tmp_path: Path) -> None:
    assert stopped("pass", tmp_path, Median(grace=0.5)).status == "stopped"
