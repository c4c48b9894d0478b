"""`dngo serve`: the report in a browser, refreshed while the study runs.

Of a folder it is a list of all studies below it, each of them one click away.

The loopback address keeps other machines away, but not other users of this machine. So each address has
a token that is made when the server starts, and that nobody can guess. It stays in the address: a cookie
would be sent to any other server on this machine.
"""

from __future__ import annotations

import contextlib
import json
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qs

from dngo.audit import audit, page
from dngo.errors import UserError
from dngo.report.live import status
from dngo.report.page import Page, study_page
from dngo.report.text import format_status
from dngo.study import Study

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
REQUEST = 10.0  # seconds that a request may take to arrive
ANSWER = 300.0  # seconds that its answer may take, over a slow line
CONNECTIONS = 32  # at a time
Answer = tuple[str, str]  # kind and text
REFUSED = (
    "wrong or missing token: open the address that `dngo serve` has printed, with its ?token=\n"
)


class Answers(Protocol):
    """What a server shows."""

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        """Kind and text of what lies at a path, None if nothing does; raises UserError."""


@dataclass
class _Connection:
    """One that is open. deadline: when it is ended, by the monotonic clock; proved: its token is right."""

    deadline: float
    proved: bool = False


class Shown:
    """What is served of one study, all made in memory: its page, `status.json`, `audit/ID`."""

    def __init__(self, study: Study):
        self.study = study
        self._making = threading.Lock()
        self._page: tuple[str, str] | None = None  # version, document

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        """Kind and text, None if there is no such page; raises UserError."""
        self.study.settle()
        if path == "":
            return "text/html", self._document()
        if path == "status.json":
            found = {"version": self._version(), "text": format_status(status(self.study))}
            return "application/json", json.dumps(found)
        if proposal := re.fullmatch(r"audit/(\d+-\d+)", path):
            return "text/plain", page(audit(self.study.archive, proposal[1]))
        return None

    def _version(self) -> str:
        """The digest of the archive, empty while there is none."""
        header = self.study.header()
        return header.digest if header else ""

    def _document(self) -> str:
        """The report, made anew once the archive has changed."""
        with self._making:  # two browsers do not make it twice
            version = self._version()
            if self._page is None or self._page[0] != version:
                self._page = (version, self._make())
            return self._page[1]

    def _make(self) -> str:
        if self.study.header() is None:
            return Page(
                title=f"Study {self.study.config.study}",
                headline="Nothing is in the archive yet; this page fills itself.",
                figures=[],
                served=True,
            ).render()
        return study_page(self.study, served=True)


class Server(ThreadingHTTPServer):
    """Serves what is shown on the loopback address, to anyone who knows the token.

    A connection is ended after `REQUEST` seconds without a whole request; where `CONNECTIONS` are open, a
    new one takes the place of the oldest that has shown no token.
    """

    daemon_threads = True

    def __init__(self, shown: Study | Answers, port: int):
        self._open: dict[socket.socket, _Connection] = {}
        self._guard = threading.Lock()
        super().__init__((HOST, port), _Handler)
        self.shown: Answers = Shown(shown) if isinstance(shown, Study) else shown
        self.token = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """The address of the report, to be opened as printed."""
        return self.url("/")

    def url(self, path: str) -> str:
        """The address of a path, with the token."""
        return f"http://{HOST}:{self.server_port}{path}?token={self.token}"

    # ---- connections ----------------------------------------------------------------------------

    def process_request(self, request: Any, client_address: Any) -> None:
        """Have a thread answer a connection, if there is room for one more."""
        with self._guard:
            if len(self._open) >= CONNECTIONS:
                oldest = next((s for s, known in self._open.items() if not known.proved), request)
                self._open.pop(oldest, None)
                _cut(oldest)
                if oldest is request:
                    return self.close_request(request)
            self._open[request] = _Connection(time.monotonic() + REQUEST)
        return super().process_request(request, client_address)

    def proved(self, request: Any) -> None:
        """A connection has shown the token: it has more time."""
        with self._guard:
            if request in self._open:
                self._open[request] = _Connection(time.monotonic() + ANSWER, proved=True)

    def service_actions(self) -> None:
        """Twice a second: end the connections whose time is over."""
        now = time.monotonic()
        with self._guard:
            for request in [s for s, known in self._open.items() if known.deadline < now]:
                del self._open[request]
                _cut(request)

    def shutdown_request(self, request: Any) -> None:
        """A connection has been answered."""
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that has closed its connection is not reported."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _cut(request: socket.socket) -> None:
    """End a connection at once; the thread that reads or writes it sees its end."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "dngo", ""

    def do_GET(self) -> None:
        # A page of another site must not read the study through a name that leads to this machine.
        names = [name.rsplit(":", 1)[0].lower() for name in self.headers.get_all("Host", [])]
        if len(names) != 1 or names[0] not in NAMES:
            return self._answer(403, "text/plain", f"only for {' and '.join(NAMES)}\n")
        path, _, query = self.path.partition("?")
        given = parse_qs(query).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            return self._answer(403, "text/plain", REFUSED)
        self.server.proved(self.connection)
        try:
            found = self.server.shown.answer(path.removeprefix("/"), parse_qs(query))
            self._answer(200, *found) if found else self._answer(
                404, "text/plain", "no such page\n"
            )
        except UserError as error:
            self._answer(404, "text/plain", f"{error}\n")
        return None

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")  # the address holds the token
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
