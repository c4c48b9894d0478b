"""Files damaged at random: no command may end in a traceback, hang, or take the memory.

    python tests/fuzz.py --seconds 3600 --seed 1 [archive] [corruption] [helpers] ...

The real commands get each damaged file, each in its own process with limits on time and memory.
Files that cause a fault are kept in --keep, with the seed that makes them again.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from fuzzing.archive import archive
from fuzzing.configuration import configuration
from fuzzing.corruption import corruption
from fuzzing.guard import warm
from fuzzing.helpers import helpers

TARGETS = {
    "archive": archive,
    "corruption": corruption,
    "helpers": helpers,
    "configuration": configuration,
}


def run(
    target: str, seconds: float, seed: int, keep: Path | None = None, most: int = 10**9
) -> Counter:
    """Damage files and try commands for some seconds. Prints counts of files, trials and faults."""
    warm()
    counts: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for number in range(most):
        if time.monotonic() > end:
            break
        rng = random.Random(f"{seed} {target} {number}")
        with tempfile.TemporaryDirectory(prefix="dngo-fuzz-") as name:
            folder = Path(name)
            counts["files"] += 1
            if number % 100 == 99:
                print(f"{target}: {dict(counts)}", flush=True)
            for what, result in TARGETS[target](folder, rng):
                counts["trials"] += 1
                counts["refused"] += result.status != 0
                if result.fault:
                    counts["faults"] += 1
                    print(
                        f"{target} {seed}/{number}: {what}: {result.fault}\n{result.output[-1500:]}"
                    )
                    if keep:
                        shutil.copytree(
                            folder, keep / f"{target}-{seed}-{number}", dirs_exist_ok=True
                        )
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", default=[], help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    parser.add_argument("--files", type=int, default=10**9, help="at most, for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="a folder for files that cause a fault")
    options = parser.parse_args()
    faults = 0
    for target in options.targets or TARGETS:
        counts = run(target, options.seconds, options.seed, options.keep, options.files)
        print(f"{target}: {dict(counts)}", flush=True)
        faults += counts["faults"]
    sys.exit(faults > 0)


if __name__ == "__main__":
    main()
