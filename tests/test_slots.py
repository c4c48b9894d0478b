"""How the benchmark of slots explains idle moments (`benchmarks/slots.py`)."""

from __future__ import annotations

import sys

import pytest
from toy import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
import slots

LOG = """
[2026-11-22T12:00:00.000] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=4294901759 usec=523
[2026-11-22T12:00:01.000] sched: Allocate JobId=1 NodeList=node1 #CPUs=1 Partition=main
[2026-11-22T12:00:05.000] _job_complete: JobId=1 WEXITSTATUS 0
[2026-11-22T12:00:05.500] _job_complete: JobId=1 done
[2026-11-22T12:00:06.000] _slurm_rpc_submit_batch_job: JobId=2 InitPrio=4294901758 usec=523
[2026-11-22T12:00:07.500] sched/backfill: _start_job: Started JobId=2 in main on node1
[2026-11-22T12:00:20.250] _job_complete: JobId=2 done
[2026-11-22T12:00:21.000] _slurm_rpc_submit_batch_job: JobId=3 InitPrio=4294901757 usec=523
"""


def test_jobs_are_read_from_the_log_of_the_controller() -> None:
    jobs = slots.read_jobs(LOG, {2: 4})
    assert set(jobs) == {1, 2}  # the third has not ended
    first = jobs[1].submitted
    assert (jobs[1].started - first, jobs[1].ended - first, jobs[1].cpus) == (1.0, 5.5, 1)
    assert (jobs[2].started - first, jobs[2].ended - first, jobs[2].cpus) == (7.5, 20.25, 4)


def test_every_idle_moment_has_its_cause() -> None:
    """Two slots for 20 s: a model, and a job of two points, the second of them longer."""
    model = slots.Job(submitted=1, started=2, ended=5)
    job = slots.Job(
        submitted=7, started=8, ended=19, cpus=2, evaluations=[(10.0, 14.0), (10.0, 18.0)]
    )
    busy, lost = slots.losses([slots.Batch(model, 0.5, [job])], 2, 0, 20)
    # 12 s of objectives, in 40 of two slots.
    assert busy == pytest.approx(12 / 40)
    expected = {
        slots.STRAGGLERS: 2 * 0.5,
        slots.NOTICE: 2 * 0.5,
        slots.QUEUE: 2 * 1,
        slots.MODEL: 3,
        slots.PROPOSE: 3,
        slots.SUBMIT: 2 * 2,
        slots.SLURM: 2 * 1,
        slots.START: 2 * 2,
        slots.TAIL: 4,
        slots.END: 2 * 1,
        slots.NOTHING: 2 * 1,
    }
    assert lost == pytest.approx({cause: seconds / 40 for cause, seconds in expected.items()})


def test_a_job_of_several_slots_waits_for_all_of_them() -> None:
    running = slots.Job(0, 0, 10, evaluations=[(0.0, 6.0), (7.0, 10.0)])
    waiting = slots.Job(0, 10, 20, cpus=2, evaluations=[(10.0, 20.0), (10.0, 20.0)])
    batch = slots.Batch(slots.Job(0, 0, 0), 0.0, [running, waiting])
    busy, lost = slots.losses([batch], 2, 0, 20)
    assert busy == pytest.approx(29 / 40)
    assert lost == pytest.approx({slots.FULL: 10 / 40, slots.BETWEEN: 1 / 40})
