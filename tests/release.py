"""Uses a release as a stranger would: installs it in a clean environment, runs a study and its
tests.

    python tests/release.py dist

In the folder are the wheel and the sdist of one version. The environment has only the wheel, its
dependencies in the versions of constraints.txt, and pytest. The tests come from the sdist.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import venv
from pathlib import Path

from dngo import __version__

ROOT = Path(__file__).resolve().parents[1]
TESTS = (
    *("test_space.py", "test_document.py", "test_config.py", "test_config_messages.py"),
    "test_placeholders.py",
)
NEEDED = ("pytest", "pytest-timeout", "hypothesis", "pyyaml")


def run(*words: str | Path, cwd: Path) -> str:
    """What a command printed; ends with its words if it fails."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(
            f"{' '.join(map(str, words))}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr


def one(folder: Path, pattern: str) -> Path:
    """The only file that has such a name."""
    found = [path.resolve() for path in folder.glob(pattern)]
    if len(found) != 1:
        sys.exit(f"{folder}: {len(found)} files {pattern}, where one is expected")
    return found[0]


def main() -> None:
    """Check the distributions in the folder that the command line names."""
    folder = Path(sys.argv[1] if sys.argv[1:] else "dist")
    wheel = one(folder, f"dngo-{__version__}-*.whl")
    sdist = one(folder, f"dngo-{__version__}.tar.gz")
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        venv.create(place / "venv", with_pip=True)
        python = place / "venv" / "bin" / "python"
        pins = re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / "constraints.txt").read_text(), re.M)
        (place / "pins.txt").write_text(
            "\n".join(pins)
        )  # with digests, pip would want the wheel's, too
        install = (python, "-m", "pip", "install", "--quiet", "--constraint", "pins.txt")
        run(*install, wheel, *NEEDED, cwd=place)
        dngo = python.with_name("dngo")
        assert run(dngo, "--version", cwd=place).strip() == f"dngo {__version__}"
        study = place / "study"
        study.mkdir()
        run(dngo, "init", "--parameter", "x 0 1", "--parameter", "kind a,b", cwd=study)
        print(run(dngo, "run", "--", "--cores", "2", "--config", "iterations=1", cwd=study))
        with tarfile.open(sdist) as archive:
            archive.extractall(place, filter="data")
        source = place / f"dngo-{__version__}"
        tests = [Path("tests") / test for test in TESTS]
        print(run(python, "-m", "pytest", "-q", *tests, cwd=source))
    print(f"{wheel.name} and {sdist.name} install, run a study and pass their tests")


if __name__ == "__main__":
    main()
