"""What the executor needs to know about a job of Snakemake, its log and its outputs."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path
from typing import Any

from dngo.workflow import bare
from dngo.workflow.slurm import reasons
from dngo.workflow.words import BEGUN, CANNOT_BEGIN, CANNOT_START, ENDED, GOES_ON, STOPPED

OF_ALL = ("slurm_partition", "slurm_account", "qos")  # what the profile may say for all jobs
PROFILE = " `default-resources` of the profile (slurm/config.yaml) for all jobs, or"


def rules(job: Any) -> str:
    """The names of the rules in a job of Snakemake, as text."""
    return " and ".join(sorted(job.rules))


def cluster(job: Any) -> str:
    """The name of a job's cluster, "" for the default one."""
    found = (job.resources.get(name) for name in ("cluster", "clusters", "slurm_cluster"))
    return str(next(filter(None, found), ""))


def cure(job: Any, key: str) -> str:
    """A message: what the user must change so that Slurm takes and starts a job.

    key: the resource, or a text that names several.
    """
    parts = {str(part.rule.name): part.resources for part in bare.members(job)}
    first = key.replace(",", " ").split()[0]
    now = [str(found[first]) for found in parts.values() if found.get(first) is not None]
    shown = f" (now {' + '.join(now)}{' minutes' if first == 'runtime' else ''})" if now else ""
    added = " They are one job, and their runtimes are added."
    added = added if len(parts) > 1 and first == "runtime" else ""
    example = ", ".join(f"{name}: {{{first}: ...}}" for name in parts)
    return (
        f"Change {key} of {rules(job)}{shown}:{PROFILE if first in OF_ALL else ''} `resources: "
        f"{{{example}}}` in the study's configuration.{added} Then type the same command again."
    )


def since(job: Any) -> float:
    """Seconds since a job was first seen to be over."""
    now = time.monotonic()
    return now - float(job.aux.setdefault("dngo_ended", now))


def is_complete(job: Any) -> bool:
    """Whether every output of a job is there, or in Snakemake's storage if it has one."""
    parts = bare.members(job.job)
    return all(map(_is_there, (f for p in parts for f in p.products(include_logfiles=False))))


def _is_there(file: Any) -> bool:
    """Whether a file of Snakemake's is there. What is not shared never comes to its place here."""
    if not is_stored(file):
        return os.path.exists(file)
    try:
        return bool(file.storage_object.exists())
    except Exception:  # the plugin's, which may be any: the storage is away
        return False


def is_stored(file: Any) -> bool:
    """Whether a file travels through a storage."""
    return bool(getattr(file, "is_storage", False))


def begins(job: Any) -> bool:
    """Whether our first line is in a job's log. A job of the user's own rule has no such line."""
    if not job.aux.get("dngo_begun"):
        log, parts = job.aux.get("slurm_logfile"), bare.members(job.job)
        own = all(bare.stage_of(part.rule) for part in parts)
        job.aux["dngo_begun"] = not own or bool(log and says(log, BEGUN, start=True))
    return bool(job.aux["dngo_begun"])


def is_mute(job: Any, row: reasons.Row) -> bool:
    """Whether a job has run for a while without our first line in its log. row: Slurm's, of the job."""
    if row.state != "RUNNING" or begins(job):
        job.aux.pop("dngo_runs", None)
        return False
    now = time.monotonic()
    return now - float(job.aux.setdefault("dngo_runs", now)) >= reasons.PATIENCE


def ending(job: Any) -> str:
    """How a job ended, in words, if the end of its log says so; "" otherwise."""
    last = (_last_words(job).strip().splitlines() or [""])[-1]
    if last.startswith(ENDED):
        return last.removeprefix(ENDED).strip(" ()") or "its log says so"
    # Slurm's own line in the log of a job that it ended.
    found = re.search(r"\*\*\* JOB \d+ ON \S+ (.*?) AT \S+ (.*?)\s*\*\*\*$", last)
    return " ".join(filter(None, found.groups())) if found else ""


def cannot_begin(job: Any) -> str:
    """The exit status, in words, of a job that says it cannot begin; "" for any other job."""
    found = re.search(rf"^{re.escape(CANNOT_BEGIN)} \((.*)\)$", _last_words(job), re.M)
    return found[1] if found else ""


def cannot_start(job: Any) -> str:
    """Why a job that has ended could not start the objective; "" otherwise."""
    found = re.search(rf"^(?:\w+: )?(.*)\n{re.escape(CANNOT_START)}$", _last_words(job), re.M)
    return found[1] if found else ""


def hands_over(job: Any) -> str:
    """Why a job that has ended left its work to another one; "" if it did not."""
    found = re.search(rf"^(?:\w+: )?(?:(.*); {GOES_ON}|({STOPPED}))$", _last_words(job), re.M)
    return next(filter(None, found.groups()), "") if found else ""


def _last_words(job: Any) -> str:
    """The end of a job's log, "" if it has none."""
    log = job.aux.get("slurm_logfile")
    return _end(log) if log else ""


def says(log: Path, words: str, *, start: bool = False) -> bool:
    """Whether a job's log has these words at its end, or at its start."""
    return words in (_start(log) if start else _end(log))


def _start(log: Path) -> str:
    with contextlib.suppress(OSError), open(log, "rb") as stream:
        return stream.read(65536).decode(errors="replace")
    return ""


def _end(log: Path) -> str:
    with contextlib.suppress(OSError), open(log, "rb") as stream:
        stream.seek(-min(log.stat().st_size, 8192), os.SEEK_END)
        return stream.read().decode(errors="replace")
    return ""
