"""Watch tasks with real pods: GPUs, GPU-hours, local times, templates and notifications."""

import json
import re
from pathlib import Path

import pytest

from tests.actions.test_notify import PATH, Hook, hook  # noqa: F401
from tests.e2e.command import Command, submitted
from tests.e2e.support import submit
from tests.polling import eventually

IMAGE = "resources: {image_id: 'busybox:1.36'}\n"
WITH_GPUS = "name: {}\nresources: {{image_id: 'busybox:1.36', accelerators: {}}}\nrun: {}\n"
# Each rank has another program: one that works, hostile ones, an endless one, and one that fails.
SMI = r"""#!/bin/sh
case "$(cat /tmp/rank)" in
0) printf '%s\n' '0, NVIDIA H200, 37, 1024, 143771, 41, 62.13, 700.00' \
     '1, NVIDIA H200, [N/A], NaN, inf, -5, 1e9, 0x1' ;;
1) printf '0, \033[2JFake\033]0;owned\007, 1, 2, 3, 4, 5, 6\ngarbage\n1, 2\n' ;;
2) yes 'endless' ;;
*) echo 'driver not \033[2Jloaded'; exit 9 ;;
esac
"""
GPU_TASK = f"""
name: gpus
num_nodes: 4
{IMAGE}file_mounts: {{/usr/local/nvidia/bin/nvidia-smi: ./smi}}
run: echo $SKYPILOT_NODE_RANK > /tmp/rank; sleep 300
config:
  kubernetes:
    pod_config:
      spec:
        containers: [{{volumeMounts: [{{name: nvidia, mountPath: /usr/local/nvidia/bin}}]}}]
        volumes: [{{name: nvidia, emptyDir: {{}}}}]
"""


@pytest.mark.practice_only
def test_top_gpu_shows_what_programs_in_pods_print(sky: Command) -> None:
    (sky.folder / sky.write("smi", SMI)).chmod(0o755)
    submit(sky, GPU_TASK, "smismi01")
    eventually(lambda: sky.json("status", "smismi01")["metadata"]["running_nodes"] == 4)
    eventually(
        lambda: sky("exec", "smismi01", "--all-ranks", "--", "cat", "/tmp/rank").returncode == 0
    )
    done = sky("top", "smismi01", "--gpu")
    assert done.returncode == 0, done.stderr
    assert [line.split("  ") for line in re.sub("   +", "  ", done.stdout).splitlines()] == [
        ["RANK", "GPU", "UTIL", "MEMORY", "TEMPERATURE", "POWER"],
        ["0", "0 NVIDIA H200", "37%", "1024Mi/143771Mi", "41C", "62W/700W"],
        ["0", "1 NVIDIA H200", "-", "-", "-", "-"],
        ["1", "0 Fake", "1%", "2Mi/3Mi", "4C", "5W/6W"],
    ]
    warnings = sorted(done.stderr.splitlines())
    assert warnings[0] == "warning: node-2: the program in the pod writes too many messages"
    assert warnings[1].startswith("warning: node-3: nvidia-smi failed with exit code 9: driver not")
    assert len(warnings) == 2 and "\x1b" not in done.stdout + done.stderr
    document = sky.json("top", "smismi01", "--gpu")
    assert [gpu["rank"] for gpu in document["gpus"]] == [0, 0, 1]
    assert [failure["rank"] for failure in document["failures"]] == [2, 3]


@pytest.mark.practice_only
def test_wait_notifies_and_logs_show_local_times(
    sky: Command,
    hook: Hook,  # noqa: F811
    namespace: str,
) -> None:
    hook.status = 303
    script = f"name: bye\n{IMAGE}secrets: {{TOKEN: hidden-value}}\nrun: sleep 2; echo bye; exit 3\n"
    submit(sky, script, "notify01")
    done = sky("wait", "notify01", "--notify", hook.url)
    assert done.returncode == 4, done.stderr
    assert "cannot notify 127.0.0.1: HTTP 303" in done.stderr
    assert PATH not in done.stdout + done.stderr
    assert len(hook.requests) == 1, "redirects are not followed"
    (document,) = hook.received
    assert (document["kind"], document["status"]) == ("Notification", "failed")
    (task,) = document["tasks"]
    assert (task["task_id"], task["namespace"], task["status"]) == (
        "notify01",
        namespace,
        "failed",
    )
    assert "exit code 3" in task["note"] and "exit code 3" in document["text"]
    assert "hidden-value" not in json.dumps(document)
    template = "{time} [{rank}] {{{text}}}"
    lines = sky("logs", "notify01", "-t", "--template", template).stdout.splitlines()
    assert any(re.fullmatch(r"\d\d-\d\d \d\d:\d\d:\d\d \[0\] \{bye\}", line) for line in lines)


@pytest.mark.practice_only
def test_usage_adds_up_finished_tasks_with_prices(sky: Command, kubectl: Command) -> None:
    """Prices make GPU-seconds of GPU-hours."""
    settings = Path(sky.environment["HOME"]) / ".config/kubectl-sky/settings.yaml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("prices: {A100: 3600, nvidia.com/gpu: 3600}\n")
    done = sky("submit", "-", "--id", "usage001", stdin=WITH_GPUS.format("a", "A100:2", "sleep 4"))
    assert done.returncode == 0, done.stderr
    failing = WITH_GPUS.format("b", "A100:1", "sleep 2; exit 1")
    assert submitted(sky("submit", "-", "--id", "usage002", stdin=failing)) == "usage002"
    submit(sky, f"name: c\n{IMAGE}run: 'true'\n", "usage003")

    by_name = sky.json("usage", "--by", "name")
    assert (by_name["inexact_tasks"], by_name["unpriced"]) == (0, [])
    costs = {row["key"]: row["cost"] for row in by_name["rows"]}
    assert list(costs) == ["a", "b"], "the largest first; a task without GPUs has no row"
    assert 2 * 3 <= costs["a"] <= 2 * 60 and 1 <= costs["b"] <= 60
    assert by_name["total"]["cost"] == pytest.approx(sum(costs.values()))
    (row,) = sky.json("usage", "--by", "gpu")["rows"]
    assert (row["tasks"], row["cost"]) == (2, by_name["total"]["cost"])
    assert "GPU-HOURS" in sky("list", "-o", "wide").stdout.splitlines()[0]

    assert sky("stop", "usage002").returncode == 0
    assert kubectl("delete", "pods", "-l", "task-id=usage001").returncode == 0
    after = sky.json("usage", "--by", "user")
    (row,) = after["rows"]
    assert (row["key"], row["tasks"], row["cost"]) == ("tester", 1, None), "it may have waited"
    assert after["inexact_tasks"] == 1
