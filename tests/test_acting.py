"""Acts on the served page: the doors of the commands, each act once, and only from the page itself."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import refusing
from running import serving
from toy import once_each
from waiting import until

import dngo
from dngo.acting import Acts, change_bound, stop
from dngo.cli import main
from dngo.config import load
from dngo.errors import UserError
from dngo.evaluation.journal import Asked
from dngo.locate import find_study
from dngo.report.live import status
from dngo.report.many import Many
from dngo.report.serve import Server, Shown
from dngo.storage.processes import host
from dngo.study import entries

CONFIG = """\
# mine, with remarks
study: mine
objective: {command: "false"}
space:
  x: {type: float, low: 0, high: 1}
  kind: {type: categorical, choices: [a, b]}
constraints:
  - converged   # a flag
  - {heat: '<= 350'}   # kelvin
  - load: ">= 0.5"
acquisition: random
design: {size: 4}
batch_size: 2
iterations: 3
"""
TABLE = "x,kind,objective,converged,heat,load\n" + "".join(
    f"0.{i},a,{i}.0,true,{300 + 20 * i},0.7\n" for i in range(1, 5)
)
Said = dict[str, Any]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A study of four rows."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(CONFIG)
    Path("table.csv").write_text(TABLE)
    assert main(["import", "table.csv", "--config", "mine.yaml"]) == 0
    return tmp_path


@pytest.fixture
def serve() -> Iterator[Callable[[Any], Server]]:
    with contextlib.ExitStack() as stack:
        yield lambda shown: stack.enter_context(serving(shown))


@pytest.fixture
def server(folder: Path, serve: Callable[[Any], Server]) -> Server:
    study = find_study(["mine.yaml"])
    return serve(Shown(study, Acts(study, Path("mine.yaml"))))


def post(
    port: int, path: str, body: Said | bytes, headers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Status and text of the answer to a POST, as the page of this server sends it."""
    host = f"127.0.0.1:{port}"
    sent = {"Origin": f"http://{host}", "Content-Type": "application/json", **(headers or {})}
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("POST", path, data, {k: v for k, v in sent.items() if v})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def act(server: Server, what: str, key: str = "", **fields: str) -> Said:
    """What came of an act."""
    body = {"key": key or os.urandom(8).hex(), "act": what, "fields": fields}
    code, text = post(server.server_port, f"/act?token={server.token}", body)
    assert code == 200, text
    found: Said = json.loads(text)
    return found


def waits() -> list[float]:
    return [entry.parameters["x"] for entry in find_study(["mine.yaml"]).entries()]


def test_each_act_does_what_its_command_does(server: Server, folder: Path) -> None:
    added = act(server, "add", parameter_x="0.5", parameter_kind="b")
    assert added["done"] and waits() == [0.5]
    name = added["said"][0].partition(":")[0]
    assert "1 point will be evaluated at the head of the next batch" in added["said"][1]
    assert act(server, "skip", point=name, reason="no")["said"] == [f"{name}: withdrawn"]
    assert waits() == []
    assert act(server, "note", text="a leak", point="0-1", tags="leak pump")["done"]
    (note,) = entries.notes(find_study(["mine.yaml"]).archive)
    assert (note.point, note.text, note.tags) == ("0-1", "a leak", ["leak", "pump"])
    assert act(server, "bound", name="heat", bound="<= 330")["done"]
    assert load(["mine.yaml"]).constraints["heat"] == "<= 330"
    assert "heat &lt;= 330" in server.shown.answer("", {})[1]
    assert server.shown.study.config.constraints["heat"] == "<= 330"
    stopped = act(server, "stop", reason="lunch")
    assert not stopped["done"] and "no run is at work" in stopped["said"][0]


def test_an_act_that_is_sent_twice_happens_once(server: Server) -> None:
    answers: list[Said] = []

    def send(**given: str) -> None:
        answers.append(act(server, "add", key="k1", **given))

    threads = [
        threading.Thread(target=send, kwargs={"parameter_x": "0.5", "parameter_kind": "b"})
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    send(parameter_x="7")  # the key says which act it is
    assert answers == [answers[0]] * 9 and answers[0]["done"]
    assert waits() == [0.5]


def test_what_two_pages_do_at_once_happens_once(server: Server) -> None:
    """Their keys differ, so the doors decide: all but the first are refused in one line."""
    same = {"parameter_x": "0.25", "parameter_kind": "a"}
    first, second = act(server, "add", **same), act(server, "add", **same)
    assert first["done"] and not second["done"] and "waits already, as" in second["said"][0]
    name = first["said"][0].partition(":")[0]
    for what, fields in (
        ("note", {"text": "a leak"}),
        ("bound", {"name": "load", "bound": ">= 0.6"}),
        ("skip", {"point": name, "reason": "no"}),
    ):
        pair = [act(server, what, **fields) for _ in range(2)]
        assert [one["done"] for one in pair] == [True, False], what
        assert len(pair[1]["said"]) == 1


REFUSED: list[tuple[str, dict[str, str], str]] = [
    ("add", {"parameter_x": "7", "parameter_kind": "a"}, "7 is outside 0 to 1"),
    ("add", {}, "kind has no value"),
    ("add", {"parameter_y": "0.5"}, "parameter_y"),
    ("skip", {"point": "0-1", "reason": "no"}, "the archive never changes"),
    ("skip", {"point": "0-1"}, "say why"),
    ("skip", {"point": "no", "reason": "no"}, "neither a proposal"),
    ("note", {}, "neither a text nor a tag"),
    ("note", {"text": "x", "point": "9-9"}, "no such proposal"),
    ("bound", {"name": "x", "bound": "<= 0.5"}, "dngo fork mine.yaml --config"),
    ("bound", {"name": "converged", "bound": "<= 0.5"}, "is a flag"),
    ("bound", {"name": "iterations", "bound": "<= 5"}, "edit mine.yaml"),
    ("bound", {"name": "heat", "bound": ">= 320"}, "may not change"),
    ("bound", {"name": "heat", "bound": "320"}, "must be written like"),
    ("bound", {"name": "heat", "bound": "<= nan"}, "must be written like"),
    ("bound", {}, "must be written like"),
    ("delete", {}, "is no act"),
]


def test_what_the_commands_refuse_is_refused_in_one_line(server: Server) -> None:
    before = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()}
    for what, fields, said in REFUSED:
        found = act(server, what, **fields)
        assert not found["done"] and len(found["said"]) == 1 and said in found["said"][0]
        assert {p: p.read_bytes() for p in Path().rglob("*") if p.is_file()} == before, said


# ---- who may act --------------------------------------------------------------------------------


def test_only_the_page_itself_with_its_token_may_act(server: Server) -> None:
    port, token = server.server_port, f"?token={server.token}"
    body = {"key": "k", "act": "add", "fields": {"parameter_x": "0.5", "parameter_kind": "a"}}
    for path in ("/act", "/act?token=x", f"/act{token}x"):
        assert post(port, path, body)[0] == 403
    for origin in (
        "",
        "null",
        "http://evil.example",
        f"http://localhost:{port}",
        "http://127.0.0.1",
    ):
        assert post(port, f"/act{token}", body, {"Origin": origin})[0] == 403, origin
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        assert post(port, f"/act{token}", body, {"Content-Type": kind})[0] == 403
    assert post(port, f"/act{token}", body, {"Host": "evil.example"})[0] == 403
    assert post(port, f"/status.json{token}", body)[0] == 403
    assert waits() == []
    # Through `ssh -L 9000:localhost:8000` the browser knows it by another name.
    by = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
    assert post(port, f"/act{token}", body, by)[0] == 200 and waits() == [0.5]


def test_what_is_no_act_does_nothing(server: Server) -> None:
    odd = [{"key": "k"}, {"key": "", "act": "add", "fields": {}}]
    odd += [{"key": "k", "act": "add", "fields": ["x"]}]
    bodies = [b"", b"[]", b"{", b"\xff", b'"x"', b"[" * 50_000, b"{}" + b" " * 70_000]
    for body in [*bodies, *(json.dumps(d).encode() for d in odd)]:
        code, text = post(server.server_port, f"/act?token={server.token}", body)
        assert code == 400 or json.loads(text)["done"] is False, body
    assert waits() == []


def test_a_page_only_shows_unless_it_was_asked_to_act(
    folder: Path, serve: Callable[[Any], Server]
) -> None:
    study = find_study(["mine.yaml"])
    for shown in (study, Many(folder)):
        server = serve(shown)
        body = {"key": "k", "act": "note", "fields": {"text": "x"}}
        for path in ("/act", "/0/act"):
            code, text = post(server.server_port, f"{path}?token={server.token}", body)
            assert code == 403 and "dngo serve --act" in text
    assert entries.notes(study.archive) == []
    assert 'id="act"' not in Shown(study).answer("", {})[1]


def test_a_study_of_a_folder_takes_acts_and_says_where_its_bounds_are(
    folder: Path, serve: Callable[[Any], Server]
) -> None:
    server = serve(Many(folder, Acts))
    ask = f"?token={server.token}"
    for what, fields in (("note", {"text": "x"}), ("bound", {"name": "heat", "bound": "<= 3"})):
        body = {"key": what, "act": what, "fields": fields}
        found = json.loads(post(server.server_port, f"/0/act{ask}", body)[1])
        assert found["done"] == (what == "note")
    assert "dngo serve my.yaml --act" in found["said"][0]


# ---- what goes wrong ----------------------------------------------------------------------------


def test_an_altered_archive_is_one_line_and_takes_nothing(server: Server) -> None:
    import h5py

    with h5py.File("results/mine/archive.h5", "r+") as file:
        file["outcomes/objective"][0] = 7.0
    found = act(server, "note", text="x")
    assert not found["done"] and len(found["said"]) == 1 and "was altered" in found["said"][0]
    assert not Path("results/mine/notes.json").exists()


def test_a_study_at_its_end_says_so_and_keeps_the_point(server: Server) -> None:
    text = Path("mine.yaml").read_text().replace("iterations: 3", "iterations: 0")
    Path("mine.yaml").write_text(text)
    study = find_study(["mine.yaml"])
    acts = Acts(study, Path("mine.yaml"))
    said = acts.act("add", {"parameter_x": "0.5", "parameter_kind": "a"})
    assert waits() == [0.5] and "next batch" in said[1]


SERVE = [sys.executable, "-m", "dngo", "serve", "mine.yaml", "--act", "--port", "0"]


def begin(words: list[str]) -> tuple[subprocess.Popen[str], int, str]:
    """A server, its port and token."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    port, token = re.search(r":(\d+)/\?token=(\S+)$", line).groups()
    assert "sees the study, and can change the study" in process.stdout.readline()
    return process, int(port), token


def test_a_kill_loses_no_act_that_was_answered(folder: Path) -> None:
    """Each is there once; the one that was being done is there or not."""
    answered, last = [], ""
    for round_ in range(2):
        process, port, token = begin(SERVE)
        killer = threading.Timer(0.4 + 0.3 * round_, process.kill)
        killer.start()
        for i in range(200):
            last = f"0.{round_ + 1}{i:03}"
            fields = {"parameter_x": last, "parameter_kind": "b"}
            body = {"key": last, "act": "add", "fields": fields}
            try:
                _, text = post(port, f"/act?token={token}", body)
            except (OSError, http.client.HTTPException):
                break
            assert json.loads(text)["done"], text
            answered.append(float(last))
        killer.join()
        process.wait()
        process.stdout.close()
    there = waits()
    assert answered and len(there) == len(set(there))
    assert set(answered) <= set(there) and len(there) <= len(answered) + 2


def test_a_full_disk_is_one_line_and_the_act_can_be_sent_again(
    folder: Path, refused_calls: None
) -> None:
    import errno

    process, port, token = begin([*refusing.words(errno.ENOSPC, "link", "linkat"), *SERVE])
    body = {"key": "k", "act": "note", "fields": {"text": "x"}}
    found = json.loads(post(port, f"/act?token={token}", body)[1])
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert not found["done"] and "No space left" in found["said"][0] and len(found["said"]) == 1
    assert not Path("results/mine/notes.json").exists()


# ---- a bound ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "written",
    [
        CONFIG,
        CONFIG.replace("\n", "\r\n"),
        CONFIG.replace("  - {heat: '<= 350'}   # kelvin", "  - heat: <= 350   # kelvin"),
        CONFIG.replace("  - {heat: '<= 350'} ", '  - "heat": "<= 350" '),
    ],
)
def test_a_bound_changes_and_nothing_else(folder: Path, written: str) -> None:
    path = Path("mine.yaml")
    path.write_text(written, newline="")
    path.chmod(0o640)
    Path("link.yaml").symlink_to("mine.yaml")
    said = change_bound(Path("link.yaml"), find_study(["mine.yaml"]), "heat", "<=  330")
    assert "constraints.heat is now <= 330" in said
    with path.open(newline="") as stream:
        found = stream.read()
    assert re.sub(r"""["']?<= \d+["']?""", "", found) == re.sub(
        r"""["']?<= \d+["']?""", "", written
    )
    assert load(["mine.yaml"]).constraints["heat"] == "<= 330"
    assert path.stat().st_mode & 0o777 == 0o640 and Path("link.yaml").is_symlink()
    judged = find_study(["mine.yaml"]).table()
    assert judged.status.tolist() == ["ok", "infeasible", "infeasible", "infeasible"]


def test_a_bound_that_stands_twice_is_changed_by_hand(folder: Path) -> None:
    shared = CONFIG.replace("  - {heat: '<= 350'}", "  - {heat: &b '<= 350'}").replace(
        '  - load: ">= 0.5"', "  - other: *b"
    )
    Path("mine.yaml").write_text(shared.replace("study: mine", "study: shared"))
    before = Path("mine.yaml").read_text()
    with pytest.raises(UserError, match=r"write constraints.heat by hand"):
        change_bound(Path("mine.yaml"), find_study(["mine.yaml"]), "heat", "<= 330")
    assert Path("mine.yaml").read_text() == before
    assert [p.name for p in Path().glob(".mine*")] == []


def test_the_command_changes_a_bound(folder: Path, capsys) -> None:
    assert main(["bound", "heat", "<= 330", "--config", "mine.yaml"]) == 0
    assert "constraints.heat is now <= 330" in capsys.readouterr().out
    assert main(["bound", "heat", "<= 330", "--config", "mine.yaml"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


# ---- a stop -------------------------------------------------------------------------------------


def test_without_a_run_there_is_nothing_to_stop(folder: Path, capsys) -> None:
    assert main(["stop", "mine.yaml"]) == 1
    assert capsys.readouterr().err.endswith("no run is at work; there is nothing to stop\n")
    # One that was killed is none, even though its claim is there.
    claim = find_study(["mine.yaml"]).run_claim
    process = subprocess.Popen(["true"])
    process.wait()
    claim.path.write_text(json.dumps({**host(), "pid": process.pid, "ticks": 1, "token": "x"}))
    assert main(["stop", "mine.yaml"]) == 1


def test_a_request_to_stop_counts_for_its_run_alone(folder: Path) -> None:
    study = find_study(["mine.yaml"])
    with study.run_claim.held(wait=0.0, what="it"):
        study.journal.heed(20)
        stop(study, "lunch")
        with pytest.raises(Asked, match=r"lunch. Outcomes so far are kept"):
            study.journal.heed(0)
        assert "lunch" in status(study)["stopped"]
    with study.run_claim.held(wait=0.0, what="it"):
        study.journal.heed(20)


def test_a_function_that_is_stopped_goes_on_at_the_same_call(tmp_path: Path) -> None:
    def measure(x: float) -> float:
        ran.append(x)
        if len(ran) == 3:
            stop(study._engine, "lunch")
        return (x - 0.3) ** 2

    ran: list[float] = []
    how = {"folder": tmp_path, "batch_size": 2, "acquisition": "random"}
    study = dngo.create("stopped", {"x": (0, 1)}, **how)
    with pytest.raises(Asked, match="lunch"):
        study.optimize(measure, 8, workers=0)
    assert len(ran) == 3
    study.optimize(measure, 8, workers=0)
    assert len(ran) == len(set(ran)) == len(study.table()) == 8


@pytest.mark.full
def test_a_run_that_is_stopped_ends_and_the_same_command_goes_on(brief) -> None:
    study = brief(iterations=0, sleep=0.7)
    process = study.start("--cores", "1")
    until(lambda: study.runs.exists())
    engine = find_study([study.folder / "config.yaml"])
    assert "starts nothing more" in stop(engine, "the reactor\nis down")
    with pytest.raises(UserError, match="asked the run to stop: the reactor"):
        stop(engine, "again")
    output, _ = process.communicate()
    assert process.returncode != 0
    assert "asked the run to stop: the reactor is down" in output
    assert "the same command goes on" in output and "check --run" not in output
    assert 0 < len(study.evaluations()) < 8
    study.snakemake("--cores", "2")
    once_each(study, 8)
