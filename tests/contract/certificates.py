"""A server that wants to know who comes, and the certificates for it and its callers."""

import datetime
import ssl
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for an hour."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("authority")
        self.certificate = _pem(self._signed(self._name, self._key, ca=True))

    def issue(self, name: str) -> Pair:
        """Return a certificate for a name, of a server or of a user."""
        key = ec.generate_private_key(ec.SECP256R1())
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Pair(_pem(self._signed(_name(name), key, ca=False)), secret)

    def _signed(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, ca: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        hour = datetime.timedelta(hours=1)
        (common,) = name.get_attributes_for_oid(NameOID.COMMON_NAME)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())

        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - hour)
            .not_valid_after(now + hour)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(str(common.value))]), False)
            .sign(self._key, hashes.SHA256())
        )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


class StrictServer:
    """Answers whoever shows a certificate of the authority with an empty list."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        self.callers: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert isinstance(self.connection, ssl.SSLSocket)
                subject = (self.connection.getpeercert() or {})["subject"]
                server.callers.append(str(subject[0][0][1]))
                body = b'{"metadata": {}, "items": []}'
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Nothing on stderr."""

        pair = authority.issue("inside")
        (folder / "server.pem").write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=authority.certificate.decode())
        context.load_cert_chain(folder / "server.pem")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
