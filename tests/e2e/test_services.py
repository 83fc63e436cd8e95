"""Services and pools are refused, or run as a single task with --as-task."""

import pytest

from tests.e2e.command import Command, submitted

SERVICE = """name: hello
service: {readiness_probe: /, replicas: 2}
num_nodes: 1
resources: {image_id: 'busybox:1.36', ports: 8080}
run: echo replica $SKYPILOT_SERVE_REPLICA_ID
"""
POOL = "name: p\npool: {workers: 2}\nresources: {image_id: 'busybox:1.36'}\nsetup: echo ready\n"


@pytest.mark.practice_only
@pytest.mark.parametrize(("text", "line"), [(SERVICE, "replica 1"), (POOL, "ready")])
def test_submit_service_or_pool_requires_as_task(sky: Command, text: str, line: str) -> None:
    file = sky.write("served.yaml", text)
    refused = sky("submit", file)
    assert refused.returncode == 2
    assert "--as-task" in refused.stderr
    assert ("kubectl sky serve up" in refused.stderr) is (text is SERVICE)
    assert sky("render", file).returncode == 2
    # validate checks a service for `serve`
    assert sky("validate", "--strict", file).returncode == (0 if text is SERVICE else 2)
    assert sky("submit", file, "--as-task", "--dry-run=server").returncode == 0
    done = sky("submit", file, "--as-task")
    assert done.returncode == 0, done.stderr
    assert line in done.stdout.splitlines()[1:]
    assert "run as one task: one " in done.stderr
    assert sky.json("status", submitted(done))["metadata"]["num_nodes"] == 1
