"""The archive: one HDF5 file per study, append-only, the system of record."""

from dngo.archive.curves import read_curves
from dngo.archive.digests import contents, model_digest
from dngo.archive.flat import flat_columns
from dngo.archive.layout import FORMAT_VERSION, words
from dngo.archive.predictions import Foreseen, foreseen
from dngo.archive.reading import (
    Header,
    Table,
    check,
    copy_surrogate,
    fit_summary,
    iteration_attributes,
    latest_surrogate,
    prefix_digest,
    read_batch,
    read_header,
    read_outcomes,
    read_space,
    read_surrogate,
    read_table,
    read_told,
    reading,
    receipt,
)
from dngo.archive.texts import read_entered, read_metadata, read_repeated, read_unchosen
from dngo.archive.verification import verify
from dngo.archive.writing import Outcomes, append
