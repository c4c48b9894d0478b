"""What commands and stages cost as an archive grows to a million evaluations.

    python benchmarks/scaling.py --rows 2000 20000 100000 --folder /tmp/scaling
    python benchmarks/scaling.py --rows 1000000 --what status merge

A simulated study: six floats and one flag, 400 points a batch, the objective a formula. Its archive is
written by the functions that merge uses, without jobs. One fit is real, and all batches keep what that
foresaw. Printed for each number of rows are CPU seconds, of the command and of what it starts, and the peak
of memory, each command in a process of its own. `--folder` keeps the archives for the next call; one of a
million rows has 400 MB.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np

from dngo import archive, derive
from dngo.archive import writing
from dngo.archive.structure import check_archive, space_of
from dngo.batch import Batch, Outcome, Proposal, write_outcomes
from dngo.config import load
from dngo.storage import hdf5
from dngo.storage.digest import digest_parameters
from dngo.study import Study

BATCH = 400
PARAMETERS = 6
BEGUN = 1_750_000_000.0  # when the first batch began; each takes an hour
CONFIG = """\
study: million
objective: {{command: "true", direction: minimize}}
space:
{space}
constraints: [stable]
design: {{size: {batch}}}
batch_size: {batch}
iterations: 100000
"""


def values(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A valley with ripples, (n,), and where it is feasible, (n,) bool, of points u (n, k)."""
    apart = u - np.linspace(0.3, 0.7, u.shape[1])
    y = np.sum(apart**2 + 0.02 * np.sin(20 * apart), axis=1)
    return y, np.sin(3 * np.pi * u[:, 0]) + u[:, 1] < 1.2


def points(t: int) -> np.ndarray:
    """A batch (n, k) as a search would have it: some anywhere, most near the best."""
    rng = np.random.default_rng([t, BATCH])
    u = rng.random((BATCH, PARAMETERS))
    near = rng.random(BATCH) < 0.7
    centre = np.linspace(0.3, 0.7, PARAMETERS)
    u[near] = centre + rng.normal(0, 0.02 + 0.3 / (1 + t), (int(near.sum()), PARAMETERS))
    return np.clip(u, 0, 1)


def outcomes_of(batch: Batch, u: np.ndarray) -> list[Outcome]:
    """What a run on a cluster would have written down."""
    t = batch.iteration
    y, feasible = values(u)
    rng = np.random.default_rng([t, 1])
    seconds, start = rng.lognormal(6, 0.5, len(u)), BEGUN + 3600 * t
    failed = rng.random(len(u)) < 0.02
    return [
        Outcome(
            iteration=t,
            slot=p.slot,
            parameters_digest=digest_parameters(p.parameters),
            host=f"node{p.slot % 50}",
            job=str(1000 + t),
            duration=float(seconds[i]),
            started=start,
            finished=start + float(seconds[i]),
            **(
                {"status": "failed", "message": f"exit status {1 + i % 3}: diverged at {y[i]:.3f}"}
                if failed[i]
                else {
                    "status": "ok" if feasible[i] else "infeasible",
                    "objective": float(y[i]),
                    "constraints": {"stable": int(feasible[i])},
                    "metadata": {"iterations": int(100 * y[i])},
                }
            ),
        )
        for i, p in enumerate(batch.proposals)
    ]


class Simulated:
    """A study in a folder whose archive is written here."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / "config.yaml"
        space = "\n".join(f"  x{i}: {{type: float, low: 0, high: 1}}" for i in range(PARAMETERS))
        self.config.write_text(CONFIG.format(space=space, batch=BATCH))
        self.study = Study(load([self.config]), folder)
        self.path = self.study.archive

    def batch(self, t: int, template: Batch | None = None) -> tuple[Batch, np.ndarray]:
        """The batch of an iteration, and its points (n, k)."""
        u = points(t)
        expected = values(u)[0] + 0.01
        proposals = [
            Proposal(
                iteration=t,
                slot=i,
                parameters={f"x{j}": float(value) for j, value in enumerate(row)},
                source="candidate:local" if t else "design:sobol",
                stage="trust_regions" if t else "design",
                **(
                    {"value": 0.01, "mean": float(expected[i]), "std": 0.02, "feasibility": 0.9}
                    if t
                    else {}
                ),
            )
            for i, row in enumerate(u)
        ]
        if template is None:
            return self.study.record(t, derive.PROPOSE if t else derive.DESIGN, proposals), u
        record = {**vars(template), "iteration": t, "proposals": proposals}
        record |= {"spawn_key": derive.spawn_key(t, derive.PROPOSE), "training_iterations": t}
        return Batch(**record), u

    def grow(self, rows: int) -> None:
        """Write an archive of so many rows, all batches but the last without a merge of their own."""
        identity, last = self.study.config.identity(), rows // BATCH - 1
        space = space_of(identity)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        template, _ = self.batch(0)
        with h5py.File(self.path, "w", **writing.LAYOUT) as file:
            writing._create(file, identity, space, None)
            for t in range(2):
                self._write(file, t, self.path.parent / "surrogate.h5", template)
                if t == 0:
                    file.flush()
                    surrogate = self.path.parent / "surrogate.h5"
                    self._fit_once(file, surrogate)
            without = self.path.parent / "foreseen.h5"
            with h5py.File(without, "w") as source:
                file["iterations/1/surrogate"].copy("foreseen", source)
                source.attrs.update(file["iterations/1/surrogate"].attrs)
            for t in range(2, last + 1):
                # The model of the newest surrogate alone is kept.
                self._write(file, t, surrogate if t == last else without, template)
                if t % 250 == 0:
                    print(f"  {t} of {last} batches", file=sys.stderr, flush=True)
        shutil.rmtree(self.path.parent / "beside", ignore_errors=True)

    def _write(self, file: h5py.File, t: int, surrogate: Path, template: Batch) -> None:
        batch, u = self.batch(t, template if t else None)
        writing._append(
            file,
            space_of(self.study.config.identity()),
            batch,
            outcomes_of(batch, u),
            surrogate if t else None,
            {**template.environment, "time": BEGUN + 3600 * (t + 1)},
        )

    def _fit_once(self, file: h5py.File, output: Path) -> None:
        """The surrogate of iteration 1, of a copy of what has been written."""
        with tempfile.TemporaryDirectory(dir=output.parent) as folder:
            beside = Simulated(Path(folder))
            beside.path.parent.mkdir(parents=True)
            with h5py.File(beside.path, "w", **writing.LAYOUT) as copy:
                copy.attrs.update(file.attrs)
                for name in file:
                    file.copy(name, copy)
            beside.study.fit(1, output)

    def vouch(self) -> None:
        """Mark the archive as sound, as merge does with what it has written."""
        with hdf5.opened(self.path, check_archive):
            hdf5.vouch(self.path, self.path.stat(), check_archive)

    @property
    def next(self) -> int:
        """The iteration that is not merged yet."""
        header = archive.read_header(self.path)
        assert header is not None
        return header.iterations

    def await_merge(self) -> None:
        """Put the next batch and its outcomes where merge looks for them."""
        t = self.next
        batch, u = self.batch(t)
        folder = self.study.paths.pending(t)
        (folder / "outcomes").mkdir(parents=True, exist_ok=True)
        batch.write(folder / "proposals.json")
        for outcome in outcomes_of(batch, u):
            write_outcomes(folder / "outcomes" / f"{outcome.slot}.json", [outcome], durable=False)
        shutil.copy(self.path.parent / "surrogate.h5", folder / "surrogate.h5")


# ---- what is measured ---------------------------------------------------------------------------


def measured(command: list[str], output: Path | None = None) -> tuple[float, float, str]:
    """CPU seconds and the peak of memory, in MB, of a command and all that it starts; what it printed."""
    wrapper = (
        "import resource,subprocess,sys;"
        "code=subprocess.run(sys.argv[1:]).returncode;"
        "r=resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print('\\n#', r.ru_utime + r.ru_stime, r.ru_maxrss / 1024, code, file=sys.stderr)"
    )
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(output.open("w")) if output else subprocess.PIPE
        done = subprocess.run(
            [sys.executable, "-c", wrapper, *command],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
        )
    told, _, figures = done.stderr.rpartition("\n#")
    seconds, memory, code = figures.split()
    if code != "0":
        raise SystemExit(f"{' '.join(command)}: exit status {code}: {told or done.stdout}")
    return float(seconds), float(memory), done.stdout or ""


def cli(*words: str) -> list[str]:
    """A command line of this package."""
    return [sys.executable, "-m", "dngo", *words]


def stage(name: str, folder: Path) -> list[str]:
    """A stage of the study in a folder, as a command."""
    return [sys.executable, __file__, "--stage", name, "--folder", str(folder)]


def run_stage(name: str, folder: Path) -> None:
    """Do what `stage` asks for."""
    one = Simulated(folder)
    t = one.next
    if name == "merge":
        one.study.merge(t, folder / "receipt.json")
    elif name == "fit":
        one.study.fit(t, folder / "fitted.h5")
    else:
        one.study.propose(t, folder / "fitted.h5", folder / "proposals.json")


def measure(what: str, folder: Path) -> tuple[float, float]:
    """CPU seconds and MB of one thing done with the study in a folder."""
    one = Simulated(folder)
    config, table = str(one.config), folder / "table.csv"
    if what == "import":
        rows = one.next * BATCH
        table = folder / "evaluations.csv"
        if not table.exists():
            _write_table(table, rows)
        empty = Path(tempfile.mkdtemp(dir=folder))
        shutil.copy(config, empty / "config.yaml")
        done = measured(cli("import", str(table), "--config", str(empty / "config.yaml")))
        shutil.rmtree(empty)
    elif what == "merge":
        other = Simulated(folder / "merged")
        other.path.parent.mkdir(parents=True, exist_ok=True)
        for name in ("archive.h5", "surrogate.h5"):
            shutil.copyfile(one.path.parent / name, other.path.parent / name)
        for _ in range(2):  # the first looks through what nobody vouches for
            other.await_merge()
            done = measured(stage("merge", folder / "merged"))
        shutil.rmtree(folder / "merged")
    elif what in ("fit", "propose"):
        if what == "fit":  # one that is there would be handed back
            shutil.rmtree(one.path.parent / "pending", ignore_errors=True)
        done = measured(stage(what, folder))
        shutil.rmtree(one.path.parent / "pending" / str(one.next) / "claims", ignore_errors=True)
        if what == "propose":
            shutil.rmtree(one.path.parent / "pending")
    else:
        table.unlink(missing_ok=what == "export") if what == "export" else None
        words: dict[str, list[str]] = {
            "status": ["status", config],
            "report": ["report", config, "--html", str(folder / "report.html")],
            "audit": ["audit", config, "--all"],
            "verify": ["verify", config],
            "export": ["export", config, "--format", "csv", "--output", str(table)],
            "best": ["best", config],
        }
        (folder / "report.html").unlink(missing_ok=True)
        done = measured(cli(*words[what]), folder / "printed.txt")
    return done[:2]


def _write_table(path: Path, rows: int) -> None:
    """Evaluations as people have them: a column for each parameter, the objective and the flag."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow([*(f"x{i}" for i in range(PARAMETERS)), "objective", "stable"])
        for t in range(rows // BATCH):
            u = points(t)
            y, feasible = values(u)
            for row, value, flag in zip(u.tolist(), y.tolist(), feasible.tolist(), strict=True):
                writer.writerow([*row, value, "true" if flag else "false"])


WHAT = (
    "export",
    "import",
    "status",
    "report",
    "audit",
    "verify",
    "best",
    "merge",
    "fit",
    "propose",
)


def main() -> None:
    """Print a table, or do a stage for one that does."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 20_000])
    parser.add_argument("--what", nargs="+", choices=WHAT, default=list(WHAT))
    parser.add_argument("--folder", type=Path, help="where the archives stay; default: nowhere")
    parser.add_argument("--stage", choices=("merge", "fit", "propose"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.stage:
        return run_stage(arguments.stage, arguments.folder)
    with tempfile.TemporaryDirectory() as temporary:
        print("rows,what,CPU s,MB", flush=True)
        for rows in arguments.rows:
            folder = (arguments.folder or Path(temporary)) / str(rows)
            one = Simulated(folder.resolve())
            if not one.path.exists():
                one.grow(rows)
            one.vouch()
            for what in arguments.what:
                seconds, memory = measure(what, folder.resolve())
                print(f"{rows},{what},{seconds:.1f},{memory:.0f}", flush=True)
    return None


if __name__ == "__main__":
    main()
