"""What a cluster's job says to the executor that submitted it, as lines of its log."""

BEGUN = "dngo: this job has begun"
CANNOT_BEGIN = (
    "dngo: this job cannot begin"  # Python, this package or the study's folder is not there
)
CANNOT_START = "dngo: the objective cannot be started on this node"
STOPS = "This stops the run: nothing more is started."
CLUSTER_JOB = "DNGO_CLUSTER_JOB"  # set in the environment of a job whose executor reads them
