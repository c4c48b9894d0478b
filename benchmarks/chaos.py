"""A study on Slurm through faults at random moments: is an evaluation lost, is one repeated?

    python benchmarks/chaos.py --faults 30 --seed 1

Runs a study on the tests' own cluster (root, Debian) and does something to it every few seconds: jobs
are cancelled or killed, nodes set down, daemons killed, the controller taken away, Snakemake
interrupted, the results made read-only. Whenever Snakemake has ended, the same command is typed
again. One line of JSON for each fault, then what became of the evaluations; exit status 1 if one was
lost, or repeated after it had ended. That happens to one which is killed in the moment between its end
and its outcome on disk (some 20 ms on an idle machine); its events are then listed with their times.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from slurm.cluster import Cluster
from slurm.study import SlurmStudy

from dngo.archive import verify

BATCH = 8


class Chaos:
    """What can happen, by name: each a method that ends with the cluster able to go on."""

    def __init__(self, cluster: Cluster, study: SlurmStudy, random: random.Random):
        self.cluster, self.study, self.random = cluster, study, random

    def running(self) -> list[int]:
        return list(self.cluster.squeue("--states=RUNNING"))

    def cancel_job(self) -> None:
        for job in self.running()[:1]:
            self.cluster.cancel(job)

    def kill_job(self) -> None:
        for job in self.running()[:1]:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self.cluster.run("scancel", "--quiet", "--full", "--signal=KILL", str(job))

    def node_down(self) -> None:
        node = self.random.choice(list(self.cluster.nodes))
        self.cluster.set_node(node, "down")
        time.sleep(4)
        with contextlib.suppress(RuntimeError):  # it has come back by itself
            self.cluster.set_node(node, "resume")

    def kill_slurmd(self) -> None:
        self.cluster.stop(self.random.choice(list(self.cluster.nodes)), signal.SIGKILL)
        time.sleep(4)
        self.cluster.up()

    def controller_away(self) -> None:
        self.cluster.stop("slurmctld", self.random.choice([signal.SIGTERM, signal.SIGKILL]))
        time.sleep(self.random.uniform(1, 20))
        self.cluster.up()

    def interrupt_snakemake(self) -> None:
        self._signal(signal.SIGINT)

    def terminate_snakemake(self) -> None:
        self._signal(signal.SIGTERM)

    def kill_snakemake(self) -> None:
        assert self.study.process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.study.process.pid, signal.SIGKILL)
        self.study.process.wait()

    def read_only(self) -> None:
        place = str(self.study.results)
        if subprocess.run(["mount", "--bind", place, place], check=False).returncode:
            return
        try:
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
            time.sleep(self.random.uniform(1, 8))
        finally:
            subprocess.run(["umount", "--lazy", place], check=True)

    def _signal(self, number: int) -> None:
        assert self.study.process is not None
        self.study.process.send_signal(number)

    @property
    def faults(self) -> dict[str, Callable[[], None]]:
        names = [n for n in vars(type(self)) if not n.startswith("_")]
        return {n: getattr(self, n) for n in names if n not in ("running", "faults")}


def run(faults: int, seed: int, every: float) -> bool:
    """One study; whether every evaluation was kept and none repeated."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="dngo-chaos-") as folder:
        cluster = Cluster(Path(folder).resolve() / "slurm")
        cluster.folder.mkdir()
        cluster.up()
        study = SlurmStudy(
            Path(folder) / "study",
            cluster,
            design={"size": BATCH},
            batch_size=BATCH,
            iterations=3,
            retries=faults,
            batches_in_flight=2,
        )
        points = 4 * BATCH
        study.actions(
            **{f"p{t}_{s}": rng.lognormvariate(2.0, 0.7) for t in range(4) for s in range(BATCH)}
        )
        chaos = Chaos(cluster, study, rng)
        starts = 0
        try:
            began = time.monotonic()
            while time.monotonic() - began < 3600:
                if study.process is None or study.process.poll() is not None:
                    if study.process is not None and study.process.returncode == 0:
                        break
                    starts += 1
                    study.start()
                time.sleep(rng.expovariate(1 / every))
                if faults > 0 and study.process is not None and study.process.poll() is None:
                    name = rng.choice(list(chaos.faults))
                    print(json.dumps({"at": round(time.time(), 3), "fault": name}), flush=True)
                    chaos.faults[name]()
                    faults -= 1
                study.hurry()
        finally:
            chaos.kill_snakemake()
            if sys.exc_info()[0] is not None or study.process.returncode:
                print(study.log()[-3000:], file=sys.stderr)
            cluster.down()
        ends, begun = study.events("end"), study.events("start")
        statuses = study.statuses()
        row = {
            "seed": seed,
            "points": points,
            "archived": len(statuses),
            "not_ok": {p: s for p, s in statuses.items() if s != "ok"},
            "started": sum(begun.values()),
            "ended": sum(ends.values()),
            "repeated": sorted(p for p, n in ends.items() if n > 1),
            "commands_typed": starts,
            "archive": verify(study.results / "archive.h5") or "intact",
            "wall_s": round(time.monotonic() - began),
        }
        print(json.dumps(row), flush=True)
        # When what happened to a repeated point: was it killed between its end and its outcome?
        for line in (study.folder / "events.txt").read_text().splitlines():
            if line.split()[1] in row["repeated"]:
                print(line)
        return len(statuses) == points and not row["not_ok"] and not row["repeated"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--every", type=float, default=6.0, help="seconds between faults, on average"
    )
    options = parser.parse_args()
    sys.exit(not run(options.faults, options.seed, options.every))


if __name__ == "__main__":
    main()
