"""Writes the end of a study to files, for later rules of a workflow."""

from __future__ import annotations

from pathlib import Path

from dngo.errors import UserError
from dngo.report.live import status
from dngo.storage.files import write_json
from dngo.study import Study


def conclude(study: Study, done: Path, best: Path) -> None:
    """Write two JSON files: that the study is at its end, and its best point.

    Without a feasible point, id, objective and parameters are null. With several objectives, the
    second file has the front: points, knee, hypervolume, reference. Raises UserError for a study
    that goes on.
    """
    plan, header = study.plan(), study.header()
    if plan.iterations or header is None:
        raise UserError(
            f"study {study.config.study} is not at its end: {len(plan.iterations)} "
            "iterations are left (iterations_per_run); type the same command again"
        )
    data = status(study)
    found = data.get("front") or data["best"]
    found = found or dict.fromkeys(("id", "objective", "parameters"))
    write_json(best, {"study": study.config.study, **found})
    write_json(
        done,
        {
            "study": study.config.study,
            "iterations": header.iterations,
            "evaluations": header.rows,
            "archive": header.digest,
        },
    )
