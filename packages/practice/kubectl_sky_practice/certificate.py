"""The TLS certificate of the server, and the kubeconfig of its users."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

_DAYS = 3650


def create(folder: Path) -> tuple[Path, Path]:
    """Return the files of the certificate and its key; create them the first time."""
    certificate = folder / "tls.crt"
    key = folder / "tls.key"
    if not (certificate.exists() and key.exists()):
        _make(certificate, key)
    return certificate, key


def _make(certificate: Path, key: Path) -> None:
    # imported here: later starts do not need them
    from cryptography import x509  # noqa: PLC0415
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID  # noqa: PLC0415

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "practice cluster")])
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_DAYS))
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(private, hashes.SHA256())
    )
    key.touch(mode=0o600)
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))


def write_kubeconfig(file: Path, server: str, certificate: Path, tokens: Mapping[str, str]) -> None:
    """Write a context for each token; the first is the current one."""
    authority = base64.b64encode(certificate.read_bytes()).decode()
    first = next(iter(tokens))
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": first,
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": name, "user": {"token": token}} for name, token in tokens.items()],
        "contexts": [
            {"name": name, "context": {"cluster": first, "user": name}} for name in tokens
        ],
        "current-context": first,
    }

    new = file.with_suffix(".new")
    new.touch(mode=0o600)
    new.write_text(json.dumps(config, indent=2) + "\n")
    new.replace(file)
