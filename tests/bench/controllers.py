"""Memory and API requests of idle controllers beside 5,000 tasks, on a cluster of the user's.

Usage: python -m tests.bench.controllers [TASKS [MINUTES]], with KUBECONFIG of a practice cluster.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.cluster.session import Outgoing, Session
from kubectl_sky.cluster.transport import Reply
from kubectl_sky.controllers import run
from kubectl_sky.plan.pipeline import PipelineMember
from kubectl_sky.words import names
from kubectl_sky.words.settings import Settings

Json = dict[str, Any]

_CONNECTIONS = 8
_PLAIN, _STAGES = 0.4, 3  # share of tasks without a pipeline; stages of the pipelines
_TEMPLATE: Json = {
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "busybox:1.36", "command": ["true"]}],
    }
}


def jobs(count: int) -> Iterator[Json]:
    """Yield the Jobs of tasks: plain ones, and pipelines whose first stage runs."""
    for number in range(int(count * _PLAIN)):
        yield _job(f"b{number:07d}", {}, {}, suspended=False)
    for number in range(int(count * (1 - _PLAIN)) // _STAGES):
        base = f"c{number:07d}"
        for stage in range(1, _STAGES + 1):
            member = PipelineMember(base, "chain", stage, _STAGES)
            task = names.part_id(base, stage)
            yield _job(task, member.labels, member.annotations, suspended=stage > 1)


def _job(task: str, labels: Any, annotations: Any, *, suspended: bool) -> Json:
    labels_of_job = {
        names.TASK: "true",
        names.TASK_ID: task,
        names.TASK_NAME: "t",
        names.USERNAME: "a",
    }
    notes = {names.ORIGINAL_NAME: "t", names.ORIGINAL_USER: "a", names.NUM_NODES: "1"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"t-{task}",
            "labels": {**labels_of_job, **labels},
            "annotations": {**notes, **annotations},
        },
        "spec": {"suspend": suspended, "managedBy": "example.com/nobody", "template": _TEMPLATE},
    }


def measure(count: int, minutes: float) -> None:
    """Create the tasks, then watch idle controllers in a process of their own."""
    session = Session.connect()
    with ThreadPoolExecutor(_CONNECTIONS) as pool:
        made = list(pool.map(lambda job: objects.create(session, job), jobs(count)))
    print(f"{len(made):,} tasks; controllers of all namespaces, {minutes:g} minutes", flush=True)
    for only in ("tasks", "tasks,ray,fairshare"):
        command = [sys.executable, "-m", "tests.bench.controllers", "child", only, str(minutes)]
        print(f"\n{only}", flush=True)
        subprocess.run(command, env=os.environ, check=False)


def child(only: str, minutes: float) -> None:
    """Run controllers, and print what they sent and hold."""
    sent: Counter[str] = Counter()
    _count_requests(sent)

    def report() -> None:
        time.sleep(60)  # lists again after so many new objects
        print(f"start: {_megabytes()} MB; {_total(sent)}", flush=True)
        sent.clear()
        time.sleep(minutes * 60)
        hourly = Counter({name: round(n * 60 / minutes) for name, n in sent.items()})
        print(f"idle: {_megabytes()} MB; per hour: {_total(hourly)}", flush=True)
        os._exit(0)

    threading.Thread(target=report, daemon=True).start()
    run.run(run.Options(tuple(only.split(",")), Connection(), None, Settings()))


def _total(sent: "Counter[str]") -> str:
    return f"{sum(sent.values())} requests {json.dumps(dict(sent.most_common()))}"


def _count_requests(sent: "Counter[str]") -> None:
    sends = Session.exchange

    def exchange(self: Session, outgoing: Outgoing, attempt: Any = None) -> Reply:
        watch = " (watch)" if "watch" in dict(outgoing.query) else ""
        sent[f"{outgoing.info.method} {outgoing.info.path}{watch}"] += 1
        return sends(self, outgoing, attempt)

    Session.exchange = exchange  # type: ignore[method-assign]


def _megabytes() -> int:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) // 1024


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2], float(sys.argv[3]))
    else:
        measure(int((sys.argv[1:] or ["5000"])[0]), float((sys.argv[2:] or ["10"])[0]))
