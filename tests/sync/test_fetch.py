"""fetch.sh copies buckets by a program, and files on the web as their URL is written."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from kubectl_sky.words import assets

STUB = '#!/bin/sh\necho "${0##*/}" > "$KUBECTL_SKY_SCRATCH/data"\n'
AZURE = "https://{}.blob.core.windows.net/box/file"


@pytest.mark.parametrize(
    ("url", "program", "used"),
    [
        (AZURE.format("account"), {"KUBECTL_SKY_PROGRAM": "rclone"}, "rclone"),
        (AZURE.format("account-secondary"), {}, "curl"),
        ("https://example.com/file", {}, "curl"),
        ("s3://box/file", {"KUBECTL_SKY_PROGRAM": "rclone"}, "rclone"),
    ],
)
def test_fetch_url_is_copied_by_program_of_plan(
    url: str, program: dict[str, str], used: str, tmp_path: Path
) -> None:
    for name in ("curl", "rclone"):
        stub = tmp_path / name
        stub.write_text(STUB)
        stub.chmod(0o755)
    subprocess.run(
        ["/bin/sh", "-c", assets.read("runtime", "fetch.sh")],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "KUBECTL_SKY_SOURCE": url,
            "KUBECTL_SKY_SCRATCH": str(tmp_path),
            "KUBECTL_SKY_LOCATION": "box/file",
            "KUBECTL_SKY_PREFIX": "",
            **program,
        },
        check=True,
    )
    assert (tmp_path / "data").read_text() == f"{used}\n"


class Server(BaseHTTPRequestHandler):
    """Answers with the path of the request."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.path.encode())

    def log_message(self, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("tool", ["curl", "wget", "busybox wget", "python3"])
@pytest.mark.parametrize("path", ["/part[1-3].csv?ids[]=4", "/{a,b}.csv"])
def test_fetch_url_with_brackets_is_requested_as_written(
    address: str, tool: str, path: str, tmp_path: Path
) -> None:
    program, _, applet = tool.partition(" ")
    program_path = sys.executable if program == "python3" else shutil.which(program)
    if not program_path:
        pytest.skip(f"no {program} on this machine")
    (tmp_path / (applet or program)).symlink_to(Path(program_path).resolve())
    environment = {
        "PATH": str(tmp_path),
        "KUBECTL_SKY_SOURCE": address + path,
        "KUBECTL_SKY_SCRATCH": str(tmp_path),
    }
    done = subprocess.run(
        ["/bin/sh", "-c", assets.read("runtime", "fetch.sh")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data").read_text().replace("%7B", "{").replace("%7D", "}") == path
