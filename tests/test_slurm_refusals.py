"""What sbatch says where it takes no job: the right key, or the site's words and no key."""

from __future__ import annotations

import pytest

from dngo.workflow.slurm.reasons import key_of
from dngo.workflow.slurm.refusals import Refusal


@pytest.mark.parametrize(
    ("words", "passes", "key"),
    [
        ("QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
         "accounting/QOS policy (job submit limit, user's size and/or time limits)", True, ""),
        ("sbatch: error: AssocGrpSubmitJobsLimit", True, ""),
        ("sbatch: error: Batch job submission failed: Required partition not available (inactive "
         "or drain)", True, ""),
        ("sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect "
         "failure)", True, ""),
        ("sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying", True, ""),
        ("sbatch: error: invalid partition specified: nowhere", False, "slurm_partition"),
        ("sbatch: error: Batch job submission failed: Invalid account or account/partition "
         "combination specified", False, "slurm_account"),
        ("sbatch: error: QOSMaxWallDurationPerJobLimit\nsbatch: error: Batch job submission failed: "
         "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
         False, "runtime"),
        ("sbatch: error: Memory specification can not be satisfied\nsbatch: error: Batch job "
         "submission failed: Requested node configuration is not available", False, "mem_mb"),
        # What the plugin says, and Slurm of the same account.
        ("The given account chem appears to be invalid. Available accounts:\nlab", False, "slurm_account"),
        ("allocation failure: Invalid qos specification", False, "qos"),
        ("allocation failure: Invalid feature specification", False, "constraint"),
        ("allocation failure: Node count specification invalid", False, "nodes"),
        ("allocation failure: Invalid license specification", False, "slurm_extra"),
        ("sbatch: error: CPU count per node can not be satisfied", False, "threads"),
        ("sbatch: error: Batch job submission failed: Protocol authentication error", True, ""),
        ("sbatch: error: something that nobody has seen", False, ""),
    ],
)  # fmt: skip
def test_a_refusal_is_read(words: str, passes: bool, key: str) -> None:
    assert Refusal.read(words) == Refusal(" ".join(words.split()), passes, key)


# Slurm's errors that sbatch may end with, by their codes, and what must be changed.
KEYS = {
    "slurm_partition": (2000, 2001, 2003, 2130),
    "slurm_partition or slurm_extra": (2004,),
    "threads": (2005, 2069),
    "nodes": (2006,),
    "threads, mem_mb or constraint": (2014,),
    "tasks": (2025, 2041),
    "constraint": (2029, 2121, 8001),
    "mem_mb": (2044,),
    "slurm_account": (2045,),
    "runtime": (2051, 8000),
    "qos": (2066, 2074),
    "gpu": (2072, 2102, 2115, 2119, 2122, 2134),
    "clusters": (7104,),
    "slurm_extra": (2018, 2023, 2038, 2040, 2048, 2052, 2053, 2054, 2057, 2060, 2071, 2081, 2092,
                    2093, 2094, 2099, 2112, 2114, 2123, 2124, 2132, 2133, 7102, 8002),
}  # fmt: skip
LATER = (1000, 1001, 1002, 1003, 1004, 1007, 1013, 1800, 1801, 1802, 1803, 2007, 2015, 2016, 2019, 2027, 2056, 2059, 2068, 2070,
         2079, 2101, 2105, 2118, 2131, 5000, 5001, 5002, 5003, 5004, 5005, 6000, 6001, 6002, 6006, 7000,
         7008)  # fmt: skip


@pytest.mark.parametrize(
    "before",
    ["sbatch: error: Batch job submission failed: ", "allocation failure: ", "sbatch: fatal: "],
)
def test_each_error_of_slurm_has_its_key_or_none(slurm_errors: dict[int, str], before: str) -> None:
    keys = {code: key for key, codes in KEYS.items() for code in codes}
    wrong = {}
    for code, text in slurm_errors.items():
        found = Refusal.read(f"{before}{text}")
        if (found.key, found.passes) != (keys.get(code, ""), code in LATER):
            wrong[code] = (text, found.key, found.passes)
    assert wrong == {}
    assert len(slurm_errors) > 200


# What sites and their plugins print. Each line has a word that once led to a key.
GREETINGS = [
    "Welcome to Aurora! Please mind the memory of the login node.",
    "sbatch: NOTE: the next maintenance reservation begins on Monday",
    "sbatch: error: Your project has used 80 % of its time limit. See the wiki: account, QOS, feature",
    "sbatch: lua: job_submit: invalid qos is replaced by normal",
    "sbatch: error: jobs without --comment are refused; memory and gres do not matter",
    "gres of this cluster: gpu:a100; processors: AMD; node count: 120",
    "sbatch: authentication by munge, database by MariaDB, timed out sessions are closed",
]


@pytest.mark.parametrize("greeting", GREETINGS)
def test_words_of_a_site_lead_to_no_key(greeting: str) -> None:
    for stream in (
        greeting,
        f"{greeting}\nsbatch: error: Batch job submission failed: Unspecified error",
    ):
        refusal = Refusal.read(stream)
        assert (refusal.key, refusal.passes, refusal.uncertain) == ("", False, False)
        assert greeting in refusal.words
    beside = f"{greeting}\nsbatch: error: Batch job submission failed: Invalid qos specification"
    assert Refusal.read(beside).key == "qos"
    down = f"{greeting}\nsbatch: error: Batch job submission failed: Socket timed out on send/recv operation"
    assert Refusal.read(down).passes and Refusal.read(down).uncertain


@pytest.mark.parametrize(
    ("text", "uncertain"),
    [("Connection refused", False), ("Connection timed out", True), ("Connection reset by peer", True),
     ("Resource temporarily unavailable", False), ("No route to host", False)],
)  # fmt: skip
def test_errors_of_the_system_pass(text: str, uncertain: bool) -> None:
    refusal = Refusal.read(f"sbatch: error: Batch job submission failed: {text}")
    assert refusal.passes and refusal.uncertain == uncertain


def test_excluded_nodes_may_be_the_cause() -> None:
    for text in ("Requested node configuration is not available", "Invalid node name specified"):
        assert Refusal.read(f"sbatch: error: Batch job submission failed: {text}").for_want_of_nodes
    assert not Refusal.read(
        "sbatch: error: our node configuration is not available"
    ).for_want_of_nodes


def test_an_option_that_sbatch_does_not_know_is_of_slurm_extra() -> None:
    said = "sbatch: unrecognized option '--turbo'\nTry \"sbatch --help\" for more information"
    assert Refusal.read(said).key == "slurm_extra"


@pytest.mark.parametrize(
    "reason",
    [
        "Welcome: memory MaxMemPerJob is 4 GB",
        "held by admin: QOSMaxWallDurationPerJobLimit, see wiki",
    ],
)
def test_a_reason_in_words_of_a_site_has_no_key(reason: str) -> None:
    assert key_of(reason) == ""
