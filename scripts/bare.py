"""Run stages in a cluster's job: see `dngo.workflow.bare`."""

import sys
from pathlib import Path

root = Path(__file__).resolve().parents[1]
if (root / "dngo").is_dir():
    sys.path.insert(0, str(root))

from dngo.workflow.bare import main  # noqa: E402

main()
