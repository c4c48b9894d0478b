"""What Slurm costs, and how well a study uses it: measured on the tests' own cluster.

    python benchmarks/slurm_utilisation.py packing    CPU-s per evaluation besides the objective
    python benchmarks/slurm_utilisation.py overlap    utilisation with 1 and 2 batches in flight
    python benchmarks/slurm_utilisation.py short      many evaluations of .05 s: CPU-s, files, bytes
    python benchmarks/slurm_utilisation.py recovery   after a controller that has lost its state

All need root on a Debian machine (tests/slurm/up), and little else to run beside them. Where others do run,
`chrt -r 1 python ...` gives the cluster and the study real-time priority. One line of
JSON for each setting on standard output.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import h5py
from slots import Batch, losses, read_jobs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from slurm.cluster import Cluster
from slurm.study import SlurmStudy

from dngo.archive import read_table, verify

# Seconds of a simulated evaluation: log-normal, drawn from the point's own seed.
SIMULATED = """
import json, os, random, sys, time
p = json.load(sys.stdin)
with open("jobs.txt", "a") as stream:
    stream.write(os.environ["DNGO_ID"] + " " + os.environ["SLURM_JOB_ID"] + chr(10))
time.sleep({median} * random.Random(int(os.environ["DNGO_SEED"])).lognormvariate(0, {sigma}))
print((p["x"] - 0.3) ** 2)
"""


@contextlib.contextmanager
def cluster_of(*options: str) -> Iterator[Cluster]:
    """A cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="dngo-bench-") as folder:
        cluster = Cluster(Path(folder).resolve())
        cluster.up(*options)
        try:
            yield cluster
        finally:
            cluster.down()


class CpuMeter:
    """CPU seconds of the cluster's nodes and all that they start, by a control group."""

    def __init__(self, cluster: Cluster):
        v1 = Path("/sys/fs/cgroup/cpuacct")
        self.v1 = v1.is_dir()
        self.folder = (v1 if self.v1 else Path("/sys/fs/cgroup")) / cluster.folder.name
        self.folder.mkdir()
        for name in cluster.nodes:
            pid = (cluster.folder / "pid" / name).read_text()
            (self.folder / "cgroup.procs").write_text(pid)

    def seconds(self) -> float:
        if self.v1:
            return int((self.folder / "cpuacct.usage").read_text()) / 1e9
        lines = dict(x.split() for x in (self.folder / "cpu.stat").read_text().splitlines())
        return int(lines["usage_usec"]) / 1e6


def packing(points: int, jobs_of: list[str]) -> None:
    """Evaluations in jobs of so many points, so many at once; the objective costs nothing."""
    for each, at_once in (map(int, words.split("x")) for words in jobs_of):
        options = ("--cpus", "16", "--memory", "32000") if at_once > 1 else ()
        points = max(points, each)
        with cluster_of(*options) as cluster, tempfile.TemporaryDirectory() as folder:
            toy = SlurmStudy(
                Path(folder) / "study",
                cluster,
                objective={"command": "echo 1"},
                design={"size": points},
                points_per_job=each,
                points_at_once=at_once,
                resources={"evaluate": {"mem_mb": 500}},
            )
            meter = CpuMeter(cluster)
            toy.start()
            proposals = toy.results / "pending" / "0" / "proposals.json"
            toy.until(proposals.exists, "the design")
            toy.until(partial(evaluating, toy), "the first evaluation")
            before, began = meter.seconds(), time.monotonic()
            toy.end(timeout=1800)
            wall = time.monotonic() - began
            used = meter.seconds() - before
            jobs = -(-points // each)
            show(
                points_per_job=each,
                points_at_once=at_once,
                jobs=jobs,
                evaluations=points,
                cpu_s_per_evaluation=round(used / points, 3),
                cpu_s_per_job=round(used / jobs, 2),
                wall_s=round(wall, 1),
            )


def short(points: int, each: int, at_once: int) -> None:
    """Evaluations of .05 s on four nodes of four CPUs: what each costs beside the objective, and leaves."""
    objective = ["sh", "-c", "sleep .05; echo 1"]
    alone = _cpu_of(objective, 100)
    with cluster_of() as cluster, tempfile.TemporaryDirectory() as folder:
        toy = SlurmStudy(
            Path(folder) / "study",
            cluster,
            objective={"command": objective},
            design={"size": points},
            points_per_job=each,
            points_at_once=at_once,
            resources={"evaluate": {"mem_mb": 500}},
        )
        toy.propose_design()
        meter = CpuMeter(cluster)
        began, login = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        toy.run("--seconds-between-status-checks", "10", timeout=7200)
        wall, used = time.monotonic() - began, meter.seconds()
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        table = read_table(toy.results / "archive.h5")
        assert len(table) == points and verify(toy.results / "archive.h5") == []
        results = [p for p in toy.results.rglob("*") if p.is_file()]
        others = [p for p in (toy.folder / ".snakemake").rglob("*") if p.is_file()]
        show(
            evaluations=points,
            points_per_job=each,
            points_at_once=at_once,
            ok=int((table.status == "ok").sum()),
            wall_s=round(wall, 1),
            objective_alone_cpu_ms=round(1e3 * alone, 2),
            jobs_cpu_ms_per_evaluation=round(1e3 * used / points, 2),
            beside_the_objective_cpu_ms=round(1e3 * (used / points - alone), 2),
            login_node_cpu_ms_per_evaluation=round(1e3 * (_cpu(spent) - _cpu(login)) / points, 2),
            files_per_point=round(len(results) / points, 4),
            files_of_snakemake_per_point=round(len(others) / points, 4),
            bytes_per_point=round(sum(p.stat().st_size for p in results) / points),
            archive_bytes_per_point=round((toy.results / "archive.h5").stat().st_size / points),
        )


def _cpu(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _cpu_of(words: list[str], runs: int) -> float:
    """CPU seconds of a command, started from here."""
    before = _cpu(resource.getrusage(resource.RUSAGE_CHILDREN))
    for _ in range(runs):
        subprocess.run(words, stdout=subprocess.DEVNULL, check=True)
    return (_cpu(resource.getrusage(resource.RUSAGE_CHILDREN)) - before) / runs


def evaluating(toy: SlurmStudy) -> bool:
    """Whether the jobs that are there are all evaluations."""
    comments = toy.cluster.run("squeue", "--noheader", "--format=%k").splitlines()
    return bool(comments) and all("evaluate" in comment for comment in comments)


def overlap(
    median: float,
    sigma: float,
    batch: int,
    iterations: int,
    cpus: int,
    in_flight: list[int],
    each: int,
    at_once: int,
) -> None:
    """The same study with 1, 2 and more batches in flight; a batch is several times what runs at once.

    each, at_once: points of a job, and of those side by side. Where jobs have several CPUs, there is one
    more for fits, which is not counted: a job never fits into it.
    """
    for batches in in_flight:
        with (
            cluster_of("--nodes", "1", "--cpus", str(cpus + (at_once > 1))) as cluster,
            tempfile.TemporaryDirectory() as folder,
        ):
            toy = SlurmStudy(
                Path(folder) / "study",
                cluster,
                design={"size": batch},
                iterations=iterations,
                batch_size=batch,
                points_per_job=each,
                points_at_once=at_once,
                batches_in_flight=batches,
                resources={"evaluate": {"mem_mb": 500}},
                surrogate={},
            )
            (toy.folder / "objective.py").write_text(SIMULATED.format(median=median, sigma=sigma))
            toy.run("--seconds-between-status-checks", "10", timeout=3600)
            show(
                batches_in_flight=batches,
                points_per_job=each,
                points_at_once=at_once,
                median_s=median,
                sigma=sigma,
                slots=cpus,
                batch_size=batch,
                iterations=iterations,
                load=round(os.getloadavg()[2], 1),
                **objective_runs(toy, cpus),
            )


def objective_runs(toy: SlurmStudy, slots: int) -> dict[str, Any]:
    """Share of the slots in which the objective runs, and what the rest of them was lost to.

    whole: from the first submission to the last evaluation's end, with the start of the study and its
    end, where there is nothing more to do.  steady: from the first full load to the last job's first
    evaluation, as in a study that goes on.
    """
    batches = read_batches(toy)
    evaluations = [e for batch in batches for job in batch.jobs for e in job.evaluations]
    starts = sorted(b for b, _ in evaluations)
    whole = batches[0].model.submitted, max(e for _, e in evaluations)
    last = max(min(b for b, _ in job.evaluations) for batch in batches for job in batch.jobs)
    steady = starts[min(slots, len(starts)) - 1], last
    found = {}
    for name, window in {"steady": steady, "whole": whole}.items():
        busy, lost = losses(batches, slots, *window)
        found[name] = {"objective runs": busy, **lost, "seconds": window[1] - window[0]}
    return {name: {k: round(v, 3) for k, v in row.items()} for name, row in found.items()}


def read_batches(toy: SlurmStudy) -> list[Batch]:
    """What became of each batch of a study that has ended, in which no job was run again."""
    log = (toy.cluster.folder / "log" / "slurmctld.log").read_text()
    cpus = {int(r["JobId"]): int(r["ProcCnt"]) for r in toy.cluster.records()}
    jobs = read_jobs(log, cpus)
    job_of = dict(line.split() for line in (toy.folder / "jobs.txt").read_text().splitlines())
    table = read_table(toy.results / "archive.h5")
    with h5py.File(toy.results / "archive.h5") as file:
        starts, ends = (file[f"outcomes/{k}"][:] for k in ("started", "finished"))
    numbers: dict[int, set[int]] = {}
    ended: dict[int, float] = {}
    for t, slot, start, end in zip(table.iteration, table.slot, starts, ends, strict=True):
        number = int(job_of[f"{t}-{slot}"])
        jobs[number].evaluations.append((start, end))
        numbers.setdefault(int(t), set()).add(number)
        ended[int(t)] = max(ended.get(int(t), 0.0), end)
    models = iter(job for _, job in sorted(jobs.items()) if not job.evaluations)
    with h5py.File(toy.results / "archive.h5") as file:
        learnt = {t: int(file[f"iterations/{t}"].attrs["training_iterations"]) for t in numbers}
    return [
        Batch(
            model=next(models),
            trained_on=max((ended[s] for s in range(learnt[t])), default=0.0),
            jobs=[jobs[number] for number in numbers[t]],
        )
        for t in sorted(numbers)
    ]


def recovery(jobs: int) -> None:
    """Seconds until all jobs are submitted anew, once a controller is back that knows none of them."""
    with cluster_of() as cluster, tempfile.TemporaryDirectory() as folder:
        toy = SlurmStudy(
            Path(folder) / "study",
            cluster,
            design={"size": jobs},
            points_per_job=1,
            resources={"evaluate": {"slurm_extra": "--hold"}},
        )
        toy.propose_design()
        toy.start("--seconds-between-status-checks", "10", "--latency-wait", "60")
        toy.until(lambda: len(toy.jobs()) == jobs, "all jobs are in the queue", timeout=600)
        cluster.stop("slurmctld", signal.SIGKILL)
        for path in (cluster.folder / "state" / "slurmctld").glob("job_state*"):
            path.unlink()
        cluster.up()
        began = time.monotonic()
        assert not toy.jobs()
        toy.until(lambda: len(toy.jobs()) == jobs, "all jobs are in the queue again", timeout=3600)
        show(jobs=jobs, recovery_s=round(time.monotonic() - began, 1))
        assert toy.process is not None
        toy.process.send_signal(signal.SIGINT)
        toy.process.wait(120)


def show(**row: Any) -> None:
    print(json.dumps(row), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("packing")
    first.add_argument("--points", type=int, default=40)
    first.add_argument(
        "--jobs-of", nargs="+", default=["1x1", "20x1", "64x16"], help="points x at once"
    )
    second = commands.add_parser("overlap")
    second.add_argument("--median", type=float, default=25.0, help="seconds")
    second.add_argument("--sigma", type=float, default=0.7, help="deviation of ln seconds")
    second.add_argument("--batch", type=int, default=12)
    second.add_argument("--iterations", type=int, default=4)
    second.add_argument("--cpus", type=int, default=4, help="evaluations at once")
    second.add_argument("--in-flight", type=int, nargs="+", default=[1, 2])
    second.add_argument("--each", type=int, default=1, help="points in a job")
    second.add_argument("--at-once", type=int, default=1, help="of a job")
    fourth = commands.add_parser("short")
    fourth.add_argument("--points", type=int, default=20000)
    fourth.add_argument("--each", type=int, default=500, help="points in a job")
    fourth.add_argument("--at-once", type=int, default=4, help="of a job")
    third = commands.add_parser("recovery")
    third.add_argument("--jobs", type=int, default=40)
    options = vars(parser.parse_args())
    measures = {"packing": packing, "overlap": overlap, "short": short, "recovery": recovery}
    measures[options.pop("command")](**options)


if __name__ == "__main__":
    main()
