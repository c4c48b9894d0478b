"""What must not drift apart: dependencies, constraints, conda environments, start-up cost."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tomllib
import zipfile
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.utils import canonicalize_name
from running import ran

import dngo

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "constraints.txt"
CONDA_NAMES = {"pytorch": "torch", "python-moocore": "moocore"}
ENVIRONMENTS = sorted(ROOT.glob("envs/*.yaml"))


def constraints() -> dict[str, str]:
    found = re.findall(r"^([\w.-]+)==([^\s;]+)", LOCK.read_text(), re.M)
    return {canonicalize_name(name): version for name, version in found}


def declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    words = [*project["dependencies"], *chain(*project["optional-dependencies"].values())]
    return {canonicalize_name(re.split(r"[<>=\[ ]", word)[0]) for word in words}


def test_every_dependency_is_pinned_and_installed() -> None:
    pinned = constraints()
    assert declared() <= set(pinned)
    from importlib.metadata import version

    for name in declared():
        assert version(name).split("+")[0] == pinned[name], name


def test_what_is_pinned_runs_on_the_oldest_python_that_is_promised() -> None:
    """Debian 12 has 3.11.2; a version that was pinned on a newer Python may refuse it."""
    from importlib.metadata import PackageNotFoundError, metadata

    from packaging.specifiers import SpecifierSet

    refused = []
    for name in constraints():
        try:
            needs = metadata(name).get("Requires-Python")
        except PackageNotFoundError:
            continue
        if needs and not SpecifierSet(needs).contains("3.11.2"):
            refused.append(f"{name} needs Python {needs}")
    assert not refused


def section(name: str) -> dict[str, list[str]]:
    """The packages of a part of constraints.txt, each with its digests."""
    found = re.search(rf"^# {name}: .*\n((?:.+\n)+)", LOCK.read_text(), re.M)
    assert found, name
    blocks = [b for b in re.split(r"\n(?=\S)", found[1]) if b]
    return {b.partition("==")[0]: re.findall(r"--hash=sha256:([0-9a-f]{64})\b", b) for b in blocks}


def test_every_package_has_digests_and_stands_once() -> None:
    parts = [section(name) for name in ("build", "studies", "tests", "cuda")]
    assert all(digests for part in parts for digests in part.values())
    assert sum(map(len, parts)) == len(constraints()) > 150


def test_what_a_section_needs_stands_there_or_before() -> None:
    """Nothing is resolved at set-up; so what is listed must be all that is needed."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement

    there: set[str] = set(section("cuda"))  # where PyTorch asks for it
    for name in ("build", "studies", "tests"):
        there |= set(section(name))
        for package in section(name):
            try:
                words = requires(package) or []
            except PackageNotFoundError:  # of another system
                continue
            for needed in map(Requirement, words):
                if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                    assert canonicalize_name(needed.name) in there, f"{package}: {needed}"


def test_set_up_takes_no_file_without_a_listed_digest(tmp_path: Path) -> None:
    """Of a wrong one pip says so itself, once digests are asked for."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    wheel = wheels / "probe-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("probe.py", "")
        file.writestr(
            "probe-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: probe\nVersion: 1.0\n"
        )
        file.writestr(
            "probe-1.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        file.writestr("probe-1.0.dist-info/RECORD", "")
    (tmp_path / "constraints.txt").write_text("# build: what builds\nprobe==1.0\n")
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    done = ran(
        ["make", ".venv/ready", f"PYTHON={sys.executable}"],
        cwd=tmp_path,
        env={**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)},
    )
    assert done.returncode != 0 and not (tmp_path / ".venv/ready").exists()
    assert not list(tmp_path.glob(".venv/lib/*/site-packages/probe.py"))
    assert "--require-hashes" in done.stderr, done.stderr


@pytest.mark.parametrize("path", ENVIRONMENTS, ids=lambda p: p.name)
def test_conda_environments_have_the_pinned_versions(path: Path) -> None:
    environment = yaml.safe_load(path.read_text())
    pinned = constraints()
    for word in environment["dependencies"]:
        name, _, version = word.partition("=")
        if name == "python":
            continue
        name = canonicalize_name(CONDA_NAMES.get(name, name))
        assert name in declared(), f"{name} is not in pyproject.toml"
        assert version == pinned[name], f"{path.name}: {name} should be {pinned[name]}"


# What a stage of its environment imports must be there: tried by importing with nothing else.
@pytest.mark.parametrize(
    ("environment", "modules"),
    [
        ("model.yaml", "dngo.workflow.job, dngo.surrogates, dngo.acquisition"),
        ("study.yaml", "dngo.workflow.job, dngo.report.page, dngo.report.watch"),
        ("evaluate.yaml", "dngo.workflow.job, dngo.evaluation.chunk"),
    ],
)
def test_conda_environments_have_what_their_stage_imports(environment: str, modules: str) -> None:
    words = yaml.safe_load((ROOT / "envs" / environment).read_text())["dependencies"]
    names = [w.split("=")[0] for w in words]
    there = {canonicalize_name(CONDA_NAMES.get(name, name)) for name in names}
    code = (
        f"import sys\nimport {modules}\nprint(' '.join({{m.split('.')[0] for m in sys.modules}}))"
    )
    loaded = ran([sys.executable, "-c", code], check=True)
    names = {n.lower() for n in loaded.stdout.split()}
    modules_of = {"pyyaml": "yaml", "ruamel-yaml": "ruamel", "scikit-learn": "sklearn"}
    needed = {d for d in declared() if modules_of.get(d, d.replace("-", "_")) in names}
    assert needed <= there


FIT = """import numpy as np
from dngo.surrogates import TrainingData, fit_model
from dngo.surrogates.settings import SurrogateSettings
x = np.random.default_rng(0).random((40, 2))
few = SurrogateSettings(networks={"steps": 5, "epochs": 0})
fit_model(TrainingData(x, x[:, 0]), few, rng=np.random.default_rng(0))
"""
POINTS = """import dngo
study = dngo.minimize(lambda x, y: x + y, {"x": (0, 1), "y": (0, 1)}, 10, name=None, workers=0)
study = dngo.create(None, {"x": (0, 1)}, surrogate="gp")
study.tell(points := study.ask(6), [p.parameters["x"] for p in points])
study.ask(1), study.best(), repr(study)
"""
# What is done, and what must not be imported for it: each job and command pays for what it imports.
LIGHT = {
    "a job": ("import dngo.workflow.job", "torch scipy plotly sklearn"),
    "the Snakefile": ("import dngo.workflow.dag", "torch scipy plotly pandas"),
    "the end of a batch": ("import dngo.report", "scipy"),
    "the end of a run": ("import dngo.acquisition.outlook, dngo.surrogates.nearby", "scipy.stats"),
    "the package": (
        "import dngo; assert {'open', 'Session', 'UserError'} <= {*dir(dngo)}",
        "numpy pandas torch h5py pydantic",
    ),
    "settings": ("import dngo.surrogates.settings, dngo.acquisition.settings", "torch h5py scipy"),
    "few points, or a process": (POINTS, "torch"),
    "a fit by the default": (FIT, "dngo.papers dngo.rivals torch._dynamo"),
}


@pytest.mark.parametrize("what", LIGHT)
def test_nothing_imports_more_than_it_needs(what: str, tmp_path: Path) -> None:
    code, heavy = LIGHT[what]
    code += f"\nimport sys; print(len(sys.modules), *({set(heavy.split())} & sys.modules.keys()))"
    number, *found = ran([sys.executable, "-c", code], check=True, cwd=tmp_path).stdout.split()
    assert found == []
    assert what != "a job" or int(number) < 650  # 567 in 0.3.0


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert citation["version"] == newest[1] == dngo.__version__
    assert "version" in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"]


def test_links_between_pages_lead_somewhere() -> None:
    pages = [
        page
        for folder in ("", "docs/", "benchmarks/", "slurm/", "examples/*/")
        for page in ROOT.glob(f"{folder}*.md")
    ]
    found = 0
    for page in pages:
        for link in re.findall(r"\]\(([^)#\s:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"
            found += 1
    assert found > 50


def test_packages_that_are_installed_fit_together() -> None:
    words = [sys.executable, "-m", "pip", "check"]
    done = ran(words)
    assert done.returncode == 0, done.stdout


def test_every_environment_is_some_rules() -> None:
    used = {
        m for p in ROOT.glob("rules/*.smk") for m in re.findall(r"envs/(\w+\.yaml)", p.read_text())
    }
    assert used == {p.name for p in ENVIRONMENTS}


def test_every_page_is_in_the_site() -> None:
    index = (ROOT / "docs/index.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert page.stem == "index" or f"\n{page.stem}\n" in index, page.name
