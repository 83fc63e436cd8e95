"""The nodes of the practice cluster: this machine, by one or more names, and what runs on it."""

import asyncio
import contextlib
import os
import platform
import resource
import shutil
import sys
from collections.abc import AsyncIterator, Mapping

from starlette.websockets import WebSocket

from kubectl_sky.practice import sandbox
from kubectl_sky.practice.addresses import Addresses, Names
from kubectl_sky.practice.api import Api, now
from kubectl_sky.practice.containers import Place
from kubectl_sky.practice.kubelet import Kubelet
from kubectl_sky.practice.launcher import Launcher, StartError, Wires
from kubectl_sky.practice.podlogs import LogOptions, Logs
from kubectl_sky.practice.podstatus import ADDRESS
from kubectl_sky.practice.remote import Remote
from kubectl_sky.practice.resources import Json

_NAME = "practice"
_VERSION = "v1.36.0"
_PODS = 110
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_ARCHITECTURE = _MACHINES.get(platform.machine(), platform.machine())
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "is posting ready status"),
)
_IMAGE = "is not pulled here: the practice cluster runs the programs of this machine"
_PLAIN = "; this machine allows no namespaces, so paths of volumes mean them only where the pod's "
_PLAIN += "command, arguments, variables and working directory say them"


class Node:
    """All nodes of the cluster, which are this machine."""

    def __init__(
        self, api: Api, *, nodes: int = 1, gpus: str = "", namespaces: bool = True
    ) -> None:
        self._api = api
        self._names = [_NAME, *(f"{_NAME}-{number}" for number in range(2, nodes + 1))]
        self._gpus = gpus
        self._wanted = namespaces
        self._launcher = Launcher()
        self._addresses = Addresses()
        self._logs = Logs(api.folder / "logs")
        self._kubelet: Kubelet | None = None

    async def start(self) -> None:
        """Show the nodes, and run what is bound to them."""
        _open_many_files()
        api, folder, root = self._api, self._api.folder / "pods", self._api.folder / "root"
        root.mkdir(exist_ok=True)
        self._isolated = self._wanted and await self._can_isolate(str(root))
        known = {pod["metadata"]["uid"] for pod in api.state.all("pods")}
        for left in (one for one in folder.glob("*") if one.name not in known):
            shutil.rmtree(left, ignore_errors=True)
        for node in api.state.all("nodes"):
            if node["metadata"]["name"] not in self._names:
                api.delete("nodes", ("", node["metadata"]["name"]))
        for name in self._names:
            self._register(name)
        shared = (self._launcher, self._logs, self._addresses, Names(api.state))
        place = Place(api, folder, root, *shared, self._notice, self._isolated)
        self._kubelet = Kubelet(api, place, self._names)
        self._remote = Remote(self._launcher, self._kubelet.lives, isolated=self._isolated)

    async def stop(self) -> None:
        """End all processes; what the objects say of them stays for the next start."""
        lives = self._kubelet.lives if self._kubelet else {}
        tasks = [life.task for life in lives.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._launcher.close()
        self._addresses.close()

    def log(self, pod: Json, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Return the log of a container as a query asks for it. Raises Problem."""
        return self._logs.read(pod, query.get("container", ""), LogOptions.of(query))

    def check(self, verb: str, pod: Json, container: str) -> None:
        """Raise Problem if a container does not run that `exec` or `attach` is about."""
        self._remote.running(verb, pod, container)

    async def execute(self, pod: Json, socket: WebSocket) -> None:
        """Run a program in a container. Raises Problem before the socket is accepted."""
        await self._remote.execute(pod, socket)

    async def attach(self, pod: Json, socket: WebSocket) -> None:
        """Join the program of a container. Raises Problem before the socket is accepted."""
        await self._remote.attach(pod, socket)

    async def _can_isolate(self, root: str) -> bool:
        """Try what every container needs."""
        if sys.platform != "linux":
            return False
        request: Json = {"command": ["true"], "env": dict(os.environ), "cwd": "/", "tty": False}
        request |= {"root": root, "steps": sandbox.steps([]), "hostname": _NAME}
        wires = Wires(terminal=False, fed=False)
        try:
            process = await self._launcher.start(request, wires)
            await process.ended
            wires.abandon()
        except StartError as error:
            print(f"pods have no roots of their own: {error}", file=sys.stderr)
            return False
        return True

    def _register(self, name: str) -> None:
        kind, _, count = self._gpus.rpartition(":") if ":" in self._gpus else (self._gpus, "", "1")
        labels = {"kubernetes.io/hostname": name}
        for prefix in ("", "beta."):
            labels[f"{prefix}kubernetes.io/arch"] = _ARCHITECTURE
            labels[f"{prefix}kubernetes.io/os"] = sys.platform
        sizes = {
            "cpu": str(os.cpu_count()),
            "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 1024}Ki",
            "ephemeral-storage": f"{shutil.disk_usage(self._api.folder).total // 1024}Ki",
            "pods": str(_PODS),
        }
        if kind:
            labels |= {"nvidia.com/gpu.product": kind, "nvidia.com/gpu.count": count}
            labels["nvidia.com/gpu.present"] = "true"
            sizes["nvidia.com/gpu"] = count

        def edit(node: Json) -> None:
            kept = node["metadata"].get("labels") or {}
            others = {key: text for key, text in kept.items() if not key.startswith("nvidia.com/")}
            node["metadata"]["labels"] = others | labels
            node["status"] = _status(name, sizes)

        if not self._api.state.get("nodes", "", name):
            self._api.create("nodes", {"metadata": {"name": name}, "spec": {}})
        self._api.change("nodes", ("", name), edit)

    def _notice(self, pod: Json) -> tuple[str, str, str]:
        """Return an event that says what is not as on other clusters."""
        images = {f'"{one["image"]}"' for one in pod["spec"]["containers"]}
        text = f"Container image {', '.join(sorted(images))} {_IMAGE}"
        if self._isolated or not pod["spec"].get("volumes"):
            return "NotPulled", text, "Normal"
        return "NoNamespaces", text + _PLAIN, "Warning"


def _status(name: str, sizes: Json) -> Json:
    system = {"PRETTY_NAME": platform.platform()}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            system = platform.freedesktop_os_release()
    return {
        "addresses": [
            {"address": ADDRESS, "type": "InternalIP"},
            {"address": name, "type": "Hostname"},
        ],
        "allocatable": sizes,
        "capacity": sizes,
        "conditions": [
            {
                "lastHeartbeatTime": now(),
                "lastTransitionTime": now(),
                "message": f"kubelet {text}",
                "reason": reason,
                "status": status,
                "type": kind,
            }
            for kind, status, reason, text in _CONDITIONS
        ],
        "nodeInfo": {
            "architecture": _ARCHITECTURE,
            "bootID": "",
            "containerRuntimeVersion": f"practice://{_VERSION.removeprefix('v')}",
            "kernelVersion": platform.release(),
            "kubeProxyVersion": "",
            "kubeletVersion": _VERSION,
            "machineID": "",
            "operatingSystem": sys.platform,
            "osImage": system["PRETTY_NAME"],
            "systemUUID": "",
        },
    }


def _open_many_files() -> None:
    """Each container needs some."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
