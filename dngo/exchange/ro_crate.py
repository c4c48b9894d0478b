"""A Workflow Run RO-Crate of a study: the Provenance Run Crate profile, 0.5, on RO-Crate 1.1.

The crate is a folder, or a .zip, with the archive, the resolved configuration, the proposals as CSV
and the workflow. Its metadata tell the run as linked data: every iteration has an action for each of
its stages, with a script as the instrument, and the stages hand on parts of the archive::

    record ─► fit ─► surrogate t ─► propose ─► batch t ─► evaluate ─► outcomes t ─► merge ─► record t

A record is the archive as it was when it held iteration t; its identifier is the digest in the chain
that `dngo verify` walks.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dngo import archive as archives
from dngo.audit import audit_all
from dngo.batch import Batch, Outcome
from dngo.errors import UserError
from dngo.exchange import csv_table, package
from dngo.provenance import workflow_folder
from dngo.replay import configuration
from dngo.space.parameters import Float, Int, Parameter, choices
from dngo.study import best_row

WORKFLOW = workflow_folder()
STAGES = {
    "fit": "Train the surrogate of an iteration on the archive as it was when that began",
    "propose": "Choose the points of a batch; those of the first are a Sobol design",
    "evaluate": "Run the objective at the points of a batch",
    "merge": "Append a batch and its outcomes to the archive",
}
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
README = """# Study {study}

What a Bayesian optimisation by dngo proposed and found: {rows} evaluations in {iterations} iterations.

- `archive.h5`: the system of record, plain HDF5. `dngo verify archive.h5` checks that no value was
  altered, `dngo replay archive.h5` derives every batch again, and
  `dngo audit archive.h5 --proposal 1-0` tells why a point was proposed and what came of it.
- `proposals.csv`: a line for each proposal and its outcome.
- `config.yaml`: the configuration, all defaults filled in.
- `Snakefile`, `rules/`, `scripts/`: the workflow, {version}.
- `ro-crate-metadata.json`: all of this and every step of the run as linked data, a Provenance Run
  Crate (https://w3id.org/ro/wfrun/provenance/0.5).
"""
ENCODINGS = {
    ".h5": ("application/x-hdf5", "fmt/807", "HDF5"),
    ".csv": ("text/csv", "x-fmt/18", "Comma separated values"),
    ".yaml": ("application/yaml", "fmt/818", "YAML"),
    ".md": ("text/markdown", "fmt/1149", "Markdown"),
    ".py": ("text/x-python", "fmt/938", "Python source code"),
    "": ("text/plain", "x-fmt/111", "Plain text"),
}
SETTINGS = ("seed", "iterations", "batch_size", "points_per_job", "batches_in_flight")
MANY = 1000  # jobs: beyond, the evaluations of an iteration are told as one action


def write(
    archive: Path, output: Path, *, author: str | None = None, license: str | None = None
) -> None:
    """Write the crate of an archive.

    author: who ran the study: a name, or "name <address of their ORCID>".
    license: the address of the data's licence, as https://spdx.org/licenses/CC-BY-4.0.
    Raises UserError if the workflow's files are not beside the package.
    """
    crate = _Description(archive, author, license).crate
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as folder:
        temporary = Path(folder) / "crate"
        if output.suffix == ".zip":
            crate.write_zip(temporary)
        else:
            crate.write(temporary)
        os.rename(temporary, output)


class _Description:
    """The entities of a crate, made from an archive."""

    def __init__(self, archive: Path, author: str | None, license: str | None):
        self.archive = archive
        self.rows = audit_all(archive)
        header = archives.read_header(archive)
        assert header is not None  # audit_all has read it
        self.header = header
        self.config = configuration(archive, header.iterations - 1)
        attributes = [archives.iteration_attributes(archive, t) for t in range(header.iterations)]
        jobs = sum(-(-a["rows"] // a["points_per_job"]) for a in attributes)
        self.one_by_one = jobs <= MANY
        self.entity = package("rocrate.model.contextentity").ContextEntity
        self.crate = package("rocrate.rocrate").ROCrate(version="1.1", gen_preview=True)
        self.actions: list[Any] = []
        self.steps: list[Any] = []
        self.packages: dict[str, Any] = {}
        self.times: list[float] = []

        self.agent = self._author(author)
        self._root(license)
        self._files()
        for t in range(header.iterations):
            self._iteration(t)
        if not self.steps:
            raise UserError(f"{archive}: holds imported points only; there is no run to describe")
        self._run()

    # ---- entities -------------------------------------------------------------------------------

    def add(self, identifier: str, kind: str, /, **properties: Any) -> Any:
        """Add an entity that is no file."""
        known = {k: _single(v) for k, v in properties.items() if v not in (None, "", [])}
        return self.crate.add(self.entity(self.crate, identifier, {"@type": kind, **known}))

    def add_file(self, source: Any, path: str, /, **properties: Any) -> Any:
        """Add a file and how it is encoded."""
        return self.crate.add_file(source, path, properties=self._encoded(path, properties))

    def _encoded(self, path: str, properties: dict[str, Any]) -> dict[str, Any]:
        media, pronom, title = ENCODINGS.get(Path(path).suffix, ENCODINGS[""])
        address = f"https://www.nationalarchives.gov.uk/PRONOM/{pronom}"
        site = self.crate.get(address) or self.add(address, "WebSite", name=title)
        return {**properties, "encodingFormat": [media, site]}

    def add_parameter(self, owner: Any, direction: str, name: str, kind: str, example: Any) -> None:
        """Add a formal parameter of a tool (direction: input or output), and its value if known."""
        tool = Path(owner.id).stem.lower()
        identifier = f"#{tool}-{direction}-{name}"
        parameter = self.add(
            identifier, "FormalParameter", name=name, additionalType=kind, workExample=example
        )
        owner.append_to(direction, parameter, compact=True)
        if example is not None:
            example.append_to("exampleOfWork", parameter, compact=True)

    def add_value(self, name: str, value: Any) -> Any:
        """Add a value that a formal parameter had in this run; None if it had none."""
        if value is None:
            return None
        return self.add(f"#value-{name}", "PropertyValue", name=name, value=value)

    def add_action(
        self,
        identifier: str,
        instrument: Any,
        *,
        name: str,
        description: str,
        object: Sequence[Any],
        result: Sequence[Any],
        times: Iterable[float] = (),
    ) -> Any:
        """Add what was done: with an instrument, out of objects, results."""
        known = [x for x in times if math.isfinite(x)]
        self.times += known
        action = self.add(
            identifier,
            "CreateAction",
            name=name,
            description=description,
            instrument=instrument,
            object=list(object),
            result=list(result),
            agent=self.agent,
            startTime=_time(min(known)) if len(known) > 1 else None,
            endTime=_time(max(known)) if known else None,
            actionStatus="http://schema.org/CompletedActionStatus",
        )
        self.actions.append(action)
        return action

    def add_step(self, stage: str, identifier: str, **properties: Any) -> None:
        """Add the execution of a stage, and of the script that carried it out."""
        action = self.add_action(identifier, self._tool(stage), **properties)
        step = self.crate.get(f"#step-{stage}")
        name = f"Step {stage}: {properties['name']}"
        self.steps.append(
            self.add(
                f"{identifier}-step", "ControlAction", name=name, instrument=step, object=action
            )
        )

    def _tool(self, stage: str) -> Any:
        """The script of a stage; its place in the workflow is described when it is first used."""
        name = f"scripts/{stage}.py"
        tool = self.crate.get(name)
        if tool is None:
            kinds = {"@type": ["File", "SoftwareSourceCode"]}
            tool = self.add_file(
                WORKFLOW / name,
                name,
                **kinds,
                name=f"dngo {stage}",
                description=STAGES[stage],
                version=self.version,
            )
            position = list(STAGES).index(stage)
            step = self.add(
                f"#step-{stage}", "HowToStep", name=stage, position=position, workExample=tool
            )
            self.workflow.append_to("hasPart", tool)
            self.workflow.append_to("step", step)
        return tool

    # ---- the study ------------------------------------------------------------------------------

    def _author(self, author: str | None) -> Any:
        if author is None:
            return None
        found = re.fullmatch(r"(.+?)\s*<(https?://[^<>\s]+)>", author)
        name, identifier = found.groups() if found else (author, "#author")
        return self.add(identifier, "Person", name=name)

    def _root(self, license: str | None) -> None:
        root = self.crate.root_dataset
        root["name"] = f"Study {self.config.study}"
        root["description"] = (
            f"Bayesian optimisation of {self.config.study} by dngo: {self.header.rows} evaluations "
            f"in {self.header.iterations} iterations"
        )
        if license:
            root["license"] = self.add(license, "CreativeWork", name=license.rsplit("/", 1)[-1])
        else:
            root["license"] = self.add(
                "#license", "CreativeWork", name="None chosen: ask the author"
            )
        if self.agent:
            root["author"] = self.agent
        root["conformsTo"] = [
            self.add(address, "CreativeWork", name=name, version=address.rsplit("/", 1)[-1])
            for address, name in PROFILES.items()
        ]

    def _files(self) -> None:
        environment = archives.read_batch(
            self.archive, self.header.iterations - 1, self.config.search_space
        ).environment
        commit = environment.get("commit") or {}
        changed = " with changes" if commit.get("dirty") else ""
        self.version = f"{environment.get('dngo')}, commit {commit.get('id', 'unknown')}{changed}"
        self.snakemake = environment.get("packages", {}).get("snakemake", "unknown")
        self.workflow = self.crate.add_workflow(
            WORKFLOW / "Snakefile",
            "Snakefile",
            main=True,
            lang="snakemake",
            lang_version=self.snakemake,
            properties=self._encoded(
                "Snakefile",
                {
                    "@type": ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"],
                    "name": "dngo",
                    "description": "Bayesian optimisation, one batch of points after another",
                    "version": self.version,
                },
            ),
        )
        self.workflow["conformsTo"] = self.add(
            BIOSCHEMAS, "CreativeWork", name="Bioschemas profile of a workflow", version="1.0"
        )
        for path in sorted(WORKFLOW.glob("rules/*.smk")):
            self.add_file(path, f"rules/{path.name}", name=f"Rules: {path.stem}")
        self.file = self.add_file(
            self.archive,
            "archive.h5",
            name="The archive: every proposal, outcome and surrogate",
            identifier=self.header.digest,
        )
        resolved = io.StringIO()
        YAML().dump(self.config.model_dump(mode="json"), resolved)
        resolved.seek(0)
        self.configuration = self.add_file(
            resolved, "config.yaml", name="The configuration, all defaults filled in"
        )
        table = io.StringIO()
        csv_table.write_rows(self.rows, table)
        table.seek(0)
        self.add_file(table, "proposals.csv", name="A line for each proposal and its outcome")
        text = README.format(
            study=self.config.study,
            rows=self.header.rows,
            iterations=self.header.iterations,
            version=f"dngo {self.version}",
        )
        self.add_file(
            io.StringIO(text), "README.md", name="What is in here", about=self.crate.root_dataset
        )

    # ---- its iterations -------------------------------------------------------------------------

    def _iteration(self, t: int) -> None:
        space = archives.read_space(self.archive)
        batch = archives.read_batch(self.archive, t, space)
        outcomes = archives.read_outcomes(self.archive, batch)
        attributes = archives.iteration_attributes(self.archive, t)
        self._note_packages(batch.environment)
        rows = f"rows {attributes['first_row']} to {attributes['first_row'] + len(outcomes) - 1}"
        record = self._part(
            f"#record-{t}", f"The archive with iterations 0 to {t}", attributes["digest"]
        )
        if not batch.evaluated:
            self._import(t, batch, outcomes, record)
            return
        basis = [self._record(batch.training_iterations - 1)] if t else []
        if t:
            surrogate = self._part(f"#surrogate-{t}", f"/iterations/{t}/surrogate in the archive")
            self.add_step(
                "fit",
                f"#fit-{t}",
                name=f"Fit of iteration {t}",
                description=f"Learnt from iterations 0 to {batch.training_iterations - 1}; random "
                f"stream: seed {batch.seed}, key [{t}, 1]",
                object=[*basis, self.configuration],
                result=[surrogate],
                times=self._fit_times(t),
            )
            basis = [surrogate, *basis, *(self.crate.get(f"#batch-{s}") for s in batch.pending)]
        proposed = self._part(f"#batch-{t}", f"{rows} of /proposals in the archive")
        self.add_step(
            "propose",
            f"#propose-{t}",
            name=f"Proposals of iteration {t}",
            description=f"{len(outcomes)} points, {_count(p.source for p in batch.proposals)}; "
            f"on {batch.environment.get('host')} ({batch.environment.get('cpu')}); random stream: "
            f"seed {batch.seed}, key {batch.spawn_key}",
            object=[*basis, self.configuration],
            result=[proposed],
            times=[batch.environment.get("time", math.nan)],
        )
        own = [o for o, p in zip(outcomes, batch.proposals, strict=True) if not p.told]
        size = batch.points_per_job if self.one_by_one else max(len(own), 1)
        parts = [
            self._evaluate(t, job, own[start : start + size], proposed)
            for job, start in enumerate(range(0, len(own), size))
        ]
        if batch.told:
            parts.append(self._part(f"#told-{t}", f"{len(batch.told)} outcomes from elsewhere"))
        self.add_step(
            "merge",
            f"#merge-{t}",
            name=f"Merge of iteration {t}",
            description=f"{rows} appended; the digest of the archive is {attributes['digest']}",
            object=[*parts, *([self._record(t - 1)] if t else [])],
            result=[record],
            times=[json.loads(attributes["merged"]).get("time", math.nan)],
        )

    def _fit_times(self, t: int) -> list[float]:
        with archives.reading(self.archive) as file:
            attributes = file[f"iterations/{t}/surrogate"].attrs
            started = json.loads(attributes["environment"])["time"]
            return [started, started + float(attributes["seconds"])]

    def _evaluate(self, t: int, job: int, outcomes: list[Outcome], proposed: Any) -> Any:
        first, last = outcomes[0].id, outcomes[-1].id
        result = self._part(f"#outcomes-{t}-{job}", f"Outcomes of {first} to {last}")
        jobs = sorted({o.job for o in outcomes} - {""})
        self.add_step(
            "evaluate",
            f"#evaluate-{t}-{job}",
            name=f"Evaluation of {first} to {last}",
            description=f"{len(outcomes)} evaluations, {_count(o.status for o in outcomes)}; on "
            + ", ".join(sorted({o.host for o in outcomes}))
            + (f", job {', '.join(jobs[:5])}" if jobs else ""),
            object=[proposed],
            result=[result],
            times=[x for o in outcomes for x in (o.started, o.finished)],
        )
        return result

    def _import(self, t: int, batch: Batch, outcomes: list[Outcome], record: Any) -> None:
        source = batch.environment.get("import", {})
        file = self.add(
            f"#imported-{t}",
            "CreativeWork",
            name=str(source.get("file")),
            description=f"A file of evaluations made before ({source.get('format')})",
            identifier=f"sha256:{source.get('sha256')}",
        )
        self.add_action(
            f"#import-{t}",
            self.add("#dngo", "SoftwareApplication", name="dngo", softwareVersion=self.version),
            name=f"Import of {source.get('file')}",
            description=f"{len(outcomes)} evaluations, {_count(o.status for o in outcomes)}",
            object=[file],
            result=[record],
            times=[batch.environment.get("time", math.nan)],
        )

    def _part(self, identifier: str, name: str, digest: str | None = None) -> Any:
        return self.add(
            identifier, "CreativeWork", name=name, identifier=digest, isPartOf=self.file
        )

    def _record(self, t: int) -> Any:
        return self.crate.get(f"#record-{t}")

    def _note_packages(self, environment: dict[str, Any]) -> None:
        for name, version in environment.get("packages", {}).items():
            address = f"https://pypi.org/project/{name}/{version}/"
            if address not in self.packages:
                self.packages[address] = self.add(
                    address, "SoftwareApplication", name=name, softwareVersion=version, url=address
                )

    # ---- the run as a whole ---------------------------------------------------------------------

    def _run(self) -> None:
        config = self.config
        self.workflow["softwareRequirements"] = list(self.packages.values())
        self.add_parameter(self.workflow, "input", "configuration", "File", self.configuration)
        settings = [self.add_value(n, getattr(config, n)) for n in SETTINGS]
        for name, value in zip(SETTINGS, settings, strict=True):
            self.add_parameter(self.workflow, "input", name, "Integer", value)
        self.add_parameter(self.workflow, "output", "archive", "File", self.file)
        best = self._best()
        run = self.add_action(
            "#run",
            self.workflow,
            name=f"Study {config.study}",
            description=f"{self.header.rows} evaluations, {_count(r['status'] for r in self.rows)}",
            object=[self.configuration, *settings],
            result=[self.file, *best],
            times=list(self.times),
        )
        address = f"https://pypi.org/project/snakemake/{self.snakemake}/"
        self.add(
            "#engine",
            "OrganizeAction",
            name=f"Run of Snakemake {self.snakemake}",
            instrument=self.packages.get(address)
            or self.add(address, "SoftwareApplication", name="snakemake", url=address),
            agent=self.agent,
            object=self.steps,
            result=run,
            startTime=run.get("startTime"),
            endTime=run.get("endTime"),
        )
        self.crate.root_dataset["mentions"] = [run, *(a for a in self.actions if a is not run)]

    def _best(self) -> list[Any]:
        """The parameters of the objective, with the best point and its objective as their values."""
        row = best_row(
            archives.read_table(self.archive, thresholds=self.config.thresholds),
            self.config.objective.direction,
        )
        best = self.rows[row] if row is not None else {}
        tool = self._tool("evaluate")
        for name, parameter in self.config.space.items():
            value = self.add_value(name, best.get(f"parameter_{name}"))
            self.add_parameter(tool, "input", name, _kind(parameter), value)
        objective = self.add_value("objective", best.get("objective"))
        self.add_parameter(tool, "output", "objective", "Float", objective)
        return [objective] if objective is not None else []


def _single(value: Any) -> Any:
    """A list of one as the one: JSON-LD's compact form."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _kind(parameter: Parameter) -> str:
    if isinstance(parameter, Int | Float):
        return "Integer" if isinstance(parameter, Int) else "Float"
    kinds = {type(choice) for choice in choices(parameter)}
    return "Boolean" if kinds == {bool} else "Text" if kinds == {str} else "PropertyValue"


def _count(words: Iterable[str]) -> str:
    return ", ".join(f"{n} {word}" for word, n in Counter(words).items())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
