"""The REST server beside the API server, and what the pages that follow a list cost."""

import asyncio
import re
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.words import kinds, names
from programs.bench.harness import Bench
from programs.bench.scale import open_session, run_tasks

_TASKS = (100, 1_000, 10_000)
_VIEWERS = (1, 20, 200)
_CHANGED = 100  # tasks
_NAME = "changed-"  # and the time, in milliseconds


class Served(Struct, frozen=True):
    """A running server, and how to reach it."""

    process: subprocess.Popen[bytes]
    url: str
    headers: dict[str, str]

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers=self.headers, timeout=60)

    @property
    def megabytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) // 1000

    @property
    def processor_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def _served(bench: Bench) -> Iterator[Served]:
    program = str(bench.folder / "venv" / "bin" / "kubectl-sky")
    command = [program, "api", "--port=0"]
    with subprocess.Popen(command, env=bench.environment, stderr=subprocess.PIPE) as server:
        assert server.stderr and bench.cluster
        try:
            serving = re.search(rb"Serving on (\S+);", server.stderr.readline())
            assert serving
            headers = {"Authorization": f"Bearer {bench.cluster.token()}"}
            yield Served(server, serving[1].decode(), headers)
        finally:
            server.terminate()


def _milliseconds(client: httpx2.Client, path: str) -> float:
    seconds = []
    for _ in range(20):
        begun = time.perf_counter()
        client.get(path).raise_for_status()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds) * 1000


def rest(bench: Bench) -> None:
    """`GET /tasks` of a server, cold and while a page follows the list, beside the raw lists."""
    size = _TASKS[0] if bench.short else _TASKS[1]
    with bench.namespace() as namespace, _served(bench) as server, server.client() as client:
        run_tasks(bench, namespace, size)
        selected = urlencode({"labelSelector": f"{names.TASK}=true"})
        raw = [
            _milliseconds(client, f"/kubernetes{objects.path(kind, namespace)}?{selected}")
            for kind in (kinds.JOB, kinds.POD)
        ]

        paths = {
            "GET /tasks": f"/tasks?namespace={namespace}",
            "GET /tasks?limit=50": f"/tasks?namespace={namespace}&limit=50",
        }
        taken = {"raw lists of Jobs and pods": sum(raw)}
        taken |= {name: _milliseconds(client, path) for name, path in paths.items()}

        with client.stream("GET", f"/tasks/events?namespace={namespace}") as viewer:
            next(viewer.iter_raw())
            for name, path in paths.items():
                taken[f"{name}, followed"] = _milliseconds(client, path)

        rows = [(f"`{name}`", f"{ms:.0f}", f"{ms / sum(raw):.2f}") for name, ms in taken.items()]
        bench.table("rest", (f"{size:,} tasks", "ms", "ratio"), rows)


def viewers(bench: Bench) -> None:
    """Memory, processor and latency of a server whose pages follow a list that changes."""
    rows = []
    for size in _TASKS[:1] if bench.short else _TASKS:
        with bench.namespace() as namespace:
            run_tasks(bench, namespace, size)
            for count in _VIEWERS[:2] if bench.short else _VIEWERS:
                with _served(bench) as server:
                    change = _change(bench, namespace)
                    seen = asyncio.run(_view(server, namespace, count, change))
                    row = (f"{size:,}", str(count), str(server.megabytes))
                    rows.append((*row, f"{server.processor_seconds:.1f}", *seen))
    head = ("tasks", "viewers", "MB", "processor s")
    times = ("list p50 s", "list p95 s", "change p50 s", "change p95 s")
    bench.table("viewers", (*head, *times), rows)


def _change(bench: Bench, namespace: str) -> Callable[[int], None]:
    """Return what gives a task the time as its name."""
    session = open_session(bench)
    (first, *_) = objects.list_all(session, kinds.JOB, namespace, label_selector=names.TASK)
    stem = first.metadata.name[: -len("0000000")]

    def change(number: int) -> None:
        title = f"{_NAME}{time.time() * 1000:.0f}"
        patch: dict[str, Any] = {"metadata": {"annotations": {names.ORIGINAL_NAME: title}}}
        name = f"{stem}{number:07d}"
        session.send(
            "PATCH",
            objects.path(kinds.JOB, namespace, name),
            body=patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )

    return change


class _Page:
    """A page that follows the list: the seconds until it came, and until each change came."""

    def __init__(self, client: httpx2.AsyncClient, namespace: str) -> None:
        self.list = 0.0
        self.changes: dict[bytes, float] = {}
        self._client = client
        self._path = f"/tasks/events?namespace={namespace}"

    async def follow(self) -> None:
        begun = time.time()
        rest = bytearray()

        async with self._client.stream("GET", self._path) as answer:
            async for part in answer.aiter_raw():
                rest += part
                if b"\n\n" not in rest[-len(part) - 1 :]:
                    continue  # of a list of 9 MB, which would be copied for each part
                *events, rest = rest.split(b"\n\n")
                now = time.time()
                for event in events:
                    found = re.search(_NAME.encode() + rb"(\d+)", event)
                    if b"event: tasks" in event[:60]:
                        self.list = now - begun
                    elif found:
                        self.changes.setdefault(bytes(found[1]), now - int(found[1]) / 1000)


async def _view(
    server: Served, namespace: str, count: int, change: Callable[[int], None]
) -> list[str]:
    """Open the pages and change tasks; return percentiles of the seconds of lists and changes."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=server.headers, timeout=120, limits=limits
    ) as client:
        pages = [_Page(client, namespace) for _ in range(count)]
        following = [asyncio.create_task(page.follow()) for page in pages]
        while not all(page.list for page in pages):
            await asyncio.sleep(0.1)
        for number in range(_CHANGED):
            await asyncio.to_thread(change, number)
        while not all(len(page.changes) >= _CHANGED for page in pages):
            await asyncio.sleep(0.1)
        for task in following:
            task.cancel()

    changes = [seconds for page in pages for seconds in page.changes.values()]
    times = (*_percentiles([page.list for page in pages]), *_percentiles(changes))
    return [f"{value:.2f}" for value in times]


def _percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]


TABLES = {"rest": rest, "viewers": viewers}
