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


def fetch(folder: Path, url: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"KUBECTL_SKY_SOURCE": url, "KUBECTL_SKY_SCRATCH": str(folder)} | variables
    command = ["/bin/sh", "-c", assets.read("runtime", "fetch.sh")]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)


def fetch_with_stubs(
    folder: Path, url: str, program: dict[str, str], stub: str
) -> subprocess.CompletedProcess[str]:
    for name in ("curl", "rclone"):
        (folder / name).write_text(stub)
        (folder / name).chmod(0o755)
    place = {"KUBECTL_SKY_LOCATION": "box/file", "KUBECTL_SKY_PREFIX": ""}
    return fetch(folder, url, PATH=f"{folder}:/usr/bin:/bin", **place, **program)


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
    assert fetch_with_stubs(tmp_path, url, program, STUB).returncode == 0
    assert (tmp_path / "data").read_text() == f"{used}\n"


@pytest.mark.parametrize(
    ("script", "cause"),
    [
        (
            "echo '2026/11/27 02:06:24 ERROR : Attempt 3/3 failed'; echo; exit 3",
            "Attempt 3/3 failed",
        ),
        ("echo '2026/11/27 02:06:24 NOTICE: Failed: no such host'; exit 1", "Failed: no such host"),
        ("echo 'MissingRegion: \\x\\n'; echo 'caused by: panic'; exit 2", "caused by: panic"),
        ("exit 8", "exit code 8"),
        ("kill -KILL $$", "exit code 137"),
    ],
)
@pytest.mark.parametrize("program", [{"KUBECTL_SKY_PROGRAM": "rclone"}, {}])
def test_fetch_program_fails_last_message_or_exit_code_is_cause(
    tmp_path: Path, program: dict[str, str], script: str, cause: str
) -> None:
    done = fetch_with_stubs(tmp_path, "s3://box/file", program, f"#!/bin/sh\n{script}\n")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(
        f"could not be {'copied' if program else 'fetched'}: {cause}"
    )


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("ERROR : S3 bucket box: ListObjectsV2, StatusCode: 403, AccessDenied", 78),
        ("ERROR : S3 bucket box: ListObjectsV2, StatusCode: 400, RequestTimeout", 1),
        ("ERROR : a/b: Failed to copy: GetObject, StatusCode: 404, NoSuchKey", 1),
    ],
)
def test_fetch_store_that_refuses_fails_for_good_unless_a_restart_may_help(
    message: str, code: int, tmp_path: Path
) -> None:
    stub = f"#!/bin/sh\necho '2026/11/27 02:06:24 {message}'; exit 1\n"
    program = {"KUBECTL_SKY_PROGRAM": "rclone"}
    assert fetch_with_stubs(tmp_path, "s3://box/file", program, stub).returncode == code


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
    done = fetch(tmp_path, address + path, PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "data").read_text().replace("%7B", "{").replace("%7D", "}") == path
