"""A gate before the schema registry, for what the registry itself does not ask of its clients."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Gate:
    """An HTTP server that hands requests on to a registry."""

    url: str
    authorization: str | None = None
    """The header without which a request is answered with 401."""
    statuses: list[int] = field(default_factory=list)
    """Answered to the next requests instead, in order."""
    answer: Callable[[str], bytes] | None = None
    """What a path is answered with, instead of the registry's own words."""
    paths: list[str] = field(default_factory=list)
    """What was asked for."""


@contextmanager
def open_gate(registry_url: str, tls: ssl.SSLContext | None = None) -> Iterator[Gate]:
    """A gate on a port of its own, closed at the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            gate.paths.append(self.path)
            status, body = self._status_and_body()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def _status_and_body(self) -> tuple[int, bytes]:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if gate.statuses:
                return gate.statuses.pop(0), b"{}"
            told = self.headers["Authorization"]
            if gate.authorization and told != gate.authorization:
                # As careless as some are: it repeats what it was told.
                return 401, f'{{"error_code": 401, "message": "not {told}"}}'.encode()
            if gate.answer:
                return 200, gate.answer(self.path)
            connection = HTTPConnection(parts.netloc)
            headers = {"Content-Type": "application/json"}
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            with closing(connection):
                return response.status, response.read()

        def log_message(self, *_: object) -> None:
            pass

    parts = urlsplit(registry_url)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    scheme = "https" if tls else "http"
    gate = Gate(f"{scheme}://127.0.0.1:{server.server_port}{parts.path}")
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield gate
    finally:
        server.shutdown()
        server.server_close()
