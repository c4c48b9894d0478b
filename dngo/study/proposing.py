"""The stage that chooses the batch of an iteration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dngo import archive, derive
from dngo.batch import Batch, Context
from dngo.evaluation.stopping import write_snapshot
from dngo.storage import hdf5
from dngo.storage.patience import has_no_disk, patiently
from dngo.study.batches import alone, has_model, keep, record
from dngo.study.ending import at_an_end, ends, nothing_left, write_end
from dngo.study.entries import given, told
from dngo.study.records import Records, silent
from dngo.types import Progress

# The expected gain changes no proposal, and takes a fifth of a small batch's time. In batches of fewer
# points than FEW it waits until the rows have grown by one in RENEWED.
FEW, RENEWED = 8, 10


def propose(
    records: Records, t: int, surrogate: Path | None, output: Path, progress: Progress = silent
) -> Batch:
    """Choose the batch of iteration t and write it to `output` (`proposals.json`)."""
    if t < records.merged():
        batch = archive.read_batch(records.archive, t, records.space)
        batch.write(output)
        return batch
    with alone(records, t, "propose"):
        if reason := ends(records, t):
            return write_end(records, t, reason, output)
        kept = records.paths.kept_surrogate(t)
        if surrogate is not None and kept.exists():
            surrogate = kept
        if surrogate is not None and not has_model(surrogate):
            surrogate = None
        batch = records.batch_in_flight(t) or (
            _propose(records, t, surrogate, progress) if surrogate else _without_model(records, t)
        )
        if not batch.told and (reason := nothing_left(records, batch)):
            return write_end(records, t, reason, output, batch.outlook)
        _keep_curves(records, t)
        keep(records, batch, surrogate)
        records.paths.waiting.drop({p.origin["entry"] for p in batch.proposals if p.origin})
        batch.write(output)
    return batch


def _keep_curves(records: Records, t: int) -> None:
    """Write the archive's curves for the jobs of iteration t, if these may be stopped early."""
    path = records.paths.curves(t)
    if records.config.early_stopping is None or path.exists() or not records.archive.exists():
        return
    curves, ladder = archive.read_curves(records.archive), records.config.ladder
    if ladder is not None:
        levels = ladder.level(archive.read_table(records.archive).v)
        curves = [replace(c, level=int(at)) for c, at in zip(curves, levels, strict=True)]
    known = [curve for curve in curves if curve.points]
    patiently(lambda: write_snapshot(path, known), what=f"writing {path}", refusal=has_no_disk)


def _without_model(records: Records, t: int) -> Batch:
    """Iteration 0, or one after the end, which only has points that people entered."""
    context = Context(given=given(records, t), told=told(records, t, t))
    if t > 0:
        return record(records, t, derive.PROPOSE, context.given, told=context.told)
    proposals = derive.design(records.config, context)
    return record(records, 0, derive.DESIGN, proposals, told=context.told)


def _states_expected_gain(records: Records, t: int, number: int) -> bool:
    """Whether a batch of this many proposals states the expected gain.

    Computing it takes as long as choosing a few points. If points come one by one, the value of
    some rows ago is good enough, unless a key of `stop` needs it.
    """
    if records.config.stop.needs_expected_gain or number >= FEW or t <= 1:
        return True
    header = records.header()
    known = header.rows if header else 0
    every = max(1, known // RENEWED)
    return known // every != (known + number) // every


def _propose(records: Records, t: int, surrogate: Path, progress: Progress) -> Batch:
    """The points that the acquisition picks, in addition to people's entries and points in flight."""
    from dngo.surrogates import Model

    with hdf5.our_own(surrogate) as file:
        iterations = int(file.attrs["training_iterations"])
        prefix = str(file.attrs["training_digest"])
        model = Model.load(file["model"])
        learnt = Context.parse_told(file["told"].asstr()[()]) if "told" in file else []
    pending = list(range(iterations, t))
    context = Context(given=given(records, t), told=learnt)
    config = records.config
    if not records.asks_for(t) or at_an_end(records, t):  # no point from the model
        config = config.model_copy(update={"batch_size": max(1, len(context.given))})
    others = [p for s in pending for p in records.batch(s).proposals]
    context = replace(context, pending=context.without_told(others))
    outlook: dict[str, Any] = {}
    basis = derive.Basis(records.archive, config, t, iterations, context)
    with archive.reading(records.archive):  # both need all rows; this block reads them once
        proposals = basis.propose(model, progress)
        if _states_expected_gain(records, t, len(proposals)):
            outlook = basis.outlook(model, proposals)
    # Leave out entries that an earlier batch has taken since the fit.
    taken = {p.origin.get("entry") for p in others}
    own = [pair for pair in learnt if pair[0].iteration == t]
    batch = record(
        records,
        t,
        derive.PROPOSE,
        proposals,
        training=(iterations, prefix),
        pending=pending,
        config=config,
        told=[pair for pair in own if pair[0].origin["entry"] not in taken],
    )
    durations = derive.durations(records.config, model, proposals)
    return replace(batch, outlook=outlook, durations=durations)
