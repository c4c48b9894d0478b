"""`python -m dngo`: the command, if its script is not on the path."""

import os
import sys

# A user's file, such as `json.py`, must not replace one of Python's. Only `dngo` itself may be
# here.
here = os.getcwd()
if sys.path[:1] == [here] and not os.path.samefile(
    os.path.dirname(os.path.dirname(__file__)), here
):
    del sys.path[0]

from dngo.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
