"""Downloads from servers that refuse, lie, or never end."""

import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky_server.ray import download as downloads
from kubectl_sky_server.ray.download import Answer, DownloadFailed, Source
from kubectl_sky_server.ray.model_graph import MAX_BYTES
from server_tests.ray.graphs import make_bytes
from server_tests.ray.source import GraphSource, serving

TRUSTED = ("127.0.0.1", "localhost")


@pytest.fixture
def source() -> Iterator[GraphSource]:
    with serving() as server:
        server.data = make_bytes()
        yield server


def get(server: GraphSource, **fields: Any) -> Answer:
    values = {"token": server.token, "timeout": 5.0, **fields}
    return downloads.download(Source(server.url, **values), TRUSTED)


def failure(server: GraphSource, **fields: Any) -> DownloadFailed:
    with pytest.raises(DownloadFailed) as caught:
        get(server, **fields)
    assert server.token not in f"{caught.value!r}"
    return caught.value


def test_download_valid_token_returns_bytes_and_etag(source: GraphSource) -> None:
    answer = get(source)
    assert answer.data == source.data
    assert answer.etag
    assert get(source, etag=answer.etag) == Answer(None, answer.etag)
    assert source.requests[-1] == ("/graphs/fruit", f"Bearer {source.token}", answer.etag)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (418, "UnexpectedStatus"),
        (500, "ServerError"),
        (301, "Redirected"),
        (307, "Redirected"),
        ("truncated", "Truncated"),
        ("without_length", "UnknownLength"),
        ("compressed", "UnexpectedEncoding"),
        ("large", "TooLarge"),
        ("large_chunked", "TooLarge"),
        ("garbage", "ConnectionFailed"),
    ],
)
def test_download_bad_answer_has_reason(source: GraphSource, mode: int | str, reason: str) -> None:
    source.mode = mode
    error = failure(source)
    assert error.reason == reason
    assert "server says" not in str(error)
    assert source.sent < 40 * MAX_BYTES, "cut early"


@pytest.mark.parametrize("mode", ["dripping", "dripping_headers", "silent"])
def test_download_slow_server_times_out(source: GraphSource, mode: str) -> None:
    source.mode = mode
    assert failure(source, timeout=1.0).reason == "Timeout"


def test_download_wrong_token_does_not_show_it(source: GraphSource) -> None:
    assert failure(source, token="other-token").reason == "Unauthorized"


@pytest.mark.parametrize("token", ["a b", "a\r\nX: y", "é", "\x00"])
def test_download_token_with_control_characters_is_not_sent(
    source: GraphSource, token: str
) -> None:
    assert failure(source, token=token).reason == "InvalidToken"
    assert not source.requests


def test_download_closed_port_names_cause(source: GraphSource) -> None:
    with pytest.raises(DownloadFailed, match=r"cannot reach 127\.0\.0\.1: .*onnect"):
        downloads.download(Source("http://127.0.0.1:1/"), TRUSTED)


@pytest.mark.parametrize(
    "url",
    [
        "http://graphs.example.com/",
        "ftp://graphs.example.com/",
        "https://",
        "https:///graph",
        "https://user:secret@graphs.example.com/",
        "https://[::1/",
        "https://graphs.example.com:99999/",
        "https://graphs.example.com/a b",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00:ec2::254]/",
        "https://[fd20:ce::254]/",
        "https://[64:ff9b::a9fe:a9fe]/",
        "https://[fe80::1%25eth0]/",
        "https://0.0.0.0/",
        "https://0.1.2.3/",
        "https://100.64.0.1/",
        "https://100.100.100.200/",
        "https://192.0.0.192/",
        "https://192.0.2.1/",
        "https://198.18.0.1/",
        "https://224.0.0.1/",
        "https://240.0.0.1/",
        "https://255.255.255.255/",
        "https://[::]/",
        "https://[::127.0.0.1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://[2002:7f00:1::]/",
        "https://[2002:a9fe:a9fe::1]/",
        "https://[2001:0:4136:e378:8000:63bf:5601:5601]/",
        "https://[2001:0:7f00:1:8000:63bf:f7f7:f7f7]/",
        "https://[64:ff9b:1::a9fe:a9fe]/",
        "https://[fec0::1]/",
        "https://[ff02::1]/",
        "https://[2001:db8::1]/",
        "file:///etc/passwd",
        "",
    ],
)
def test_check_url_unsafe_is_refused(url: str) -> None:
    with pytest.raises(DownloadFailed) as caught:
        downloads.check_url(url, ())
    assert caught.value.reason == "InvalidURL"
    assert "secret@" not in str(caught.value)


ALLOWED = ("8.8.8.8", "10.0.0.1", "172.16.0.1", "192.168.1.1", "[2606:4700::1111]", "[fd12::1]")
EMBEDDED = ("[::ffff:10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::1]")


@pytest.mark.parametrize("host", [*ALLOWED, *EMBEDDED, "[2001:0:808:808::f7f7:f7f7]"])
def test_check_url_public_or_private_address_is_allowed(host: str) -> None:
    assert downloads.check_url(f"https://{host}/", ()).hostname == host.strip("[]")


@pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f.0.0.1", "2130706433"])
def test_download_name_of_loopback_is_refused_when_resolved(host: str) -> None:
    with pytest.raises(DownloadFailed) as caught:
        downloads.download(Source(f"https://{host}:1/", timeout=5.0))
    assert "not allowed" in str(caught.value) or caught.value.reason == "InvalidURL"


def make_certificate(folder: Path) -> Path:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    return folder / "tls.crt"


def test_download_https_verifies_certificate(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, tmp_path / "tls.key")

    with serving() as source:
        source.data = make_bytes()
        source.listener.socket = context.wrap_socket(source.listener.socket, server_side=True)
        url = f"https://localhost:{source.port}/"
        trusting = Source(url, source.token, authority=certificate.read_text(), timeout=5.0)
        assert downloads.download(trusting, TRUSTED).data == source.data
        with pytest.raises(DownloadFailed, match="cannot verify localhost: self") as caught:
            downloads.download(Source(url, timeout=5.0), TRUSTED)
        assert caught.value.reason == "TLSFailed"


def test_download_invalid_ca_is_reported(source: GraphSource) -> None:
    assert failure(source, authority="not PEM").reason == "InvalidCA"
