"""A practice cluster whose pods are real processes."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from kubectl_sky_practice.api import Deletion
from kubectl_sky_practice.node import Node
from practice_tests.world import NS, Json, World, until

Story = Callable[["Machine"], Awaitable[None]]


class Machine(World):
    """A world with a node of its own."""

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder)
        self.running = Node(self.api, **options)

    def pod(self, name: str, *commands: str, **spec: Any) -> None:
        """Create a pod with a container for each command of the shell: main, main-2, …"""
        names = ["main", *(f"main-{number}" for number in range(2, len(commands) + 1))]
        fields = {key: spec.pop(key) for key in [*spec] if key in _OF_CONTAINERS}
        pairs = zip(names, commands, strict=True)
        containers = [container(*pair) | fields for pair in pairs]
        metadata = spec.pop("metadata", {})
        body = {"restartPolicy": "Never", "containers": containers, **spec}
        self.create("pods", name, body, metadata=metadata)

    def status(self, name: str) -> Json:
        status: Json = self.get("pods", name)["status"]
        return status

    def container(self, name: str, index: int = 0) -> Json:
        """The status of a container; with an empty state before there is one."""
        statuses: list[Json] = self.status(name).get("containerStatuses") or [{"state": {}}]
        return statuses[index]

    async def phase(self, name: str, *phases: str) -> Json:
        await until(lambda: self.status(name)["phase"] in phases)
        return self.status(name)

    async def ended(self, name: str) -> Json:
        return await self.phase(name, "Succeeded", "Failed")

    async def log(self, name: str, **query: str) -> str:
        lines = self.running.log(self.get("pods", name), query)
        return b"".join([block async for block in lines]).decode()

    async def wait_for_log(self, name: str, text: str) -> None:
        """Wait until a text is in the log of a pod that runs."""
        await self.phase(name, "Running")
        async with asyncio.timeout(60):
            async for block in self.running.log(self.get("pods", name), {"follow": "true"}):
                if text in block.decode():
                    return

    def delete(self, name: str, grace: int | None = None) -> None:
        self.api.delete("pods", (NS, name), Deletion(grace=grace))

    async def gone(self, name: str) -> None:
        await until(lambda: not self.api.state.get("pods", NS, name))


_OF_CONTAINERS = {"env", "envFrom", "volumeMounts", "workingDir", "stdin", "tty", "resources"}
_OF_CONTAINERS |= {"terminationMessagePolicy", "terminationMessagePath", "ports"}
_OF_CONTAINERS |= {"startupProbe", "readinessProbe", "livenessProbe"}


def container(name: str, command: str) -> Json:
    return {"name": name, "image": "busybox:1.36", "command": ["/bin/sh", "-c", command]}


def shared(folder: Path) -> Json:
    """Return the fields of a pod that has a folder of the test as /test."""
    return {
        "volumes": [{"name": "test", "hostPath": {"path": str(folder)}}],
        "volumeMounts": [{"name": "test", "mountPath": "/test"}],
    }


def conditions(status: Json) -> dict[str, tuple[str, str]]:
    return {
        entry["type"]: (entry["status"], entry.get("reason", "")) for entry in status["conditions"]
    }


@contextlib.asynccontextmanager
async def machine(folder: Path, **options: Any) -> AsyncIterator[Machine]:
    folder.mkdir(exist_ok=True)
    started = Machine(folder, **options)
    await started.running.start()
    try:
        yield started
    finally:
        await started.running.stop()
        started.api.state.save()


def play(folder: Path, story: Story, **options: Any) -> None:
    """Run a story on a new machine; it must leave no file open."""

    async def run() -> None:
        async with machine(folder, **options) as new:
            await story(new)

    with no_open_files():
        asyncio.run(run())


@contextlib.contextmanager
def no_open_files() -> Iterator[None]:
    before = _open_files()
    yield
    gc.collect()  # the state's database
    remaining = _open_files().items() - before.items()
    assert not remaining, remaining


def _open_files() -> dict[str, str]:
    files = {}
    for path in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # the listing itself
            files[path.name] = str(path.readlink())
    return files
