"""Why `sbatch` did not take a job: by whole sentences of Slurm, and by its names of limits.

A site's own words, such as a greeting or the text of a plugin, mean nothing here: the user reads
them as they are, and no key is guessed. Slurm's table of errors has the sentences (releases
20.11 to 26.05); sbatch ends with one of them.
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field

from dngo.workflow.slurm.reasons import key_of, shared_key_of

# The resource to change, and the sentences that mean: Slurm will never take this job.
_STAYS = {
    "mem_mb": (
        "Memory specification can not be satisfied",
        "Memory required by task is not available",
    ),
    "threads": (
        "CPU count per node can not be satisfied",
        "CPU count specification invalid",
        "More processors requested than permitted",
        "RestrictedCoresPerGPU: Not enough unique cores per GPU",
    ),
    "tasks": ("Task count specification invalid", "Requested more tasks than available processors"),
    "nodes": (
        "Node count specification invalid",
        "Requested topology configuration is not available",
    ),
    "runtime": (
        "Requested time limit is invalid (missing or exceeds some limit)",
        "Time limit specification required, but not provided",
    ),
    "gpu": (
        "Invalid generic resource (gres) specification",
        "Duplicate generic resource (gres) specification",
        "Invalid GRES specification (with and without type identification)",
        "Requested GRES option unsupported by configured SelectType plugin",
        "Insufficient GRES available in allocation",
        "Invalid Trackable RESource (TRES) specification",
        "RestrictedCoresPerGPU: Missing core topology for GPUs",
        "RestrictedCoresPerGPU: No GPUs configured on node",
    ),
    "constraint": (
        "Invalid feature specification",
        "Invalid KNL configuration (MCDRAM or NUMA option)",
        "Multiple KNL NUMA and/or MCDRAM constraints require use of a heterogeneous job",
    ),
    "slurm_partition": (
        "Invalid partition name specified",
        "No partition specified or system default partition",
        "User's group not permitted to use this partition",
        "Multiple partition job request not supported when a partition is set in the association",
    ),
    "slurm_partition or slurm_extra": ("Requested nodes not in this partition",),
    "slurm_account": (
        "Invalid account or account/partition combination specified",
        "Invalid or unknown association",
    ),
    "qos": (
        "Invalid qos specification",
        "Requested account has breached requested QOS usage threshold",
        "Invalid QOS specification, relative QOS can only be used in a single partition per cluster.",
    ),
    "clusters": ("Invalid cluster name",),
    "slurm_extra": (
        "Invalid license specification",
        "Access denied to requested reservation",
        "Requested reservation is invalid",
        "Invalid time specified",
        "Invalid wckey specification",
        "Job dependency problem",
        "Circular job dependency",
        "Task distribution specification invalid",
        "Current SwitchType does not permit arbitrary task distribution",
        "Invalid job array specification",
        "Burst Buffer permission denied",
        "Burst Buffer resource limit exceeded",
        "Burst Buffer request invalid",
        "Invalid mcs_label specified",
        "Job --batch option is invalid or not a subset of --constraints",
        "Job --batch option is invalid or not a subset of --constraint",
        "Invalid --nice value",
        "Invalid time-min specification (exceeds job's time or other limits)",
        "Cannot request more threads per core than the job allocation",
        "Invalid preferred feature specification",
        "Invalid cluster feature specification",
        "Invalid container id specified",
        "Invalid extra constraints specification",
        "X11 forwarding not available",
        "Requires more ports than can be reserved",
        "Invalid node name specified",
        "Plugin has invalid format or unable to be loaded",
    ),
    "threads, mem_mb or constraint": ("Requested node configuration is not available",),
}
# It may take the same job later.
_PASSES = (
    "Required partition not available (inactive or drain)",
    "Partition in DOWN state",
    "Required node not available (down, drained or reserved)",
    "Requested nodes are busy",
    "Requested partition configuration not available now",
    "Requested reservation not usable now",
    "Job can not start due to maintenance reservation.",
    "System submissions disabled",
    "Unable to create job record, try again",
    "I/O error writing script/environment to file",
    "Slurm backup controller in standby mode",
    "Controller is in standby mode, try a different controller",
    "Licenses currently unavailable",
    "Required ports are in use",
    "Switch resources currently not available",
    "Max powered up nodes reached",
    "MaxJobCount limit reached",
    "Rate limit exceeded, please retry momentarily",
    "Rate limit exceeded, please retry later",
    "Slurm temporarily unable to accept job, sleeping and retrying",
    "Unable to connect to database",
    "Database connection reference is invalid",
    "Protocol authentication error",
    "Invalid authentication credential",
    "Authentication credential invalid",
    "Authentication credential expired",
    "Failed to open authentication public key",
    "Failed to connect to authentication agent",
    "Could not establish a configuration source",
)
# It may even have taken the job, since only the answer may be lost.
_UNCERTAIN = (
    "Unexpected message received",
    "Communication connection failure",
    "Message send failure",
    "Message receive failure",
    "Communication shutdown failure",
    "Unexpected missing socket error",
    "Unable to contact slurm controller (send failure)",
    "Unable to contact slurm controller (receive failure)",
    "Unable to contact slurm controller (shutdown failure)",
    "Received zero length message",
    "Received message length < 0",
    "Failed to send entire message",
    "Header lengths are longer than data received",
    "Socket timed out on send/recv operation",
    "Zero Bytes were transmitted or received",
    "Connection rejected by handler",
    "Connection forced closed by quiesce timeout",
    "Connection timed out reading",
    "Connection timed out writing",
    "Kernel reported delayed socket error after successful write(), client side likely closed",
    "Process is shutting down and closing all communications",
)
_OF_SYSTEM = {
    name: os.strerror(name)
    for name in (
        errno.EAGAIN,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ETIMEDOUT,
    )
}
_NOT_SENT = (
    "Unable to contact slurm controller (connect failure)",
    "Connection timed out establishing",
)
_CERTAIN_ERRNOS = (errno.EAGAIN, errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
# Sentences with a part of the user's.
_FORMS = (
    (re.compile(r"invalid partition specified: \S+"), "slurm_partition"),
    (re.compile(r"The given account \S* appears to be invalid\b.*"), "slurm_account"),
    (re.compile(r"unrecognized option .*|invalid option -- .*|option '\S+' .*"), "slurm_extra"),
)
_SUBMITTED = re.compile(r"(QOS|Assoc)?(Max|Grp)Submit[A-Za-z]*")
_NO_NODE = ("Requested node configuration is not available", "Invalid node name specified")
# What sbatch puts before its sentences.
_BEFORE = re.compile(
    r"^(sbatch: )?((error|fatal): )?((batch job submission failed|allocation failure"
    r"|unable to allocate resources): )?",
    re.I,
)


def _by_sentence(*sentences: str) -> frozenset[str]:
    return frozenset(sentence.rstrip(".").lower() for sentence in sentences)


_KEYS = {s: key for key, sentences in _STAYS.items() for s in _by_sentence(*sentences)}
UNCERTAIN = _by_sentence(
    *_UNCERTAIN, *(text for name, text in _OF_SYSTEM.items() if name not in _CERTAIN_ERRNOS)
)
PASSES = _by_sentence(*_PASSES, *_NOT_SENT, *_OF_SYSTEM.values()) | UNCERTAIN
NO_NODE = _by_sentence(*_NO_NODE)


@dataclass(frozen=True)
class Refusal:
    """Why `sbatch` did not accept a job.

    words: all that it printed, on one line.
    passes: whether Slurm may accept the same job later.
    key: the resource that the user must change, "" if unknown.
    sentences: those of Slurm, in small letters.
    """

    words: str
    passes: bool = False
    key: str = ""
    sentences: frozenset[str] = field(default=frozenset(), compare=False)

    @classmethod
    def read(cls, said: str) -> Refusal:
        """The refusal that sbatch printed, on any number of lines."""
        words = " ".join(said.split())
        lines = [_sentence(line) for line in said.splitlines()]
        found = frozenset(line.lower() for line in lines)
        if found & PASSES or any(map(_SUBMITTED.fullmatch, lines)):
            return cls(words, True, sentences=found)
        # The cause comes first: "Memory specification can not be satisfied" stands above "Requested
        # node configuration is not available".
        return cls(words, False, next(filter(None, map(_key, lines)), ""), found)

    @property
    def uncertain(self) -> bool:
        """Whether Slurm may have accepted the job despite the error."""
        return bool(self.sentences & UNCERTAIN)

    @property
    def for_want_of_nodes(self) -> bool:
        """Whether excluded nodes may be the reason that no node is left."""
        return bool(self.sentences & NO_NODE)


def _sentence(line: str) -> str:
    return _BEFORE.sub("", " ".join(line.split())).rstrip(".")


def _key(sentence: str) -> str:
    """The resource to change by one sentence; "" if it does not name one."""
    known = _KEYS.get(sentence.lower(), "")
    known = known or next((key for form, key in _FORMS if form.fullmatch(sentence)), "")
    return known or key_of(sentence) or shared_key_of(sentence)
