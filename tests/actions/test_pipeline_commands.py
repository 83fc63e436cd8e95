"""Commands on a pipeline and on a group as a whole, over a cluster in memory."""

import json

import pytest

from kubectl_sky.words.names import part_id
from tests.actions.conftest import Run, Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

PIPELINE = "name: chain\n---\nname: a\nrun: echo one\n---\nname: b\nrun: echo two\n"
GROUP = PIPELINE.replace("name: chain", "name: duo\nexecution: parallel")
STAGES = [f"{name}-{part_id(ID, stage)}" for stage, name in enumerate("ab", 1)]


def finish(api: FakeCluster, *codes: int) -> None:
    for stage, (code, text) in enumerate(zip(codes, (b"one\n", b"two\n"), strict=False)):
        api.log(api.start(STAGES[stage]), text)
        api.finish(STAGES[stage], code)


def test_pipeline_is_accepted_by_list_status_logs_wait_and_stop(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(PIPELINE, name="renamed")
    finish(api, 0, 0)
    header, whole, first, second = run("list")[1].splitlines()
    assert header.split()[:3] == ["ID", "NAME", "STATUS"]
    assert whole.split()[:5] == [ID, "renamed", "completed", "2/2", "tasks"]
    assert [row.split()[1] for row in (first, second)] == ["renamed/a", "renamed/b"]
    assert run("status", "renamed")[1].count("completed") == 4
    assert run("logs", "renamed")[:2] == run("logs", ID, "-f")[:2] == (0, "one\ntwo\n")
    assert run("logs", first.split()[0])[1] == "one\n"
    assert run("wait", ID[:5])[1] == f"pipeline/{ID} (renamed) completed\n"

    document = json.loads(run("wait", ID, "-o", "json")[1])
    assert [pipeline["status"] for pipeline in document["pipelines"]] == ["completed"]
    assert len(document["tasks"]) == 2
    assert run("stop", "renamed")[::2] == (
        0,
        "Stopped 2 tasks; pods and logs are deleted\n",
    )
    assert not [name for name in api.names() if name.startswith(("jobs ", "services "))]


def test_pipeline_of_failed_stage_is_shown_cancelled_and_submitted_again(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(PIPELINE)
    finish(api, 3)
    code, out, _ = run("wait", ID, "--continue")
    assert code == 4
    assert f"pipeline/{ID} (chain) failed" in out
    assert f"jobs {STAGES[1]}" not in api.names()
    assert f"2 {part_id(ID, 2)} b cancelled" in " ".join(run("status", ID)[1].split())
    tasks = json.loads(run("status", ID, "-o", "json")[1])["tasks"]
    assert [(task["name"], task["status"]) for task in tasks] == [("a", "failed")]


def test_suspended_stage_names_command_that_resumes_it(
    run: Run, api: FakeCluster, send: Submitter
) -> None:
    send(PIPELINE)
    finish(api, 0)
    assert "stage 2, b, is suspended" in run("status", ID)[1]
    assert "suspended; resumed after stage 1" in run("list")[1].splitlines()[3]
    diagnosis = " ".join(run("doctor", ID)[1].split())
    assert "stage 2 is suspended; resumed after stage 1" in diagnosis
    assert f"next: if no client follows it, run `kubectl sky wait {ID} --continue`" in diagnosis
    code, _, err = run("wait", ID, "--timeout", "0.1")
    assert (code, f"`kubectl sky wait {ID} --continue`, resumes it" in err) == (1, True)


@pytest.mark.parametrize("text", [PIPELINE, GROUP], ids=["pipeline", "group"])
def test_submit_same_id_is_unchanged_or_refused_for_another_task(
    api: FakeCluster, send: Submitter, run: Run, text: str
) -> None:
    send(text)
    word = "group" if text is GROUP else "pipeline"
    submit = ("submit", "task.yaml", "--id", ID, "--detach")
    assert run(*submit)[1].startswith(f"{word}/{ID} unchanged")
    code, _, err = run(*submit, "--env", "START=1")
    assert (code, "belongs to a different task" in err) == (2, True), err
