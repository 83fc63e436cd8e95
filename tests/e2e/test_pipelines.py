"""Pipelines: followed, failed, detached and interrupted."""

import pytest

from tests.e2e.command import Command
from tests.e2e.pipelines import chain, run_until, suspended_jobs


@pytest.mark.practice_only
def test_submit_pipeline_stages_share_volume_and_run_in_order(
    sky: Command, kubectl: Command
) -> None:
    assert sky("volumes", "create", "shelf", "1Gi").returncode == 0
    mount = "resources: {image_id: 'busybox:1.36'}\nvolumes: {/shelf: shelf}\n"
    text = (
        f"name: hand-on\n---\nname: first\n{mount}"
        "run: echo $(($START + 1)) > /shelf/value; echo $SKYPILOT_TASK_IDS\n"
        f"---\nname: second\nnum_nodes: 2\n{mount}"
        "run: test $NODE_RANK = 1 || echo $(($(cat /shelf/value) * 2)) > /shelf/twice\n"
        f"---\n{mount}run: echo $START became $(cat /shelf/twice) in $SKYPILOT_MANAGED_JOB_ID\n"
    )
    file = sky.write("pipeline.yaml", text)
    same = ("--id", "handon01", "--backend", "indexed")
    done = sky("submit", file, *same, "--env", "START=20")
    assert done.returncode == 0, done.stderr
    first, ids, last = done.stdout.splitlines()
    assert first.startswith("pipeline/handon01 submitted: hand-on, 3 tasks in namespace ")
    assert last == "20 became 42 in handon01"
    tasks = sky.json("status", "handon01")["tasks"]
    expected = [f"{task['name']}-{task['task_id']}" for task in tasks]
    assert ids.split() == expected
    assert [task["name"] for task in tasks] == ["first", "second", "hand-on-2"]
    stages = [line for line in done.stderr.splitlines() if line.startswith("stage ")]
    assert [stage.split(":")[0] for stage in stages] == [f"stage {n} of 3" for n in (1, 2, 3)]
    again = sky("submit", file, *same, "--env", "START=20", "--detach")
    assert again.stdout.startswith("pipeline/handon01 unchanged")
    other = sky("submit", file, *same, "--env", "START=21", "--detach")
    assert other.returncode == 2
    assert "belongs to a different task" in other.stderr
    assert not any(suspended_jobs(kubectl).values())


@pytest.mark.practice_only
def test_submit_interrupted_pipeline_is_resumed_by_resubmit(sky: Command, kubectl: Command) -> None:
    file = sky.write("pipeline.yaml", chain("echo one; sleep 3", "echo two"))
    stopped = run_until(sky, "submit", file, "--id", "ctrlc001", until="one")
    assert stopped.returncode == 130
    assert "wait ctrlc001 --continue" in stopped.stderr
    assert suspended_jobs(kubectl) == {"a": False, "b": True}
    done = sky("submit", file, "--id", "ctrlc001")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1:] == ["one", "two"]
