"""Gives a study that is a module of a user's workflow what Snakemake does only for main Snakefiles.

Snakemake 9.27 drops the handlers of a module (`onstart` ...), and does not read profiles/default beside
it, by which only the age of files decides what runs again. A study that is used as a module gets
both here, for its own rules. The other rules of the workflow keep their handlers and rerun
triggers. The study is also planned where another job of this run makes a file that it needs.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from snakemake.jobs import Reason


class Dag(Protocol):
    """What is asked of the jobs of one study (`dngo.workflow.dag`)."""

    study: Any

    @property
    def goes_on(self) -> bool:
        """Whether the study has more iterations than its archive."""

    def merged(self, wildcards: Any) -> Any:
        """The file that says that an iteration is merged."""

    def begin(self) -> None:
        """Claim the study."""

    def end(self, *, success: bool) -> None:
        """Say how the run ended, and release the study."""

    def release(self) -> None:
        """Release the study."""


def attach(workflow: Any, dag: Dag) -> None:
    """Have Snakemake begin and end this study with the run. Only the age of files makes its rules run.

    workflow: Snakemake's, while it reads the module. Each `use rule` reads the module again.
    """
    if not hasattr(workflow, "dngo_modules"):
        workflow.dngo_modules = _Modules(workflow)
    workflow.dngo_modules.add(dag, workflow.modifier.rules)


class _ByAge(Reason):
    """A reason to run a job. Only the age and the absence of files count."""

    __slots__ = ()
    code_changed = params_changed = input_changed = software_stack_changed = property(
        lambda self: False, lambda self, value: None
    )


class _Reasons(defaultdict):
    """Snakemake's reasons by job. The job decides the class of its reason."""

    def __init__(self, reason_of: Callable[[Any], Reason]):
        super().__init__(Reason)
        self.reason_of = reason_of

    def __missing__(self, job: Any) -> Reason:
        self[job] = self.reason_of(job)
        return self[job]


class _Modules:
    """The studies that are modules of a workflow."""

    def __init__(self, workflow: Any):
        self.workflow = workflow
        self.studies: dict[str, Dag] = {}
        self.rules: dict[str, list[set[Any]]] = {}
        self.begun: list[Dag] = []
        self._join("onstart", self._begin)
        self._join("onsuccess", lambda: self._end(success=True))
        self._join("onerror", lambda: self._end(success=False))
        prepare = workflow._prepare_dag

        def prepared(*args: Any, **options: Any) -> None:
            self._check_rules()
            prepare(*args, **options)
            workflow.dag._reason = _Reasons(self._reason)
            self._look_behind(workflow.dag)

        workflow._prepare_dag = prepared

    def add(self, dag: Dag, rules: set[Any]) -> None:
        """rules: a set for this reading of the module. Snakemake adds rules to it while it reads."""
        folder = str(dag.study.folder)
        self.studies.setdefault(folder, dag)
        self.rules.setdefault(folder, []).append(rules)

    def _check_rules(self) -> None:
        """End with one line if a rule's `with: input:` removes the proposals from the inputs of
        evaluations.
        """
        for rule in (
            each for folder in self.rules for rules in self.rules[folder] for each in rules
        ):
            evaluates = any("/outcomes/{chunk" in str(path) for path in rule.output)
            is_told = any(str(path).endswith("/proposals.json") for path in rule.input)
            if evaluates and not is_told and "proposals" not in dict(rule.input.items()):
                sys.exit(
                    f"rule {rule.name}: its `with: input:` leaves `proposals` out, so "
                    "nothing would be proposed; remove `input:`, and name the files under "
                    "`needs` of the study: needs: "
                    f"[{', '.join(str(path) for path in rule.input)}]"
                )

    def _has(self, folder: str, rule: Any) -> bool:
        return any(rule in rules for rules in self.rules[folder])

    def _reason(self, job: Any) -> Reason:
        for folder, dag in self.studies.items():
            if self._has(folder, job.rule):
                reason = _ByAge()
                if dag.goes_on and f"{folder}/done" in job.output:
                    # If an output exists, Snakemake does not make its missing input.
                    reason.updated_input.update(dag.merged(job.wildcards))
                return reason
        return Reason()

    def _look_behind(self, graph: Any) -> None:
        """Have Snakemake look for what to do behind evaluations although it makes a file under `needs`.

        Snakemake 9.27 skips all jobs behind one that is to run, since it runs them because of that
        one. But it does not run those that have its files as `ancient` inputs only. So a study that
        goes on would not be planned.
        """
        update, walk = graph.update_needrun, graph.bfs

        def walk_on(direction: Any, *jobs: Any, **options: Any) -> Iterator[Any]:
            if direction is not graph.depending:
                yield from walk(direction, *jobs, **options)
                return
            found = deque(jobs)
            seen = set(jobs)
            while found:
                job = found.popleft()
                yield job
                for behind, files in direction[job].items():
                    old = all(file.is_ancient for file in files)
                    if behind not in seen and not (old and self._is_ours(behind)):
                        seen.add(behind)
                        found.append(behind)

        async def updating(*args: Any, **options: Any) -> Any:
            graph.bfs = walk_on
            try:
                return await update(*args, **options)
            finally:
                graph.bfs = walk

        graph.update_needrun = updating

    def _is_ours(self, job: Any) -> bool:
        return any(self._has(folder, job.rule) for folder in self.studies)

    def _join(self, event: str, act: Callable[[], None]) -> None:
        """Call `act` before the handler of the main Snakefile.

        Snakemake may read that handler before or after this.
        """
        workflow, register = self.workflow, getattr(self.workflow, event)

        def join() -> None:
            handler = getattr(workflow, f"_{event}")

            def both(log: Any) -> None:
                act()
                handler(log)

            setattr(workflow, f"_{event}", both)

        def registering(handler: Any) -> None:
            register(handler)
            if workflow.modifier.is_main_snakefile():
                join()

        join()
        setattr(workflow, event, registering)

    def _begin(self) -> None:
        """Claim each study in which this run has something to do."""
        running = {job.rule for job in self.workflow.dag.needrun_jobs()}
        try:
            for folder, dag in self.studies.items():
                if any(self._has(folder, rule) for rule in running):
                    dag.begin()
                    self.begun.append(dag)
        except BaseException:
            for dag in self.begun:
                dag.release()
            raise

    def _end(self, *, success: bool) -> None:
        for dag in self.begun:
            dag.end(success=success)
