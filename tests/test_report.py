"""The report: right numbers, words that fit, and one file."""

from __future__ import annotations

import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import synthetic
from fuzzing.archive import rechain
from toy import Toy

from dngo import archive
from dngo.archive import predictions
from dngo.batch import way
from dngo.cli import main
from dngo.report.compare import read, rows
from dngo.report.compare import text as text_of
from dngo.report.data import View
from dngo.report.figures import FIGURES, all_figures
from dngo.report.health import checks, messages
from dngo.report.live import status
from dngo.report.models import LOCAL, NETWORKS, NONE, PROCESS, models_of
from dngo.report.page import Page, _drawn, _listed, _points, study_page
from dngo.report.text import format_status, one_line
from dngo.study import Study


@pytest.fixture(scope="module")
def view(small: Study) -> View:
    return View.of(small.archive)


# ---- the numbers --------------------------------------------------------------------------------


def altered(view: View, **columns: Any) -> View:
    """The same study with other values in its table."""
    own = {k: v for k, v in columns.items() if hasattr(view.table, k)}
    rest = {k: v for k, v in columns.items() if k not in own}
    return replace(view, table=replace(view.table, **own), **rest)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_so_far_is_that_of_the_ok_rows_up_to_there(view: View, seed: int) -> None:
    rng = np.random.default_rng(seed)
    status = rng.choice(["ok", "infeasible", "failed"], len(view))
    status[:seed], values = "failed", rng.uniform(-5, 5, len(view))
    for direction, better in (("minimize", min), ("maximize", max)):
        other = replace(altered(view, status=status, objective=values), direction=direction)
        for row, found in enumerate(other.best_so_far):
            good = values[: row + 1][status[: row + 1] == "ok"]
            assert found == better(good) if len(good) else np.isnan(found)


def test_the_nearest_point_known_is_that_of_all_pairs(view: View) -> None:
    distance = np.sqrt(((view.unit[:, None] - view.unit[None]) ** 2).mean(axis=2))
    # What a pick knew: the iterations before, and the picks before it, all of them earlier rows.
    distance[np.triu_indices(len(view))] = np.inf
    np.testing.assert_allclose(view.nearest[1:], distance.min(axis=1)[1:])


class Linear:
    """A model of which the Sobol indices are known: the weights squared, by their variances."""

    objective = (None,)

    def __init__(self, weights: np.ndarray):
        self.weights = weights

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return x @ self.weights, np.ones(len(x))

    def feasibility(self, x: np.ndarray) -> np.ndarray:
        return np.full(len(x), 0.5)


def test_importance_of_a_sum_is_its_weights_squared(tmp_path: Path) -> None:
    space = {name: {"type": "float", "low": 0, "high": 1} for name in "cab"}
    study = synthetic.study(tmp_path, iterations=0, size=8, space=space, constraints=[])
    view = replace(View.of(study.archive), model=Linear(np.array([3.0, 1.0, 0.0])))
    for indices in view.importance.values():  # columns stand by name: a, b, c
        np.testing.assert_allclose(indices[0], [0.9, 0.1, 0.0], atol=0.02)
        assert np.isnan(indices[1]).all()
    assert [column.name for _, column in view.columns] == ["c", "a", "b"]


def test_every_figure_is_drawn_and_has_a_legend_or_labels(view: View) -> None:
    drawn = [draw(view) for draw in FIGURES]  # an error shows here, not in a report's place for it
    figures = [figure for figure in drawn if figure is not None]
    # No constraint of this study is a number, no model was asked, nobody reported progress, and its goal
    # is the optimum.
    assert len(figures) == len(FIGURES) - 6
    for figure in figures:
        traces = figure.plot.data
        assert traces and figure.caption and figure.title
        for trace in traces:
            if trace.type == "scatter" and trace.showlegend is not False:
                assert trace.name, figure.key
    order = [c.name for _, c in view.columns]
    parallel = next(f for f in figures if f.key == "parallel").plot.data[0]
    assert [d.label for d in parallel.dimensions][:-1] == order == list(view.space.parameters)
    picked = next(f for f in figures if f.key == "batch").plot
    assert {t.name for t in picked.data} == {"trust region", "design:sobol"}
    # Nothing is left out: what failed has its marks.
    progress = next(f for f in figures if f.key == "progress").plot
    assert sum(len(t.x) for t in progress.data if t.mode == "markers") == len(view)


@pytest.mark.parametrize("name", ["v1-auto", "v1-bohamiann", "v1-least_squares", "v1-random"])
def test_old_archives_have_reports(name: str) -> None:
    view = View.of(Path(__file__).parent / "data" / "archives" / f"{name}.h5")
    assert all("could not be drawn" not in figure.caption for figure in all_figures(view))
    checks(view)


CHOICE = {"type": "categorical", "choices": ["a", "b", "c"]}


@pytest.mark.parametrize(
    ("space", "size", "more"),
    [
        ({"x": {"type": "float", "low": 0, "high": 1}}, 12, {}),
        ({"c": CHOICE, "d": CHOICE, "e": {"type": "boolean"}}, 12, {}),
        ({"x": {"type": "int", "low": 1, "high": 3}, "k": {"type": "fixed", "value": 1}}, 1, {}),
        (synthetic.SPACE, 12, {"objective": {"command": "false", "direction": "maximize"}}),
    ],
    ids=["one", "choices", "single", "maximize"],
)
def test_spaces_of_every_kind_have_reports(space, size, more, tmp_path: Path) -> None:
    study = synthetic.study(tmp_path, iterations=1, size=size, space=space, **more)
    view = View.of(study.archive)
    for draw in FIGURES:
        draw(view)
    assert "Evaluations" in format_status(status(study))
    assert len(_points(view, _listed(view, []), [{}] * len(view))["rows"][0]) == len(view)


# ---- health -------------------------------------------------------------------------------------


def findings(view: View) -> str:
    return "\n".join(f"{c.level}: {c.finding} {c.advice}" for c in checks(view))


def test_a_set_up_that_fails_is_told_apart_from_a_hard_space(view: View) -> None:
    n = len(view)
    broken = altered(
        view,
        status=np.full(n, "failed"),
        objective=np.full(n, np.nan),
        message=np.full(n, "line 1\nexit status 127: no such program", dtype=object),
    )
    text = findings(broken)
    assert text.startswith(f"stop: {n} of {n} evaluations have no usable outcome")
    assert "no such program" in text and "logs/points" in text
    assert all(f.key for f in all_figures(broken))
    assert "have no usable outcome" not in findings(view)


def never(view: View) -> dict[str, Any]:
    n = len(view)
    broken = {"budget": np.zeros(n)}
    return {"status": np.full(n, "infeasible"), "constraints": broken, "objective": np.ones(n)}


def on_a_bound(view: View) -> dict[str, Any]:
    v = view.table.v.copy()
    v[view.best, next(j for j, c in view.columns if c.name == "rate")] = 1.0
    return {"v": v}


def alike(view: View) -> dict[str, Any]:
    v = view.table.v.copy()
    v[view.last] = v[0]
    return {"v": v}


def over(view: View) -> dict[str, Any]:
    objective = view.table.objective.copy()
    objective[np.flatnonzero(view.ok)[0]] = -100.0
    return {"objective": objective}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (never, "No point is feasible yet, of 80. Broken: budget (80 times)"),
        (on_a_bound, "best point has rate = 1, on the bound of [0.0001, 1]"),
        (alike, "20 of the 20 points of the last batch"),
        (over, "No further gain is expected"),
    ],
)
def test_what_is_wrong_with_a_study_is_told(view: View, change: Any, said: str) -> None:
    other = altered(view, **change(view))
    assert said in findings(other) and said not in findings(view)
    if change is never:
        assert all("could not be drawn" not in figure.caption for figure in all_figures(other))


def test_a_model_no_better_than_a_constant_is_told(view: View, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.h5"
    shutil.copy(view.path, wrong)
    for t in range(1, 4):
        found = archive.foreseen(wrong, t)
        found["density", "all"] -= 50.0
        with h5py.File(wrong, "r+") as file:
            predictions.write(file[f"iterations/{t}/surrogate"], found)
            rechain(file)
    assert "no better than the mean" in findings(replace(view, path=wrong))
    assert "no better than the mean" not in findings(view)


@pytest.fixture(scope="module")
def constrained(tmp_path_factory) -> View:
    """A study whose best points would be a = b = 0.55, were they allowed."""
    study = synthetic.study(
        tmp_path_factory.mktemp("constrained"),
        iterations=3,
        size=40,
        space={name: {"type": "float", "low": 0, "high": 1, "default": 0.4} for name in "abc"},
        space_constraints=["a + b <= 0.9", "c >= 0.01"],
    )
    return View.of(study.archive)


def test_a_best_point_at_the_edge_of_a_known_constraint_is_named(constrained: View) -> None:
    row = constrained.best
    near = float(constrained.table.v[row, :2].sum()) > 0.89
    assert ("the edge of the known constraint a + b <= 0.9" in findings(constrained)) == near
    sums = constrained.table.v[:, :2].sum(axis=1)
    for row in range(len(constrained)):
        assert ("a + b <= 0.9" in constrained.at_edge(row)) == (sums[row] > 0.89), row
    assert (sums > 0.89).any() and (sums < 0.89).any()


def test_idle_slots_are_told(view: View) -> None:
    late = {k: view.numbers[k] + 100.0 * view.table.iteration for k in ("started", "finished")}
    assert "larger batches help" in findings(replace(view, numbers={**view.numbers, **late}))
    start = view.table.iteration * 9.0
    busy = {"started": start, "finished": start + 9.0}
    assert "idle" not in findings(replace(view, numbers={**view.numbers, **busy}))


def test_messages_that_differ_in_numbers_are_one(view: View) -> None:
    found = messages(view)
    assert [count for count, *_ in found] == sorted((c for c, *_ in found), reverse=True)
    assert sum(count for count, *_ in found) == np.sum(~view.ok)
    assert len(found) == 2  # failed and infeasible
    # A sign or an exponent makes no other message.
    for number in ("2.305", "-2.305", "1e-05", "-1.5E+3", "7", "3."):
        assert way("failed", f"boom at {number}, exit 1") == way("failed", "boom at 0.5, exit 1")


def test_the_time_to_go_is_that_of_the_batches_that_are_left(small: Study) -> None:
    def status_of(further: int, **changes: Any) -> dict[str, Any]:
        iterations = small.config.iterations + further
        return status(Study(small.config.model_copy(update={"iterations": iterations, **changes})))

    assert status_of(0)["seconds_to_go"] == 0.0 and "To go" not in format_status(status_of(0))
    found = status_of(36)  # of 100 s each, as all before
    assert found["seconds_to_go"] == pytest.approx(3600.0)
    assert "To go          1 h at the pace" in format_status(found)
    assert "1 h to go" in one_line(found)
    stop = small.config.stop.model_copy(update={"evaluations": found["evaluations"] + 1})
    few = status_of(36, stop=stop)
    assert few["seconds_to_go"] == pytest.approx(100.0 / small.config.batch_size)


# ---- the file -----------------------------------------------------------------------------------


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.code = ""

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script":
            self.code += data


def test_text_of_users_is_text_and_the_page_refers_to_nothing(small: Study) -> None:
    document = study_page(small)
    tags = Tags()
    tags.feed(document)
    scripts = [a for t, a in tags.found if t == "script"]
    packed = [a for a in scripts if a.get("type") == "application/gzip"]
    assert len(scripts) == len(packed) + 1
    assert "window.hacked" in document and "hacked" not in tags.code
    for tag, attributes in tags.found:
        for name in ("src", "href"):
            value = attributes.get(name)
            assert value is None or value.startswith(("#", "data:")), (tag, value)
    policy = next(a["content"] for t, a in tags.found if a.get("http-equiv"))
    assert "default-src 'none'" in str(policy) and "connect-src 'none'" in str(policy)
    assert study_page(small) == document  # nothing of the clock


# ---- studies and runs ----------------------------------------------------------------------------


def test_of_many_points_a_page_lists_those_that_count_and_says_so(view: View, monkeypatch) -> None:
    """All that a click leads to, the best and the last; and the model is asked of the best alone."""
    every = _listed(view, [])
    assert len(every) == len(view) and _points(view, every, [{}] * len(view))["listed"] is None
    clicked = _drawn(all_figures(view), messages(view))
    assert {*view.improvements} <= clicked <= {*every}
    monkeypatch.setattr("dngo.report.page.MOST_LISTED", 10)
    monkeypatch.setattr("dngo.report.data.MOST_EXPECTED", 10)
    listed = _listed(view, [3])
    assert {3, view.best, *view.last} <= {*listed} and len(listed) < len(view)
    points = _points(view, listed, [{}] * len(view))
    assert points["rows"][0] == [view.id(row) for row in points["listed"]]
    page = Page(title="", headline="", figures=[], points=points).render()
    assert f"{len(listed)} of {len(view)} points are listed" in page
    some = replace(view)  # knows nothing yet
    known = np.isfinite(some.expected[0])
    assert known.any() and known.sum() < len(view)
    np.testing.assert_allclose(some.expected[0][known], view.expected[0][known], rtol=1e-9)
    assert some.ranking("model")[0] == view.ranking("model")[0]


def test_compare_sets_studies_side_by_side(small: Study, tmp_path: Path, capsys) -> None:
    old = Path(__file__).parent / "data" / "archives" / "v1-auto.h5"
    page = tmp_path / "compared.html"
    assert main(["compare", str(small.folder), str(old), "--html", str(page)]) == 0
    text = capsys.readouterr().out
    assert "synthetic" in text and "best after 20" in text
    assert "figure-comparison" in page.read_text()
    found = rows(read([str(small.folder), str(old)]))
    table = archive.read_table(small.archive)
    first = table.objective[:20][table.status[:20] == "ok"]
    assert found[0]["best_at_common"] == first.min()
    # What was lost or stopped says nothing about its point, here as in the status.
    view = View.of(small.archive)
    ended = np.where(view.failed, "stopped", view.table.status)
    (row,) = rows([altered(view, status=ended)])
    assert row["feasible_share"] == view.ok.sum() / (~view.failed).sum()
    shown = text_of([{**row, "feasible_share": None}])
    assert next(s for s in shown.splitlines() if "feasible" in s).split() == ["feasible", "-"]
    assert main(["compare", str(tmp_path / "none")]) == 1
    assert "\n" not in capsys.readouterr().err.strip()


@pytest.mark.full
def test_a_report_that_fails_stops_no_study(toy: Any, monkeypatch, tmp_path: Path) -> None:
    study: Toy = toy(iterations=0)
    broken = tmp_path / "broken" / "plotly"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('no plotly here')\n")
    monkeypatch.setenv("PYTHONPATH", str(broken.parent))
    study.snakemake(check=False)
    assert len(archive.read_table(study.archive)) == 8
    assert set(study.evaluations().values()) == {1}
    monkeypatch.undo()
    # Only the report is left to do, and then nothing.
    study.snakemake()
    assert (study.results / "report" / "report.html").exists()
    assert set(study.evaluations().values()) == {1} and len(study.evaluations()) == 8
    assert "Nothing to be done" in study.snakemake()


# ---- Which models proposed a batch: what the archive says of it, in status, audit and report


def test_shares_are_those_of_the_picks_and_of_the_mixture() -> None:
    sources = ["local:thompson"] * 4 + ["local:step"] + ["thompson"] * 4 + ["api"]
    found = models_of(sources, {PROCESS: 0.75, NETWORKS: 0.25})
    assert found == pytest.approx({LOCAL: 0.4, PROCESS: 0.3, NONE: 0.2, NETWORKS: 0.1})
    assert list(found) == [LOCAL, PROCESS, NONE, NETWORKS]
    assert sum(found.values()) == pytest.approx(1)
    assert models_of(["design:sobol", "default"], {}) == {NONE: 1.0}
