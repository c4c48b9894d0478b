"""Write constraints.txt anew: every package of the environment, exactly, with a digest of each of its files.

    python tests/lock.py

What is pinned stays as it is as far as pyproject.toml allows; delete a package to have its newest version.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "constraints.txt"
UV = "uv==0.13.9"
# The oldest Python that is promised, on any system: what only some of them need has a marker.
OPTIONS = ("--python-version", "3.11", "--universal", "--fork-strategy", "fewest")
BUILD = ("setuptools", "editables")  # of packages without a wheel; and what hatchling asks pip for
PLAIN = ("--generate-hashes", "--no-annotate", "--no-header", "--quiet")
DIGEST = re.compile(r"--hash=sha256:(\w+)")
CUDA = re.compile(r"nvidia-|cuda-|triton$")
HEAD = """\
# Every package of the environment, exactly, with a digest of each of its files: `make` installs these and
# no others, a section at a time; `make lock` writes them anew.
"""
SECTIONS = {
    "build": "what builds packages",
    "studies": "what studies and the examples need",
    "tests": "what tests, documentation and other formats need",
    "cuda": "what a build of PyTorch with CUDA needs",
}


def main() -> None:
    """Resolve, find out which package is for what, and write the file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "build.in").write_text("\n".join([*project["build-system"]["requires"], *BUILD]))
        whole = folder / "whole.txt"
        shutil.copyfile(LOCK, whole)  # what is pinned is preferred
        uv = _uv(folder / "venv")
        sources = (folder / "build.in", ROOT / "pyproject.toml")
        _compile(uv, whole, *sources, "--all-extras")
        found = {_name(block): block for block in _blocks(whole)}
        parts = {
            "build": _names(uv, folder, whole, sources[0]),
            "studies": _names(uv, folder, whole, sources[1], "--extra=slurm", "--extra=examples"),
            "tests": list(found),
            "cuda": [name for name in found if CUDA.match(name)],
        }
        builds = _builds(folder / "builds", found["torch"])
        found["torch"] += "".join(f" \\\n    --hash=sha256:{digest}" for digest in builds)
    text, written = HEAD, set(parts["cuda"])
    for section, title in SECTIONS.items():
        names = [n for n in parts[section] if section == "cuda" or n not in written]
        written.update(names)
        text += "\n".join([f"\n# {section}: {title}", *(found[n] for n in names), ""])
    LOCK.write_text(text)


def _uv(folder: Path) -> Path:
    venv.create(folder, with_pip=True)
    words = [folder / "bin/python", "-m", "pip", "install", "--quiet", UV]
    subprocess.run(words, check=True)
    return folder / "bin/uv"


def _compile(uv: Path, output: Path, *words: str | Path) -> None:
    certificates = os.environ.get("PIP_CERT")
    more = {"SSL_CERT_FILE": certificates} if certificates else {}
    command = [uv, "pip", "compile", *words, *OPTIONS, *PLAIN, "--output-file", output]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **more})


def _names(uv: Path, folder: Path, whole: Path, *words: str | Path) -> list[str]:
    """The packages that something needs, in the versions of the whole."""
    output = folder / "part.txt"
    output.unlink(missing_ok=True)
    _compile(uv, output, *words, "--constraint", whole)
    return [_name(block) for block in _blocks(output)]


def _blocks(path: Path) -> Iterator[str]:
    """A package with its digests, each."""
    return (block for block in re.split(r"\n(?=\S)", path.read_text().strip()) if "==" in block)


def _name(block: str) -> str:
    return block.partition("==")[0]


def _builds(folder: Path, torch: str) -> list[str]:
    """Digests of builds of PyTorch that the index does not have.

    torch: the package with the digests of the index.  They are those in the file that is replaced, as long
    as the version is the same, and that of the build which this machine's pip is offered in a folder.
    """
    pin = torch.split()[0]
    found = [d for block in _blocks(LOCK) if block.split()[0] == pin for d in DIGEST.findall(block)]
    words = ["download", "--quiet", "--no-index", "--no-deps", "--dest", folder, pin]
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, check=False)
    if done.returncode == 0:
        found += [hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()]
    return sorted({*found} - {*DIGEST.findall(torch)})


if __name__ == "__main__":
    main()
