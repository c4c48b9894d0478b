"""The `surrogate:` section of the configuration. Imports nothing heavy."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class SurrogateSettings(BaseModel):
    """How the objective and the constraints are modelled (Snoek et al. 2015, section 3)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["auto", "adaptive_basis", "gp", "bohamiann", "least_squares"] = Field(
        default="auto",
        description="auto: gp and adaptive_basis in a mixture, weighted by how well each predicts "
        "observations it has not seen, the process sparse beyond gp_limit. adaptive_basis: "
        "Bayesian linear regression on the last hidden layer of a neural network, of a cost linear "
        "in the observations. gp: an exact Gaussian process (Snoek et al. 2012), better with few "
        "observations, of a cost cubic in them. bohamiann: a neural network whose weights are "
        "sampled by Hamiltonian Monte Carlo (Springenberg et al. 2016). least_squares: ordinary "
        "least squares on the last hidden layer of one network (Brofos, Shu and Jin 2015).",
    )
    kernel: Literal["matern52", "matern32", "squared_exponential"] = Field(
        default="matern52", description="Covariance function of the Gaussian process."
    )
    gp_limit: int = Field(
        default=300,
        ge=0,
        description="Most observations with which auto fits an exact Gaussian process; beyond, a "
        "sparse one.",
    )
    inducing: int = Field(
        default=200,
        ge=0,
        le=2000,
        description="Inducing inputs of the sparse Gaussian process, of a cost linear in the "
        "observations; 0: none, so that auto is adaptive_basis beyond gp_limit.",
    )
    ard: bool = Field(
        default=True,
        description="A lengthscale for each input of the Gaussian process, or one for all.",
    )
    warp: bool = Field(
        default=True,
        description="Model a power transform of the objective, chosen by evidence, where it is "
        "skewed; improvement is then counted on that scale.",
    )
    highest_power: float = Field(
        default=2.0,
        ge=1,
        le=2,
        description="Largest power of that transform. Over 1 it draws low values together, which "
        "describes an objective with narrow holes far better; 1: never.",
    )
    constraint_likelihood: Literal["logistic", "step"] = Field(
        default="logistic",
        description="How a constraint's flag comes about (section 3.2). logistic: by chance near "
        "the boundary. step: without any; for constraints that are sure to be the same again.",
    )
    calibration: Literal["out_of_fold", "in_sample"] = Field(
        default="out_of_fold",
        description="Where the predictive variance is learnt. out_of_fold: each network leaves out "
        "one fold and the hyperparameters are sampled from the likelihood of what was left out. "
        "in_sample: the paper's recipe, the evidence (8) of the points the networks were trained "
        "on; overconfident, kept for comparison.",
    )
    networks: int = Field(
        default=5, ge=1, le=64, description="Networks in the ensemble; the paper has one."
    )
    layers: int = Field(default=3, ge=1, le=8, description="Hidden layers of each network.")
    width: int = Field(default=50, ge=1, le=1024, description="Units in each hidden layer.")
    activation: Literal["tanh", "relu_tanh", "relu"] = Field(
        default="tanh",
        description="tanh in every hidden layer, or relu with a tanh in the last one only "
        "(section 3.1.1), for objectives that are not smooth, or relu in all of them.",
    )
    device: Literal["cpu", "cuda"] = Field(
        default="cpu",
        description="Where the networks are trained. cuda: on a GPU with PyTorch, for many "
        "observations and wide networks; what is predicted agrees to a tenth of its "
        "deviation, and replay needs a GPU too.",
    )
    training: Literal["map", "evidence"] = Field(
        default="map",
        description="What the networks are trained for: map, a point estimate of all weights; "
        "evidence, the marginal likelihood (8) of the last layer (section 3.1.2), slower.",
    )
    prior_mean: Literal["constant", "quadratic"] = Field(
        default="constant",
        description="Mean of the objective before any observation. quadratic: a bowl of uncertain "
        "centre and widths, equation (9); for calibration in_sample only.",
    )
    optimizer: Literal["adam", "sgd"] = Field(
        default="adam", description="How the networks are trained; the paper has sgd with momentum."
    )
    momentum: float = Field(default=0.9, ge=0, lt=1, description="Of sgd.")
    learning_rate: float = Field(
        default=0.01,
        gt=0,
        description="The optimizer's largest step; it falls to zero along a cosine.",
    )
    weight_decay: float = Field(
        default=0.03,
        ge=0,
        description="Decay of the networks' weights: decoupled with adam, an l2 penalty with sgd.",
    )
    minibatch: int = Field(
        default=256, ge=1, description="Observations in one training step, at most."
    )
    steps: int = Field(default=1000, ge=0, description="Training steps, at least.")
    epochs: int = Field(
        default=40,
        ge=0,
        description="Passes over the observations, at least; with many observations this decides, "
        "and the cost of a fit is linear in their number.",
    )
    hyperparameter_samples: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Slice samples of alpha and beta that every prediction is averaged over.",
    )

    posterior_samples: int = Field(
        default=50, ge=2, le=1000, description="Networks that bohamiann keeps; the paper has 50."
    )
    chains: int = Field(
        default=10,
        ge=1,
        le=1000,
        description="Chains of bohamiann's sampler, side by side; they share the burn-in's scales.",
    )
    burn_in: int = Field(
        default=2000, ge=0, description="Steps of each chain before the first network is kept."
    )
    thin: int = Field(default=100, ge=1, description="Steps between networks kept of one chain.")
    relearn_every: int = Field(
        default=1,
        ge=1,
        description="The network of least_squares is trained anew after so many iterations; the "
        "regression on its last layer takes in the new observations of every iteration.",
    )
    heteroscedastic: bool = Field(
        default=False,
        description="Let the noise depend on the parameters, as the second output of bohamiann's "
        "network.",
    )

    @model_validator(mode="after")
    def _quadratic_needs_in_sample(self) -> SurrogateSettings:
        if self.prior_mean == "quadratic" and self.calibration != "in_sample":
            raise ValueError("prior_mean: quadratic needs calibration: in_sample")
        return self
