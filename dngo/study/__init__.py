"""A study on disk, and its four stages: fit, propose, evaluate, merge.

`results/STUDY/` holds

``archive.h5``       the system of record; only merge writes it
``iterations/T/``    files between the stages: outputs that Snakemake knows and may delete
``pending/T/``       the batch and its outcomes while the iteration is in flight. Snakemake must not
                     delete them, so they are no outputs; merge removes them once they are archived
``waiting.json``     points that people entered, until a batch takes them (`dngo.waiting`)
``notes.json``       what people noted; a merge copies new notes into the archive
``logs/ work/``      for people to look at

Every stage returns an existing result instead of making it again. A proposed batch stays the batch
of its iteration. A point that has an outcome is never run again. A merged iteration is read from
the archive. So a stage may be repeated at any time, even if its outputs were deleted.

Other packages use `Study`: the `Records` with the functions of the modules here as methods. The
modules, from low to high:

``paths``       where files are
``records``     what is known about a study, archived and in flight; only reads
``entries``     what people entered, for the next batch
``batches``     the record of a batch, and its files while it is in flight
``ending``      why there is no further iteration; ``note`` has decisions made during a run
``beginning``   what a run does before its first stage
``planning``    the iterations of a run
``fitting`` ``proposing`` ``evaluating`` ``merging``   the stages
"""

from dngo.study.planning import Plan
from dngo.study.records import best_row
from dngo.study.study import Study, load_study
