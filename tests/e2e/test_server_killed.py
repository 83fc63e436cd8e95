"""`kill -9` of the REST server during submits: no task is lost, none is there twice."""

import json
import threading
import time
from collections.abc import Iterator

import httpx2
import pytest

from tests.cluster.rest_server import RestServer
from tests.cluster.target import Cluster
from tests.e2e.command import Command

TASKS = 12
BODY = {"name": "kept", "num_nodes": 3, "resources": {"cpus": 900}, "run": "true"}


@pytest.fixture
def client(cluster: Cluster) -> Iterator[httpx2.Client]:
    headers = {"Authorization": f"Bearer {cluster.token()}"}
    with httpx2.Client(headers=headers, timeout=60) as client:
        yield client


class Submitter(threading.Thread):
    """Submit tasks one after the other; repeat each with its key until it is accepted."""

    def __init__(self, client: httpx2.Client, namespace: str) -> None:
        super().__init__(daemon=True)
        self.client = client
        self.namespace = namespace
        self.url = ""
        self.ids: list[str] = []

    def run(self) -> None:
        for number in range(TASKS):
            until = time.monotonic() + 120
            while not self._submitted(number) and time.monotonic() < until:
                time.sleep(0.2)

    def _submitted(self, number: int) -> bool:
        try:
            answer = self.client.post(
                f"{self.url}/tasks/submit",
                params={"namespace": self.namespace},
                json=BODY,
                headers={"Idempotency-Key": f"kept-{number}"},
            )
        except httpx2.TransportError:
            return False
        if answer.status_code == 200:
            self.ids.append(answer.json()["task_id"])
        return answer.status_code == 200


@pytest.mark.practice_only
def test_api_killed_during_submits_neither_loses_nor_doubles_tasks(
    cluster: Cluster, sky: Command, client: httpx2.Client, namespace: str
) -> None:
    submitter = Submitter(client, namespace)
    for kill_after in (2, 6, None):
        with RestServer.start(cluster) as server:
            submitter.url = server.url
            if not submitter.is_alive():
                submitter.start()
            if kill_after is None:
                submitter.join(200)
            else:
                while len(submitter.ids) < kill_after:
                    time.sleep(0.01)
                time.sleep(0.15)  # into the next submit
                server.kill()
    assert len(submitter.ids) == TASKS

    tasks = json.loads(sky("list", "--all-users", "-o", "json").stdout)["tasks"]
    assert sorted(task["task_id"] for task in tasks) == sorted(submitter.ids)
    assert {task["metadata"]["num_nodes"] for task in tasks} == {3}
    assert all(len(task["metadata"]["node_jobs"]) == 3 for task in tasks)
