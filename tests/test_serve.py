"""`dngo serve`: whom the server answers, over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import serving
from waiting import until

from dngo.report import serve
from dngo.report.many import Many
from dngo.report.serve import Server
from dngo.study import Study


@pytest.fixture
def server(small: Study) -> Iterator[Server]:
    with serving(small) as server:
        yield server


def ask(server: Server, path: str, host: str = "", method: str = "GET") -> tuple[int, str]:
    """Status and text of the answer to a request with exactly this path."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port)
    with contextlib.closing(connection):
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", host or f"127.0.0.1:{server.server_port}")
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port))


def test_the_address_with_its_token_shows_the_study(server: Server) -> None:
    token = f"?token={server.token}"
    assert "Health" in ask(server, f"/{token}")[1]
    status = json.loads(ask(server, f"/status.json{token}")[1])
    assert status["version"] and "Evaluations    80" in status["text"]
    assert "Why it was proposed" in ask(server, f"/audit/1-3{token}")[1]
    assert ask(server, f"/audit/99-0{token}")[0] == 404
    # Through `ssh -L 9000:localhost:8000` the browser knows it by another port.
    assert ask(server, f"/{token}", host="localhost:9000")[0] == 200


def test_without_the_token_nothing_is_told(server: Server) -> None:
    wrong = ("", "?token=", "?token=x", f"?token={server.token}x", f"?token={server.token[:-1]}")
    queries = [*wrong, f"?Token={server.token}", "?token=%C3%A9", f"?{server.token}"]
    paths = ("/", "/status.json", "/audit/1-3", "/../archive.h5", "/nothing")
    for query, path in itertools.product(queries, paths):
        code, text = ask(server, path + query)
        assert code == 403, query
        assert text.count("\n") == 1 and "open the address that `dngo serve` has printed" in text
        assert "synthetic" not in text and server.token not in text


def test_tokens_are_long_and_never_the_same(small: Study) -> None:
    servers = [Server(small, 0) for _ in range(2)]
    for server in servers:
        server.server_close()
    assert servers[0].server_address[0] == "127.0.0.1", "for this machine alone"
    assert servers[0].token != servers[1].token
    assert all(len(server.token) >= 32 for server in servers)


def test_no_file_is_given_away(server: Server) -> None:
    names = ("../archive.h5", "..%2farchive.h5", "archive.h5", "%2e%2e/etc/passwd", "audit/../x")
    for path in (*names, "/etc/passwd", "audit/1-3/../../archive.h5", "\\..\\archive.h5"):
        assert ask(server, f"/{path}?token={server.token}") == (404, "no such page\n"), path


def test_another_name_of_this_machine_is_refused_and_two_or_none(server: Server) -> None:
    for host in ("example.org", "127.0.0.1.example.org", "localhost.", "x@y", "["):
        code, text = ask(server, f"/?token={server.token}", host=host)
        assert code == 403 and "only for 127.0.0.1" in text, host
    for lines in ("", "Host: 127.0.0.1\r\nHost: example.org\r\n"):
        with connect(server) as client:
            request = f"GET /?token={server.token} HTTP/1.1\r\n{lines}\r\n"
            client.sendall(request.encode())
            assert b" 403 " in client.recv(100)


def await_end(client: socket.socket) -> None:
    with contextlib.suppress(ConnectionError):
        while client.recv(1 << 16):
            pass


def dribble(client: socket.socket) -> None:
    """Send a letter at a time, without an end."""
    while True:
        client.sendall(b"x")
        time.sleep(0.05)


def test_slow_and_silent_connections_are_ended(server: Server, monkeypatch) -> None:
    monkeypatch.setattr(serve, "REQUEST", 1.0)
    silent, slow = connect(server), connect(server)
    with silent, slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
        with pytest.raises(ConnectionError):
            dribble(slow)
        await_end(silent)
        await_end(slow)
    assert ask(server, f"/?token={server.token}")[0] == 200


def test_an_answer_that_nobody_takes_is_ended(server: Server, monkeypatch) -> None:
    size = len(server.shown.answer("", {})[1])  # what takes its time is to send it
    monkeypatch.setattr(serve, "ANSWER", 1.0)
    server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**16)  # of its connections
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", server.server_port))
        request = f"GET /?token={server.token} HTTP/1.1\r\nHost: localhost\r\n\r\n"
        client.sendall(request.encode())
        got = len(client.recv(100))
        until(lambda: not server._open)
        with contextlib.suppress(ConnectionError):
            while piece := client.recv(1 << 16):
                got += len(piece)
    assert got < size


def test_a_crowd_of_connections_keeps_nobody_out(server: Server, monkeypatch) -> None:
    monkeypatch.setattr(serve, "REQUEST", 3600.0)  # none of them goes by itself
    monkeypatch.setattr(serve, "CONNECTIONS", 4)
    crowd = [connect(server) for _ in range(3 * serve.CONNECTIONS)]
    try:
        assert ask(server, f"/status.json?token={server.token}")[0] == 200
        assert len(server._open) <= serve.CONNECTIONS
        threads = [t for t in threading.enumerate() if "process_request_thread" in t.name]
        assert len(threads) <= serve.CONNECTIONS + 2
    finally:
        for client in crowd:
            client.close()


# A server that no connection ends by itself.
ENDLESS = "import sys; from dngo.cli import main; from dngo.report import serve; serve.REQUEST = serve.ANSWER = 3600.0; sys.exit(main())"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once_whoever_is_connected(
    small: Study, tmp_path: Path, number: int
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(small.config.resolved())
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, "serve", str(config), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first, second = process.stdout.readline(), process.stdout.readline()
    found = re.search(r"(http://127\.0\.0\.1:(\d+)/\?token=\S+)$", first)
    assert found and "Ctrl-C" in second
    with socket.create_connection(("127.0.0.1", int(found[2]))) as half:
        half.sendall(b"GET / HT")
        busy = socket.create_connection(("127.0.0.1", int(found[2])))
        with busy:
            query = found[1].rpartition("/")[2]
            busy.sendall(f"GET /{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            time.sleep(random.uniform(0.2, 2))  # the page is being made
            process.send_signal(number)
            output, errors = process.communicate()
    assert process.returncode == 0
    assert output == "Ended; the address no longer works\n" and errors == ""


# ---- many studies on one page -------------------------------------------------------------------


@pytest.fixture
def shelf(small: Study, tmp_path: Path) -> Iterator[Server]:
    """Two studies, one of them at work, one that is damaged, and what is no study."""
    for name in ("a/synthetic", "deep/er/synthetic", "torn/synthetic"):
        shutil.copytree(small.folder, tmp_path / name)
    claim = tmp_path / "a/synthetic/.run.claim"
    claim.write_text("{}")
    (tmp_path / "torn/synthetic/archive.h5").write_bytes(b"no archive")
    (tmp_path / "notes.txt").write_text("mine")
    with serving(Many(tmp_path)) as server:
        yield server


def test_a_folder_is_a_list_of_its_studies_each_one_click_away(
    shelf: Server, tmp_path: Path
) -> None:
    token = f"?token={shelf.token}"
    code, page = ask(shelf, f"/{token}")
    assert code == 200 and page.count("<polyline") == 2
    rows = {re.search(r">([^<]*synthetic)</a>", row)[1]: row for row in page.split("<tr>")[2:]}
    assert rows.keys() == {"a/synthetic", "deep/er/synthetic", str(tmp_path / "torn/synthetic")}
    assert "at work" in rows["a/synthetic"] and "complete" in rows["deep/er/synthetic"]
    assert ">80<" in rows["a/synthetic"] and "s ago" in rows["a/synthetic"]
    assert "archive.h5" in rows[str(tmp_path / "torn/synthetic")]
    link = re.search(r'href="([^"]*)">deep', rows["deep/er/synthetic"])[1]
    code, report = ask(shelf, f"/{link}")
    assert code == 200 and "Health" in report
    # What the page of a study asks for, it asks for beside itself.
    number = link.partition("/")[0]
    assert "Evaluations    80" in ask(shelf, f"/{number}/status.json{token}")[1]
    assert "Why it was proposed" in ask(shelf, f"/{number}/audit/1-3{token}")[1]
    assert 'fetch("/' not in report
    both = ask(shelf, f"/compare{token}&of=0&of=1")
    assert both[0] == 200 and "Side by side" in both[1]
    assert "data-served>" in report and "data-served>" not in both[1]  # which asks for nothing
    assert ask(shelf, f"/compare{token}")[1] == "tick the studies to compare\n"
    for path in ("/3/", "/-1/", "/0", "/0/../notes.txt", "/notes.txt", "/compare/"):
        assert ask(shelf, path + token)[0] == 404
        assert ask(shelf, path)[0] == 403
    # A study that begins meanwhile has the next number, and the others keep theirs.
    shutil.copytree(tmp_path / "a", tmp_path / "0-first")
    later = ask(shelf, f"/{token}")[1]
    assert f'href="3/{token}">0-first/synthetic' in later and f'href="{link}">deep' in later


def test_it_listens_for_this_machine_alone(server: Server) -> None:
    assert server.server_address[0] == "127.0.0.1"
