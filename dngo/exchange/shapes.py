"""The shapes in which other programs write their evaluations, as tables, and their words for states.

A shape says which columns are parameters, which one is the objective and which one the state. A file of
JSON becomes such a table first (`dngo.exchange.documents`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase

# Words of other programs for the state of an evaluation, in small letters, by what follows.
STATES = {
    "": "ok success successful succeeded complete completed finished done terminated",
    "failed": "fail failed failure error errored crash crashed exception diverged",
    "timeout": "timeout timedout timed_out capped",
    "out_of_memory": "memout memoryout oom out_of_memory",
}
# States that say nothing of the point: such an evaluation is left out, with these words.
UNKNOWN = {
    "has not ended": "running in_progress inprogress waiting pending queued scheduled starting new "
    "candidate staged paused",
    "was stopped early, and has no objective of its own": "pruned early_stopped stopped stopping",
    "was withdrawn": "killed abandoned cancelled canceled preempted abort aborted donotadvance",
}


def state_of(word: str) -> tuple[str | None, str]:
    """Our status for a word of others, and why it is left out.

    "" if the status follows from the values; None for an unknown word.
    """
    found = re.sub(r"^.*\.", "", word.strip()).lower().replace(" ", "_").replace("-", "_")
    for status, words in STATES.items():
        if found in words.split():
            return status, ""
    for why, words in UNKNOWN.items():
        if found in words.split():
            return "", why
    return None, ""


@dataclass(frozen=True)
class Shape:
    """How a program writes a table.

    name: of its file, in messages.
    signs: patterns of columns, each of which is there.
    parameters: the pattern of their columns; "*" stands for the name.
    objective: its column; empty: the only metric.
    metrics: the pattern of columns that it measured; constraints are among these.
    status, duration: columns, empty if there is none.
    times: the columns of start and end.
    trial: a column that several rows of one evaluation share; the last of them counts.
    beside: patterns of columns that are no metrics.
    aim: what the program always does with its objective, if it is always the same.
    fails: whether an evaluation without an objective failed; otherwise nothing is known of it.
    """

    name: str
    signs: tuple[str, ...] = ()
    parameters: str = "*"
    objective: str = ""
    metrics: str = "*"
    status: str = ""
    duration: str = ""
    times: tuple[str, str] = ("", "")
    trial: str = ""
    beside: tuple[str, ...] = ()
    aim: str = ""
    fails: bool = False

    def fits(self, columns: Collection[str]) -> bool:
        """Whether a table with these columns has the shape."""
        return bool(self.signs) and all(
            any(fnmatchcase(column, sign) for column in columns) for sign in self.signs
        )

    def named(self, pattern: str, column: str) -> str | None:
        """The name in a column of a pattern, None for another column."""
        before, _, after = pattern.partition("*")
        if "*" not in pattern or len(column) <= len(before) + len(after):
            return None
        if not (column.startswith(before) and column.endswith(after)):
            return None
        return column[len(before) : len(column) - len(after)]


_RAY = (
    *("timestamp", "checkpoint_dir_name", "done", "training_iteration", "trial_id", "date", "pid"),
    *("time_*", "hostname", "node_ip", "iterations_since_restore", "logdir", "should_checkpoint"),
    *("experiment_*", "episodes_total", "timesteps_*", "warmup_time", "trial_log_path"),
)
SHAPES = (
    Shape(
        "Optuna's table of trials",
        ("params_*", "state", "number", "datetime_start"),
        parameters="params_*",
        metrics="values_*",
        objective="value",
        status="state",
        duration="duration",
    ),
    Shape(
        "MLflow's export",
        ("params.*", "metrics.*", "run_id"),
        parameters="params.*",
        metrics="metrics.*",
        status="status",
        times=("start_time", "end_time"),
        beside=("metrics.system/*",),
    ),
    Shape(
        "MLflow's export",
        ("Run ID", "Source Type", "Status"),
        status="Status",
        beside=(
            *("Start Time", "Duration", "Run ID", "Name", "Source*", "User", "Version", "Models"),
            *("Status", "Dataset*", "Experiment*"),
        ),
    ),
    Shape(
        "Ray Tune's results",
        ("config/*", "trial_id"),
        parameters="config/*",
        duration="time_total_s",
        trial="trial_id",
        beside=(*_RAY, "config/*"),
    ),
    Shape(
        "Syne Tune's results",
        ("config_*", "trial_id", "st_*"),
        # Its states are those at the time of a report.
        parameters="config_*",
        duration="st_worker_time",
        trial="trial_id",
        beside=("st_*", "config_*", "trial_id", "step", "epoch", "epochs", "elapsed_time"),
    ),
    Shape(
        "Weights & Biases' export",
        ("Name", "State", "Created", "Runtime"),
        status="State",
        duration="Runtime",
        beside=(
            *("Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "_*", "ID"),
            *(
                "End Time",
                "Hostname",
                "Description",
                "Commit",
                "GitHub",
                "Group",
                "Job Type",
                "Updated",
            ),
        ),
    ),
    Shape(
        "scikit-learn's search",
        ("param_*", "mean_test_score", "rank_test_score"),
        parameters="param_*",
        metrics="mean_test_*",
        objective="mean_test_score",
        aim="maximize",
        fails=True,
    ),
    Shape(
        "Ax' summary",
        ("trial_index", "arm_name", "trial_status"),
        status="trial_status",
        beside=("trial_index", "arm_name", "trial_status", "generation_*", "is_feasible", "fail_*"),
    ),
    Shape(
        "Nevergrad's log",
        ("#loss", "#num-tell"),
        objective="#loss",
        aim="minimize",
        beside=("#*", "*#*", "*.indices*"),
    ),
    Shape("scikit-optimize's results", ("func_vals",), objective="func_vals", aim="minimize"),
    Shape(
        "SMAC's run history",
        ("smac/config_id",),
        parameters="config/*",
        metrics="metrics/*",
        objective="cost",
        status="status",
        duration="time",
        aim="minimize",
    ),
    Shape(
        "Hyperopt's trials",
        ("hyperopt/tid",),
        parameters="vals/*",
        metrics="result/*",
        objective="loss",
        status="status",
        aim="minimize",
    ),
    Shape(
        "the log of bayes_opt",
        ("target", "params.*"),
        parameters="params.*",
        metrics="",
        objective="target",
        aim="maximize",
    ),
)


def of_columns(columns: Collection[str]) -> Shape | None:
    """The shape of a table with these columns, None if no program is known to write such a one."""
    return next((shape for shape in SHAPES if shape.fits(columns)), None)
