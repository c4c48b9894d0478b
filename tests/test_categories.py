"""Categories: their levels have no order and no distance, in models and in searches alike."""

import numpy as np
from proposing import model_of, propose

from dngo.acquisition import History
from dngo.acquisition.candidates import everything
from dngo.acquisition.settings import AcquisitionSettings
from dngo.acquisition.spacing import Spacing
from dngo.space import Space
from dngo.space.parameters import Categorical, Float
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings


def space(*sizes, numbers=0):
    parameters = {f"x{i}": Float(type="float", low=0, high=1) for i in range(numbers)}
    for j, size in enumerate(sizes):
        choices = [f"l{i}" for i in range(size)]
        parameters[f"y{j}"] = Categorical(type="categorical", choices=choices)
    return Space(parameters)


def table(*sizes):
    rng = np.random.default_rng(3)
    main = np.add.outer(*(rng.standard_normal(size) for size in sizes))
    return main + 0.2 * rng.standard_normal(sizes)


def data(box, v, y):
    return TrainingData(x=box.encode(v), y=y, groups=box.groups)


def test_all_inputs_of_a_parameter_have_one_lengthscale():
    box = space(7, 4, numbers=1)
    rng = np.random.default_rng(0)
    v = box.sample(rng.random((30, box.k)))
    model = fit_model(data(box, v, rng.random(30)), SurrogateSettings(kind="gp"), rng=rng)
    (process,) = model.objective
    for group in np.unique(box.groups):
        lengths = process.log_lengthscales[:, box.groups == group]
        assert np.all(lengths == lengths[:, :1])
    assert len(np.unique(process.log_lengthscales[0])) == 3


def test_the_order_of_the_choices_changes_no_prediction():
    box, rng = space(9, 5), np.random.default_rng(0)
    v, values = box.sample(rng.random((25, 2))), table(9, 5)
    y, every = values[tuple(v.astype(int).T)], everything(box)
    order = rng.permutation(9)
    moved, all_moved = v.copy(), every.copy()
    moved[:, 0], all_moved[:, 0] = order[v[:, 0].astype(int)], order[every[:, 0].astype(int)]
    found = [
        fit_model(data(box, some, y), SurrogateSettings(), rng=np.random.default_rng(1)).predict(
            box.encode(where)
        )
        for some, where in ((v, every), (moved, all_moved))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-5)


def test_levels_that_nobody_has_seen_are_all_alike():
    box, rng = space(40, 3), np.random.default_rng(0)
    v = box.sample(rng.random((20, 2)))
    model = fit_model(data(box, v, rng.random(20)), SurrogateSettings(), rng=rng)
    unseen = [level for level in range(40) if level not in v[:, 0]]
    mean, std = model.predict(box.encode(np.array([[level, 1.0] for level in unseen])))
    np.testing.assert_allclose(mean, mean[0], rtol=1e-9)
    np.testing.assert_allclose(std, std[0], rtol=1e-9)


def test_no_level_is_near_another():
    box = space(300)
    spacing = Spacing(box, History(np.array([[7.0]]), np.zeros(1)), 0.01)
    spacing.add(np.array([[10.0]]))
    assert spacing.first(np.array([[10.0], [11.0]])) == 1
    assert spacing.among(np.array([[9.0], [11.0]])).allowed.all()


CHOICES = Space(
    {
        "x": Float(type="float", low=0, high=1),
        "c": Categorical(type="categorical", choices=[*"abcdefghijkl"]),
    }
)


def settled(levels: int) -> tuple[np.ndarray, np.ndarray]:
    """A search that has found the best x, in some of twelve levels that make no difference."""
    x = 0.3 + 0.4 * 0.5 ** np.arange(24) * np.where(np.arange(24) % 2, 1, -0.6)
    parameters = [{"x": float(a), "c": "abcdefghijkl"[i % levels]} for i, a in enumerate(x)]
    v = CHOICES.from_parameters(parameters)
    return v, (x - 0.3) ** 2 + 0.1


def next_levels(levels: int, size: int) -> list[str]:
    v, y = settled(levels)
    settings = SurrogateSettings(kind="gp", hyperparameter_samples=1)
    model = model_of(CHOICES, v, y, 0, settings, groups=CHOICES.groups)
    how = {"settings": AcquisitionSettings(), "iteration": np.repeat(np.arange(6), 4)}
    found = propose(CHOICES, v, y, size, model=model, **how)
    new = [p["c"] for p in CHOICES.to_parameters(found.v)]
    return [c for c, stage in zip(new, found.stage, strict=True) if stage == "untried"]


def test_untried_levels_are_tried_once_nothing_else_is_promised() -> None:
    tried = next_levels(7, 8)
    assert len(tried) == 5 and set(tried) == set("hijkl")  # all that are left
    assert next_levels(12, 8) == []
