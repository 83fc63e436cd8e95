"""What the time of a task went into whose program really fails, stalls and goes on."""

from datetime import timedelta

import pytest

from kubectl_sky.tasks import goodput
from tests.e2e.command import Command

TASK = """
name: train
resources: {job_recovery: {max_restarts_on_errors: 2}}
volumes: {/data: steps}
run: |
  sleep 2
  at=$(cat /data/checkpoint 2> /dev/null || echo 0)
  first=$at
  while [ "$at" -lt 16 ]; do
    at=$((at + 1))
    sleep 0.5
    [ "$at" -ne 12 ] || sleep 6
    echo "part $at of 16"
    [ "$at" -ne 4 ] || echo 4 > /data/checkpoint
    [ "$at" -ne 8 ] || [ "$first" -ne 0 ] || exit 3
  done
config: {kubectl_sky: {step_regex: 'part (\\d+) of'}}
"""


def test_goodput_tells_repeated_steps_and_stalls_of_a_program_also_without_pods(
    sky: Command, kubectl: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(goodput, "_SHORTEST", timedelta(seconds=10))
    done = sky("submit", "-", "--id", "goodput1", "--create-volumes", "1Gi", stdin=TASK)
    assert done.returncode == 0, done.stderr

    (task,) = sky.json("status", "goodput1", "--goodput")["tasks"]

    seconds = {share["use"]: share["seconds"] for share in task["shares"]}
    assert task["nodes"][0]["steps"] == 8 + 12
    assert 5.5 <= seconds["stalls"] < 12, task
    assert 2 <= seconds["repeated"] < 0.5 * seconds["steps"], task
    assert seconds["loading"] >= 3, task
    assert sum(seconds.values()) == pytest.approx(task["seconds"], abs=3)
    text = sky("status", "goodput1", "--goodput").stdout
    assert "went into new steps\n\nTIME FOR" in text and "\nrepeated " in text

    assert kubectl("delete", "pod", "-l", "task-id=goodput1").returncode == 0
    (later,) = sky.json("status", "goodput1", "--goodput")["tasks"]
    assert later["notes"] == ["its logs are gone: recorded of node-0 when the task ended"]
    for share in later["shares"]:
        assert share["seconds"] == pytest.approx(seconds[share["use"]], abs=3), share
    percent = sky.json("status", "goodput1")["metadata"]["goodput_percent"]
    assert f" {percent:.0f}%" in sky("list", "-o", "wide").stdout
