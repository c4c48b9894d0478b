"""`dngo serve`: the report in a browser, refreshed while the study runs.

For a folder, it shows a list of all studies below it. A click leads to a study.

The loopback address keeps other machines away, but not other users of this machine. So each address
has a token that nobody can guess. The server makes it when it starts. It stays in the address,
since a browser would send a cookie to other servers on this machine as well.

With `--act`, the page also takes acts: a POST with the token, from a page of this server. Each act
has a key of its own, so that it happens once, however often it is sent.
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
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qs

from dngo.audit import audit, page
from dngo.errors import UserError
from dngo.report.live import status
from dngo.report.page import Page, study_page, version
from dngo.report.text import format_status
from dngo.storage.patience import in_words
from dngo.study import Study

if TYPE_CHECKING:
    from dngo.acting import Acts

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")
REQUEST = 10.0  # seconds that a request may take to arrive
ANSWER = 300.0  # seconds that its answer may take, over a slow line
CONNECTIONS = 32  # at a time
LARGEST = 2**16  # bytes of an act
REMEMBERED = 1000  # acts whose answers are kept
Answer = tuple[str, str]  # kind and text
REFUSED = (
    "wrong or missing token: open the address that `dngo serve` has printed, with its ?token=\n"
)


class Answers(Protocol):
    """The pages that a server shows."""

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        """Kind and text of the page at a path, None if it does not exist; raises UserError."""

    def act(self, path: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """What came of an act, None if nothing takes acts there."""


@dataclass
class _Connection:
    """An open connection.

    deadline: its end by the monotonic clock. proved: whether it has shown the token.
    """

    deadline: float
    proved: bool = False


class Shown:
    """The pages of one study, made in memory: its report, `status.json`, `audit/ID`.

    acts: what the page may do; None if it only shows.
    """

    def __init__(self, study: Study, acts: Acts | None = None):
        self.study, self.acts = study, acts
        self._making, self._acting = threading.Lock(), threading.Lock()
        self._page: tuple[str, str] | None = None  # version, document
        self._done: OrderedDict[str, dict[str, Any]] = OrderedDict()  # answers by key

    def answer(self, path: str, query: Mapping[str, list[str]]) -> Answer | None:
        """Kind and text of a page, None if it does not exist; raises UserError."""
        self.study.settle()
        if path == "":
            return "text/html", self._document()
        if path == "status.json":
            found: dict[str, Any] = {"version": version(self.study)}
            found["text"] = format_status(status(self.study))
            if self.acts is not None:
                found["withdrawable"] = self.acts.withdrawable()
            return "application/json", json.dumps(found)
        if proposal := re.fullmatch(r"audit/(\d+-\d+)", path):
            return "text/plain", page(audit(self.study.archive, proposal[1]))
        return None

    def act(self, path: str, document: Mapping[str, Any]) -> dict[str, Any] | None:
        """What came of an act: whether it was done, and lines to show. One at a time."""
        if path != "act" or self.acts is None:
            return None
        key, what = str(document.get("key", "")), str(document.get("act", ""))
        fields = document.get("fields")
        if not key or not isinstance(fields, Mapping):
            return {"done": False, "said": ["this is no act of this page"]}
        given = {str(name): str(value) for name, value in fields.items()}
        with self._acting:
            if key in self._done:
                return self._done[key]
            try:
                answer = {"done": True, "said": self.acts.act(what, given)}
            except UserError as error:
                answer = {"done": False, "said": str(error).splitlines()}
            except OSError as error:  # the same act may be sent again
                said = in_words(error) or f"{error.filename or what}: {error.strerror or error}"
                return {"done": False, "said": [f"{said}; try again"]}
            self._done[key] = answer
            if len(self._done) > REMEMBERED:
                self._done.popitem(last=False)
            if self.acts.study is not self.study:
                self.study, self._page = self.acts.study, None
            return answer

    def _document(self) -> str:
        """The report. It is made again when the archive has changed."""
        with self._making:  # two browsers must not make it twice
            now = version(self.study)
            if self._page is None or self._page[0] != now:
                self._page = (now, self._make())
            return self._page[1]

    def _make(self) -> str:
        offered = self.acts.offered() if self.acts else None
        if self.study.header() is None:
            return Page(
                title=f"Study {self.study.config.study}",
                headline="The archive is still empty; this page updates itself.",
                figures=[],
                served=True,
                acts=offered,
            ).render()
        return study_page(self.study, served=True, acts=offered)


class Server(ThreadingHTTPServer):
    """Serves pages on the loopback address to anyone who knows the token.

    A connection is ended after `REQUEST` seconds without a complete request. If `CONNECTIONS` are
    open, a new one replaces the oldest one that has shown no token.
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
        """The address of the report, to open as it is printed."""
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
        """Give a connection that has shown the token more time."""
        with self._guard:
            if request in self._open:
                self._open[request] = _Connection(time.monotonic() + ANSWER, proved=True)

    def service_actions(self) -> None:
        """End the connections whose time is over. Called twice a second."""
        now = time.monotonic()
        with self._guard:
            for request in [s for s, known in self._open.items() if known.deadline < now]:
                del self._open[request]
                _cut(request)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection after its answer."""
        with self._guard:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Report no error if a browser has closed its connection."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _cut(request: socket.socket) -> None:
    """End a connection at once. The thread that reads or writes it notices that."""
    with contextlib.suppress(OSError):
        request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: Server
    server_version, sys_version = "dngo", ""

    def do_GET(self) -> None:
        if (asked := self._asked()) is None:
            return
        path, query = asked
        try:
            found = self.server.shown.answer(path, query)
            self._answer(200, *found) if found else self._answer(
                404, "text/plain", "no such page\n"
            )
        except UserError as error:
            self._answer(404, "text/plain", f"{error}\n")

    def do_POST(self) -> None:
        if (asked := self._asked()) is None:
            return None
        # The token is proof enough. A page of another site still must not use a form, as it could if a
        # browser's history gave the token away.
        origin, kind = self.headers.get("Origin", ""), self.headers.get_content_type()
        if origin != f"http://{self.headers['Host']}" or kind != "application/json":
            return self._answer(403, "text/plain", "only from the page of this server\n")
        try:
            size = int(self.headers.get("Content-Length", ""))
            document = json.loads(self.rfile.read(size)) if 0 <= size <= LARGEST else None
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            return self._answer(400, "text/plain", "this is no act of this page\n")
        try:
            found = self.server.shown.act(asked[0], document)
        except UserError as error:
            found = {"done": False, "said": str(error).splitlines()}
        if found is None:
            return self._answer(403, "text/plain", "this page only shows: `dngo serve --act`\n")
        return self._answer(200, "application/json", json.dumps(found))

    def _asked(self) -> tuple[str, Mapping[str, list[str]]] | None:
        """Path and query of a request that knows the token. Others are refused here."""
        # A page of another site might use a name that leads to this machine. It must not read the
        # study.
        names = [name.rsplit(":", 1)[0].lower() for name in self.headers.get_all("Host", [])]
        if len(names) != 1 or names[0] not in NAMES:
            self._answer(403, "text/plain", f"only for {' and '.join(NAMES)}\n")
            return None
        path, _, query = self.path.partition("?")
        given = parse_qs(query).get("token", [""])[0]
        if not secrets.compare_digest(given.encode(), self.server.token.encode()):
            self._answer(403, "text/plain", REFUSED)
            return None
        self.server.proved(self.connection)
        return path.removeprefix("/"), parse_qs(query)

    def _answer(self, code: int, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        # Do not log the address, since it holds the token.
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
