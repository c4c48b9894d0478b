"""The workflow's steps for calls from Python: claim, merge, and propose the next batch."""

from __future__ import annotations

import atexit
import contextlib
import numbers
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

from dngo import provenance
from dngo.api.parameters import outside
from dngo.batch import Batch, Proposal, find_outcome
from dngo.check import gpu_missing
from dngo.entering import skip
from dngo.errors import UserError
from dngo.storage.text import shown
from dngo.study import Study


@contextlib.contextmanager
def claimed(study: Study) -> Iterator[Study]:
    """Claim the study as a run of Snakemake does; raises UserError if another process holds it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(study.held(wait=5.0))
        except TimeoutError as error:
            raise UserError(f"{error}; `tell` works meanwhile, `ask` when it has ended") from None
        yield study


def ask_ahead(study: Study, n: int, most: int) -> list[Proposal]:
    """Ask for n points although others wait: one more batch in flight is allowed.

    The list is empty while the design is in flight, since nothing else can be asked for then.
    most: if more batches are in flight, the first one is given up.
    """
    with claimed(study):
        study.merge_complete()
        merged = study.merged()
        flying = study.in_flight(merged)
        if len(flying) >= most:
            give_up(study, flying[0])
            merged = study.merged()
            flying = study.in_flight(merged)
        if flying and not merged:
            return []
        config = study.config.model_copy(update={"batches_in_flight": len(flying) + 1})
        return ask_next(Study(config, study.beside), merged + len(flying), n).evaluated


def give_up(study: Study, batch: Batch) -> None:
    """Withdraw a batch's points without an outcome, since their evaluations died. Then merge it.

    If one of their outcomes is reported later, it counts as the outcome of a point that nobody
    asked for.
    """
    for proposal in batch.evaluated:
        if find_outcome(study.paths.outcome_file(proposal), proposal) is None:
            skip(study, proposal.id, "nobody reported its outcome")
    study.merge_complete()


def settle_at_the_end(owner: object, study: Study) -> weakref.finalize[..., Any]:
    """Merge the study's outcomes when the owner is deleted, or when the process ends."""
    found = weakref.finalize(owner, _settle_quietly, study)
    # This runs before HDF5 ends. A usual atexit function may run after that.
    found.atexit = False
    atexit.register(found)
    return found


def _settle_quietly(study: Study) -> None:
    """Merge, and ignore errors. The next process that asks merges the rest."""
    with contextlib.suppress(UserError, OSError):
        study.settle()


def ask_next(study: Study, t: int, n: int | None) -> Batch:
    """`next_batch` with points to evaluate: if people reported the whole design, a model chooses them."""
    batch = next_batch(study, t, n)
    if t > 0 or batch.evaluated or not batch.told:
        return batch
    study.merge_complete()
    return next_batch(study, 1, n)


def next_batch(study: Study, t: int, n: int | None) -> Batch:
    """Fit and propose iteration t with n points; None: the configured number.

    If the stop criterion is met, the batch is empty, and `ended` says why.
    """
    n = None if n is None else whole("n", n)
    if n is not None and n < 1:
        raise UserError(f"ask for at least 1 point, not for {n}")
    # The workflow stops after the configured iterations. A call may ask for more.
    changes: dict[str, Any] = {"iterations": max(study.config.iterations, t)}
    if n is not None and t:
        changes["batch_size"] = n
    elif n is not None:
        told, wanted = study.told_for_design(), study.config.design_size
        size = told if told >= wanted else told + n
        if size < wanted and study.config.design.size is not None:
            warnings.warn(
                f"ask({n}) makes the design {size} instead of {wanted} points: a model chooses those that "
                "follow; `ask()` gives the whole design",
                stacklevel=outside(),
            )
        changes["design"] = study.config.design.model_copy(update={"size": size})
    if study.config.batches_in_flight == "auto":  # it learns from all that is merged
        changes["batches_in_flight"] = max(1, t - study.merged() + 1)
    asked = {**provenance.who(), "through": "api"}
    study = Study(study.config.model_copy(update=changes), study.beside, asked)
    if t == 0:  # before anything is paid for
        study.transfer()
        if word := gpu_missing(study.config):
            raise UserError(word)
    folder = study.iteration(t)
    surrogate = folder / "surrogate.h5" if t else None
    if surrogate is not None:
        study.fit(t, surrogate)
    return study.propose(t, surrogate, folder / "proposals.json")


def whole(name: str, value: Any) -> int:
    """A count as a Python int, also if it is NumPy's; raises UserError if it is no whole number."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise UserError(f"{name} must be a whole number, not {shown(value)}")
    return int(value)
