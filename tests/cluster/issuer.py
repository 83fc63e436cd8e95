"""A tiny OpenID Connect issuer on loopback, which logs everybody in as one user."""

import base64
import hashlib
import json
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.cluster.process import certificate

CLIENT = "kubectl-sky"


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass
class Issuer:
    """What it knows: its key, and the log-ins that have not fetched their token yet."""

    email: str
    ca: Path
    url: str = ""
    key: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    logins: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    @contextmanager
    def start(cls, folder: Path, email: str) -> Iterator[Self]:
        """Answer by TLS on a free port."""
        certificate(folder)
        issuer = cls(email, folder / "tls.crt")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(issuer.ca, folder / "tls.key")
        handler = type("Handler", (_Handler,), {"issuer": issuer})
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
            server.daemon_threads = True
            server.socket = context.wrap_socket(server.socket, server_side=True)
            issuer.url = f"https://127.0.0.1:{server.server_port}"
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield issuer
            server.shutdown()

    def configuration(self) -> dict[str, Any]:
        """Return where its parts are, and what it can do."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
            "code_challenge_methods_supported": ["S256"],
        }

    def keys(self) -> dict[str, Any]:
        """Return the public key."""
        numbers = self.key.public_key().public_numbers()
        modulus = _encode(numbers.n.to_bytes(256, "big"))
        exponent = _encode(numbers.e.to_bytes(3, "big"))
        return {"keys": [{"kty": "RSA", "alg": "RS256", "kid": "1", "n": modulus, "e": exponent}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Log the user in without a question; return where the browser goes."""
        code = secrets.token_urlsafe()
        self.logins[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def redeem(self, sent: dict[str, str]) -> dict[str, Any] | None:
        """Return the tokens for a code, which needs the verifier of its challenge (PKCE)."""
        asked = self.logins.pop(sent["code"])
        challenge = _encode(hashlib.sha256(sent.get("code_verifier", "").encode()).digest())
        if asked.get("code_challenge") != challenge:
            return None
        token = self.token(asked.get("nonce", ""))
        return {"access_token": "opaque", "token_type": "Bearer", "id_token": token}

    def token(self, nonce: str = "") -> str:
        """Return an ID token of the user."""
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": "1", "iat": now, "exp": now + 3600}
        claims |= {"email": self.email, "email_verified": True, "nonce": nonce}
        head = {"alg": "RS256", "kid": "1", "typ": "JWT"}
        text = ".".join(_encode(json.dumps(part).encode()) for part in (head, claims))
        signed = self.key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{text}.{_encode(signed)}"


class _Handler(BaseHTTPRequestHandler):
    issuer: Issuer

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        query = urlsplit(self.path).query
        if path == "/authorize":
            self.send_response(302)
            self.send_header("Location", self.issuer.authorize(_fields(query)))
            self.end_headers()
        elif path == "/keys":
            self._answer(self.issuer.keys())
        else:
            self._answer(self.issuer.configuration())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self._answer(self.issuer.redeem(_fields(body)))

    def _answer(self, body: object) -> None:
        data = json.dumps(body or {"error": "invalid_grant"}).encode()
        self.send_response(200 if body else 400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Be silent."""


def _fields(text: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(text).items()}
