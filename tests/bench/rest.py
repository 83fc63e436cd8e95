"""Time `GET /tasks` of a server while others watch, beside the raw list of the API server."""

import re
import statistics
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from urllib.parse import urlencode

import httpx2

from kubectl_sky.cluster import objects
from kubectl_sky.words import kinds
from tests.bench.cluster import Bench

VIEWERS = 20
_ROUNDS = 20
_SERVING = re.compile(r"Serving on (\S+);")
_SELECTED = {"labelSelector": "skypilot-task=true"}


def medians(bench: Bench, token: str, namespace: str) -> dict[str, float]:
    """Return the median seconds of each request, sent in turn."""
    jobs = f"{objects.path(kinds.JOB, namespace)}?{urlencode(_SELECTED)}"
    in_namespace = {"namespace": namespace}
    with served([bench.sky], bench.environment) as (url, _):
        headers = {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=url, headers=headers, timeout=60) as client:
            requests: dict[str, tuple[str, Mapping[str, str | int]]] = {
                "raw list of Jobs": (f"/kubernetes{jobs}", {}),
                "GET /tasks": ("/tasks", in_namespace),
                "GET /tasks?limit=50": ("/tasks", {**in_namespace, "limit": 50}),
            }
            alone = _in_turn(client, requests)
            with _viewers(url, headers, in_namespace):
                beside = _in_turn(client, {"GET /tasks": requests["GET /tasks"]})
    return alone | {f"GET /tasks, {VIEWERS} viewers": beside["GET /tasks"]}


def _in_turn(
    client: httpx2.Client, requests: Mapping[str, tuple[str, Mapping[str, str | int]]]
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in requests}
    for _ in range(_ROUNDS):
        for name, (path, params) in requests.items():
            begun = time.perf_counter()
            client.get(path, params=params or None).raise_for_status()
            seconds[name].append(time.perf_counter() - begun)
    return {name: statistics.median(times) for name, times in seconds.items()}


@contextmanager
def served(program: Sequence[str], environment: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    """Run the server on a free port; yield its address and process id."""
    command = [*program, "api", "--port=0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        serving = _SERVING.search(server.stderr.readline())
        assert serving
        try:
            yield serving[1], server.pid
        finally:
            server.terminate()


@contextmanager
def _viewers(url: str, headers: Mapping[str, str], params: Mapping[str, str]) -> Iterator[None]:
    """Watch the list, as the dashboard does; each has read its first event."""
    limits = httpx2.Limits(max_connections=None)
    with httpx2.Client(base_url=url, headers=headers, timeout=60, limits=limits) as client:
        answers = []
        try:
            for _ in range(VIEWERS):
                request = client.build_request("GET", "/tasks/events", params=params)
                answer = client.send(request, stream=True)
                answers.append(answer)
                next(answer.iter_raw())
            yield
        finally:
            for answer in answers:
                answer.close()
