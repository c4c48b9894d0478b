"""A job of `dngo check --cluster`: it says what it sees on its node, as a line of JSON.

It imports nothing of this package, since it also says whether that can be imported.
"""

import json
import os
import platform
import sys
import tempfile
import time


def main(token: str, study: str, package: str) -> None:
    """Print what this node sees.

    token: a file that the submitting machine wrote. study: the study's folder, or the nearest above it.
    package: the folder that holds this package.
    """
    node = os.environ.get("SLURMD_NODENAME") or platform.node()
    found = {"time": time.time(), "node": node, "python": platform.python_version()}
    found["files"] = os.path.exists(token)
    found["study"] = os.path.isdir(study) and os.access(study, os.W_OK)
    found["tmpdir"] = os.environ.get("TMPDIR", "")
    try:
        with tempfile.TemporaryFile() as stream:
            stream.write(b"x")
        found["temporary"] = tempfile.gettempdir()
    except OSError as error:
        found["temporary"] = f"no temporary file can be written ({error})"
    sys.path.insert(0, package)
    try:
        import dngo.evaluation.chunk  # noqa: F401

        found["imports"] = ""
    except Exception as error:  # of any kind: the environment is broken there
        found["imports"] = f"{type(error).__name__}: {error}"
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
