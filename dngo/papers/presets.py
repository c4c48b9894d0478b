"""The systems of five papers, each as published: docs/presets.md says where its paper states each key.

A preset changes only if it was wrong. A study's archive holds all keys with which it was made, and
a replay uses those.
"""

from __future__ import annotations

from typing import Any

from dngo.presets import Preset

# Expected improvement, weighted only by feasibility. There are no trust regions, no distance
# between points and no picks for the boundary; no point is evaluated twice, and improvement never
# counts as vanished.
PLAIN: dict[str, Any] = {
    "kind": "mcei",
    "per": None,
    "trust_region_share": 0.0,
    "spacing": 0.0,
    "min_feasibility": 0.0,
    "boundary_every": 0,
    "replicates": "never",
    "vanishing": 0.0,
    "when_vanished": "thompson",
    "fantasies": 10,
}
DEFAULT: dict[str, Any] = {}  # of papers without constraints
TANH: dict[str, Any] = {"layers": 3, "width": 50, "activation": "tanh"}
SGD: dict[str, Any] = {
    "optimizer": "sgd",
    "learning_rate": 0.01,
    "weight_decay": 1e-4,
    "steps": 1000,
    "epochs": 40,
    "minibatch": 256,
    "ensemble": 1,
}
# The paper tuned its training on the values that searches reach (section 3.1.1), not on densities.
TUNED: dict[str, Any] = SGD | {
    "learning_rate": 0.1,
    "weight_decay": 0.003,
    "epochs": 300,
    "minibatch": 10,
}

SNOEK_2015 = "Snoek et al. 2015, Scalable Bayesian Optimization Using Deep Neural Networks"
SNOEK_2012 = (
    "Snoek, Larochelle and Adams 2012, Practical Bayesian Optimization of Machine Learning "
    "Algorithms"
)
SPRINGENBERG = (
    "Springenberg et al. 2016, Bayesian Optimization with Robust Bayesian Neural Networks"
)
BROFOS = (
    "Brofos, Shu and Jin 2015, Adaptive Neural Network Representations for Parallel and Scalable "
    "Bayesian Optimization"
)


def _dngo(equations: str) -> dict[str, Any]:
    return {
        "surrogate": {
            "kind": "adaptive_basis",
            "calibration": "in_sample",
            "training": "map",
            "prior_mean": "quadratic",
            "equations": equations,
            "hyperparameter_samples": 10,
            "warp": False,
            "learn_infeasible": False,
            "networks": TANH | TUNED,
        },
        "classifier": {
            "likelihood": "logistic",
            "calibration": "in_sample",
            "networks": TANH | SGD,
        },
        "acquisition": PLAIN | {"noisy_improvement": True},
    }


def _process(per: str | None) -> dict[str, Any]:
    return {
        "surrogate": {
            "kind": "gp",
            "kernel": "matern52",
            "ard": True,
            "hyperparameter_samples": 10,
            "warp": False,
            "learn_infeasible": False,
        },
        "classifier": DEFAULT,
        "acquisition": PLAIN | {"noisy_improvement": False, "per": per},
    }


_BOHAMIANN: dict[str, Any] = {
    "surrogate": {
        "kind": "bohamiann",
        "posterior_samples": 50,
        "chains": 1,
        "burn_in": 2000,
        "thin": 100,
        "heteroscedastic": False,
        "warp": False,
        "learn_infeasible": False,
        "networks": {"layers": 3, "width": 50, "minibatch": 256},
    },
    "classifier": DEFAULT,
    "acquisition": PLAIN | {"noisy_improvement": True},
}

DNGO = Preset(
    f"{SNOEK_2015}, with what has been learnt since: docs/presets.md names it",
    {
        "surrogate": {
            "kind": "adaptive_basis",
            "learn_infeasible": False,
            "networks": {"ensemble": 4, "steps": 200},
        },
        "classifier": DEFAULT,
        "acquisition": PLAIN | {"noisy_improvement": False},
    },
)
DNGO_2015 = Preset(f"{SNOEK_2015}, ICML", _dngo("final"))
DNGO_PREPRINT = Preset(f"{SNOEK_2015}, arXiv:1502.05700v1", _dngo("preprint"))
GP_EI_MCMC_2012 = Preset(SNOEK_2012, _process(None))
GP_EI_PER_SECOND_2012 = Preset(f"{SNOEK_2012}, section 3.2", _process("duration"))
BOHAMIANN_2016 = Preset(SPRINGENBERG, _BOHAMIANN)
BOHAMIANN_2016_TRANSFER = Preset(
    f"{SPRINGENBERG}, section 6.2",
    _BOHAMIANN | {"design": {"size": 1, "include_default": False}},
    needs={"transfer": "the archives of the related tasks"},
)
BROFOS_2015 = Preset(
    BROFOS,
    {
        "surrogate": {
            "kind": "least_squares",
            "relearn_every": 1,
            "warp": False,
            "learn_infeasible": False,
            "networks": TANH
            | {name: SGD[name] for name in SGD if name != "ensemble"}
            | {"momentum": 0.0, "learning_rate": 0.1},
        },
        "classifier": DEFAULT,
        "acquisition": PLAIN
        | {"noisy_improvement": True, "when_vanished": "explore", "vanishing": 1e-3},
        "design": {"size": 50, "include_default": False},
    },
)
