"""The nodes of the practice cluster: this machine under one or more names, and its kubelet."""

import asyncio
import contextlib
import os
import platform
import resource
import shutil
import sys
from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.websockets import WebSocket

from kubectl_sky_practice import problems, streaming
from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.containers import Container, NodeServices
from kubectl_sky_practice.discovery import ARCHITECTURE, VERSION
from kubectl_sky_practice.gpus import Gpus
from kubectl_sky_practice.hosts import Addresses, HostsFiles
from kubectl_sky_practice.logs import LogOptions, Logs, container_name
from kubectl_sky_practice.pod_status import ADDRESS
from kubectl_sky_practice.pods import Kubelet
from kubectl_sky_practice.resources import Json
from kubectl_sky_practice.runtime import Runtime
from kubectl_sky_practice.state import key

_NAME = "practice"
_MAX_PODS = 110
_MAX_OPEN_FILES = 65536  # each container needs some


class Node:
    def __init__(
        self,
        api: Api,
        *,
        nodes: int = 1,
        gpus: str = "",
        uuids: Sequence[str] = (),
        namespaces: bool = True,
    ) -> None:
        self._api = api
        self._names = [_NAME, *(f"{_NAME}-{number}" for number in range(2, nodes + 1))]
        self._gpus = gpus
        self._use_namespaces = namespaces
        self._root = api.folder / "root"
        self._services = NodeServices(
            api=api,
            folder=api.folder / "pods",
            runtime=Runtime(self._root),
            logs=Logs(api.folder / "logs"),
            addresses=Addresses(),
            hosts_files=HostsFiles(api.state),
            gpus=Gpus(uuids),
        )

    async def start(self) -> None:
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, _MAX_OPEN_FILES), limit))

        self._root.mkdir(exist_ok=True)
        if self._use_namespaces:
            await self._services.runtime.try_namespaces()

        uids = {pod["metadata"]["uid"] for pod in self._api.state.all("pods")}
        for folder in self._services.folder.glob("*"):
            if folder.name not in uids:
                shutil.rmtree(folder, ignore_errors=True)

        for node in self._api.state.all("nodes"):
            if node["metadata"]["name"] not in self._names:
                self._api.delete("nodes", ("", node["metadata"]["name"]))

        for name in self._names:
            self._register(name)
        self._kubelet = Kubelet(self._services, self._names)

    async def stop(self) -> None:
        """Kill all programs; the objects keep their status for the next start."""
        tasks = [worker.task for worker in self._kubelet.workers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._services.runtime.stop()
        self._services.addresses.close()

    def log(self, pod: Json, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        return self._services.logs.read(pod, query.get("container", ""), LogOptions.parse(query))

    def running_container(self, pod: Json, name: str) -> Container:
        """Return a running container; by default the only one. Raises Problem."""
        name = container_name(pod, name)
        worker = self._kubelet.workers.get(key(pod))
        for container in worker.containers if worker else ():
            if container.name == name and container.running:
                return container
        raise problems.Problem(404, "", f'container not found ("{name}")')

    async def execute(self, pod: Json, socket: WebSocket) -> None:
        """Run a program in a container. Raises Problem before the socket is accepted."""
        container = self.running_container(pod, socket.query_params.get("container", ""))
        await streaming.execute(self._services.runtime, container, socket)

    def _register(self, name: str) -> None:
        labels = {
            "kubernetes.io/hostname": name,
            "kubernetes.io/arch": ARCHITECTURE,
            "kubernetes.io/os": sys.platform,
        }
        capacity = {
            "cpu": str(os.cpu_count()),
            "memory": f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') // 1024}Ki",
            "ephemeral-storage": f"{shutil.disk_usage(self._api.folder).total // 1024}Ki",
            "pods": str(_MAX_PODS),
        }
        if self._gpus:
            product, _, count = self._gpus.partition(":")
            labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": count or "1"}
            labels["nvidia.com/gpu.present"] = "true"
            capacity["nvidia.com/gpu"] = count or "1"

        def edit(node: Json) -> None:
            old = node["metadata"].get("labels") or {}
            others = {key: value for key, value in old.items() if not key.startswith("nvidia.com/")}
            node["metadata"]["labels"] = others | labels
            node["status"] = _status(name, capacity)

        if not self._api.state.get("nodes", "", name):
            self._api.create("nodes", {"metadata": {"name": name}, "spec": {}})
        self._api.change("nodes", ("", name), edit)


def _status(name: str, capacity: Json) -> Json:
    system = {"PRETTY_NAME": platform.platform()}
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            system = platform.freedesktop_os_release()

    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), now())
    return {
        "addresses": [
            {"address": ADDRESS, "type": "InternalIP"},
            {"address": name, "type": "Hostname"},
        ],
        "allocatable": capacity,
        "capacity": capacity,
        "conditions": [{**ready, **times, "message": "kubelet is posting ready status"}],
        "nodeInfo": {
            "architecture": ARCHITECTURE,
            "containerRuntimeVersion": f"practice://{VERSION.removeprefix('v')}",
            "kernelVersion": platform.release(),
            "kubeletVersion": VERSION,
            "operatingSystem": sys.platform,
            "osImage": system["PRETTY_NAME"],
        },
    }
