"""Run the practice cluster in the foreground: `python -m kubectl_sky_practice --dir DIR`."""

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
from functools import partial
from pathlib import Path
from typing import NoReturn

import uvicorn

from kubectl_sky_practice import certificate
from kubectl_sky_practice.access import Access
from kubectl_sky_practice.api import Api
from kubectl_sky_practice.claims import Claims
from kubectl_sky_practice.deployments import Deployments
from kubectl_sky_practice.garbage import Garbage
from kubectl_sky_practice.jobs import Jobs
from kubectl_sky_practice.node import Node
from kubectl_sky_practice.quotas import Quotas
from kubectl_sky_practice.replicasets import ReplicaSets
from kubectl_sky_practice.scheduler import Scheduler
from kubectl_sky_practice.server import Server
from kubectl_sky_practice.state import Change, State
from kubectl_sky_practice.verbs import Verbs

_SAVE_SECONDS = 0.1  # from a change until it is saved
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_FOLDER_IN_USE = 3
_PORT_IN_USE = 4  # exit codes


class _Uvicorn(uvicorn.Server):
    def capture_signals(self) -> contextlib.AbstractContextManager[None]:  # type: ignore[override]
        return contextlib.nullcontext()  # _serve handles them


def _save_later(state: State, _: Change) -> None:
    if len(state.unsaved) == 1:  # the first change since the last time
        asyncio.get_running_loop().call_later(_SAVE_SECONDS, state.save)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kubectl_sky_practice", description=__doc__)
    parser.add_argument("--dir", type=Path, required=True, help="folder of the cluster's state")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1 (default: any)")
    parser.add_argument("--nodes", type=int, default=1, help="number of nodes (default: 1)")
    parser.add_argument("--gpus", default="", help="simulated GPUs of each node, such as A100:8")
    parser.add_argument(
        "--gpu-uuid", action="append", default=[], help="a GPU of this machine; can be repeated"
    )
    parser.add_argument(
        "--user", action="append", default=[], help="an additional user; can be repeated"
    )
    parser.add_argument(
        "--no-namespaces", action="store_true", help="run pods without Linux namespaces"
    )
    return parser.parse_args(arguments)


def _exit(code: int, message: str) -> NoReturn:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(code)


def _open_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    foreign = status.st_uid != os.geteuid() or status.st_mode & stat.S_IWOTH
    if foreign or not stat.S_ISDIR(status.st_mode):  # others could run programs as this user
        _exit(_FOLDER_IN_USE, f"{folder} has to be a folder that only you can write to")
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _exit(_FOLDER_IN_USE, f"another practice cluster runs in {folder}")
    os.truncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())


def _listen(port: int) -> socket.socket:
    # asyncio sets TCP_NODELAY only where the protocol is given
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(2048)  # only now the port is ours
    except OSError as error:
        _exit(_PORT_IN_USE, f"port {port}: {error.strerror}")
    return listener


async def _serve(options: argparse.Namespace, listener: socket.socket) -> None:
    folder = options.dir
    api = Api(folder)
    api.state.listeners.append(partial(_save_later, api.state))
    for name in _NAMESPACES:
        if not api.state.get("namespaces", "", name):
            api.create("namespaces", {"metadata": {"name": name}})
    access = Access(api, options.user)
    for controller in (Garbage, Claims, Quotas, Jobs, Deployments, ReplicaSets, Scheduler):
        controller(api)
    gpus = {"gpus": options.gpus, "uuids": options.gpu_uuid}
    node = Node(api, nodes=options.nodes, namespaces=not options.no_namespaces, **gpus)
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
    http = _Uvicorn(config)

    def stop() -> None:
        http.should_exit = True
        server.close()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    serving = asyncio.create_task(http.serve([listener]))
    while not (http.started or serving.done()):
        await asyncio.sleep(0.01)
    url = f"https://127.0.0.1:{listener.getsockname()[1]}"
    tokens = {"sky-local": access.admin}
    tokens |= {name.partition("@")[0]: token for name, token in access.others.items()}
    certificate.write_kubeconfig(folder / "kubeconfig", url, cert, tokens)
    print(f"ready {url}", flush=True)
    await serving
    await node.stop()
    api.state.save()


def main(arguments: Sequence[str]) -> None:
    """Run until SIGTERM or SIGINT. Exit with 3 if the folder is in use, 4 if the port is."""
    options = _parse(arguments)
    os.umask(0o077)  # the folder may be readable; programs of pods have a umask of their own
    _open_folder(options.dir)
    with _listen(options.port) as listener:
        asyncio.run(_serve(options, listener))


if __name__ == "__main__":
    main(sys.argv[1:])
