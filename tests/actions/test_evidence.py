"""What is recorded of failed pods while a task is followed."""

from pathlib import Path

import pytest

from kubectl_sky.observe import status
from kubectl_sky.tasks import evidence
from kubectl_sky.tasks.evidence import EvidenceRecorder
from tests.builders import make_job, make_pod, terminated
from tests.fake_cluster import FakeCluster
from tests.reading import read_jobs, read_pods


def test_recorded_pod_of_stopped_node_is_not_the_first_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECTL_SKY_CACHE_HOME", str(tmp_path))
    session = FakeCluster().session()
    pods = first, second = [
        make_pod(node, "Failed", terminated(code, at=f"2026-01-01T00:0{minute}:00Z"))
        for node, code, minute in ((0, 143, 4), (1, 3, 6))
    ]
    first["metadata"]["deletionTimestamp"] = "2026-01-01T00:04:00Z"
    jobs = [make_job(0, nodes=2), make_job(1, nodes=2, end="Failed")]
    (before,) = status.tasks(read_jobs(jobs), read_pods(pods))
    jobs[0]["metadata"]["annotations"]["kubectl-sky/stopped-for"] = "node-1"
    (after,) = status.tasks(read_jobs(jobs), read_pods([second]))
    recorder = EvidenceRecorder(session)

    for task, existing, reasons in (
        (before, pods, ["PodDeleted", "Error"]),
        (after, [second], ["Error", "Stopped"]),
    ):
        recorder.record_failures(task, read_pods(existing))
        recorded = evidence.of_task(session, task)
        assert recorded
        assert [death.reason for death in recorded.deaths] == reasons
    assert evidence.of_deleted_pods(session, after) is None, "node-1's pod has its log"
