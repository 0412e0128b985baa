"""A gate before the schema registry, for what the registry itself does not ask of its clients."""

import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


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

        def _status_and_body(self) -> tuple[int, bytes]:
            if gate.statuses:
                return gate.statuses.pop(0), b"{}"
            told = self.headers["Authorization"]
            if gate.authorization and told != gate.authorization:
                # As careless as some are: it repeats what it was told.
                return 401, f'{{"error_code": 401, "message": "not {told}"}}'.encode()
            if gate.answer:
                return 200, gate.answer(self.path)
            connection = HTTPConnection(parts.netloc)
            connection.request("GET", self.path)
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


def make_authority(folder: Path, name: str) -> Callable[[str, bytes | None], tuple[Path, Path]]:
    """An authority whose certificate is ``folder/name.pem``.

    What it returns makes a certificate for 127.0.0.1 and its key, encrypted with a password if
    there is one; both are files in ``folder``.
    """
    own_key = ec.generate_private_key(ec.SECP256R1())
    authority = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])

    def signed(subject: x509.Name, key: ec.EllipticCurvePrivateKey, signs: bool) -> bytes:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder(authority, subject, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .sign(own_key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )

    def make(owner: str, password: bytes | None = None) -> tuple[Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate_file, key_file = folder / f"{owner}.pem", folder / f"{owner}.key"
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, owner)])
        certificate_file.write_bytes(signed(subject, key, signs=False))
        locked = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        form = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
        return certificate_file, key_file

    (folder / f"{name}.pem").write_bytes(signed(authority, own_key, signs=True))
    return make
