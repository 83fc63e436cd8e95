"""The listener: TLS that follows its files, and what is refused before it listens."""

import socket
import ssl
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubectl_sky.cli.main import sky
from kubectl_sky.errors import SkyError, UserError
from kubectl_sky_server.rest import serve
from kubectl_sky_server.rest.config import Config
from kubectl_sky_server.rest.serve import Listener
from tests.contract.certificates import Authority
from tests.polling import eventually


def issue(authority: Authority, name: str, folder: Path) -> None:
    pair = authority.issue(name)
    (folder / "key").write_bytes(pair.key)
    (folder / "cert").write_bytes(pair.certificate)


def test_certificate_is_loaded_again_when_it_changes(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "_RELOAD_SECONDS", 0.05)
    authority = Authority()
    notes = list[str]()
    urls = list[str]()
    issue(authority, "before", tmp_path)
    listener = Listener("127.0.0.1", 0, str(tmp_path / "cert"), str(tmp_path / "key"))
    thread = threading.Thread(
        target=serve.serve, args=(config, listener, notes.append, urls.append)
    )
    thread.daemon = True
    thread.start()
    eventually(lambda: urls)
    port = int(urls[0].rpartition(":")[2])

    def presented() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port))

    first = eventually(presented)
    (tmp_path / "cert").write_text("damaged")
    eventually(lambda: any("warning: cannot load" in note for note in notes))
    assert presented() == first
    issue(authority, "after", tmp_path)
    eventually(lambda: presented() != first)


def test_endless_headers_are_refused(config: Config) -> None:
    urls: list[str] = []
    arguments = (config, Listener("127.0.0.1", 0), print, urls.append)
    threading.Thread(target=serve.serve, args=arguments, daemon=True).start()
    eventually(lambda: urls)
    with socket.create_connection(("127.0.0.1", int(urls[0].rpartition(":")[2]))) as client:
        client.settimeout(60)
        client.sendall(b"GET / HTTP/1.1\r\nHost: testserver\r\nX: " + b"x" * 150_000)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--host", "0.0.0.0"), "without TLS would send tokens in plain text"),
        (("--tls-cert", "x"), "--tls-cert and --tls-key are used together"),
        (
            ("--host", "0.0.0.0", "--behind-proxy", "--insecure-trust-x-user"),
            "requires a loopback",
        ),
    ],
)
def test_unsafe_flags_are_refused(arguments: tuple[str, ...], message: str) -> None:
    error = CliRunner().invoke(sky, ["api", *arguments]).exception
    assert isinstance(error, SkyError)
    assert message in error.what


def test_missing_certificate_is_an_error_of_the_user(config: Config) -> None:
    with pytest.raises(UserError, match="cannot use the certificate /nowhere"):
        serve.serve(config, Listener("127.0.0.1", 0, "/nowhere", "/nowhere"), print, print)
