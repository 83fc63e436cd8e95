"""Pipelines: followed, failed, detached and interrupted."""

import pytest

from kubectl_sky.words.names import part_id
from tests.e2e.command import Command, Done
from tests.e2e.pipelines import chain, run_until, suspended_jobs, until_no_objects
from tests.polling import eventually


def names(sky: Command, pipeline: str) -> list[tuple[str, str]]:
    status = sky.json("status", pipeline)
    return [(task["name"], task["status"]) for task in status["tasks"]]


@pytest.mark.practice_only
@pytest.mark.parametrize("backend", ["jobs", "indexed"])
def test_submit_pipeline_stages_share_volume_and_run_in_order(
    sky: Command, kubectl: Command, backend: str
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
    same = ("--id", "handon01", "--backend", backend)
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
def test_pipeline_is_accepted_by_list_status_logs_wait_and_stop(
    sky: Command, kubectl: Command
) -> None:
    file = sky.write("pipeline.yaml", chain("echo one", "echo two"))
    assert sky("submit", file, "--id", "whole001", "--name", "renamed").returncode == 0
    header, whole, first, second = sky("list").stdout.splitlines()
    assert header.split()[:3] == ["ID", "NAME", "STATUS"]
    assert whole.split()[:5] == ["whole001", "renamed", "completed", "2/2", "tasks"]
    assert [row.split()[1] for row in (first, second)] == ["renamed/a", "renamed/b"]
    assert sky("status", "renamed").stdout.count("completed") == 4
    assert sky("logs", "renamed").stdout == "one\ntwo\n"
    assert sky("logs", "whole001", "-f").stdout == "one\ntwo\n"
    assert sky("logs", first.split()[0]).stdout == "one\n"
    assert sky("wait", "whole").stdout == "pipeline/whole001 (renamed) completed\n"
    document = sky.json("wait", "whole001")
    assert [pipeline["status"] for pipeline in document["pipelines"]] == ["completed"]
    assert len(document["tasks"]) == len(sky.json("list")["tasks"]) == 2
    stopped = sky("stop", "renamed")
    assert stopped.returncode == 0
    assert "Stopped 2 tasks" in stopped.stderr
    until_no_objects(kubectl)


@pytest.mark.practice_only
def test_submit_pipeline_failed_stage_cancels_later_stages(sky: Command, kubectl: Command) -> None:
    file = sky.write("pipeline.yaml", chain("echo one", "echo bad; exit 3", "echo never"))
    done = sky("submit", file, "--id", "fails001")
    assert done.returncode == 4
    assert "never" not in done.stdout
    assert "error: pipeline fails001 (chain) failed at stage 2 of 3: b, task/" in done.stderr
    assert "exit code 3" in done.stderr
    assert "(cancelled: stage 3 c): node-0: " in done.stderr
    assert set(suspended_jobs(kubectl)) == {"a", "b"}
    assert names(sky, "fails001") == [("a", "completed"), ("b", "failed")]
    assert f"3 {part_id('fails001', 3)} c cancelled" in " ".join(
        sky("status", "fails001").stdout.split()
    )
    assert sky("wait", "fails001").returncode == 4
    again = sky("submit", file, "--id", "fails001")
    assert (again.returncode, set(suspended_jobs(kubectl))) == (4, {"a", "b"})
    assert again.stdout.startswith("pipeline/fails001 unchanged")
    failed = sky.json("status", "fails001")["tasks"][1]["task_id"]
    assert sky("stop", failed).returncode == 0

    def submit() -> Done:
        done = sky("submit", file, "--id", "fails001")
        assert "being deleted" not in done.stderr
        return done

    retry = eventually(submit)
    assert retry.stdout.splitlines() == [*retry.stdout.splitlines()[:1], "one", "bad"]
    assert retry.stdout.startswith("pipeline/fails001 submitted")


@pytest.mark.practice_only
def test_wait_detached_pipeline_continue_resumes_stages(sky: Command, kubectl: Command) -> None:
    file = sky.write("pipeline.yaml", chain("echo one", "echo two", "echo three"))
    done = sky("submit", file, "--detach", "--id", "detach01")
    assert done.returncode == 0, done.stderr
    assert "stages 2 to 3 are suspended" in done.stderr
    assert "kubectl sky wait detach01 --continue" in done.stderr
    first = sky.json("status", "detach01")["tasks"][0]["task_id"]
    assert sky("wait", first, "--timeout", "60s").returncode == 0
    assert suspended_jobs(kubectl) == {"a": False, "b": True, "c": True}
    assert "stage 2, b, is suspended" in sky("status", "detach01").stdout
    late = sky("wait", "detach01", "--timeout", "2s")
    assert late.returncode == 1
    assert "is suspended" in late.stderr
    led = sky("wait", "detach01", "--continue", "--timeout", "90s")
    assert (led.returncode, led.stdout) == (0, "pipeline/detach01 (chain) completed\n")
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
