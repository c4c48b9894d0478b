"""The entities of an RO-Crate, in its words: files, parameters, actions, steps of a workflow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dngo.exchange import package
from dngo.outcomes import is_time
from dngo.provenance import workflow_folder

WORKFLOW = workflow_folder()
STAGES = {
    "fit": "Train the surrogate of an iteration on the archive at the start of that iteration",
    "propose": "Choose the points of a batch; the first batch is a Sobol design",
    "evaluate": "Run the objective at the points of a batch",
    "merge": "Append a batch and its outcomes to the archive",
}
BIOSCHEMAS = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
ENCODINGS = {
    ".h5": ("application/x-hdf5", "fmt/807", "HDF5"),
    ".csv": ("text/csv", "x-fmt/18", "Comma separated values"),
    ".json": ("application/json", "fmt/817", "JSON Data Interchange Format"),
    ".yaml": ("application/yaml", "fmt/818", "YAML"),
    ".png": ("image/png", "fmt/11", "Portable Network Graphics"),
    ".jpg": ("image/jpeg", "fmt/43", "JPEG File Interchange Format"),
    ".svg": ("image/svg+xml", "fmt/92", "Scalable Vector Graphics"),
    ".md": ("text/markdown", "fmt/1149", "Markdown"),
    ".py": ("text/x-python", "fmt/938", "Python source code"),
    "": ("text/plain", "x-fmt/111", "Plain text"),
}


class Crate:
    """A crate that grows.

    version: dngo's, as its files state it. agent: the entity that carried out all actions, or None.
    workflow: the Snakefile, once `add_workflow` has added it.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.entity = package("rocrate.model.contextentity").ContextEntity
        self.graph = package("rocrate.rocrate").ROCrate(version="1.1", gen_preview=True)
        self.agent: Any = None
        self.workflow: Any = None
        self.actions: list[Any] = []
        self.steps: list[Any] = []
        self.packages: dict[str, Any] = {}
        self.times: list[float] = []

    def add(self, identifier: str, kind: str, /, **properties: Any) -> Any:
        """Add an entity that is no file."""
        known = {k: _single(v) for k, v in properties.items() if v not in (None, "", [])}
        return self.graph.add(self.entity(self.graph, identifier, {"@type": kind, **known}))

    def add_file(self, source: Any, path: str, /, **properties: Any) -> Any:
        """Add a file, or the text of an `io.StringIO`, and how it is encoded."""
        if isinstance(source, io.StringIO):
            source.seek(0)
        return self.graph.add_file(source, path, properties=self._encoded(path, properties))

    def _encoded(self, path: str, properties: dict[str, Any]) -> dict[str, Any]:
        media, pronom, title = ENCODINGS.get(Path(path).suffix, ENCODINGS[""])
        address = f"https://www.nationalarchives.gov.uk/PRONOM/{pronom}"
        site = self.graph.get(address) or self.add(address, "WebSite", name=title)
        return {**properties, "encodingFormat": [media, site]}

    def add_workflow(self, name: str, description: str, snakemake: str) -> None:
        """Add the Snakefile, the main entity.  snakemake: its version."""
        kinds = ["File", "SoftwareSourceCode", "ComputationalWorkflow", "HowTo"]
        properties = {"name": name, "description": description, "version": self.version}
        self.workflow = self.graph.add_workflow(
            WORKFLOW / "Snakefile",
            "Snakefile",
            main=True,
            lang="snakemake",
            lang_version=snakemake,
            properties=self._encoded("Snakefile", {"@type": kinds, **properties}),
        )
        self.workflow["conformsTo"] = self.add(
            BIOSCHEMAS, "CreativeWork", name="Bioschemas profile of a workflow", version="1.0"
        )

    def add_parameter(self, owner: Any, direction: str, name: str, kind: str, example: Any) -> None:
        """Add a formal parameter of a tool (direction: input or output), and its value if known."""
        identifier = f"#{Path(owner.id).stem.lower()}-{direction}-{name}"
        about = {"additionalType": kind, "workExample": example}
        parameter = self.add(identifier, "FormalParameter", name=name, **about)
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
        known = [x for x in times if is_time(x)]
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
        action = self.add_action(identifier, self.tool(stage), **properties)
        carried = {"instrument": self.graph.get(f"#step-{stage}"), "object": action}
        name = f"Step {stage}: {properties['name']}"
        self.steps.append(self.add(f"{identifier}-step", "ControlAction", name=name, **carried))

    def tool(self, stage: str) -> Any:
        """The script of a stage. Its first use also describes its place in the workflow."""
        path = f"scripts/{stage}.py"
        tool = self.graph.get(path)
        if tool is None:
            about: dict[str, Any] = {"description": STAGES[stage], "version": self.version}
            about["@type"] = ["File", "SoftwareSourceCode"]
            tool = self.add_file(WORKFLOW / path, path, name=f"dngo {stage}", **about)
            place = {"position": list(STAGES).index(stage), "workExample": tool}
            step = self.add(f"#step-{stage}", "HowToStep", name=stage, **place)
            self.workflow.append_to("hasPart", tool)
            self.workflow.append_to("step", step)
        return tool

    def add_packages(self, environment: dict[str, Any]) -> None:
        """Add the packages that a stage ran with, each once."""
        for name, version in environment.get("packages", {}).items():
            address = f"https://pypi.org/project/{name}/{version}/"
            if address not in self.packages:
                self.packages[address] = self.add(
                    address, "SoftwareApplication", name=name, softwareVersion=version, url=address
                )


def _single(value: Any) -> Any:
    """The item of a list that has only one, otherwise the list: JSON-LD's compact form."""
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
