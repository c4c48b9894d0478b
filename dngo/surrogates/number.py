"""The model of one number: an objective, or a number with a threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dngo.rules import current
from dngo.surrogates.data import EarlierTask, TargetScale, TrainingData
from dngo.surrogates.lessons import key_of, recalled, taught
from dngo.surrogates.model import Model
from dngo.surrogates.problem import Lesson, Past, Problem, ReportedNoise
from dngo.surrogates.settings import SurrogateKind
from dngo.surrogates.warping import choose_scale
from dngo.types import Array, Mask, Progress


def fit_number(
    data: TrainingData,
    settings: SurrogateKind,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
    past: Past | None = None,
    best: Array | None = None,
) -> Model:
    """A model of the objective in the data, empty without any value.

    best: (m, d) the study's best points, for a number with a threshold.
    """
    data = _some(data, np.isfinite(data.y))
    if not len(data.y):
        return Model((), TargetScale(0.0, 1.0, 0.0, 1.0), {})
    problem, scale, found = _posed(data, _teachers(data, settings), settings, rng)
    problem = replace(problem, past=past, best=best)
    fit = settings.fit(problem, rng=rng, progress=progress)
    return Model(fit.components, scale, {}, {**found, **fit.diagnostics})


def _teachers(data: TrainingData, settings: SurrogateKind) -> Mask | None:
    """Which rows teach what is learnt slowly; None: all of them, and nothing is kept.

    A row whose outcome is a surprise to what was learnt teaches as well, with all before it.
    """
    if data.batch is None or len(data.y) > settings.reuses_up_to:
        return None
    teach = taught(data.batch)
    while not teach.all():
        model = _lesson(_some(data, teach), settings)
        later = _some(data, ~teach)
        x = np.hstack([later.x, np.zeros((len(later.x), len(data.earlier)))])
        mean, deviation = model.normal(x)
        far = np.abs(model.scale.to_model(later.y) - mean) > current().lessons.surprised * deviation
        if not far.any():
            break
        teach = data.batch <= data.batch[~teach][far].min()
    return teach


def _lesson(data: TrainingData, settings: SurrogateKind) -> Model:
    """The model of the rows that teach, a function of these alone."""

    def fitted(rng: np.random.Generator) -> Model:
        problem, scale, _ = _posed(data, np.isfinite(data.y), settings, rng)
        return Model(settings.fit(problem, rng=rng).components, scale, {})

    return recalled(key_of(_key(data, settings), "model"), fitted)


def _posed(
    data: TrainingData, teach: Mask | None, settings: SurrogateKind, rng: np.random.Generator
) -> tuple[Problem, TargetScale, dict[str, float]]:
    """The input of the surrogate, the scale of this study's objective, and diagnostics.

    teach: as from `_teachers`.
    """
    lesson = data if teach is None else _some(data, teach)
    tasks = _tasks(lesson)
    # All tasks have the same power and the same share on the floor. They are chosen by the task
    # with most observations.
    most = max(tasks, key=lambda task: len(task.y))

    def choose(own: np.random.Generator) -> tuple[TargetScale, dict[str, float]]:
        return choose_scale(most.x, most.y, settings, rng=own, groups=data.groups)

    (choosing,) = rng.spawn(1)
    key = b"" if teach is None else _key(lesson, settings)
    chosen, found = recalled(key_of(key, "scale"), choose) if key else choose(choosing)
    power, floor = chosen.power, found.get("floor")
    scales = [
        chosen if t is most else TargetScale.fit(t.y, power, floor, tails=chosen.tails)
        for t in tasks
    ]
    problem, scale = _problem(lesson, scales, settings), scales[0]
    if teach is not None:
        others = np.ones(len(problem.x) - len(lesson.y), dtype=bool)
        slow = Lesson(problem, np.concatenate([teach, others]), key)
        scale = scale.covering(data.y)
        problem = replace(_problem(data, [scale, *scales[1:]], settings), lesson=slow)
        found = {**found, "taught": len(lesson.y)}
    return problem, scale, found


def _problem(data: TrainingData, scales: list[TargetScale], settings: SurrogateKind) -> Problem:
    """All rows and those of earlier tasks, each task on its own scale."""
    tasks = _tasks(data)
    x = np.concatenate([t.x for t in tasks])
    targets = np.concatenate([s.to_model(t.y) for s, t in zip(scales, tasks, strict=True)])
    task = np.repeat(np.arange(len(tasks)), [len(t.y) for t in tasks]) if data.earlier else None
    batch, noise, n = data.batch, None, len(data.y)
    if batch is not None:
        batch = np.concatenate([batch, np.full(len(x) - n, -1)])
    if data.noise is not None:
        variance = np.full(len(x), np.nan)
        variance[:n] = (data.noise * np.exp(scales[0].log_slope(data.y))) ** 2
        noise = ReportedNoise.of(variance)
    found = Problem(x, targets, batch, task, noise=noise, groups=data.groups)
    return found if settings.embeds_tasks else found.with_tasks_as_inputs()


def _tasks(data: TrainingData) -> list[EarlierTask]:
    """This study and the earlier ones."""
    return [EarlierTask(data.x, data.y), *data.earlier]


def _some(data: TrainingData, rows: Mask) -> TrainingData:
    """The objective of some rows, beside all of the earlier tasks."""
    noise, batch = (None if a is None else a[rows] for a in (data.noise, data.batch))
    return TrainingData(
        data.x[rows],
        data.y[rows],
        noise=noise,
        batch=batch,
        groups=data.groups,
        earlier=data.earlier,
    )


def _key(data: TrainingData, settings: SurrogateKind) -> bytes:
    """Of all that decides what is learnt from the data."""
    tasks = [part for task in _tasks(data) for part in (task.x, task.y)]
    kind = f"{type(settings).__name__} {settings.model_dump_json()}"
    return key_of(kind, data.groups, data.noise, *tasks)
