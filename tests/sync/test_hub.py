"""hub.py with a local Hub: copies and error messages."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from kubectl_sky.plan import buckets as told
from tests.builders import make_task
from tests.cluster import hub

SCRIPT = Path(__file__).parents[2] / "runtime" / "hub.py"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    servers = hub.serve("127.0.0.1")
    threads = [
        Thread(target=running_server.serve_forever, args=(0.05,)) for running_server in servers
    ]
    for thread in threads:
        thread.start()
    yield servers[0].url
    for server, thread in zip(servers, threads, strict=True):
        server.shutdown()
        thread.join()
        server.server_close()


def copy(address: str, place: str, room: Path, token: str = "") -> tuple[int, str]:
    environment = told._hub_env(place, make_task(), {"endpoint": address}) | {
        "KUBECTL_SKY_SCRATCH": str(room)
    }
    done = subprocess.run(
        [sys.executable, SCRIPT],
        env=environment | ({"HF_TOKEN": token} if token else {}),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def inside(room: Path) -> dict[str, bytes]:
    data = room / "data"
    files = [path for path in data.rglob("*") if path.is_file()]
    return {str(path.relative_to(data)): path.read_bytes() for path in files}


def test_hub_model_is_copied_completely(address: str, tmp_path: Path) -> None:
    assert copy(address, "org/model", tmp_path) == (0, "")
    assert inside(tmp_path) == hub.MODEL
    large = tmp_path / "again"
    assert copy(address, "org/model/model.safetensors", large, hub.TOKEN) == (0, "")
    assert (large / "data").read_bytes() == hub.LARGE


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("org/model/onnx", {"deep/a b#?.txt": b"odd\n", "x.txt": b""}),
        ("org/model@refs/pr/1", {"config.json": b"of the request\n"}),
        ("org/model@refs%2Fpr%2F1", {"config.json": b"of the request\n"}),
        ("buckets/me/box/logs", {"a": b"in a bucket\n"}),
        ("datasets/org/private@v%201/part", hub.PARTS),
    ],
)
def test_hub_folder_of_repository_is_copied(
    address: str, tmp_path: Path, place: str, expected: dict[str, bytes]
) -> None:
    assert copy(address, place, tmp_path, hub.TOKEN) == (0, "")
    assert inside(tmp_path) == expected


@pytest.mark.parametrize("place", ["org/model/config.json", "buckets/me/box/logs2"])
def test_hub_single_file_is_copied(address: str, tmp_path: Path, place: str) -> None:
    assert copy(address, place, tmp_path) == (0, "")
    assert (tmp_path / "data").is_file()


NEEDS = "; private and gated repositories need a token: secrets: {HF_TOKEN: null}\n"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("org/gone", "Repository not found" + NEEDS),
        ("datasets/org/private@v%201", "Repository not found" + NEEDS),
        ("org/model/nothing", "not found\n"),
        ("org/model/nothing/at/all", "nothing/at does not exist" + NEEDS),
        ("org/evil", "invalid file name: '../../out'\n"),
        ("org/damaged", "checksum of model.safetensors does not match\n"),
    ],
)
def test_hub_copy_error_has_message(address: str, tmp_path: Path, place: str, message: str) -> None:
    assert copy(address, place, tmp_path / "room") == (1, message)
    assert not (tmp_path / "out").exists()


def test_hub_unreachable_host_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = SCRIPT.read_text().replace("BACKOFF = (1, 2, 4, 8, 16)", "BACKOFF = ()")
    (tmp_path / "hub.py").write_text(text)
    monkeypatch.setattr(sys.modules[__name__], "SCRIPT", tmp_path / "hub.py")
    code, message = copy("http://127.0.0.1:9", "org/model", tmp_path)
    assert (code, message[:38]) == (1, "no answer from http://127.0.0.1:9: [Er")
