"""Tasks whose pods another container keeps after `main` has ended."""

import pytest

from tests.e2e.command import Command
from tests.polling import eventually

TASK = """
name: kept
resources: {image_id: "busybox:1.36"}
config:
  kubernetes:
    pod_config:
      spec:
        terminationGracePeriodSeconds: 1
        containers:
          - {name: main}
          - {name: proxy, image: "busybox:1.36", command: [sleep, "600"]}
run: echo hello; exit %s
"""


@pytest.mark.parametrize(("code", "state"), [(0, "completed"), (3, "failed")])
def test_submit_container_beside_main_task_ends_with_main(
    sky: Command, kubectl: Command, code: int, state: str
) -> None:
    done = sky("submit", "-", "--id", "kept0001", stdin=TASK % code)
    assert done.returncode == (4 if code else 0), done.stderr
    assert "container proxy keeps the pod although main has ended; stopping what" in done.stderr
    kubectl("wait", "--for=condition=Failed", "--timeout=60s", "job/kept-kept0001")
    task = sky.json("status", "kept0001")
    (node,) = task["metadata"]["nodes"]
    assert (task["status"], node["exit_code"]) == (state, code)
    assert sky("logs", "kept0001").stdout == "hello\n", "the pod stays"
    kubectl("delete", "pod", "-l", "task-id=kept0001")
    assert sky.json("status", "kept0001")["status"] == state


def test_submit_detached_container_beside_main_is_reported_and_changes_nothing(
    sky: Command, kubectl: Command
) -> None:
    sky("submit", "-", "--id", "kept0002", "--detach", stdin=TASK % 0)
    assert sky("wait", "kept0002").stdout == (
        "task/kept0002 (kept) completed: container proxy keeps the pod\n"
    )
    assert sky("logs", "-f", "kept0002").stdout == "hello\n"
    assert "container proxy keeps the pod" in sky("list").stdout
    assert "native sidecar" in sky("doctor", "kept0002").stdout
    (pod,) = kubectl.json("get", "pods", "-l", "task-id=kept0002")["items"]
    assert pod["status"]["phase"] == "Running"
    assert "activeDeadlineSeconds" not in pod["spec"]
    assert sky("wait", "--continue", "kept0002").returncode == 0
    eventually(lambda: "keeps the pod" not in sky("list").stdout)
    assert sky.json("status", "kept0002")["status"] == "completed"
