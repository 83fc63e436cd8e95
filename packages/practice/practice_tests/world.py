"""A practice cluster of objects and controllers alone: the test is its node."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kubectl_sky_practice.api import Api, now
from kubectl_sky_practice.claims import Claims
from kubectl_sky_practice.deployments import Deployments
from kubectl_sky_practice.garbage import Garbage
from kubectl_sky_practice.jobs import Jobs
from kubectl_sky_practice.quotas import Quotas
from kubectl_sky_practice.replicasets import ReplicaSets
from kubectl_sky_practice.scheduler import Scheduler

Json = dict[str, Any]
NS = "team"


class World:
    """Shortcuts to the objects in the namespace of the test."""

    def __init__(self, folder: Path) -> None:
        self.api = Api(folder)
        if not self.api.state.get("namespaces", "", NS):
            self.api.create("namespaces", {"metadata": {"name": NS}})
        for controller in (Garbage, Claims, Quotas, Jobs, Deployments, ReplicaSets, Scheduler):
            controller(self.api)

    def create(self, storage: str, name: str, spec: Json | None = None, **more: Any) -> Json:
        body = {"metadata": {"name": name, **more.pop("metadata", {})}, **more}
        if spec is not None:
            body["spec"] = spec
        return self.api.create(storage, body, self._namespace(storage))

    def get(self, storage: str, name: str) -> Json:
        obj = self.api.state.get(storage, self._namespace(storage), name)
        assert obj, f"no {storage} {name}"
        return obj

    def _namespace(self, storage: str) -> str:
        return NS if self.api.resources.stored(storage).namespaced else ""

    def node(self, name: str = "one", **allocatable: str) -> Json:
        amounts = {"cpu": "2", "memory": "4Gi", "pods": "110", **allocatable}
        self.create("nodes", name, {}, metadata={"labels": {"kubernetes.io/hostname": name}})
        edit = {"allocatable": amounts, "capacity": amounts}
        self.api.change("nodes", ("", name), lambda node: node.update(status=edit))
        return self.get("nodes", name)

    def pods(self) -> list[Json]:
        pods = self.api.state.all("pods", NS)
        return sorted(pods, key=lambda pod: str(pod["metadata"]["name"]))

    def events(self, reason: str) -> list[str]:
        events = self.api.state.all("events", NS)
        return [event["message"] for event in events if event["reason"] == reason]

    def run(self, pod: Json) -> None:
        """Let a pod run, as a node would."""

        def edit(pod: Json) -> None:
            pod["status"] |= {"phase": "Running", "startTime": now()}
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now()}
            pod["status"].setdefault("conditions", []).append(ready)

        self.api.change("pods", (NS, pod["metadata"]["name"]), edit)

    def end(self, pod: Json, code: int = 0) -> None:
        """Let a pod end, as a node would."""
        when = now()
        terminated = {"exitCode": code, "startedAt": when, "finishedAt": when}

        def edit(pod: Json) -> None:
            state = {"name": "main", "state": {"terminated": terminated}, "restartCount": 0}
            pod["status"] |= {"phase": "Failed" if code else "Succeeded"}
            pod["status"]["containerStatuses"] = [state]

        self.api.change("pods", (NS, pod["metadata"]["name"]), edit)


async def settle(turns: int = 30) -> None:
    """Let the controllers do what there is to do."""
    for _ in range(turns):
        await asyncio.sleep(0)


async def until(holds: Callable[[], object], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():
            await asyncio.sleep(0.01)


def play(folder: Path, story: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        world = World(folder)
        await settle()
        await story(world)

    asyncio.run(run())


def job(**spec: Any) -> Json:
    container = {"name": "main", "image": "busybox:1.36", "command": ["true"]}
    pod = {"restartPolicy": "Never", "containers": [container], **spec.pop("pod", {})}
    return {"template": {"spec": pod}, **spec}
