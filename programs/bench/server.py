"""The REST server beside the API server, and what the pages of a team cost, a token each."""

import asyncio
import re
import statistics
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2
from msgspec import Struct

from kubectl_sky.cluster import objects
from kubectl_sky.words import kinds, names
from programs.bench.harness import Bench
from programs.bench.scale import open_session, run_tasks
from tests.polling import eventually

_TASKS = (100, 1_000, 10_000)
_VIEWERS = (1, 20, 200)
_ROWS = 100  # that a page shows
_CHANGED = 50  # tasks, the newest ones: all are in the rows
_NAME = "changed-"  # and the time, in milliseconds
_SLOW = 130  # connections that read nothing
_GARBAGE = 12  # connections that send wrong tokens
_NEW = 50  # tokens that log in meanwhile
_TOKEN_SECONDS = 6 * 3600
_TIMES = ("rows p50 s", "rows p95 s", "change p50 s", "change p95 s", "kB of a page")


class Served(Struct, frozen=True):
    """A running server, and how to reach it."""

    process: subprocess.Popen[bytes]
    url: str
    headers: dict[str, str]

    def client(self) -> httpx2.Client:
        return httpx2.Client(base_url=self.url, headers=self.headers, timeout=60)

    @property
    def megabytes(self) -> int:
        """The most that it has used."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"VmHWM:\s+(\d+)", status)[0]) // 1000

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
    """Memory, processor and latency of a server whose pages follow a list that changes.

    The server has just started, and each page has a token of its own.
    """
    rows = []
    for size in _TASKS[:1] if bench.short else _TASKS:
        with bench.namespace() as namespace:
            run_tasks(bench, namespace, size)
            tokens = _tokens(bench, namespace, max(_VIEWERS))
            for count in _VIEWERS[:2] if bench.short else _VIEWERS:
                with _served(bench) as server:
                    change = _change(bench, namespace, size)
                    seen = asyncio.run(_view(server, namespace, tokens[:count], change))
                    row = (f"{size:,}", str(count), str(server.megabytes))
                    rows.append((*row, f"{server.processor_seconds:.1f}", *seen))
    head = ("tasks", "users", "MB", "processor s")
    bench.table("viewers", (*head, *_TIMES), rows)


def starts(bench: Bench) -> None:
    """Pages whose first rows change while the pods of many other tasks are being made."""
    size = _TASKS[0] if bench.short else _TASKS[-1]
    with bench.namespace() as namespace, ThreadPoolExecutor(1) as pool:
        making = pool.submit(run_tasks, bench, namespace, size)
        session = open_session(bench)
        half = size // 2
        eventually(lambda: len(objects.list_metadata(session, kinds.POD, namespace)) >= half, 600)
        tokens = _tokens(bench, namespace, _VIEWERS[1])
        change = _change(bench, namespace, _CHANGED)
        with _served(bench) as server:
            seen = asyncio.run(_view(server, namespace, tokens, change, oldest=True))
            made = len(objects.list_metadata(session, kinds.POD, namespace))
            row = (f"{made:,} of {size:,}", str(len(tokens)), str(server.megabytes), *seen)
        head = ("pods made until the end", "users", "MB")
        beside = ("watch of Jobs p50 s", "watch of Jobs p95 s")
        bench.table("starts", (*head, *_TIMES, *beside), [row])
        making.result()


def attacks(bench: Bench) -> None:
    """Readers that read nothing of a long list, and log-ins beside wrong tokens."""
    size = _TASKS[0] if bench.short else _TASKS[-1]
    with bench.namespace() as namespace:
        run_tasks(bench, namespace, size)
        first, *others = _tokens(bench, namespace, _NEW + 1)
        with _served(bench) as server:
            change = _change(bench, namespace, size)
            asyncio.run(_view(server, namespace, [first], change))
            before = server.megabytes
            asyncio.run(_stall(server, namespace, first, change))
            after = server.megabytes
            seconds = asyncio.run(_log_in(server, others))
    rows = [
        (f"a page of {size:,} tasks", f"{before} MB"),
        (f"and {_SLOW} whole lists that nobody reads", f"{after} MB"),
        (f"{_NEW} new tokens beside {_GARBAGE} connections of wrong ones", f"{seconds:.1f} s"),
    ]
    bench.table("attacks", ("what", "result"), rows)


def _tokens(bench: Bench, namespace: str, count: int) -> list[str]:
    """Return tokens of accounts that may read the tasks of a namespace."""
    session = open_session(bench)
    group = f"system:serviceaccounts:{namespace}"
    bench.run(f"kubectl create rolebinding team --clusterrole=view --group={group}")
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"

    def make(number: int) -> str:
        name = f"user-{number}"
        session.send("POST", accounts, body={"metadata": {"name": name}})
        body = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
        answer = session.send("POST", f"{accounts}/{name}/token", body=body).body
        return str(answer["status"]["token"])

    with ThreadPoolExecutor(16) as pool:
        return list(pool.map(make, range(count)))


def _change(bench: Bench, namespace: str, size: int) -> Callable[[int], None]:
    """Return what gives a task the time as its name; the newest is 0."""
    session = open_session(bench)
    (first, *_) = objects.list_all(session, kinds.JOB, namespace, label_selector=names.TASK)
    stem = first.metadata.name[: -len("0000000")]

    def change(number: int) -> None:
        title = f"{_NAME}{time.time() * 1000:.0f}"
        patch: dict[str, Any] = {"metadata": {"annotations": {names.ORIGINAL_NAME: title}}}
        name = f"{stem}{size - 1 - number:07d}"
        session.send(
            "PATCH",
            objects.path(kinds.JOB, namespace, name),
            body=patch,
            headers={"Content-Type": "application/merge-patch+json"},
        )

    return change


class _Page:
    """A page that follows the list: the seconds until it came, and until each change came."""

    def __init__(self, client: httpx2.AsyncClient, namespace: str, token: str, sort: str) -> None:
        self.list = 0.0
        self.size = 0  # bytes until the rows were there
        self.changes: dict[bytes, float] = {}
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}
        self._path = f"/tasks/events?namespace={namespace}&all_users=true"
        self._path += f"&rows={_ROWS}&sort={sort}"

    async def follow(self) -> None:
        begun = time.time()
        reader = zlib.decompressobj(16 + zlib.MAX_WBITS)
        rest = b""
        size = 0

        async with self._client.stream("GET", self._path, headers=self._headers) as answer:
            answer.raise_for_status()
            async for part in answer.aiter_raw():
                size += len(part)
                rest += reader.decompress(part)
                *events, rest = rest.split(b"\n\n")
                for event in events:
                    if b"event: rows" in event and not self.list:
                        self.list = time.time() - begun
                        self.size = size
                    _note_changes(self.changes, event, begun)


class _Watch:
    """A watch of Jobs through the server's proxy: the seconds until each change came."""

    def __init__(self, client: httpx2.AsyncClient, namespace: str, token: str) -> None:
        self.changes: dict[bytes, float] = {}
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}
        self._path = f"/kubernetes{objects.path(kinds.JOB, namespace)}"

    async def follow(self) -> None:
        begun = time.time()
        one = await self._client.get(self._path, params={"limit": 1}, headers=self._headers)
        version = one.json()["metadata"]["resourceVersion"]
        chosen = {"watch": "true", "resourceVersion": version}
        request = self._client.stream("GET", self._path, params=chosen, headers=self._headers)
        async with request as answer:
            answer.raise_for_status()
            async for line in answer.aiter_lines():
                _note_changes(self.changes, line.encode(), begun)


def _note_changes(changes: dict[bytes, float], text: bytes, begun: float) -> None:
    """Note how long ago the changes that a text names were made."""
    now = time.time()
    for found in re.findall(rf'name":"{_NAME}(\d+)"'.encode(), text):
        if int(found) / 1000 > begun:
            changes.setdefault(found, now - int(found) / 1000)


async def _view(
    server: Served,
    namespace: str,
    tokens: Sequence[str],
    change: Callable[[int], None],
    *,
    oldest: bool = False,
) -> list[str]:
    """Open the pages and change tasks; return percentiles of the seconds of rows and changes.

    If the pages show the `oldest` tasks, also of the changes in a watch of Jobs beside.
    """
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
        sort = "-age" if oldest else "age"
        pages = [_Page(client, namespace, token, sort) for token in tokens]
        watches = [_Watch(client, namespace, tokens[0])] if oldest else []
        followers: list[_Page | _Watch] = [*pages, *watches]
        following = [asyncio.create_task(it.follow()) for it in followers]
        await _until(lambda: all(page.list for page in pages), following)
        for number in range(_CHANGED):
            await asyncio.to_thread(change, number)
        await _until(lambda: all(len(it.changes) >= _CHANGED for it in followers), following)
        for task in following:
            task.cancel()

    changes = [seconds for page in pages for seconds in page.changes.values()]
    times = (*_percentiles([page.list for page in pages]), *_percentiles(changes))
    largest = max(page.size for page in pages) / 1000
    beside = [value for it in watches for value in _percentiles([*it.changes.values()])]
    return [*_format(times), f"{largest:.0f}", *_format(beside)]


async def _until(done: Callable[[], bool], following: Sequence[asyncio.Task[None]]) -> None:
    """Wait for something while pages follow. Raises the error of a page that has ended."""
    while not done():
        for task in following:
            if task.done():
                raise SystemExit(f"a page has ended: {task.exception()}")
        await asyncio.sleep(0.1)


async def _stall(server: Served, namespace: str, token: str, change: Callable[[int], None]) -> None:
    """Ask for whole lists and read nothing; tasks change in between."""
    host, _, port = server.url.removeprefix("http://").rpartition(":")
    head = f"GET /tasks/events?namespace={namespace}&all_users=true HTTP/1.1"
    request = f"{head}\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    async with AsyncExitStack() as stack:
        for number in range(_SLOW):
            _, writer = await asyncio.open_connection(host, int(port), limit=1)
            stack.callback(writer.close)
            writer.write(request.encode())
            await asyncio.to_thread(change, number % _CHANGED)
        await asyncio.sleep(5)


async def _log_in(server: Served, tokens: Sequence[str]) -> float:
    """Send wrong tokens; return how long tokens that the server has not seen take meanwhile."""
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, limits=limits) as client:

        async def send_garbage(number: int) -> None:
            for count in range(1_000_000):
                await client.post("/login", json={"token": f"wrong-{number}-{count}"})

        garbage = [asyncio.create_task(send_garbage(number)) for number in range(_GARBAGE)]
        await asyncio.sleep(15)  # the burst is over
        begun = time.time()
        answers = await asyncio.gather(
            *(client.post("/login", json={"token": token}) for token in tokens)
        )
        seconds = time.time() - begun
        for task in garbage:
            task.cancel()
    for answer in answers:
        answer.raise_for_status()
    return seconds


def _format(times: Iterable[float]) -> list[str]:
    return [f"{value:.2f}" for value in times]


def _percentiles(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return ordered[len(ordered) // 2], ordered[len(ordered) * 95 // 100]


TABLES = {"rest": rest, "viewers": viewers, "starts": starts, "attacks": attacks}
