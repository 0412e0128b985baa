"""Certificates for the servers and clients of tests, signed by an authority of the test's own."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """An authority whose own certificate is the ``file`` of its name in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.file = folder / f"{name}.pem"
        self._folder = folder
        self._name = _named(name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.file.write_bytes(self._signed(self._name, self._key, "127.0.0.1", signs=True))

    def certify(
        self, owner: str, host: str = "127.0.0.1", password: bytes | None = None
    ) -> tuple[Path, Path]:
        """The files of a certificate for a host, and of its key, in the authority's folder.

        The key is encrypted with the password if there is one.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate_file, key_file = self._folder / f"{owner}.pem", self._folder / f"{owner}.key"
        certificate_file.write_bytes(self._signed(_named(owner), key, host, signs=False))
        locked = (
            serialization.BestAvailableEncryption(password)
            if password
            else serialization.NoEncryption()
        )
        form = serialization.PrivateFormat.PKCS8
        key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
        return certificate_file, key_file

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, host: str, signs: bool
    ) -> bytes:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder(self._name, subject, key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=signs, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
        )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
