"""`dngo serve`: the report in a browser, refreshed while the study runs; this machine only."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from dngo.audit import audit, page
from dngo.errors import UserError
from dngo.report.live import status
from dngo.report.page import Page, study_page
from dngo.report.text import format_status
from dngo.study import Study

HOST = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Serves the report of one study on the loopback address.

    Three things are answered, none of them a file: `/`, `/status.json`, `/audit/ID`.
    """

    daemon_threads = True

    def __init__(self, study: Study, port: int):
        super().__init__((HOST, port), _Handler)
        self.study = study
        self._lock = threading.Lock()
        self._page: tuple[str, str] | None = None  # version, document

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def version(self) -> str:
        """The digest of the archive, empty while there is none."""
        header = self.study.header()
        return header.digest if header else ""

    def document(self) -> str:
        """The report, made anew once the archive has changed."""
        with self._lock:  # two browsers do not make it twice
            version = self.version()
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

    def status(self) -> dict[str, Any]:
        """How the study stands, for the strip at the top of the page."""
        return {"version": self.version(), "text": format_status(status(self.study))}


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        # A page of another site must not read the study through a name that leads to this machine.
        name = self.headers.get("Host", "").rsplit(":", 1)[0]
        if name not in (HOST, "localhost"):
            return self._answer(403, "text/plain", "only for this machine\n")
        proposal = re.fullmatch(r"/audit/(\d+-\d+)", self.path)
        try:
            if self.path == "/":
                self._answer(200, "text/html", self.server.document())
            elif self.path == "/status.json":
                self._answer(200, "application/json", json.dumps(self.server.status()))
            elif proposal:
                text = page(audit(self.server.study.archive, proposal[1]))
                self._answer(200, "text/plain", text)
            else:
                self._answer(404, "text/plain", "no such page\n")
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
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the browser has gone on
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not logged."""
