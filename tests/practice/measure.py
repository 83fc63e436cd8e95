"""Print the figures of the practice cluster: `python -m tests.practice.measure`."""

import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Connection, Session
from kubectl_sky.words import kinds
from tests.cluster import practice
from tests.cluster.practice import Server
from tests.contract.makers import make_job, make_pod_spec
from tests.practice.test_leaks import WATCHERS, Client, resident, usage_of

STARTS = 7
JOBS = 1000
IDLE_SECONDS = 10
MAPS = "/api/v1/namespaces/default/configmaps"


def starting() -> list[float]:
    """Seconds from the start of the process until it is ready, in new folders."""
    found = []
    for _ in range(STARTS):
        begun = time.perf_counter()
        with practice.server():
            found.append(time.perf_counter() - begun)
    return found


def idle(server: Server) -> float:
    """How much of one core is used in percent while nothing is asked."""
    before, begun = _cpu(server), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return 100 * (_cpu(server) - before) / (time.monotonic() - begun)


def run_jobs(server: Server) -> tuple[float, float]:
    """Seconds until all Jobs of `true` are created, and until all are complete."""
    connection = Connection(kubeconfig=str(server.folder / "kubeconfig"), namespace="default")
    session = Session.connect(connection)
    pod = {"template": {"spec": make_pod_spec("true")}}
    bodies = [make_job(f"job-{number}", "default", **pod) for number in range(JOBS)]
    begun = time.monotonic()
    with ThreadPoolExecutor(9) as pool:
        done = pool.submit(_complete, session)
        list(pool.map(lambda body: objects.create(session, body), bodies))
        created = time.monotonic() - begun
        done.result()
        complete = time.monotonic()
    pods = objects.list_all(session, kinds.POD, "default")
    assert sum(pod["status"]["phase"] == "Succeeded" for pod in pods) == JOBS
    session.close()
    return created, complete - begun


def _complete(session: Session) -> None:
    """Watch until all Jobs are complete."""
    complete: set[str] = set()
    stream = session.stream(objects.path(kinds.JOB, "default"), {"watch": "1"})
    rest = b""
    for block in stream:
        *lines, rest = (rest + block).split(b"\n")
        for event in map(json.loads, lines):
            if _is_complete(event["object"]):
                complete.add(event["object"]["metadata"]["name"])
        if len(complete) == JOBS:
            stream.close()
            return


def _is_complete(job: dict[str, Any]) -> bool:
    conditions = job.get("status", {}).get("conditions", ())
    return any(one["type"] == "Complete" and one["status"] == "True" for one in conditions)


def _cpu(server: Server) -> float:
    """Seconds of CPU that the server and its helper have used."""
    total = 0
    for process in (server.process.pid, *_children(server.process.pid)):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in found.split()]


def watchers(server: Server) -> str:
    """What the server holds before, with, and after many watchers."""
    Client(server).ask("GET", MAPS)
    before = usage_of(server)
    clients = [Client(server) for _ in range(WATCHERS)]
    for client in clients:
        client.send("GET", f"{MAPS}?watch=1")
    assert all(client.code() == 200 for client in clients)
    during = usage_of(server)
    for client in clients:
        client.vanish()
    time.sleep(1)
    after = usage_of(server)
    return ", ".join(f"{one.files} and {one.threads}" for one in (before, during, after))


def main() -> None:
    """Print the table."""
    starts = starting()
    with practice.server() as server:
        time.sleep(1)
        memory, cpu = resident(server), idle(server)
        files = watchers(server)
        created, done = run_jobs(server)
        rows = {
            "start to ready, median": f"{statistics.median(starts):.2f} s",
            "start to ready, worst": f"{max(starts):.2f} s",
            "memory, idle": f"{memory:.0f} MB",
            f"CPU over {IDLE_SECONDS} s, idle": f"{cpu:.1f} % of a core",
            f"open files and threads before, with and after {WATCHERS} watchers": files,
            f"{JOBS} Jobs of `true`: all created after": f"{created:.0f} s",
            f"{JOBS} Jobs of `true`: all complete after": f"{done:.0f} s",
            f"memory after {JOBS} Jobs": f"{resident(server):.0f} MB",
            "CPU, idle after that": f"{idle(server):.1f} % of a core",
        }
    print("| figure | measured |\n|---|---|")
    for name, value in rows.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
