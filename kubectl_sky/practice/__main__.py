"""Runs the practice cluster in the foreground: `python -m kubectl_sky.practice --dir DIR`."""

import argparse
import asyncio
import contextlib
import fcntl
import os
import signal
import socket
import stat
import sys
from collections.abc import Sequence
from pathlib import Path

import uvicorn

from kubectl_sky.practice import certificate
from kubectl_sky.practice.access import Access
from kubectl_sky.practice.api import Api
from kubectl_sky.practice.claims import Claims
from kubectl_sky.practice.garbage import Garbage
from kubectl_sky.practice.jobs import Jobs
from kubectl_sky.practice.node import Node
from kubectl_sky.practice.quotas import Quotas
from kubectl_sky.practice.scheduler import Scheduler
from kubectl_sky.practice.server import Server
from kubectl_sky.practice.state import Change, State
from kubectl_sky.practice.verbs import Verbs

_SAVE = 0.1  # seconds until a change is in the file
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class _Http(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()  # they are ours


class _Saver:
    """Writes the state to its file soon after each change."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        state.listeners.append(self._listen)

    def _listen(self, _: Change) -> None:
        if not self._timer:
            self._timer = self._loop.call_later(_SAVE, self._save)

    def _save(self) -> None:
        self._timer = None
        self._state.save()


def _read(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kubectl_sky.practice", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="where its state is kept")
    parser.add_argument("--port", type=int, default=0, help="on 127.0.0.1; 0 is any that is free")
    parser.add_argument("--nodes", type=int, default=1, help="how many nodes it shows")
    parser.add_argument("--gpus", default="", help="pretend GPUs of each node, as A100:8")
    parser.add_argument(
        "--user", action="append", default=[], help="one more user; may be repeated"
    )
    parser.add_argument(
        "--no-namespaces", action="store_true", help="run pods without roots of their own"
    )
    return parser.parse_args(arguments)


def _check(folder: Path) -> None:
    """Exit if another user could change the state, and with it what runs as this user."""
    status = folder.lstat()
    foreign = status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH
    if foreign or not stat.S_ISDIR(status.st_mode):
        sys.exit(_fail(3, f"{folder} has to be a folder that only you can write to"))


def _lock(folder: Path) -> int:
    """Hold the folder as long as this process lives."""
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(_fail(3, f"another practice cluster runs in {folder}"))
    return lock


def _listen(port: int) -> socket.socket:
    # asyncio answers without delay only where the protocol is named
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port))
        found.listen(2048)  # only now nobody else can have it
    except OSError as error:
        sys.exit(_fail(4, f"port {port}: {error.strerror}"))
    return found


def _fail(code: int, message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return code


async def _run(options: argparse.Namespace, door: socket.socket) -> None:
    folder = options.dir
    api = Api(folder)
    _Saver(api.state)
    for name in _NAMESPACES:
        if not api.state.get("namespaces", "", name):
            api.create("namespaces", {"metadata": {"name": name}})
    access = Access(api, options.user)
    for controller in (Garbage, Claims, Quotas, Jobs, Scheduler):
        controller(api)
    node = Node(api, nodes=options.nodes, gpus=options.gpus, namespaces=not options.no_namespaces)
    await node.start()
    cert, key = certificate.create(folder)
    server = Server(Verbs(api, access), access, node)
    config = uvicorn.Config(
        server,
        http="httptools",
        ws="websockets-sansio",
        lifespan="off",
        log_level="warning",
        access_log=False,
        ssl_certfile=cert,
        ssl_keyfile=key,
        timeout_keep_alive=300,
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    http = _Http(config)

    def end() -> None:
        http.should_exit = True
        server.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end)
    serving = asyncio.create_task(http.serve([door]))
    while not (http.started or serving.done()):
        await asyncio.sleep(0.01)
    url = f"https://127.0.0.1:{door.getsockname()[1]}"
    tokens = {"sky-local": access.admin}
    tokens |= {name.partition("@")[0]: token for name, token in access.others.items()}
    certificate.write_kubeconfig(folder / "kubeconfig", url, cert, tokens)
    print(f"ready {url}", flush=True)
    await serving
    await node.stop()
    api.state.save()


def main(arguments: Sequence[str]) -> None:
    """Run until SIGTERM or SIGINT. Exits with 3 when the folder is taken, 4 when the port is."""
    options = _read(arguments)
    options.dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    _check(options.dir)
    _lock(options.dir)  # until the very end
    with _listen(options.port) as door:
        asyncio.run(_run(options, door))


if __name__ == "__main__":
    main(sys.argv[1:])
