"""`kubectl exec` with both protocols, and disconnected clients."""

import asyncio
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from websockets.typing import Subprotocol

from tests.cluster import practice
from tests.cluster.practice import Server
from tests.polling import eventually
from tests.practice.client import Client, until_released, usage_of
from tests.practice.machine import container
from tests.practice.world import Json

pytestmark = pytest.mark.practice

PODS = "/api/v1/namespaces/default/pods"
V4, V5 = "v4.channel.k8s.io", "v5.channel.k8s.io"
READER = "while read line; do echo got $line; done; echo end; sleep 1000"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with practice.server() as started:
        spec = {"containers": [container("main", READER) | {"stdin": True}]}
        assert Client(started).ask("POST", PODS, {"metadata": {"name": "a"}, "spec": spec}) == 201
        eventually(lambda: _log(started).startswith(b"HTTP/1.1 200"))
        yield started


def _log(server: Server) -> bytes:
    client = Client(server)
    client.send("GET", f"{PODS}/a/log")
    line: bytes = client._file.readline()
    client.vanish()
    return line


def dial(server: Server, verb: str, protocol: str, **query: object) -> connect:
    """Connect asynchronously: threads of the synchronous client share an OpenSSL connection."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    address = server.url.replace("https", "wss")
    return connect(
        f"{address}{PODS}/a/{verb}?{urlencode(query, doseq=True)}",
        ssl=context,
        subprotocols=[Subprotocol(protocol)],
        additional_headers={"Authorization": f"Bearer {server.token}"},
        max_size=None,
    )


def execute(server: Server, protocol: str, *sent: bytes, **query: object) -> dict[int, bytes]:
    """Run a program; return its output by channel."""

    async def story() -> dict[int, bytes]:
        outputs: dict[int, bytes] = {}
        async with dial(server, "exec", protocol, stdout=1, stderr=1, **query) as socket:
            assert socket.subprotocol == protocol
            for part in sent:
                await socket.send(part)
            async for message in socket:
                assert isinstance(message, bytes)
                outputs[message[0]] = outputs.get(message[0], b"") + message[1:]
        return outputs

    return asyncio.run(story())


def run(server: Server, protocol: str, script: str, *sent: bytes, **query: int) -> dict[int, bytes]:
    return execute(server, protocol, *sent, command=["sh", "-c", script], **query)


def status(outputs: dict[int, bytes]) -> Json:
    result: Json = json.loads(outputs[3])
    return result


@pytest.mark.parametrize("protocol", [V4, V5])
def test_exec_returns_streams_and_exit_code(server: Server, protocol: str) -> None:
    outputs = run(server, protocol, "echo out; echo err >&2; exit 7")
    assert (outputs[1], outputs[2]) == (b"out\n", b"err\n")
    result = status(outputs)
    assert (result["status"], result["reason"]) == ("Failure", "NonZeroExitCode")
    assert result["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


def test_exec_large_output_is_complete(server: Server) -> None:
    outputs = run(server, V5, "head -c 3000000 /dev/zero")
    assert (len(outputs[1]), status(outputs)["status"]) == (3_000_000, "Success")


def test_exec_stdin_is_closed_in_v5(server: Server) -> None:
    """Only v5 can close stdin."""
    parts = [b"\0" + b"x" * 10_000] * 40
    assert run(server, V5, "wc -c", *parts, b"\xff\0", stdin=1)[1].strip() == b"400000"


def test_exec_terminal_has_size_and_input(server: Server) -> None:
    size = b"\4" + json.dumps({"Width": 91, "Height": 17}).encode()
    script = "read _; stty size; tty; exit 3"
    outputs = run(server, V4, script, size, b"\0go\n", stdin=1, tty=1)
    assert outputs[1].replace(b"\r", b"") == b"go\n17 91\n/dev/pts/0\n"
    assert status(outputs)["details"]["causes"][0]["message"] == "3"


def test_exec_terminal_shows_all_output_of_short_program(server: Server) -> None:
    """Reading from a closed terminal is an error, which must not lose output."""
    outputs = run(server, V5, "seq 20000", tty=1)
    assert outputs[1].replace(b"\r", b"").splitlines()[-1] == b"20000"
    assert len(outputs[1].splitlines()) == 20_000


def test_exec_missing_program_is_internal_error(server: Server) -> None:
    result = status(execute(server, V5, command=["nope"]))
    assert (result["reason"], result["code"]) == ("InternalError", 500)
    assert 'exec: "nope": executable file not found in $PATH' in result["message"]


@pytest.mark.parametrize(
    ("query", "code"),
    [({"container": "nosuch", "command": "true"}, 400), ({"stdout": 1}, 400)],
)
def test_exec_invalid_query_is_refused(server: Server, query: Json, code: int) -> None:
    async def story() -> None:
        async with dial(server, "exec", V5, **query):
            pass

    with pytest.raises(InvalidStatus) as error:
        asyncio.run(story())
    assert error.value.response.status_code == code


def test_exec_disconnected_clients_release_files_and_threads(server: Server) -> None:
    """Disconnected clients leave no resources in the server."""
    if not Path("/proc/self/fd").exists():
        pytest.skip("this machine does not show a process's open files in /proc")

    async def vanish(**query: object) -> None:
        async with dial(server, "exec", V5, stdin=1, stdout=1, **query) as socket:
            socket.transport.abort()

    before = usage_of(server)
    for script in ("sleep 1", "yes", "cat"):
        for terminal in (0, 1):
            asyncio.run(vanish(command=["sh", "-c", script], tty=terminal))
    until_released(server, before)
