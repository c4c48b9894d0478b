"""A Workflow Run RO-Crate of a study: the Provenance Run Crate profile, 0.5, on RO-Crate 1.1.

The crate is a folder, or a .zip, with the archive, the resolved configuration, the proposals as CSV,
the pictures that evaluations left, and the workflow. Its metadata describe the run as linked data.
Every iteration has an action for each of its stages, with a script as the instrument. The stages
pass on parts of the archive::

    record ─► fit ─► surrogate t ─► propose ─► batch t ─► evaluate ─► outcomes t ─► merge ─► record t

A record is the archive right after iteration t was merged. Its identifier is the digest in the
chain that `dngo verify` checks.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from dngo import archive as archives
from dngo.audit import audit_rows
from dngo.batch import Batch, Outcome
from dngo.config.pages import as_yaml
from dngo.errors import UserError
from dngo.evaluation.pictures import held
from dngo.exchange import csv_table
from dngo.exchange.crate import WORKFLOW, Crate
from dngo.redaction import form_of
from dngo.replay import configuration
from dngo.space.parameters import Number, Parameter, choices
from dngo.storage import picture
from dngo.storage.files import handing_out
from dngo.study import best_row
from dngo.study.entries import new_notes
from dngo.study.paths import Paths
from dngo.waiting import FORMAT, dump

PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": "Process Run Crate",
    "https://w3id.org/ro/wfrun/workflow/0.5": "Workflow Run Crate",
    "https://w3id.org/ro/wfrun/provenance/0.5": "Provenance Run Crate",
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": "Workflow RO-Crate",
}
README = """# Study {study}

What a Bayesian optimisation by dngo proposed and found: {rows} evaluations in {iterations} iterations.

- `archive.h5`: the system of record, plain HDF5. `dngo verify archive.h5` checks that no value was
  altered, `dngo replay archive.h5` derives every batch again, and
  `dngo audit archive.h5 --proposal 1-0` says why a point was proposed and what its outcome was.
- `proposals.csv`: a line for each proposal and its outcome.
- `images/ITERATION/SLOT.png` (or .jpg, .svg): the pictures that evaluations left, if there are any.
- `config.yaml`: the configuration, all defaults filled in.
- `notes.json`: what people noted after the last merge, if they did. The archive has earlier notes.
- `Snakefile`, `rules/`, `scripts/`: the workflow, {version}.
- `ro-crate-metadata.json`: all of this and every step of the run as linked data, a Provenance Run
  Crate (https://w3id.org/ro/wfrun/provenance/0.5).
"""
SETTINGS = ("seed", "iterations", "batch_size", "points_per_job", "batches_in_flight")
MANY = 1000  # jobs; with more, the evaluations of an iteration are one action


def write(
    archive: Path,
    output: Path,
    *,
    folder: Path,
    anonymous: bool = False,
    author: str | None = None,
    license: str | None = None,
) -> list[str]:
    """Write the crate of an archive. Returns what a user should know of it.

    folder: the study's, which has pictures, and the notes that no merge has taken.
    anonymous: leave these out, as they may show who and where.
    author: who ran the study, a name or "name <address of their ORCID>".
    license: the address of the data's licence, such as https://spdx.org/licenses/CC-BY-4.0.
    Raises UserError if the workflow's files are not beside the package.
    """
    found = _Description(archive, folder, author, license, anonymous=anonymous)
    crate, told = found.crate.graph, [f"{what}: {n}" for what, n in found.told.items()]
    if output.suffix == ".zip":
        with handing_out(output) as temporary:
            crate.write_zip(temporary)
        return told
    output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=f".{output.name}.") as new:
        crate.write(Path(new) / "crate")
        os.rename(Path(new) / "crate", output)  # `rename` replaces nothing but an empty folder
    return told


class _Description:
    """The entities of a crate, made from an archive."""

    def __init__(
        self,
        archive: Path,
        folder: Path,
        author: str | None,
        license: str | None,
        *,
        anonymous: bool,
    ):
        self.archive, self.folder, self.anonymous = archive, folder, anonymous
        self.told: Counter[str] = Counter()  # what a user should know
        self.table = archives.read_table(archive)
        header = archives.read_header(archive)
        assert header is not None  # `read_table` has read it already
        self.header = header
        self.config = configuration(archive, header.iterations - 1)
        attributes = [archives.iteration_attributes(archive, t) for t in range(header.iterations)]
        jobs = sum(-(-a["rows"] // a["points_per_job"]) for a in attributes)
        self.one_by_one = jobs <= MANY
        last = archives.read_batch(archive, header.iterations - 1, self.config.search_space)
        self.snakemake = last.environment.get("packages", {}).get("snakemake", "unknown")
        self.crate = Crate(_version(last.environment))

        self.crate.agent = self._author(author)
        self._root(license)
        self._files()
        for t in range(header.iterations):
            self._iteration(t)
        if not self.crate.steps:
            raise UserError(f"{archive}: holds imported points only; there is no run to describe")
        self._run()

    # ---- the study ------------------------------------------------------------------------------

    def _author(self, author: str | None) -> Any:
        if author is None:
            return None
        found = re.fullmatch(r"(.+?)\s*<(https?://[^<>\s]+)>", author)
        name, identifier = found.groups() if found else (author, "#author")
        return self.crate.add(identifier, "Person", name=name)

    def _root(self, license: str | None) -> None:
        root = self.crate.graph.root_dataset
        root["name"] = f"Study {self.config.study}"
        root["description"] = (
            f"Bayesian optimisation of {self.config.study} by dngo: {self.header.rows} evaluations "
            f"in {self.header.iterations} iterations"
        )
        name = license.rsplit("/", 1)[-1] if license else "None chosen: ask the author"
        root["license"] = self.crate.add(license or "#license", "CreativeWork", name=name)
        if self.crate.agent:
            root["author"] = self.crate.agent
        root["conformsTo"] = [
            self.crate.add(address, "CreativeWork", name=name, version=address.rsplit("/", 1)[-1])
            for address, name in PROFILES.items()
        ]

    def _files(self) -> None:
        description = "Bayesian optimisation, one batch of points after another"
        self.crate.add_workflow("dngo", description, self.snakemake)
        for path in sorted(WORKFLOW.glob("rules/*.smk")):
            self.crate.add_file(path, f"rules/{path.name}", name=f"Rules: {path.stem}")
        self.file = self.crate.add_file(
            self.archive,
            "archive.h5",
            name="The archive: every proposal, outcome and surrogate",
            identifier=self.header.digest,
        )
        resolved, table = io.StringIO(as_yaml(self.config.stored())), io.StringIO()
        self.configuration = self.crate.add_file(
            resolved, "config.yaml", name="The configuration, all defaults filled in"
        )
        csv_table.write_table(self.archive, table)
        self.crate.add_file(table, "proposals.csv", name="A line for each proposal and its outcome")
        text = README.format(
            study=self.config.study,
            rows=self.header.rows,
            iterations=self.header.iterations,
            version=f"dngo {self.crate.version}",
        )
        about = self.crate.graph.root_dataset
        self.crate.add_file(io.StringIO(text), "README.md", name="What is in here", about=about)
        self._notes()

    def _notes(self) -> None:
        """Add the notes that no merge has taken, where commands look for them."""
        notes = new_notes(self.archive, self.folder)
        if notes and self.anonymous:
            self.told["notes after the last merge are left out"] = len(notes)
        elif notes:
            text = json.dumps({"format": FORMAT, "notes": dump(notes)}, indent=1)
            name = "Notes that people wrote after the last merge"
            self.crate.add_file(io.StringIO(text), "notes.json", name=name)

    # ---- its iterations -------------------------------------------------------------------------

    def _iteration(self, t: int) -> None:
        space = archives.read_space(self.archive)
        batch = archives.read_batch(self.archive, t, space)
        outcomes = archives.read_outcomes(self.archive, batch)
        attributes = archives.iteration_attributes(self.archive, t)
        self.crate.add_packages(batch.environment)
        rows = f"rows {attributes['first_row']} to {attributes['first_row'] + len(outcomes) - 1}"
        name, digest = f"The archive with iterations 0 to {t}", attributes["digest"]
        record = self._part(f"#record-{t}", name, digest)
        if not batch.evaluated:
            self._import(t, batch, outcomes, [record, *self._pictures(outcomes)])
            return
        basis: list[Any] = []
        if t:
            learnt = self.crate.graph.get(f"#record-{batch.training_iterations - 1}")
            pending = [self.crate.graph.get(f"#batch-{s}") for s in batch.pending]
            basis = [self._fit(batch, learnt), learnt, *pending]
        proposed = self._propose(batch, rows, basis)
        own = [o for o, p in zip(outcomes, batch.proposals, strict=True) if not p.told]
        size = batch.points_per_job if self.one_by_one else max(len(own), 1)
        parts = [
            self._evaluate(t, job, own[start : start + size], proposed)
            for job, start in enumerate(range(0, len(own), size))
        ]
        if batch.told:
            told = [o for o, p in zip(outcomes, batch.proposals, strict=True) if p.told]
            parts.append(self._part(f"#told-{t}", f"{len(told)} outcomes from elsewhere"))
            parts += self._pictures(told)
        self.crate.add_step(
            "merge",
            f"#merge-{t}",
            name=f"Merge of iteration {t}",
            description=f"{rows} appended; the digest of the archive is {attributes['digest']}",
            object=[*parts, *([self.crate.graph.get(f"#record-{t - 1}")] if t else [])],
            result=[record],
            times=[json.loads(attributes["merged"]).get("time", math.nan)],
        )

    def _fit(self, batch: Batch, learnt: Any) -> Any:
        t = batch.iteration
        surrogate = self._part(f"#surrogate-{t}", f"/iterations/{t}/surrogate in the archive")
        with archives.reading(self.archive) as file:
            attributes = dict(file[f"iterations/{t}/surrogate"].attrs)
        started = json.loads(attributes["environment"])["time"]
        self.crate.add_step(
            "fit",
            f"#fit-{t}",
            name=f"Fit of iteration {t}",
            description=f"Learnt from iterations 0 to {batch.training_iterations - 1}; random "
            f"stream: seed {batch.seed}, key [{t}, 1]",
            object=[learnt, self.configuration],
            result=[surrogate],
            times=[started, started + float(attributes["seconds"])],
        )
        return surrogate

    def _propose(self, batch: Batch, rows: str, basis: list[Any]) -> Any:
        t = batch.iteration
        proposed = self._part(f"#batch-{t}", f"{rows} of /proposals in the archive")
        self.crate.add_step(
            "propose",
            f"#propose-{t}",
            name=f"Proposals of iteration {t}",
            description=f"{len(batch.proposals)} points, {_count(p.source for p in batch.proposals)}; "
            f"on {batch.environment.get('host')} ({batch.environment.get('cpu')}); random stream: "
            f"seed {batch.seed}, key {batch.spawn_key}",
            object=[*basis, self.configuration],
            result=[proposed],
            times=[batch.environment.get("time", math.nan)],
        )
        return proposed

    def _evaluate(self, t: int, job: int, outcomes: list[Outcome], proposed: Any) -> Any:
        first, last = outcomes[0].id, outcomes[-1].id
        result = self._part(f"#outcomes-{t}-{job}", f"Outcomes of {first} to {last}")
        jobs = sorted({o.job for o in outcomes} - {""})
        self.crate.add_step(
            "evaluate",
            f"#evaluate-{t}-{job}",
            name=f"Evaluation of {first} to {last}",
            description=f"{len(outcomes)} evaluations, {_count(o.status for o in outcomes)}; on "
            + ", ".join(sorted({o.host for o in outcomes}))
            + (f", job {', '.join(jobs[:5])}" if jobs else ""),
            object=[proposed],
            result=[result, *self._pictures(outcomes)],
            times=[x for o in outcomes for x in (o.started, o.finished)],
        )
        return result

    def _pictures(self, outcomes: list[Outcome]) -> list[Any]:
        """The pictures of outcomes as files. What looks like a secret stays out, as in all texts."""
        found = []
        for o in outcomes:
            place = Paths(self.folder).picture(o.iteration, o.slot)
            path = picture.kept_at(place) if held(o.metadata) else None
            if path is None:
                continue
            if self.anonymous:
                self.told["pictures are left out"] += 1
                continue
            try:
                data = picture.read(path)
            except (OSError, ValueError):  # somebody has put another file there
                continue
            if form_of(data.decode("latin-1")):
                self.told["pictures with what looks like a secret are left out"] += 1
                continue
            self.told["with pictures, as they are"] += 1
            name = f"images/{o.iteration}/{o.slot}{path.suffix}"
            found.append(self.crate.add_file(path, name, name=f"Picture of {o.id}"))
        return found

    def _import(self, t: int, batch: Batch, outcomes: list[Outcome], results: list[Any]) -> None:
        source = batch.environment.get("import", {})
        file = self.crate.add(
            f"#imported-{t}",
            "CreativeWork",
            name=str(source.get("file")),
            description=f"A file of evaluations made before ({source.get('format')})",
            identifier=f"sha256:{source.get('sha256')}",
        )
        version = self.crate.version
        self.crate.add_action(
            f"#import-{t}",
            self.crate.add("#dngo", "SoftwareApplication", name="dngo", softwareVersion=version),
            name=f"Import of {source.get('file')}",
            description=f"{len(outcomes)} evaluations, {_count(o.status for o in outcomes)}",
            object=[file],
            result=results,
            times=[batch.environment.get("time", math.nan)],
        )

    def _part(self, identifier: str, name: str, digest: str | None = None) -> Any:
        part = {"name": name, "identifier": digest, "isPartOf": self.file}
        return self.crate.add(identifier, "CreativeWork", **part)

    # ---- the run as a whole ---------------------------------------------------------------------

    def _run(self) -> None:
        workflow, parameter = self.crate.workflow, self.crate.add_parameter
        workflow["softwareRequirements"] = list(self.crate.packages.values())
        parameter(workflow, "input", "configuration", "File", self.configuration)
        settings = [self.crate.add_value(n, getattr(self.config, n)) for n in SETTINGS]
        for name, value in zip(SETTINGS, settings, strict=True):
            parameter(workflow, "input", name, "Integer", value)
        parameter(workflow, "output", "archive", "File", self.file)
        best = self._best()
        run = self.crate.add_action(
            "#run",
            workflow,
            name=f"Study {self.config.study}",
            description=f"{self.header.rows} evaluations, {_count(map(str, self.table.status))}",
            object=[self.configuration, *settings],
            result=[self.file, *best],
            times=list(self.crate.times),
        )
        address = f"https://pypi.org/project/snakemake/{self.snakemake}/"
        self.crate.add(
            "#engine",
            "OrganizeAction",
            name=f"Run of Snakemake {self.snakemake}",
            instrument=self.crate.packages.get(address)
            or self.crate.add(address, "SoftwareApplication", name="snakemake", url=address),
            agent=self.crate.agent,
            object=self.crate.steps,
            result=run,
            startTime=run.get("startTime"),
            endTime=run.get("endTime"),
        )
        others = [action for action in self.crate.actions if action is not run]
        self.crate.graph.root_dataset["mentions"] = [run, *others]

    def _best(self) -> list[Any]:
        """Add the formal parameters of the objective; return the value of the best outcome.

        Their values are the best point and its outcome. Of several objectives no single point is
        the best, and they have no values.
        """
        config, best, row = self.config, {}, None
        if not config.has_several:
            table = archives.read_table(self.archive, thresholds=config.thresholds)
            row = best_row(table, config.direction, config.ladder)
        if row is not None:
            best = next(islice(audit_rows(self.archive), row, None))
        tool = self.crate.tool("evaluate")
        for name, parameter in config.space.items():
            value = self.crate.add_value(name, best.get(f"parameter_{name}"))
            self.crate.add_parameter(tool, "input", name, _kind(parameter), value)
        names = list(config.directions) if config.has_several else ["objective"]
        values = {name: self.crate.add_value(name, best.get(name)) for name in names}
        for name, value in values.items():
            self.crate.add_parameter(tool, "output", name, "Float", value)
        return [value for value in values.values() if value is not None]


def _version(environment: dict[str, Any]) -> str:
    """The version of dngo that a stage ran with."""
    commit = environment.get("commit") or {}
    changed = " with changes" if commit.get("dirty") else ""
    return f"{environment.get('dngo')}, commit {commit.get('id', 'unknown')}{changed}"


def _kind(parameter: Parameter) -> str:
    if isinstance(parameter, Number):
        return "Integer" if parameter.whole else "Float"
    kinds = {type(choice) for choice in choices(parameter)}
    return "Boolean" if kinds == {bool} else "Text" if kinds == {str} else "PropertyValue"


def _count(words: Iterable[str]) -> str:
    return ", ".join(f"{n} {word}" for word, n in Counter(words).items())
