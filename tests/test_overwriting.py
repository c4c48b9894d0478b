"""No option of any command replaces a file, except an earlier one of the same kind."""

from __future__ import annotations

import argparse
import errno
import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import refusing
from running import ran

from dngo.cli import _parser, main
from dngo.errors import UserError
from dngo.plugins import Registry
from dngo.storage.files import handing_out
from dngo.study import Study

CONFIG = """
study: {name}
objective: {{command: "false"}}
space:
  x: {{type: float, low: 0, high: 1}}
acquisition: random
design: {{size: 4}}
batch_size: 2
iterations: 3
"""
TABLE = "x,objective\n0.1,1.0\n0.2,2.0\n0.3,3.0\n0.4,4.0\n"

# What each argument of a command names: a file or folder that is written, or one that is read, or no
# file. `study` and `results` name a study, whose own files some commands change.
WRITTEN = {
    ("init", "config"): [],
    ("report", "html"): ["report", "mine.yaml"],
    ("compare", "html"): ["compare", "mine.yaml", "other.yaml"],
    ("figure", "output"): ["figure", "course", "mine.yaml"],
    ("best", "output"): ["best", "mine.yaml", "--by", "observed"],
    **{
        ("export", "output", form): ["export", "mine.yaml", "--format", form]
        for form in Registry("dngo.exports").names()
    },
}
FILES = {"config", "results", "objects", "file", "study", "studies", "old"}
(COMMANDS,) = (a.choices for a in _parser()._actions if isinstance(a, argparse._SubParsersAction))
ARGUMENTS = {(name, a.dest) for name, parser in COMMANDS.items() for a in parser._actions}
# There it is the name of a study, old or new.
NAMED = {(command, "study") for command in ("init", "import", "add", "tell")}
READ = {pair for pair in ARGUMENTS if pair[1] in FILES} - {w[:2] for w in WRITTEN} - NAMED
WORDS = """help json iteration proposal all format author license top by set objective skip_invalid point
reason failed since message values ignore prefer objectives anonymous direction parameters yes interval port trial schema keys defaults kind
label width text tag name cluster bound act to at follow"""
NO_FILE = {*WORDS.split(), "altered", "columns", "constraints", "objective", "status"}


def test_every_argument_of_every_command_is_known_to_these_tests() -> None:
    """A new one that names a file must be tried here."""
    written = {words[:2] for words in WRITTEN}
    assert {pair for pair in ARGUMENTS if pair[1] not in NO_FILE} == written | READ | NAMED


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two studies, one of them with a batch in flight, and files of theirs."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("table.csv").write_text(TABLE)
        for name in ("mine", "other"):
            Path(f"{name}.yaml").write_text(CONFIG.format(name=name))
            assert main(["import", "table.csv", "--config", f"{name}.yaml"]) == 0
        study = flying()
        surrogate = study.iteration(1) / "surrogate.h5"
        study.fit(1, surrogate)
        study.propose(1, surrogate, study.iteration(1) / "proposals.json")
        assert main(["add", "--config", "mine.yaml", "--set", "x=0.7"]) == 0
        (study.folder / "run.jsonl").write_text("{}\n")
        assert main(["report", "other.yaml", "--html", "other.html"]) == 0
        assert main(["export", "other.yaml", "--format", "csv", "--output", "other.csv"]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it, with all that may be in the way."""
    folder = tmp_path / "here"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    archive = flying().archive
    Path("linked.h5").symlink_to(archive)
    Path("hard.h5").hardlink_to(archive)
    Path("nowhere").symlink_to("not/there")
    Path("folder").mkdir()
    Path("folder/mine.txt").write_text("mine")
    Path("linked").symlink_to("folder")
    os.mkfifo("pipe")
    Path("notes.html").write_text("<!DOCTYPE html>\n<title>Study mine</title>\nmine\n")
    return folder


def flying() -> Study:
    from dngo.locate import find_study

    return find_study(["mine.yaml"])


def everything(folder: Path) -> dict[str, object]:
    """What is there: each thing's kind, and its bytes, or where it leads."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif stat.S_ISREG(mode):
            found[name] = (path.stat().st_ino, hashlib.sha256(path.read_bytes()).hexdigest())
        else:
            found[name] = stat.S_IFMT(mode)
    return found


def in_the_way(folder: Path) -> list[str]:
    own = [str(p.relative_to(folder)) for p in (folder / "results").rglob("*") if p.is_file()]
    assert any("pending" in name for name in own) and any("waiting" in name for name in own)
    others = [p.name for p in folder.iterdir()]
    return [*own, *others]


def words_for(key: tuple[str, ...], place: str) -> list[str]:
    if key == ("init", "config"):
        return ["init", place, "--yes", "--objective", "true"]
    return [*WRITTEN[key], f"--{key[1]}", place]


@pytest.mark.parametrize("key", WRITTEN, ids="-".join)
def test_what_is_in_the_way_of_a_file_that_is_written_stays(
    folder: Path, capfd: pytest.CaptureFixture[str], key: tuple[str, ...]
) -> None:
    before = everything(folder)
    for place in in_the_way(folder):
        if key == ("best", "output") and (folder / place).is_dir():
            continue  # new files in it are what it is for; see below
        capfd.readouterr()
        assert main(words_for(key, place)) == 1, place
        told = capfd.readouterr()
        assert place in told.err and len(told.err.splitlines()) == 1, told.err
        assert everything(folder) == before, place


def test_best_points_are_new_files_in_a_folder_or_none(folder: Path) -> None:
    words = [*WRITTEN["best", "output"], "--top", "2", "--output", "folder"]
    Path("folder/2-0-1.json").symlink_to("nowhere")
    before = everything(folder)
    assert main(words) == 1
    assert everything(folder) == before
    Path("folder/2-0-1.json").unlink()
    assert main(words) == 0
    assert (folder / "folder/mine.txt").read_text() == "mine"
    names = sorted(p.name for p in (folder / "folder").iterdir())
    assert names == ["1-0-0.json", "2-0-1.json", "mine.txt"]


# What does not end by itself is given a study as all others are.
PAIRS = sorted(p for p in READ if p[0] not in ("watch", "serve", "run"))


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_what_is_read_stays(folder: Path, pair: tuple[str, str]) -> None:
    """Whatever is named where a command reads; its own files are the study's alone. Of the things that
    may be named, each pair has a fifth, and the next pair the next fifth."""
    command, name = pair
    more = {
        "import": ["--config", "mine.yaml"],
        "add": ["--config", "mine.yaml"],
        "tell": ["--config", "mine.yaml"],
        "skip": ["1-0", "--reason", "why"],
        "bound": ["heat", "<= 3"],
        "track": ["--to", "mlflow", "--at", "sqlite:///new.db"],
        "retry": ["--failed"],
        "audit": ["--all"],
        "export": ["--format", "csv", "--output", "new/x.csv"],
        "fork": ["mine.yaml", "--config", "other.yaml"],
        "best": ["--top", "1"],
        "figure": ["--output", "new.svg"],
    }.get(command, [])
    Path("pipe").unlink()  # whoever names one waits for what comes through it
    before = everything(folder)
    for place in sorted(in_the_way(folder))[PAIRS.index(pair) % 5 :: 5]:
        if name in ("file", "study", "studies", "old"):
            first = [] if command != "fork" else more[1:]
            kind = ["course"] if command == "figure" else []
            words = [command, *kind, place, *(first if command == "fork" else more)]
        elif name == "config" and command in ("check", "retry"):
            words = [command, place, *more]
        elif command in ("add", "tell", "import"):
            given = {"config": "mine.yaml", "results": "results", name: place}
            words = [command, "table.csv", *(w for k, v in given.items() for w in (f"--{k}", v))]
        elif name == "config":
            words = [command, *(w for w in more if w not in ("--config", "other.yaml"))]
            words += ["--config", place]
        else:
            target = ["mine.yaml"] if command not in ("fork", "skip", "retry", "bound") else []
            words = [command, *target, *more, "--results", place]
        try:
            main(words)
        except SystemExit:
            pytest.fail(f"the words are wrong: {words}")
        after = everything(folder)
        changed = {
            path for path, was in before.items() if after.get(path) != was and "waiting" not in path
        }
        assert not changed, words
        shutil.rmtree("new", ignore_errors=True)
        Path("new.svg").unlink(missing_ok=True)


@pytest.mark.full
def test_a_run_does_not_begin_where_it_would_replace_what_is_not_its_own(folder: Path) -> None:
    """The folder of a study that has not begun holds files of somebody else, or links to some."""
    Path("new.yaml").write_text(CONFIG.format(name="new"))
    (folder / "results/new/report").mkdir(parents=True)
    for name, target in (("done", None), ("report/report.html", flying().archive)):
        there = folder / "results/new" / name
        there.symlink_to(target) if target else there.write_text("mine")
        before = everything(folder)
        words = [sys.executable, "-m", "dngo", "run", "new.yaml", "--", "--cores", "1"]
        run = ran(words)
        assert run.returncode == 1
        told = run.stderr.splitlines()[-1]
        assert told.startswith(f"results/new/{name}: is there already") and "move it" in told
        after = everything(folder)
        assert {path: after.get(path) for path in before} == before
        there.unlink()


def test_an_earlier_page_of_the_same_title_is_replaced_and_no_other(folder: Path) -> None:
    report = ["report", "mine.yaml", "--html"]
    compare = ["compare", "mine.yaml", "other.yaml", "--html"]
    for words, name in (report, "page.html"), (compare, "both.html"):
        assert main([*words, name]) == 0
        first = Path(name).stat().st_ino
        Path("to-" + name).symlink_to(name)
        assert main([*words, "to-" + name]) == 0
        assert Path("to-" + name).is_symlink() and Path(name).stat().st_ino != first
    before = everything(folder)
    others = [(report, name) for name in ("both.html", "other.html", "notes.html")]
    for words, name in (*others, (compare, "page.html")):
        assert main([*words, name]) == 1
        assert everything(folder) == before


def test_what_comes_to_be_while_a_file_is_made_stays(tmp_path: Path) -> None:
    path = tmp_path / "mine"

    def make() -> None:
        with handing_out(path) as temporary:
            temporary.write_text("ours")
            path.write_text("theirs")

    with pytest.raises(UserError, match="mine: is there already"):
        make()
    assert path.read_text() == "theirs" and list(tmp_path.iterdir()) == [path]


HAND_OUT = """
import sys
from pathlib import Path
from dngo.storage.files import handing_out
with handing_out(Path(sys.argv[1])) as temporary:
    temporary.write_text("ours")
    if sys.argv[2:]:
        Path(sys.argv[1]).write_text("theirs")
"""


@pytest.mark.usefixtures("refused_calls")
def test_a_file_system_without_hard_links_will_do(tmp_path: Path) -> None:
    start = [*refusing.words(errno.EPERM, "link", "linkat"), sys.executable, "-c", HAND_OUT]

    def run(*words: str) -> int:
        return subprocess.run([*start, *words], check=False, capture_output=True).returncode

    assert run(str(tmp_path / "a")) == 0
    assert (tmp_path / "a").read_text() == "ours"
    assert run(str(tmp_path / "b"), "race") == 1
    assert (tmp_path / "b").read_text() == "theirs"
    assert len(list(tmp_path.iterdir())) == 2


def test_an_archive_on_a_disk_that_is_not_there_is_not_begun_anew(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = flying().archive
    disk = folder / "disk"
    disk.mkdir()
    shutil.move(archive, disk / "archive.h5")
    archive.symlink_to(disk / "archive.h5")
    assert main(["status", "mine.yaml"]) == 0
    disk.rename("away")
    before = everything(folder)
    for words in (
        ["status", "mine.yaml"],
        ["check", "mine.yaml"],
        ["import", "table.csv", "--config", "mine.yaml"],
        ["fork", "other.yaml", "--config", "mine.yaml"],
        ["best", "mine.yaml"],
    ):
        capsys.readouterr()
        assert main(words) == 1, words
        assert "archive.h5" in capsys.readouterr().err
    assert everything(folder) == before
