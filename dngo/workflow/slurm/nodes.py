"""Nodes on which jobs die: named, avoided by the next attempt, and left out after too many.

A job that dies before our first line in its log says nothing about its points: the node's Python is
broken, or a file system is not mounted. Such a death is no attempt at its points. The node is free
again at once, and takes the next job. So one node could end a whole batch.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

SUSPECT = 600.0  # seconds for which no job goes to a node where one died before it began
MOST = 3  # early deaths until a node is left out, and nodes left out until the run ends
FREE = 10  # early deaths of one job that do not count as attempts at its points


@dataclass
class Nodes:
    """What one run knows about the nodes on which its jobs died."""

    left_out: dict[str, str] = field(default_factory=dict)  # the reason, by node
    # Nodes where jobs have begun, by their rules.
    _began: dict[str, set[str]] = field(default_factory=dict)
    _deaths: dict[str, list[str]] = field(default_factory=dict)  # how early deaths ended, by node
    # Nodes where the objective could not be started.
    _unable: list[str] = field(default_factory=list)
    _last: dict[str, float] = field(default_factory=dict)  # time of the last early death, by node
    # Nodes where attempts of a job failed.
    _of_job: dict[Hashable, set[str]] = field(default_factory=dict)

    def bad(self, now: float) -> set[str]:
        """Nodes that no job may use now: nodes left out, and nodes where a job has just died."""
        return {n for n, last in self._last.items() if now - last < SUSPECT} | self.left_out.keys()

    def excluded(self, job: Hashable, now: float) -> set[str]:
        """Nodes that the next attempt of a job avoids. Nodes where an attempt failed are among them."""
        return self._of_job.get(job, set()) | self.bad(now)

    def forget(self, job: Hashable) -> None:
        """Let jobs use any node that is not left out, since no other node is available."""
        self._of_job.pop(job, None)
        self._last.clear()

    def began(self, rules: str, node: str) -> None:
        """Note that a job of these rules has begun on a node."""
        self._began.setdefault(rules, set()).add(node)

    def others(self, rules: str, now: float) -> bool:
        """Whether jobs of these rules have begun on some node that they may use now."""
        return bool(self._began.get(rules, set()) - self.bad(now) - {""})

    def failed(self, job: Hashable, node: str) -> None:
        """Note that an attempt of a job has failed on a node, for any reason."""
        if node:
            self._of_job.setdefault(job, set()).add(node)

    def died(self, node: str, how: str, now: float) -> list[str]:
        """Note a job that died before it began. Returns a message for the user.

        node: "" if unknown. how: its exit status, in words.
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
            f"A job died {place} before it began ({how}). That does not count as an attempt "
            "at its points" + (", and the next ones go to other nodes." if node else ".")
        ]

    def unable(self, node: str) -> bool:
        """Note that the objective could not be started on a node. Returns whether the node seems
        the cause.

        Call it only if the objective has never run.
        """
        self._unable.append(node)
        return len(set(self._unable)) > 1 or len(self._unable) >= MOST

    @property
    def hopeless(self) -> str:
        """The reason to try no further job, or "": no job has begun on any of several nodes."""
        if self._began or len(self._deaths) < MOST:
            return ""
        found = ", ".join(f"{node or '?'} ({hows[-1]})" for node, hows in self._deaths.items())
        return f"no job of this run has begun; jobs died on each node that Slurm gave them: {found}"

    @property
    def none_left(self) -> str:
        """A text that says why no node is left."""
        return "; ".join(f"{node}: {why}" for node, why in self.left_out.items())
