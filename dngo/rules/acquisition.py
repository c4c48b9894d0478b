"""The numbers that batches are chosen by. Each says what it is worth, or that it was not measured."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class DescentRules:
    """How a function is searched: by random steps from the best point so far, which shrink.

    The numbers were chosen on trust regions in ten and twenty inputs, and not measured one by one.
    """

    # Steps of a round, and the largest, in units of the box; both where the box is all of the space.
    children: int = 20
    children_wide: int = 16
    step: float = 0.3
    step_wide: float = 0.15
    rounds: int = 6  # each halves the largest step
    # Best shared points that a function may fall back on, if others took its minimum.
    offered: int = 8
    # Evaluations of each function that its gradient is then followed for, at most: random steps do
    # not find the floor of a long valley that is turned. A slope counts as one where it is written out,
    # and as two for each parameter by differences. Trust regions alone end twice as high without the
    # gradient in five inputs, and in ten three times as high where it is taken by differences
    # (benchmarks/rules.md, the trust regions' model).
    along_gradient: int = 120
    difference: float = 0.02  # of the gradient's central differences, in units of the largest step
    trials: tuple[float, ...] = (2.0, 1.0, 0.5, 0.2, 0.04)  # lengths of a step that are compared
    # Points that all functions share, in a box and in all of the space; there twice the picks at least.
    # Each then goes on by itself. With all of the usual 14,000 a batch of 400 cost a third more, and was no
    # better.
    shared: int = 1024
    shared_wide: int = 4096
    # What a draw's deviation from the mean is multiplied by, at most; from 0, evenly: a batch goes from
    # where the model is sure of little to where it may be wrong. With half of that trust regions alone end
    # 2.4 times as high, with half as much again 1.2 times (geometric means of 39 runs in five inputs,
    # `benchmarks/trust_regions.py`).
    boldest: float = 1.0
    # Functions that are searched at once, in a region and in all of the space: memory, 20 MB.
    at_once: int = 64
    at_once_wide: int = 512


@dataclass(frozen=True, kw_only=True)
class AscentRules:
    """How a hill is climbed. All ascents together gained 1 to 17 % of expected improvement."""

    # Of L-BFGS-B: a climb starts near its top, where refinement ended. Not measured.
    most_steps: int = 20
    # Points in a climb, of which a step takes two for each parameter: with more than 37 there are fewer
    # steps, and with hundreds none. Not measured.
    most_points: int = 1500
    # Root mean square distance below which two candidates are not both worth a climb. Not measured.
    same_hill: float = 0.05


@dataclass(frozen=True, kw_only=True)
class BeyondRules:
    """When picks go beyond the edge, and how many.

    Chosen on Gramacy's toy, and then tried on functions with other pockets and with none
    (benchmarks/rules.md, beyond the edge).
    """

    share: float = 0.5  # of a batch
    # The highest expected improvement weighted by feasibility, in the targets' deviations, that is worth
    # it: it is near 0.01 where the best point is found already, and most of these picks fail.
    worth: float = 0.02
    # What counts as little, of the highest expected improvement weighted by feasibility.
    little: float = 0.2
    # The last evaluations: the last batch, and at least so many for each parameter.
    last_for_each: int = 2


@dataclass(frozen=True, kw_only=True)
class CandidateRules:
    """Where candidates lie, and how many are worth their cost. None was measured by itself."""

    enumerate: int = 20_000  # points of a space that is listed in full, in a fraction of a second
    # Scales of local steps, in units of a parameter's range: from the last digits of an optimum to
    # the next hill.
    smallest: float = 1e-4
    largest: float = 0.3
    # A design of at most so many points in the feasible part is spread, out of 2^n times as many.
    spread: int = 1000
    spread_of: int = 2
    # Numbers that the candidates of one kind have as a model sees them, at most; but so many candidates
    # at least. Not measured.
    most_numbers: int = 2_000_000
    least: int = 1024
    # Share of the outcomes that have their value in common with another one, from which on values are
    # taken for a lattice. Not measured.
    shared: float = 0.3
    # A list's neighbours of one category: all of them, but for absurdly long lists.
    most_neighbours: int = 256
    # Distance of incumbents that are not among the very best, root mean square, and the good points
    # that they, and regions of their own, are looked for among, at the cost of distances each.
    apart: float = 0.1
    looked_among: int = 1000
    # As a share of the uniform candidates, how many are drawn from people's priors, where there are any.
    believed: float = 0.25


@dataclass(frozen=True, kw_only=True)
class FeasibilityRules:
    """How likely to hold all constraints a pick must be, beside `min_feasibility`."""

    # Of min_feasibility, what a pick on the boundary must have: a boundary drawn too tightly is corrected
    # by points that are more likely beyond it than not. Not measured by itself.
    on_boundary: float = 0.25
    # Of the likeliest candidate's feasibility, what the others need where none reaches what is asked.
    nearly: float = 0.9


@dataclass(frozen=True, kw_only=True)
class FrontRules:
    """What picks are for where there are several objectives, and how they are searched for.

    Few of them were measured one by one (benchmarks/front.py).
    """

    # How far beyond the worst values of the front rays begin, in units of its extent: its ends are then
    # worth something too.
    beyond: float = 0.1
    # A front may have collapsed to one of its ends: rays of one in so many picks begin where one of the
    # objectives is as good as is known, and the others are as bad as such a share of the first outcomes.
    # Without them ZDT2 ended at 0.25 of the best hypervolume with two of three seeds, with them above 0.9.
    ends_every: int = 5
    high: float = 0.9
    # Of the largest part of a ray: with none an objective would not count at all.
    least: float = 0.02
    # Of the sum of all objectives beside the highest: of two points that are equal in the highest, the
    # one that is better in others is better.
    augmented: float = 0.05
    # Functions of each objective by which a batch's gain is predicted; fewer where a hypervolume takes
    # long.
    draws: int = 64
    draws_of_many: int = 8
    many: int = 5  # objectives
    # Of a batch, in boxes along the front: where a study begins, and the limits of what its course makes of
    # it. Points, one of which paid, that each place starts with: a share changes slowly.
    share: float = 0.75
    least_share: float = 0.4
    most_share: float = 0.9
    nothing_known: float = 10.0
    # Half the side of a box, in units of a parameter's range. Of the evaluations in boxes: where more of
    # them joined the front, boxes grow, and where less than half as many did they shrink. That is
    # reconsidered after so many evaluations at least, and so many for each parameter.
    largest: float = 0.4
    smallest: float = 1e-3
    often: float = 0.2
    growth: float = 1.5
    block: int = 16
    block_for_each: int = 2
    boxes: int = 16  # in a batch
    picks_of_a_box: int = 2  # at least, or there are fewer boxes
    # What a draw's deviation from the mean is multiplied by, at most; from 0, evenly. The aims of a batch
    # lie apart already: after 40 + 10 x 10 DTLZ2 in six inputs had 0.85 of the best hypervolume with 0.4,
    # and 0.83 with 1; ZDT1 in ten the same.
    boldest: float = 0.4
    # Functions that are searched for each pick, and for a whole batch at most: those that add most to the
    # front are followed (benchmarks/rules.md, several objectives). Of more than 64 picks each has one.
    functions_for_each: int = 4
    most_functions: int = 128
    at_once: int = 256  # functions: memory


@dataclass(frozen=True, kw_only=True)
class ImprovementRules:
    """How the acquisition is maximised. Shrinking steps find the hill, its gradient then the top.

    The ascent gained 1 to 17 % of expected improvement from where the rounds ended; the numbers
    below were not measured one by one.
    """

    parents: int = 16  # the best candidates, which a round's new ones surround
    children: int = 512  # new candidates in a round
    first_step: float = 0.1  # largest step of the first round, in units of a parameter's range
    shrinking: float = 0.3  # of the largest step, from round to round
    # Picks in a batch; the others are draws, whose cost does not grow with those before them.
    most_picks: int = 1000
    listed_for_each: int = 10  # candidates on the shortlist for each pick, at least
    # Fantasies of all samples of a kind of component together: a sparse process with two samples had
    # twenty.
    fewest_fantasies: int = 50
    measured_on: int = 256  # of these, by which the largest predictive deviation is judged


@dataclass(frozen=True, kw_only=True)
class FidelityRules:
    """Where new points of a study with a fidelity are evaluated first; benchmarks/rules.md."""

    near: int = 1  # the level of those near the best points: 0 is the lowest


@dataclass(frozen=True, kw_only=True)
class OutlookRules:
    """How functions are drawn and searched. Not measured one by one."""

    functions: int = 128
    known: int = 1000  # best points that every function is asked at
    uniform: int = 2048
    local: int = 1024
    incumbents: int = 8
    feasible: float = 0.5  # least probability at a function's minimum
    # A batch of fewer points looks ahead once the rows have grown by one in so many. It changes no
    # proposal, and takes a fifth of the time of one.
    few: int = 8
    renewed: int = 10


@dataclass(frozen=True, kw_only=True)
class RegionRules:
    """Where regions lie, how large they are, and how many picks they get."""

    # Half the side of a box, in units of a parameter's range: four fifths of the space at first, and
    # at last what the digits of an optimum need. Not measured.
    largest: float = 0.4
    smallest: float = 1e-4
    # Of the targets' deviation: a smaller step is no improvement. Noise would else keep a box open.
    # Not measured.
    improved: float = 1e-3
    # A point has a region of its own if all better points are so many times farther from it than is
    # usual (nearest-better clustering, Preuss 2010), and so far, root mean square: where a search has
    # converged, small gaps are usual. Not measured one by one.
    detached: float = 2.0
    apart: float = 0.15
    most: int = 16  # regions that are listed; a batch models the first few (`LocalSearch.regions`)
    # Points, one of which paid, that each place starts with: a share changes slowly. Not measured.
    nothing_known: float = 10.0
    most_share: float = 0.95  # of a batch: something is left that looks elsewhere
    # Points of a first batch that the usual share is of. Further ones are all the regions', as to look
    # elsewhere takes a number of points and not a share: 0.92 times as high in 48 batches of 400 after
    # 1,000 points, lower in 11 and higher in 4 (standard error 0.06 of the logarithm).
    shared: int = 200


@dataclass(frozen=True, kw_only=True)
class RegionSearchRules:
    """How a region is modelled, and how the functions drawn there are minimised."""

    regions: int = 4  # in a batch, each at the cost of a fit
    # Evaluations in a box after which it is reconsidered: half of the picks of a batch, as a quarter of
    # them searches elsewhere, but so many for each parameter and so many in all, at least.
    block_for_each: int = 2
    block_least: int = 8
    # Where walls surround a floor, a model of all points knows the walls. The lowest points, such a share
    # of them and one for each quadratic at least, have a model of their own, for half of the functions,
    # where it predicts them better: by so many nats for each, left out one by one. Sectors in ten inputs
    # end 0.25 times as high; 0.33 and 0.5 of the points do about as well (benchmarks/rules.md, walls and
    # floors).
    lowest_share: float = 0.2
    lowest_least: int = 20  # points, or there is no such model; not measured
    most_functions: int = 128  # searched in one region
    # One function in so many searches the whole space: what is a sum over the parameters, which the
    # model learns from few points, may be lowest far away in some of them. Levy with 20 inputs: 1.2
    # with one in four, 9.2 with none (benchmarks/rules.md, the trust regions' width).
    wide_every: int = 4
    # A gain counts if it is larger than a model's noise, or, where the noise is large, than so many
    # deviations of its targets.
    coarsest: float = 1e-3
    # A gain of less is followed nowhere, in units of the targets' deviation. Not measured.
    finest: float = 1e-9
    # Of the functions that promise no improvement, one in so many is followed even so.
    kept_every: int = 4


@dataclass(frozen=True, kw_only=True)
class ShortlistRules:
    """How many candidates a pick evaluates again, at a cost each (benchmarks/picks.py).

    The sum of the values picked is within a tenth of that of evaluating all, which a test checks.
    """

    block: int = 16  # evaluated at once while looking for the best
    refresh: int = 8  # evaluated at each pick merely because their value is old


@dataclass(frozen=True, kw_only=True)
class StepRules:
    """When picks are steps, and how they are made (benchmarks/rules.md, without a model)."""

    # The rows whose nearest neighbours are nearest are asked whether outcomes there are alike: whether
    # their ranks differ by such a share of what those of farther neighbours, up to this one, differ by,
    # or of such a share of all ranks. They are no neighbours, and say nothing, unless they are nearer
    # than such a share of the median.
    closest: int = 8
    near: float = 0.1
    farther: int = 24
    alike: float = 0.4
    ranks: float = 0.1
    # The smallest step's scale, in units of the largest. Steps keep this share of their distance in a
    # batch: so fine a search is what there is to be gained.
    smallest: float = 1e-3
    spacing: float = 0.01
    # Of a batch's picks, one in so many is a step, and so many at least, while it is not known what steps
    # lead to; and the largest is shorter by so much.
    probes: int = 4
    least_probes: int = 8
    probing: float = 0.1
    children: int = 16  # points that each pick is the likeliest feasible one of


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
    outlook: OutlookRules = field(default_factory=OutlookRules)
    regions: RegionRules = field(default_factory=RegionRules)
    search: RegionSearchRules = field(default_factory=RegionSearchRules)
    shortlist: ShortlistRules = field(default_factory=ShortlistRules)
    steps: StepRules = field(default_factory=StepRules)
