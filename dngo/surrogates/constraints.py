"""Fitting a classifier to a constraint: an ensemble of networks, each with a Bayesian head."""

from __future__ import annotations

import numpy as np

from dngo.rules import current
from dngo.surrogates.classifier import Classifier, Gaussian
from dngo.surrogates.regression import number_of_folds
from dngo.surrogates.sections import TRAININGS
from dngo.surrogates.settings import ClassifierSettings
from dngo.surrogates.storage import COMPONENTS
from dngo.types import Array, Progress, Rows


def fit_classifier(
    x: Array,
    labels: Array,
    settings: ClassifierSettings,
    *,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> Classifier:
    """x: (n, d) unit cube; labels: (n,) 1 satisfied, 0 violated, NaN unknown.

    As in the regression, network k leaves out a fold. The prior precision of the weights is the one
    that predicts left-out labels best. On its own training points a network separates the classes
    perfectly, so they would make it certain everywhere.
    """
    known = ~np.isnan(labels)
    x, labels = x[known], labels[known]
    constant = (labels.sum() + 1.0) / (len(labels) + 2.0)
    if len(np.unique(labels)) < 2:
        return Classifier((), float(constant))
    folding, training_rng, choosing = rng.spawn(3)
    fold = _stratified_folds(labels, number_of_folds(settings.networks.ensemble), folding)
    if settings.calibration == "out_of_fold":
        training = [np.flatnonzero(fold != k) for k in range(settings.networks.ensemble)]
    else:
        training = [np.arange(len(x))] * settings.networks.ensemble
    train = TRAININGS.find("map")  # which imports torch
    networks = train(
        x, labels, training, settings.networks, loss="logistic", rng=training_rng, progress=progress
    )
    heads, score, rules = COMPONENTS.find(settings.likelihood), float("nan"), current().classifier
    x, labels, fold = _some(choosing, rules.most, x, labels, fold)
    features = [network.features(x) for network in networks]
    precision = 1.0
    if settings.calibration == "out_of_fold":
        some, known, held = _some(choosing, rules.most_judged, np.arange(len(x)), labels, fold)
        scores = _left_out([phi[some] for phi in features], known, held, heads)
        precision = rules.precisions[int(np.argmax(scores))]
        score = float(scores.max() / np.sum(held < len(networks)))
    members = tuple(
        (network, heads.fit(phi, labels, _prior(precision, phi.shape[1])))
        for network, phi in zip(networks, features, strict=True)
    )
    return Classifier(members, float(constant), score)


def _some(rng: np.random.Generator, most: int, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
    """The same random rows of each array (n, ...), in order; all rows if there are at most
    `most`."""
    n = len(arrays[0])
    if n <= most:
        return arrays
    rows = np.sort(rng.choice(n, most, replace=False))
    return tuple(array[rows] for array in arrays)


def _left_out(features: list[Array], labels: Array, fold: Rows, heads: type[Gaussian]) -> Array:
    """Sum of the log probabilities of left-out labels (n,), for each precision."""
    precisions = current().classifier.precisions
    scores = np.zeros(len(precisions))
    for k, phi in enumerate(features):
        seen, unseen = fold != k, fold == k
        start = None
        for i in reversed(range(len(scores))):
            prior = _prior(precisions[i], phi.shape[1])
            head = heads.fit(phi[seen], labels[seen], prior, start)
            start = head.mean
            p = np.clip(head.probability(phi[unseen]), 1e-12, 1 - 1e-12)
            scores[i] += float(np.sum(np.log(np.where(labels[unseen] == 1, p, 1 - p))))
    return scores


def _prior(precision: float, size: int) -> Array:
    vector = np.full(size, precision)
    vector[-1] = current().classifier.intercept_precision
    return vector


def _stratified_folds(labels: Array, number: int, rng: np.random.Generator) -> Rows:
    """Folds with an even share of each class: (n,)."""
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    fold = np.empty(len(labels), dtype=np.intp)
    fold[order] = np.arange(len(labels)) % number
    return fold
