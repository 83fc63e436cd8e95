"""Tasks whose pods another container keeps after `main` has ended."""

from tests.e2e.command import Command

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
run: echo hello
"""


def test_submit_container_beside_main_task_ends_with_main(sky: Command, kubectl: Command) -> None:
    """The Job fails, and the task has completed: its program did."""
    done = sky("submit", "-", "--id", "kept0001", stdin=TASK)
    assert done.returncode == 0, done.stderr
    assert "container proxy keeps the pod although main has ended; stopping what" in done.stderr
    kubectl("wait", "--for=condition=Failed", "--timeout=60s", "job/kept-kept0001")
    task = sky.json("status", "kept0001")
    (node,) = task["metadata"]["nodes"]
    assert (task["status"], node["exit_code"]) == ("completed", 0)
    assert sky("logs", "kept0001").stdout == "hello\n", "the pod stays"
    kubectl("delete", "pod", "-l", "task-id=kept0001")
    assert sky.json("status", "kept0001")["status"] == "completed"
