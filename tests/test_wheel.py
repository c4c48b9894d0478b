"""The wheel, installed where there is no checkout: from an empty folder to a result, through a kill."""

from __future__ import annotations

import os
import site
import subprocess
import sys
import time
import venv
import zipfile
from pathlib import Path

import pytest
from running import ran
from toy import ROOT, kill_tree


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the files of the repository and nothing of the network."""
    folder = tmp_path_factory.mktemp("wheel")
    options = ["--no-build-isolation", "--no-deps", "--no-cache-dir", "--quiet"]
    words = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", folder, ROOT]
    subprocess.run(words, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python in which the wheel is installed, and beside it the packages that it needs, but no `dngo`."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    (packages,) = folder.glob("lib/python*/site-packages")
    # Packages of this environment; its own .pth files, one of which leads to the checkout, are not read.
    needed = [p for p in site.getsitepackages() if Path(p).is_dir()]
    (packages / "needed.pth").write_text("\n".join(needed) + "\n")
    words = [sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet"]
    subprocess.run([*words, "--no-deps", "--no-index", wheel], check=True)
    return folder / "bin/python"


def test_the_wheel_has_every_file_of_the_workflow(wheel: Path) -> None:
    packages = ["dngo", "snakemake_logger_plugin_dngo"]
    workflow = ["Snakefile", "rules", "scripts", "envs", "profiles", "slurm"]
    listed = ran(["git", "ls-files", *packages, *workflow], cwd=ROOT, check=True).stdout.split()
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f if f.split("/")[0] in packages else f"dngo/workflow/root/{f}" for f in listed}
    assert len(expected) > 100
    assert {n for n in names if ".dist-info/" not in n} == expected


@pytest.mark.full
def test_from_an_empty_folder_to_a_result_through_a_kill(python: Path, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}

    def start(*words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [python.with_name("dngo"), *words],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def dngo(*words: str) -> str:
        process = start(*words)
        output, _ = process.communicate()
        assert process.returncode == 0, output
        return output

    where = [python, "-c", "import dngo; print(dngo.__file__)"]
    found = ran(where, env=environment, cwd=tmp_path)
    assert Path(found.stdout.strip()).is_relative_to(python.parents[1])

    dngo("init", "--parameter", "x 0 1", "--parameter", "kind a,b")
    objective = tmp_path / "objective.py"
    line = "    open('runs', 'a').write(json.dumps(parameters) + chr(10))\n"
    objective.write_text(objective.read_text().rstrip() + "\n" + line)
    assert "valid" in dngo("check")
    run = ["run", "--", "--cores", "2", "--config", "iterations=1", "acquisition=random"]
    process = start(*run)
    while not (tmp_path / "runs").exists():
        time.sleep(0.05)
        assert process.poll() is None
    kill_tree(process.pid)
    process.communicate()
    output = dngo(*run)
    assert "Best point, proposal" in output
    (archive,) = tmp_path.glob("results/*/archive.h5")
    assert "every value has its recorded digest" in dngo("verify", str(archive))
    assert "Best point, proposal" in dngo("report")
    assert "Nothing to evaluate" in dngo(*run)
