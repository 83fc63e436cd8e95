"""`top --gpu` with programs in pods: one that works, hostile ones, and one that fails."""

import re

import pytest

from tests.e2e.command import Command
from tests.e2e.support import submit
from tests.polling import eventually

IMAGE = "resources: {image_id: 'busybox:1.36'}\n"
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
