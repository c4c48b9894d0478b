"""A study on disk, and its four stages: fit, propose, evaluate, merge.

`results/STUDY/` holds

``archive.h5``       the system of record; only merge writes it
``iterations/T/``    what flows between the stages: the outputs that Snakemake knows and may delete
``pending/T/``       the batch and its outcomes while the iteration is in flight: what Snakemake must
                     not be able to delete, so it is no output; merge removes it once it is archived
``waiting.json``     points that people entered, until a batch takes them in (`dngo.waiting`)
``logs/ work/``      what people look at

Every stage hands back what exists instead of making it anew: a batch that was proposed stays the
batch of its iteration, a point that has an outcome is never run again, an iteration that was merged
is read from the archive. So a stage may be repeated at any time, with any of its outputs deleted.

`Study` is what everybody else talks to; each of its methods is a line that leads to the room where it
is done, a module of functions of the `Records`. From low to high:

``paths``       where things are
``records``     what is known of a study: archived and in flight; only reads
``entries``     what people entered, as a batch takes it in
``batches``     the record of a batch, and what keeps it while it is in flight
``ending``      why there is no further iteration; ``note`` has what was decided while a run was under way
``beginning``   what a run does before its first stage
``planning``    which iterations a run takes on
``fitting`` ``proposing`` ``evaluating`` ``merging``   the stages
"""

from dngo.study.planning import Plan
from dngo.study.records import best_row
from dngo.study.study import Study, load_study

__all__ = ["Plan", "Study", "best_row", "load_study"]
