"""Laws of the other acquisitions: PI, LCB, improvement per cost, and the baselines."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
from proposing import model_of, propose
from pydantic import ValidationError
from scipy import stats
from spaces import cube, mixed
from toy import Toy, advance, finish

from dngo import derive
from dngo.acquisition import History, Picks, design, propose_batch
from dngo.acquisition.fantasies import Fantasies, weigh
from dngo.acquisition.measures import expected_improvement, probability_of_improvement
from dngo.acquisition.settings import AcquisitionSettings
from dngo.archive import foreseen, read_table
from dngo.audit import audit, page
from dngo.batch import Proposal
from dngo.cli import main
from dngo.config import load, validate
from dngo.config.upgrade import of_acquisition as upgrade
from dngo.errors import UserError
from dngo.papers.bound import lower_bound_improvement
from dngo.replay import replay
from dngo.space import Space
from dngo.space.parameters import Boolean, Float, Int
from dngo.study import Study
from dngo.surrogates import Model, TargetScale
from dngo.surrogates.gaussian_process import GaussianProcess
from dngo.surrogates.settings import SurrogateSettings

GP = SurrogateSettings(kind="gp", hyperparameter_samples=3, warp=False)
MEASURES = {
    "mcei": expected_improvement,
    "pi": probability_of_improvement,
    "lcb": lower_bound_improvement(1.5),
}


def _process(seed: int = 0, n: int = 6) -> GaussianProcess:
    rng = np.random.default_rng(seed)
    return GaussianProcess(
        rng.random((n, 2)),
        rng.standard_normal(n),
        np.log([[0.3, 0.5], [0.8, 0.4]]),
        np.array([1.0, 0.7]),
        np.array([0.05, 0.1]),
    )


def _moments(process: GaussianProcess, h: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and covariance of sample h at x, from the textbook's formula."""
    noisy = process.covariance(process.x, process.x)[h] + process.noise[h] * np.eye(len(process.x))
    across = process.covariance(process.x, x)[h]
    solved = np.linalg.solve(noisy, across)
    return solved.T @ process.targets, process.covariance(x, x)[h] - across.T @ solved


@pytest.mark.parametrize("noisy", [False, True])
@pytest.mark.parametrize("kind", list(MEASURES))
def test_nothing_pending_is_the_closed_form(kind: str, noisy: bool) -> None:
    process, best = _process(), -0.4
    x = np.random.default_rng(1).random((30, 2))
    fantasies = Fantasies(
        [process], best, 4, np.random.default_rng(0), noisy=noisy, measure=MEASURES[kind]
    )
    expected = np.zeros(30)
    for h in range(2):
        mean, covariance = _moments(process, h, x)
        deviation = np.sqrt(np.diag(covariance) + (process.noise[h] if noisy else 0.0))
        gamma = (best - mean) / deviation
        expected += (
            0.5
            * {
                "pi": stats.norm.cdf(gamma),
                "lcb": best - (mean - 1.5 * deviation),
                "mcei": deviation * (gamma * stats.norm.cdf(gamma) + stats.norm.pdf(gamma)),
            }[kind]
        )
    np.testing.assert_allclose(fantasies.improvement(fantasies.features(x)), expected, atol=1e-8)


@pytest.mark.parametrize("kind", list(MEASURES))
def test_pending_points_are_integrated_over(kind: str) -> None:
    """Brute force: draw the pending outcomes jointly, condition on them, measure, average."""
    process, best, draws = _process(), -0.4, 40_000
    rng = np.random.default_rng(2)
    x, pending = rng.random((8, 2)), rng.random((2, 2))
    expected, error = np.zeros(8), np.zeros(8)
    for h in range(2):
        mean, covariance = _moments(process, h, np.concatenate([pending, x]))
        seen = covariance[:2, :2] + process.noise[h] * np.eye(2)
        outcomes = rng.multivariate_normal(mean[:2], seen, draws)
        gain = np.linalg.solve(seen, covariance[:2, 2:])
        means = mean[2:] + (outcomes - mean[:2]) @ gain
        variance = np.diag(covariance[2:, 2:] - covariance[2:, :2] @ gain) + process.noise[h]
        incumbent = np.minimum(best, outcomes.min(axis=1))[:, None]
        values = MEASURES[kind](incumbent, means, np.sqrt(variance))
        expected += 0.5 * values.mean(axis=0)
        error += 0.5 * values.std(axis=0) / np.sqrt(draws)
    fantasies = Fantasies([process], best, 10_000, rng, noisy=True, measure=MEASURES[kind])
    z = fantasies.features(np.concatenate([pending, x]))
    for j in range(2):
        fantasies.condition(z[:, j])
    found = fantasies.improvement(z[:, 2:])
    assert np.all(np.abs(found - expected) < 6 * error + 1e-9)


def _fitted(space: Space, v: np.ndarray, y: np.ndarray, cost: np.ndarray | None = None) -> Model:
    log_cost = None if cost is None else np.log(cost)
    return model_of(space, v, y, 3, GP, constraints={}, log_cost=log_cost)


def _picks(space: Space, v: np.ndarray, y: np.ndarray, size: int, model: Model, **keys) -> Picks:
    keys = {"trust_region_share": 0.0, "uniform_candidates": 512, "local_candidates": 256, **keys}
    return propose(space, v, y, size, seed=4, settings=AcquisitionSettings(**keys), model=model)


@pytest.mark.parametrize("kind", ["mcei", "pi", "lcb"])
def test_a_pick_is_the_best_point_of_a_small_space(kind: str) -> None:
    values = [i / 15 for i in range(16)]
    space = Space({n: Float(type="float", values=values) for n in "ab"})
    v = design(space, 9, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    y = np.sin(5 * v[:, 0]) + (v[:, 1] - 0.4) ** 2
    model = _fitted(space, v, y)
    batch = _picks(space, v, y, 1, model, kind=kind, **({"kappa": 1.5} if kind == "lcb" else {}))
    everywhere = np.array(list(itertools.product(values, values)))
    process = model.objective[0]
    mean, variance = process.latent(process.features(space.encode(everywhere)))
    best = model.scale.to_model(y).min()
    worth = MEASURES[kind](best, mean, np.sqrt(variance)).mean(axis=0)
    known = set(space.keys(v))
    worth[[key in known for key in space.keys(everywhere)]] = -np.inf
    assert batch.v[0].tolist() == everywhere[worth.argmax()].tolist()
    assert batch.value[0] == pytest.approx(worth.max(), abs=1e-7)


@pytest.mark.parametrize("kind", ["mcei", "pi", "lcb", "thompson"])
def test_a_constant_cost_changes_no_pick(kind: str) -> None:
    space = mixed()
    v = design(space, 16, rng=np.random.default_rng(0), exclude=np.empty((0, space.k)))
    y = (space.encode(v) ** 2).sum(axis=1)
    # Unknown costs are no costs.
    cost = np.where(np.arange(16) % 3, 40.0, np.nan)
    plain = _picks(space, v, y, 5, _fitted(space, v, y), kind=kind)
    priced = _picks(space, v, y, 5, _fitted(space, v, y, cost), kind=kind, per="duration")
    unknown = _picks(space, v, y, 5, _fitted(space, v, y, cost * np.nan), kind=kind, per="duration")
    # Climbs end at the same top, to rounding.
    np.testing.assert_allclose(plain.v, priced.v, rtol=1e-6)
    np.testing.assert_allclose(plain.v, unknown.v, rtol=1e-6)
    np.testing.assert_allclose(priced.value, plain.value / 40.0, rtol=1e-6)


def test_a_job_evaluates_first_what_is_expected_to_take_longest() -> None:
    space = cube(2)
    v = design(space, 16, rng=np.random.default_rng(1), exclude=np.empty((0, 2)))
    model = _fitted(space, v, v[:, 0], np.exp(4.0 * v[:, 1]))
    names = list(space.parameters)
    document = {"study": "a", "objective": {"command": "run"}}
    document["space"] = {name: {"type": "float", "low": 0, "high": 1} for name in names}
    points = [dict(zip(names, (0.5, second), strict=True)) for second in (0.1, 0.9, 0.5)]
    proposals = [Proposal(1, slot, point, "test") for slot, point in enumerate(points)]
    timed, plain = (
        Study(validate({**document, "acquisition": {"kind": "mcei", "per": per}}))
        for per in ("duration", None)
    )
    batch = timed.record(1, derive.PROPOSE, proposals)
    assert derive.durations(plain.config, model, proposals) == []
    assert batch.longest_first(batch.chunk(0)) == batch.chunk(0)
    batch = replace(
        batch, points_per_job=3, durations=derive.durations(timed.config, model, proposals)
    )
    assert [p.slot for p in batch.longest_first(batch.chunk(0))] == [1, 2, 0]


# Functions drawn differ from each other: more of them, to tell less from chance.
@pytest.mark.parametrize(
    ("kind", "size", "more"),
    [("mcei", 12, 0.2), ("pi", 12, 0.2), ("lcb", 12, 0.2), ("thompson", 48, 0.1)],
)
def test_picks_go_where_they_are_cheap(kind: str, size: int, more: float) -> None:
    """Two minima of the same depth, one in the half that costs a hundred times as much."""
    space = cube(2)
    v = design(space, 16, rng=np.random.default_rng(1), exclude=np.empty((0, 2)))
    y = np.cos(4 * np.pi * v[:, 0]) + (v[:, 1] - 0.5) ** 2
    cost = np.where(v[:, 0] < 0.5, 1.0, 100.0)
    plain = _picks(space, v, y, size, _fitted(space, v, y), kind=kind)
    cheap = _picks(space, v, y, size, _fitted(space, v, y, cost), kind=kind, per="duration")
    share = np.mean(cheap.v[:, 0] < 0.5)
    assert share >= np.mean(plain.v[:, 0] < 0.5) + more
    # The gain of a drawn function may lie only in the expensive half.
    assert share >= (0.5 if kind == "thompson" else 0.8)


@pytest.mark.parametrize("n", [40, 500])
def test_held_out_costs_are_predicted(n: int) -> None:
    """By an exact and by a sparse process; a cost that grows by a factor of some hundreds."""
    space = cube(3)
    v = design(space, n + 200, rng=np.random.default_rng(5), exclude=np.empty((0, 3)))
    rng = np.random.default_rng(6)
    log = 4 * v[:, 0] + np.sin(4 * v[:, 1]) * v[:, 2] + 0.1 * rng.standard_normal(len(v))
    model = _fitted(space, v[:n], v[:n, 0] * np.nan, np.exp(log[:n]))
    assert model.cost is not None and not model.objective
    expected, inverse = model.cost.expected(space.encode(v[n:]))
    error = np.log(expected) - log[n:]
    assert np.sqrt(np.mean(error**2)) < 0.25 * np.std(log)
    assert np.all(inverse * expected >= 1 - 1e-12)  # Jensen
    # A model is stored with its costs, and one without is read, too.
    with h5py.File("costs", "w", driver="core", backing_store=False) as file:
        model.save(file.create_group("model"))
        again = Model.load(file["model"])
        del file["model/cost"]
        assert Model.load(file["model"]).cost is None
    assert again.cost is not None
    np.testing.assert_array_equal(again.cost.expected(space.encode(v))[1][n:], inverse)


BASELINES = [
    ("random", "tpe"),
    ("sobol", "tpe"),
    *(("optuna", name) for name in ("tpe", "cmaes", "nsgaii", "gp")),
]
SPACES = {"cube": cube(3), "mixed": mixed()}


def _baseline(space: Space, kind: str, sampler: str, v: np.ndarray, size: int, **keys) -> Picks:
    rng = np.random.default_rng(len(v))
    keys = {
        "y": np.where(np.arange(len(v)) % 5, np.nansum((space.unit(v) - 0.3) ** 2, axis=1), np.nan),
        "constraints": {"a": (rng.random(len(v)) < 0.7).astype(float)},
        "iteration": np.arange(len(v)) // 6,
        "pending": np.empty((0, space.k)),
        **keys,
    }
    settings = AcquisitionSettings(kind=kind, **({"sampler": sampler} if kind == "optuna" else {}))
    root = np.random.SeedSequence(0)
    nothing = Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {}, {})
    return propose_batch(
        nothing, space, History(v, **keys), size=size, settings=settings, rng=rng, root=root
    )


@pytest.mark.parametrize(
    ("kind", "sampler", "space"),
    # Optuna's GP takes seconds a point.
    [(*b, s) for b in BASELINES for s in SPACES if (b[1], s) != ("gp", "mixed")],
)
def test_baselines_propose_new_points_of_the_space_and_the_same_again(
    kind: str, sampler: str, space: str
) -> None:
    where = SPACES[space]
    v = design(where, 18, rng=np.random.default_rng(0), exclude=np.empty((0, where.k)))
    v, pending = v[:15], v[15:]
    size = 2 if sampler == "gp" else 7
    batch = _baseline(where, kind, sampler, v, size, pending=pending)
    assert len(batch) == size
    assert len({*where.keys(batch.v), *where.keys(v), *where.keys(pending)}) == 18 + size
    np.testing.assert_array_equal(where.round(batch.v), batch.v)
    np.testing.assert_array_equal(where.from_parameters(where.to_parameters(batch.v)), batch.v)
    assert set(batch.source) == {f"optuna:{sampler}" if kind == "optuna" else kind}
    again = _baseline(where, kind, sampler, v, size, pending=pending)
    np.testing.assert_array_equal(again.v, batch.v)
    # One that knows another history proposes others.
    other = _baseline(where, kind, sampler, np.concatenate([v, batch.v[:6]]), 1, pending=pending)
    assert where.keys(other.v)[0] not in where.keys(batch.v[:6])


@pytest.mark.parametrize(("kind", "sampler"), BASELINES[:3])
def test_a_space_that_is_used_up_gives_what_is_left(kind: str, sampler: str) -> None:
    space = Space({"a": Boolean(type="boolean"), "b": Int(type="int", low=1, high=9)})
    v = design(space, 13, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    batch = _baseline(space, kind, sampler, v, 20)
    assert len(batch) == 5
    assert len({*space.keys(v), *space.keys(batch.v)}) == 18


def test_sobol_continues_the_sequence_of_the_design() -> None:
    space, nothing = cube(3), np.empty((0, 3))
    whole = design(space, 64, rng=np.random.default_rng(np.random.SeedSequence(0)), exclude=nothing)
    v = whole[:10]
    for size in (1, 5, 16):
        v = np.concatenate([v, _baseline(space, "sobol", "tpe", v, size).v])
    np.testing.assert_array_equal(v, whole[: len(v)])


@pytest.mark.parametrize("sampler", ["tpe", "cmaes"])
def test_optuna_learns_from_what_it_is_told(sampler: str) -> None:
    """The sampler's state is derived only from trials that it is told, their order and their
    batches."""
    space = cube(2)
    v = design(space, 10, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    batch = np.zeros(10, dtype=int)
    for t in range(1, 16):
        y = ((v - 0.3) ** 2).sum(axis=1)
        flags = {"a": np.ones(len(v))}
        new = _baseline(space, "optuna", sampler, v, 10, y=y, constraints=flags, iteration=batch).v
        v, batch = np.concatenate([v, new]), np.concatenate([batch, np.full(10, t)])
    distance = ((v - 0.3) ** 2).sum(axis=1)
    assert distance[-40:].mean() < 0.6 * distance[:40].mean()


def test_optuna_heeds_constraints() -> None:
    space = cube(2)
    v = design(space, 60, rng=np.random.default_rng(0), exclude=np.empty((0, 2)))
    y, flags = v[:, 0], {"a": (v[:, 0] > 0.5).astype(float)}
    heeding = _baseline(space, "optuna", "tpe", v, 20, y=y, constraints=flags)
    blind = _baseline(space, "optuna", "tpe", v, 20, y=y, constraints={})
    assert np.mean(heeding.v[:, 0] > 0.5) > 0.7 > 0.3 > np.mean(blind.v[:, 0] > 0.5)


MONEY = {"kind": "mcei", "per": "money"}
HEAD = "study: a\nobjective: {command: run}\nspace: {x: {type: float, low: 0, high: 1}}\n"


def test_a_kind_alone_stands_for_its_section(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + "surrogate: gp\nacquisition: random\n")
    config = load([path])
    assert (config.surrogate.kind, config.acquisition.kind) == ("gp", "random")
    assert load([path], {"acquisition": "lcb"}).acquisition.kind == "lcb"
    path.write_text(HEAD + "surrogate: {kind: gp, ard: false}\nacquisition: {per: money}\n")
    config = load([path])
    assert not config.surrogate.ard
    assert config.acquisition.trust_region_share == 0.0  # local picks ignore what they cost
    path.write_text(HEAD + "acquisition: {per: money, trust_region_share: 0.5}\n")
    assert load([path]).acquisition.trust_region_share == 0.5


def test_a_missing_package_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dngo.rivals.settings.find_spec", lambda name: None)
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + "acquisition: optuna\n")
    with pytest.raises(UserError, match=r"^\S+:4: .* pip install 'optuna>=5.0'$"):
        load([path])


def test_the_section_of_an_old_archive_is_brought_up() -> None:
    """In which every kind had every key, some by other names."""
    old = {"per": None, "sampler": "tpe", "local_share": 0.3, "vanishing": 0.1, "kappa": 1.0}
    old |= {"when_vanished": "explore", "min_distance": 0.2, "shortlist": 7}
    for kind, keys in {
        "mcei": {"per", "trust_region_share", "vanishing", "when_vanished", "spacing", "shortlist"},
        "lcb": {"per", "trust_region_share", "kappa", "spacing", "shortlist"},
        "thompson": {"per", "trust_region_share", "spacing"},
        "sobol": set(),
        "optuna": {"sampler"},
    }.items():
        new = upgrade({"kind": kind, **old})
        assert set(new) == {"kind", *keys}
        assert upgrade(new) == new
        settings = AcquisitionSettings(new)
        assert settings.model_dump(include=set(new)) == new
    with pytest.raises(ValidationError, match="nonsense"):
        AcquisitionSettings(upgrade({"kind": "mcei", "nonsense": 1}))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """Four iterations with different kinds: random, Optuna, per cost, and a change between fit and
    proposal."""
    toy = Toy(tmp_path_factory.mktemp("kinds"), iterations=1, batch_size=4, sleep=0.0)
    objective = toy.folder / "objective.py"
    text = objective.read_text().replace(
        '{"objective":', '{"metadata": {"money": 1 + 99 * (p["x"] > 0.5)}, "objective":'
    )
    objective.write_text(text)
    changes = {"results": str(toy.folder / "results"), "surrogate": "gp", "iterations": 4}
    random, told, priced, plain = (
        Study(load([toy.folder / "config.yaml"], {**changes, "acquisition": acquisition}))
        for acquisition in (
            "random",
            {"kind": "optuna", "sampler": "tpe"},
            dict(MONEY),
            {"kind": "lcb", "trust_region_share": 0.0},
        )
    )
    for t, then in enumerate((random, random, told, priced)):
        advance(then, t)
    priced.fit(4, toy.folder / "surrogate.h5")
    plain.propose(4, toy.folder / "surrogate.h5", toy.folder / "proposals.json")
    finish(plain, 4)
    return toy


@pytest.mark.full
def test_a_study_of_all_kinds_runs_and_replays(study: Toy) -> None:
    table = read_table(study.archive)
    assert sorted(study.evaluations().values()) == [1] * 24
    with h5py.File(study.archive) as file:
        sources = file["proposals/source"].asstr()[:]
    priced = foreseen(study.archive, 3)
    assert priced is not None and ("cost", "") in priced
    assert not foreseen(study.archive, 1)  # a baseline asks no model
    assert set(sources[table.iteration == 1]) == {"random"}
    assert set(sources[table.iteration == 2]) == {"optuna:tpe"}
    assert [replay(study.archive, t).verdict for t in range(5)] == ["identical"] * 5


@pytest.mark.full
def test_audit_of_a_cost_and_of_a_baseline(study: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    priced = audit(study.archive, "3-0")
    assert priced["proposed"]["cost"]["per"] == "money"
    assert 0.5 < priced["proposed"]["cost"]["expected"] < 200
    assert "Cost expected" in page(priced)
    assert audit(study.archive, "4-0")["proposed"]["cost"] is None
    assert main(["audit", str(study.archive), "--proposal", "1-1"]) == 0
    assert "A baseline proposed it (random)" in capsys.readouterr().out


@pytest.mark.full
def test_a_cost_that_nobody_reports_is_named(study: Toy) -> None:
    config = load([study.folder / "config.yaml"], {"acquisition": {"kind": "mcei", "per": "moeny"}})
    with pytest.raises(UserError, match=r"'moeny'.* known: duration, money"):
        derive.Basis(study.archive, config, 3, 3).fit()


def test_more_weight_is_never_worse_and_equal_weights_change_no_order() -> None:
    value = np.linspace(-2, 2, 9)
    heavy, light = weigh(value, np.full(9, 0.9)), weigh(value, np.full(9, 0.3))
    assert np.all(heavy >= light)
    assert np.all(np.diff(light) > 0)
