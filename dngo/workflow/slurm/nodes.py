"""Nodes on which jobs die: named, avoided by the next attempt, and left out after too many.

A job that dies before its first line of ours says nothing of its points: Python is broken there, or a
file system is not mounted. It is no attempt at them. A node that ends such jobs at once is free again at
once, and takes the next ones: so one node could end a whole batch.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

SUSPECT = 600.0  # seconds for which no job goes where one has died before it began
MOST = 3  # jobs that die before they begin, on one node, until it is left out; nodes, until the run ends
FREE = 10  # such deaths of one job that are no attempts at its points


@dataclass
class Nodes:
    """What is known in one run of the nodes that its jobs died on."""

    left_out: dict[str, str] = field(default_factory=dict)  # why, by node
    _began: dict[str, set[str]] = field(
        default_factory=dict
    )  # where jobs have begun, by their rules
    _deaths: dict[str, list[str]] = field(default_factory=dict)  # how jobs ended, by node
    _unable: list[str] = field(default_factory=list)  # where the objective could not be started
    _last: dict[str, float] = field(default_factory=dict)  # when the last of them died
    _of_job: dict[Hashable, set[str]] = field(default_factory=dict)  # where its attempts ended

    def bad(self, now: float) -> set[str]:
        """Nodes that no job may go to now: those left out, and those where a job has just died."""
        return {n for n, last in self._last.items() if now - last < SUSPECT} | self.left_out.keys()

    def excluded(self, job: Hashable, now: float) -> set[str]:
        """Nodes for the next attempt of a job to avoid, including those where an attempt failed."""
        return self._of_job.get(job, set()) | self.bad(now)

    def forget(self, job: Hashable) -> None:
        """Let jobs go to any node that is not left out: there is no other."""
        self._of_job.pop(job, None)
        self._last.clear()

    def began(self, rules: str, node: str) -> None:
        """Note that a job of these rules has begun on a node."""
        self._began.setdefault(rules, set()).add(node)

    def others(self, rules: str, now: float) -> bool:
        """Whether jobs of these rules are known to begin on a node where they may go."""
        return bool(self._began.get(rules, set()) - self.bad(now) - {""})

    def failed(self, job: Hashable, node: str) -> None:
        """Note that an attempt of a job has failed on a node, whatever for."""
        if node:
            self._of_job.setdefault(job, set()).add(node)

    def died(self, node: str, how: str, now: float) -> list[str]:
        """Note a job that died before it began; what to tell the user.

        node: "" if it is not known.  how: its exit status, in words.
        """
        where = self._deaths.setdefault(node, [])
        where.append(how)
        if node:
            self._last[node] = now
        if node and len(where) == MOST:
            self.left_out[node] = f"{MOST} jobs died there before they began ({how})"
            return [f"Node {node} is left out for the rest of this run: {self.left_out[node]}."]
        if len(where) > 1:
            return []
        place = f"on node {node}" if node else "on a node that Slurm does not name"
        return [
            f"A job died {place} before it began ({how}). That is no attempt at its points"
            + (", and the next ones go to other nodes." if node else ".")
        ]

    def unable(self, node: str) -> bool:
        """Note that the objective could not be started on a node; whether that looks like its own fault.

        Call it only if the objective has never run.
        """
        self._unable.append(node)
        return len(set(self._unable)) > 1 or len(self._unable) >= MOST

    @property
    def hopeless(self) -> str:
        """Why no further job should be tried, "" where one should: none began, on several nodes."""
        if self._began or len(self._deaths) < MOST:
            return ""
        found = ", ".join(f"{node or '?'} ({hows[-1]})" for node, hows in self._deaths.items())
        return f"no job of this run has begun, and jobs died on every node that they were given: {found}"

    @property
    def none_left(self) -> str:
        """Why there is no node left, in words."""
        return "; ".join(f"{node}: {why}" for node, why in self.left_out.items())
