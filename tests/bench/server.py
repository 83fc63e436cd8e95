"""Load the REST server: `python -m tests.bench.server [SECONDS] [FOLLOWERS] [SUBMITS_PER_SECOND]`.

Clients follow the log of one task while others submit tasks and list them, on a practice cluster.
It prints lines and tasks that were lost or doubled, the times of `GET /tasks` and of submits, and
the memory of the server.
"""

import asyncio
import os
import statistics
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests.bench import rest
from tests.bench.measure import environment
from tests.cluster.hold import Holder

LINES_PER_SECOND = 5
WRITER = """
name: writer
resources: {{cpus: 0.1}}
run: |
  i=0
  while [ $i -lt {lines} ]; do echo "line $i"; i=$((i + 1)); sleep {pause}; done
"""
# Tasks that no node can run: what is measured is the server, not the pods.
IDLE = {"name": "idle", "resources": {"cpus": 900}, "run": "true"}


@dataclass
class Load:
    """The clients of one run, and what they saw."""

    client: httpx2.AsyncClient
    seconds: float
    lines: int
    followers: list[Counter[str]] = field(default_factory=list)
    submits: dict[str, float] = field(default_factory=dict)  # seconds, by task id
    lists: list[float] = field(default_factory=list)  # seconds
    refused: Counter[int] = field(default_factory=Counter)  # by status

    async def follow(self, task_id: str) -> None:
        """Read a log to its end."""
        seen: Counter[str] = Counter()
        self.followers.append(seen)
        async with self.client.stream("GET", f"/tasks/{task_id}/logs") as answer:
            async for line in answer.aiter_lines():
                seen[line] += 1

    async def submit(self, number: int) -> None:
        """Submit a task; repeat it with the same key until it is accepted."""
        key = {"Idempotency-Key": f"load-{number}"}
        begun = time.perf_counter()
        for _ in range(20):
            with suppress(httpx2.TransportError):
                answer = await self.client.post("/tasks/submit", json=IDLE, headers=key)
                if answer.status_code == 200:
                    self.submits[answer.json()["task_id"]] = time.perf_counter() - begun
                    return
                self.refused[answer.status_code] += 1
            await asyncio.sleep(1)

    async def poll(self) -> None:
        """List the tasks once a second."""
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            begun = time.perf_counter()
            answer = await self.client.get("/tasks", params={"limit": 50})
            if answer.status_code == 200:
                self.lists.append(time.perf_counter() - begun)
            else:
                self.refused[answer.status_code] += 1
            await asyncio.sleep(1)

    async def run(self, task_id: str, followers: int, rate: float) -> None:
        """Run all clients for the time of the load."""
        async with asyncio.TaskGroup() as group:
            for _ in range(followers):
                group.create_task(self.follow(task_id))
            group.create_task(self.poll())
            for number in range(int(self.seconds * rate)):
                group.create_task(self.submit(number))
                await asyncio.sleep(1 / rate)

    def report(self, tasks: list[str]) -> None:
        """Print what was lost, and how long requests took."""
        expected = {f"line {number}" for number in range(self.lines)}
        lost = sum(len(expected - counts.keys()) for counts in self.followers)
        doubled = sum(
            counts[line] - 1 for counts in self.followers for line in expected & counts.keys()
        )
        readers = f"{len(self.followers)} followers of {self.lines} lines"
        print(f"{readers}: {lost} lost, {doubled} doubled")
        listed = set(tasks)
        absent = [task_id for task_id in self.submits if task_id not in listed]
        extra = len(tasks) - len(self.submits) - 1  # the writer
        print(f"submits {len(self.submits)}: {len(absent)} lost, {extra} too many")
        print(f"answers that were no success, by status: {dict(self.refused)}")
        for name, seconds in (("GET /tasks", self.lists), ("submit", list(self.submits.values()))):
            if len(seconds) > 1:
                cuts = statistics.quantiles(seconds, n=100)
                print(f"{name}: median {cuts[49]:.2f} s, p99 {cuts[98]:.2f} s, of {len(seconds)}")


def _megabytes(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


async def _sample(pid: int, seconds: float, samples: list[float]) -> None:
    for _ in range(int(seconds / 10)):
        samples.append(_megabytes(pid))
        await asyncio.sleep(10)


async def _load(url: str, token: str, pid: int, figures: tuple[float, int, float]) -> None:
    seconds, followers, rate = figures
    lines = int(seconds * LINES_PER_SECOND)
    limits = httpx2.Limits(max_connections=None)
    headers = {"Authorization": f"Bearer {token}"}
    timeout = httpx2.Timeout(120)
    async with httpx2.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=timeout
    ) as client:
        writer = WRITER.format(lines=lines, pause=1 / LINES_PER_SECOND)
        yaml_type = {"Content-Type": "application/yaml"}
        answer = await client.post("/tasks/submit", content=writer, headers=yaml_type)
        answer.raise_for_status()
        load = Load(client, seconds, lines)
        samples: list[float] = []
        sampler = asyncio.create_task(_sample(pid, seconds, samples))
        await load.run(answer.json()["task_id"], followers, rate)
        sampler.cancel()
        tasks: list[str] = []
        cursor = None
        while True:
            params: dict[str, str] = {"cursor": cursor} if cursor else {}
            page = (await client.get("/tasks", params=params)).json()
            tasks += [task["task_id"] for task in page["tasks"]]
            cursor = page["next"]
            if not cursor:
                break
        load.report(tasks)
        print("memory of the server, MB, every 10 s:", *(f"{sample:.0f}" for sample in samples))


def main() -> None:
    """Start a cluster and a server, and load it."""
    defaults = ("120", "200", "20")
    seconds, followers, rate = (*sys.argv[1:], *defaults[len(sys.argv) - 1 :])
    holder = Holder.start(os.environ, practice=True)
    try:
        cluster = holder.cluster()
        sky = [sys.executable, "-m", "kubectl_sky"]
        kubeconfig = {"KUBECONFIG": str(cluster.kubeconfig)}
        with rest.served(sky, {**environment(), **kubeconfig}) as (url, pid):
            figures = (float(seconds), int(followers), float(rate))
            asyncio.run(_load(url, cluster.token(), pid, figures))
    finally:
        holder.stop()


if __name__ == "__main__":
    main()
