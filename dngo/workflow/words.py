"""Lines in a job's log on a cluster. The executor that submitted the job reads them."""

BEGUN = "dngo: this job has begun"
CANNOT_BEGIN = (
    "dngo: this job cannot begin"  # Python, this package or the study's folder is missing there
)
ENDED = "dngo: this job has ended"  # and, in parentheses, its exit status
CANNOT_START = "dngo: the objective cannot be started on this node"
GOES_ON = "the next attempt goes on"  # a job leaves the rest of its points to another one
STOPPED = "stopped from outside; no outcome was written"
STOPS = "This stops the run: nothing more is started."
# The folder of the study whose cluster is being checked (`dngo check --cluster`).
CHECK = "DNGO_CHECK_CLUSTER"
CLUSTER_JOB = "DNGO_CLUSTER_JOB"  # this variable tells a job that its executor reads these lines
