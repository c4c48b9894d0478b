"""The numbers that decide how batches are chosen. Each says what it gains, or that it was not
measured."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class DescentRules:
    """How a function is searched: by shrinking random steps from the best point so far.

    The numbers were chosen on trust regions in ten and twenty inputs, and not measured one by one.
    """

    # Steps of a round, and the largest step in units of the box; `_wide` if the box is the whole space.
    children: int = 20
    children_wide: int = 16
    step: float = 0.3
    step_wide: float = 0.15
    rounds: int = 6  # each halves the largest step
    # How many of its best shared points a function may fall back on, if other functions took its
    # minimum.
    offered: int = 8
    # At most so many evaluations of each function then follow its gradient. Random steps alone do
    # not find the floor of a long, turned valley. An analytic slope counts as one evaluation, a
    # slope by differences as two for each parameter. Trust regions alone end twice as high without
    # the gradient in five inputs, and three times as high by differences in ten
    # (benchmarks/tried.md, the trust regions' model).
    along_gradient: int = 120
    # step of the gradient's central differences, in units of the largest step
    difference: float = 0.02
    # how many lengths of a step are compared
    trials: tuple[float, ...] = (2.0, 1.0, 0.5, 0.2, 0.04)
    # Points at which all functions of a box are evaluated first. Then each is searched by itself.
    shared: int = 1024
    # The largest factor on a draw's deviation from the mean. Factors are spread evenly from 0 on.
    # So a batch has points where the model is sure, and points where it may be wrong. Trust regions
    # alone end 2.4 times as high with 0.5, and 1.2 times with 1.5 (geometric means of 39 runs in
    # five inputs).
    boldest: float = 1.0


@dataclass(frozen=True, kw_only=True)
class AscentRules:
    """How a hill of the acquisition is climbed. The climb starts where the random rounds ended.
    Four ascents then raised the acquisition's logarithm by 0.26, in the mean of twenty fits with 2
    to 20 inputs."""

    # Points in a climb. With 400 the gain above was 0.256, and with 1,500 it is 0.264.
    points: int = 700
    # If two candidates are closer than this root mean square distance, only one is climbed from.
    # Not measured.
    same_hill: float = 0.05


@dataclass(frozen=True, kw_only=True)
class BeyondRules:
    """When picks go beyond the edge of what is feasible, and how many.

    Chosen on Gramacy's toy, then tried on functions with other pockets and without any
    (benchmarks/tried.md, beyond the edge).
    """

    share: float = 0.5  # of a batch
    # Picks go beyond the edge if expected improvement, weighted by feasibility, is higher than this
    # there, in deviations of the targets. Once the best point is found it is near 0.01, and then
    # most of these picks would fail.
    worth: float = 0.02
    # A gain is little if it is less than this share of the highest expected improvement, weighted
    # by feasibility.
    little: float = 0.2
    # "The last evaluations" are the last batch, and at least so many for each parameter.
    last_for_each: int = 2


@dataclass(frozen=True, kw_only=True)
class CandidateRules:
    """Where candidates lie, and how many are worth their cost. No number was measured by itself."""

    # Scales of local steps, in units of a parameter's range: the smallest finds the last digits of an
    # optimum, the largest the next hill.
    smallest: float = 1e-4
    largest: float = 0.3
    # A design in the feasible part is chosen from 2^n times as many points, so that it is spread
    # evenly.
    spread_of: int = 2
    # Values count as a lattice if this share of them occurs more than once. Not measured.
    shared: float = 0.3
    # Share of the uniform candidates that is drawn from people's priors, if there are any.
    believed: float = 0.25
    # Share of the picks that try untried levels of categories, once these promise most. Not measured
    # on whole studies.
    untried: float = 0.75


@dataclass(frozen=True, kw_only=True)
class FeasibilityRules:
    """How likely to hold all constraints a pick must be, beside `min_feasibility`."""

    # A pick on the boundary needs only this share of min_feasibility. So points that are probably
    # infeasible correct a boundary that the model draws too tightly. Not measured by itself.
    on_boundary: float = 0.25
    # If no candidate is feasible enough, a pick needs this share of the likeliest candidate's
    # feasibility.
    nearly: float = 0.9
    # As long as no point is feasible and the models expect or find less than one in a batch, this share
    # of the picks is near the points that violate least (benchmarks/tried.md, a first feasible point).
    # Only this value was measured.
    nearer: float = 0.5


@dataclass(frozen=True, kw_only=True)
class FrontRules:
    """What picks aim at if there are several objectives, and how they are found.

    Few of the numbers were measured one by one (benchmarks/front.py).
    """

    # Rays begin this far beyond the front's worst values, in units of its extent. So its ends count
    # as well.
    beyond: float = 0.1
    # The known points may all lie at one end of the front. So one in so many picks is for an end.
    # Its ray begins where one objective has its best known value, and the others are as bad as this
    # quantile of the first outcomes. With two of three seeds ZDT2 ended at 0.25 of the best
    # hypervolume without such rays, and above 0.9 with them.
    ends_every: int = 5
    high: float = 0.9
    # Least part of a ray, as a share of its largest part. With 0 an objective would not count at
    # all.
    least: float = 0.02
    # Weight of the sum of all objectives. The highest objective counts fully; the sum decides
    # between points with equal highest ones.
    augmented: float = 0.05
    many: int = 5  # objectives: a hypervolume then takes long
    # Share of a batch for boxes along the front: at first, at least, and at most. The study's
    # course moves it between these.
    share: float = 0.75
    least_share: float = 0.4
    most_share: float = 0.9
    # Half the side of the smallest box, in units of a parameter's range. Boxes grow if more than this
    # share (`often`) of the evaluations in them joined the front, and shrink if less than half as many
    # did. Their size is reconsidered after at least so many evaluations (`block`).
    smallest: float = 1e-3
    often: float = 0.2
    growth: float = 1.5
    block: int = 16
    boxes: int = 16  # in a batch
    picks_of_a_box: int = 2  # at least so many points for each box, or there are fewer boxes
    # The largest factor on a draw's deviation from the mean; factors are spread evenly from 0. It
    # may be small, because the aims of a batch already lie apart. After 40 + 10 x 10 evaluations,
    # DTLZ2 in six inputs had 0.85 of the best hypervolume with 0.4, and 0.83 with 1. ZDT1 in ten
    # inputs had the same with both.
    boldest: float = 0.4
    # Functions that are searched for each pick of a small batch. The functions that add most to the
    # front are followed (benchmarks/tried.md, several objectives).
    functions_for_each: int = 4
    # Share of a batch that looks again at points of a noisy front. With it, and with batches chosen
    # by means, the stated front is 1.04 times as large (benchmarks/tried.md, several objectives).
    again: float = 0.2


@dataclass(frozen=True, kw_only=True)
class ImprovementRules:
    """How the acquisition is maximised. Shrinking steps find the hill, then its gradient finds the top.

    The ascent raised expected improvement by 1 to 17 %, compared with where the rounds ended. The
    numbers below were not measured one by one.
    """

    parents: int = 16  # the best candidates, around which a round tries new ones
    children: int = 512  # new candidates in a round
    first_step: float = 0.1  # largest step of the first round, in units of a parameter's range
    shrinking: float = 0.3  # factor on the largest step, from round to round
    # Most picks of a batch by improvement. Further ones are draws, whose cost does not grow with
    # the picks before them.
    most_picks: int = 1000
    listed_for_each: int = 10  # candidates on the shortlist for each pick, at least
    # Fantasies of all samples of one kind of component together, at least. Without this a sparse
    # process with two samples had twenty.
    fewest_fantasies: int = 50
    # shortlisted candidates among which the largest predictive deviation is looked for
    measured_on: int = 256


@dataclass(frozen=True, kw_only=True)
class FidelityRules:
    """Where new points of a study with a fidelity are evaluated first; benchmarks/tried.md."""

    near: int = 1  # the first level of new points near the best ones; 0 is the lowest


@dataclass(frozen=True, kw_only=True)
class JointRules:
    """How functions are drawn for a batch that is chosen by them together. Two laws hold with these
    numbers (tests/test_acquisition_joint.py); none was measured by itself."""

    for_each: int = 2  # functions for each pick
    least: int = 256  # functions for a small batch
    most: int = 1024  # functions drawn together; of a larger batch the rest follows with new ones
    minima: int = 2  # candidates of each function
    by_mean: int = 64  # candidates by the mean of all functions
    shifts: int = 4  # pairs of places where inputs that waver may be


@dataclass(frozen=True, kw_only=True)
class OutlookRules:
    """How functions are drawn and searched. Not measured one by one."""

    functions: int = 128
    uniform: int = 2048
    local: int = 1024
    incumbents: int = 8
    feasible: float = 0.5  # least probability at a function's minimum


@dataclass(frozen=True, kw_only=True)
class RegionRules:
    """Where regions lie, how large they are, and how many picks they get."""

    # Half the side of a box, in units of a parameter's range: from 0.8 of the space down to an optimum's
    # last digits. Not measured.
    largest: float = 0.4
    smallest: float = 1e-4
    # A smaller gain, in units of the targets' deviation, does not count; otherwise noise would keep
    # a box open. Not measured.
    improved: float = 1e-3
    # A point has a region of its own if all better points are far away: this many times farther
    # than usual (nearest-better clustering, Preuss 2010), and at least this root mean square
    # distance. The second number matters once a search has converged, because gaps are then small
    # everywhere. Not measured one by one.
    detached: float = 2.0
    apart: float = 0.15
    most: int = 16  # most regions in the list; a batch models the first few (`search.regions`)
    # Regions, and the rest of the space, start as if one of so many points had gained. So shares
    # change slowly. Not measured.
    nothing_known: float = 10.0
    most_share: float = 0.95  # most of a batch for regions; the rest looks elsewhere


@dataclass(frozen=True, kw_only=True)
class RegionSearchRules:
    """How a region is modelled, and how the functions drawn there are minimised."""

    regions: int = 4  # most regions in a batch; each costs a fit
    # A box is reconsidered after half as many evaluations as a batch has picks, since a quarter of
    # the picks search elsewhere. It needs at least so many evaluations for each parameter, and so
    # many in all.
    block_for_each: int = 2
    block_least: int = 8
    # If walls surround a floor, a model of all points learns the walls. Then the lowest points have
    # a model of their own, for half of the functions. It is fitted to this share of the points, and
    # to at least one for each quadratic. It is used if it predicts them, left out one by one,
    # better by so many nats each. Sectors in ten inputs end 0.25 times as high; 0.33 and 0.5 of the
    # points do about as well (benchmarks/tried.md, walls and floors).
    lowest_share: float = 0.2
    lowest_least: int = 20  # with fewer points there is no such model; not measured
    # One function in so many searches the whole space. From few points the model learns a sum over
    # the parameters. In some parameters, such a sum may be lowest far away. Levy with 20 inputs:
    # 1.2 with one in four, 9.2 without (benchmarks/tried.md, the trust regions' width).
    wide_every: int = 4
    # A gain counts if it is larger than a model's noise. If the noise is large, a gain must exceed
    # so many deviations of the model's targets.
    coarsest: float = 1e-3
    # A gain of less than this, in units of the targets' deviation, is never followed. Not measured.
    finest: float = 1e-9
    # Of the functions that promise no improvement, one in so many is followed nevertheless.
    kept_every: int = 4


@dataclass(frozen=True, kw_only=True)
class ShortlistRules:
    """How many candidates are evaluated again for each pick: each costs time.

    The sum of the picks' values is within a tenth of the sum with all candidates evaluated again. A
    test checks it.
    """

    block: int = 16  # evaluated at once while looking for the best


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """When picks are random steps, and how large these are (benchmarks/tried.md, without a
    model)."""

    # Close points have similar outcomes if their ranks differ little: by less than `alike` times
    # what the ranks of farther neighbours differ by, or `ranks` times the overall difference, if
    # that is more. The rows with the nearest neighbours decide, unless a neighbour is farther than
    # `near` of the median distance.
    closest: int = 8
    near: float = 0.1
    farther: int = 24
    alike: float = 0.4
    ranks: float = 0.1
    # The smallest step's scale, in units of the largest. Steps keep only this share of the usual
    # distance between picks, because only so fine a search gains.
    smallest: float = 1e-3
    spacing: float = 0.01
    # As long as it is not known whether steps help, one in so many of a batch's picks is a step,
    # and at least so many are. The largest step is then shorter by this factor.
    probes: int = 4
    least_probes: int = 8
    probing: float = 0.1
    children: int = 16  # points tried for each pick: the likeliest feasible one is taken


@dataclass(frozen=True, kw_only=True)
class AcquisitionRules:
    """One branch for each module of `dngo.acquisition` that uses such numbers."""

    ascent: AscentRules = field(default_factory=AscentRules)
    beyond: BeyondRules = field(default_factory=BeyondRules)
    candidates: CandidateRules = field(default_factory=CandidateRules)
    descent: DescentRules = field(default_factory=DescentRules)
    feasibility: FeasibilityRules = field(default_factory=FeasibilityRules)
    fidelity: FidelityRules = field(default_factory=FidelityRules)
    front: FrontRules = field(default_factory=FrontRules)
    improvement: ImprovementRules = field(default_factory=ImprovementRules)
    joint: JointRules = field(default_factory=JointRules)
    outlook: OutlookRules = field(default_factory=OutlookRules)
    regions: RegionRules = field(default_factory=RegionRules)
    search: RegionSearchRules = field(default_factory=RegionSearchRules)
    shortlist: ShortlistRules = field(default_factory=ShortlistRules)
    steps: StepRules = field(default_factory=StepRules)
