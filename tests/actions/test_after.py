"""A task that starts when another one has succeeded, on a cluster in memory."""

from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kubectl_sky.cli.tasks import details, pipeline_details
from kubectl_sky.cluster.connection import Connection
from kubectl_sky.errors import TaskFailed, UserError
from kubectl_sky.observe.pipelines import PipelineStatus
from kubectl_sky.tasks import doctor, find, pending, pipeline
from kubectl_sky.tasks.find import Target, get_by_label, tasks_of
from kubectl_sky.tasks.ui import UI
from kubectl_sky.tasks.watch import Wait
from kubectl_sky.words import kinds, names
from kubectl_sky_server.controllers.loop import Loop
from kubectl_sky_server.controllers.tasks import TasksController
from tests.actions.conftest import Submitter, shorten_waits
from tests.actions.test_lead import CHAIN, STAGES, run
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

TRAIN = "train001"
EVAL = "eval0001"


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    shorten_waits(monkeypatch)
    return FakeCluster()


@pytest.fixture
def send(api: FakeCluster, tmp_path: Path) -> Submitter:
    return Submitter(api, tmp_path)


def send_both(send: Submitter) -> None:
    send("name: train\nrun: 'true'\n", task_id=TRAIN)
    send("name: eval\nrun: 'true'\n", task_id=EVAL, after="train")


def job(api: FakeCluster, name: str = f"eval-{EVAL}") -> dict[str, Any]:
    return api.get(kinds.JOB, name)


def is_resumed(api: FakeCluster, name: str) -> bool:
    return not job(api, name)["spec"].get("suspend")


def end(api: FakeCluster, exit_code: int = 0) -> None:
    api.start(f"train-{TRAIN}")
    api.finish(f"train-{TRAIN}", exit_code)


def target_of(api: FakeCluster, task_id: str = EVAL) -> Target:
    return get_by_label(api.session(Connection()), "default", names.TASK_ID, task_id)


def start_after(api: FakeCluster) -> list[str]:
    notes: list[str] = []
    pipeline.start_after(api.session(), target_of(api), Wait(timeout=60, leads=True), notes.append)
    return notes


def test_after_task_is_suspended_until_predecessor_has_succeeded(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)
    assert job(api)["spec"]["suspend"] is True
    assert target_of(api).note == f"suspended until train ({TRAIN}) has succeeded"
    assert "To continue, run: kubectl sky wait eval0001 --continue" in "\n".join(send.ui.noted)
    api.before("watch jobs", lambda: end(api))
    assert start_after(api) == [f"eval: starts when train ({TRAIN}) has succeeded"]
    assert job(api)["spec"]["suspend"] is False
    assert start_after(api) == []


def test_after_failed_predecessor_cancels_task(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    end(api, 3)
    with pytest.raises(TaskFailed, match=rf"was cancelled: train \({TRAIN}\) has failed"):
        start_after(api)
    assert [text for text in api.names() if "eval" in text] == []


def test_after_deleted_predecessor_leaves_task_suspended(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    api.remove(kinds.JOB, f"train-{TRAIN}")
    with pytest.raises(TaskFailed, match=rf"does not start: train \({TRAIN}\) was deleted"):
        start_after(api)
    assert job(api)["spec"]["suspend"] is True


def test_wait_ends_when_the_predecessor_cannot_succeed_any_more(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)

    def wait_for() -> None:
        pipeline.wait_for_all(api.session(), [target_of(api)], Wait(timeout=60, leads=False), UI())

    api.before("watch jobs", lambda: end(api, 3))
    with pytest.raises(TaskFailed, match=rf"does not start: train \({TRAIN}\) has failed"):
        wait_for()
    api.remove(kinds.JOB, f"train-{TRAIN}")
    with pytest.raises(TaskFailed, match=rf"does not start: train \({TRAIN}\) was deleted"):
        wait_for()
    assert job(api)["spec"]["suspend"] is True


def test_wait_names_the_command_that_continues_a_task_whose_predecessor_has_succeeded(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)
    end(api)
    notes: list[str] = []
    wait = Wait(timeout=60, leads=False)
    pipeline.start_after(api.session(), target_of(api), wait, notes.append)
    assert notes == [
        f"eval is suspended, although train ({TRAIN}) has succeeded: the client that follows it,"
        f" or `kubectl sky wait {EVAL} --continue`, resumes it"
    ]
    pipeline.resume(api.session(), *tasks_of(target_of(api)))
    pipeline.start_after(api.session(), target_of(api), wait, notes.append)
    assert len(notes) == 1


def test_status_names_the_command_that_continues_a_task_or_pipeline(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)
    session = api.session(Connection())
    step = f"kubectl sky wait {EVAL} --continue"
    assert step not in details(pending.explain_pending(session, *tasks_of(target_of(api))))
    end(api)
    assert step in details(pending.explain_pending(session, *tasks_of(target_of(api))))

    send(CHAIN)
    step = f"kubectl sky wait {ID} --continue"
    assert step not in pipeline_details(chain_of(api))
    run(api, 0)
    assert step in pipeline_details(chain_of(api))


def chain_of(api: FakeCluster) -> PipelineStatus:
    chain = get_by_label(api.session(Connection()), "default", names.PIPELINE, ID)
    assert isinstance(chain, PipelineStatus)
    return chain


def test_chain_is_continued_from_its_beginning(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    send("name: report\nrun: 'true'\n", task_id="report01", after="eval")
    api.before("watch jobs", lambda: end(api))

    def finish_eval() -> None:
        api.start(f"eval-{EVAL}")
        api.finish(f"eval-{EVAL}")

    api.before("patch jobs", finish_eval)  # its resumption
    notes: list[str] = []
    target = target_of(api, "report01")
    pipeline.start_after(api.session(), target, Wait(timeout=60, leads=True), notes.append)
    assert notes == [
        f"report: starts when eval ({EVAL}) has succeeded",
        f"eval: starts when train ({TRAIN}) has succeeded",
    ]
    assert is_resumed(api, "report-report01")


def note_of(api: FakeCluster, *shown: str) -> str:
    session = api.session()
    listed = find.list_tasks(session, find.Scope("default", None))
    chosen = [task for task in listed if task.id in shown]
    tasks = pending.explain_all(session, "default", chosen)
    return next(task.note for task in tasks if task.id == EVAL)


def test_list_says_whether_predecessor_has_succeeded(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    note = partial(note_of, api)
    waits = f"suspended until train ({TRAIN}) has succeeded"
    assert note(TRAIN, EVAL) == note(EVAL) == waits
    end(api)
    due = f"suspended, although train ({TRAIN}) has succeeded"
    assert note(TRAIN, EVAL) == note(EVAL) == due


def test_list_says_that_predecessor_is_lost(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    note = partial(note_of, api)
    end(api, 3)
    failed = f"it does not start: train ({TRAIN}) has failed"
    assert note(TRAIN, EVAL) == note(EVAL) == failed
    api.remove(kinds.JOB, f"train-{TRAIN}")
    assert note(EVAL) == f"it does not start: train ({TRAIN}) was deleted"


def test_doctor_says_whether_predecessor_has_succeeded(api: FakeCluster, send: Submitter) -> None:
    send_both(send)
    (task,) = tasks_of(target_of(api))

    def cause() -> str:
        return doctor.why_pending(api.session(), task)

    assert cause() == f"suspended until train ({TRAIN}) has succeeded"
    end(api)
    assert cause() == f"suspended, although train ({TRAIN}) has succeeded"


def test_doctor_says_why_predecessor_can_no_longer_succeed(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)
    (task,) = tasks_of(target_of(api))

    def cause() -> str:
        return doctor.why_pending(api.session(), task)

    end(api, 3)
    assert cause() == f"it does not start: train ({TRAIN}) has failed"
    api.remove(kinds.JOB, f"train-{TRAIN}")
    assert cause() == f"it does not start: train ({TRAIN}) was deleted"


def test_after_succeeded_predecessor_starts_at_once_and_failed_one_is_refused(
    api: FakeCluster, send: Submitter
) -> None:
    send("name: train\nrun: 'true'\n", task_id=TRAIN)
    end(api)
    send("name: eval\nrun: 'true'\n", task_id=EVAL, after="train")
    assert "suspend" not in job(api)["spec"]
    send("name: bad\nrun: 'true'\n", task_id="bad00001")
    api.start("bad-bad00001")
    api.finish("bad-bad00001", 3)
    with pytest.raises(UserError, match=r"after bad: task bad00001 \(bad\) has failed"):
        send("name: late\nrun: 'true'\n", task_id="late0001", after="bad")


def test_dependency_of_batch_script_waits_unless_flag_names_another_task(
    api: FakeCluster, send: Submitter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    send("name: train\nrun: 'true'\n", task_id=TRAIN)
    send("name: other\nrun: 'true'\n", task_id="other001")
    script = "#!/bin/bash\n#SBATCH -J eval -d afterok:train\necho\n"
    send(script, task_id=EVAL)
    note = "--dependency: starts when train has succeeded, unless --after names another task"
    assert send.ui.noted.count(note) == 1
    assert target_of(api).note == f"suspended until train ({TRAIN}) has succeeded"
    send(script, task_id="eval0002", after="other")
    assert target_of(api, "eval0002").note == "suspended until other (other001) has succeeded"
    assert send.ui.noted.count(note) == 1


def test_after_pipeline_resumes_only_first_stage(api: FakeCluster, send: Submitter) -> None:
    send("name: train\nrun: 'true'\n", task_id=TRAIN)
    send(CHAIN, after="train")
    end(api)
    session = api.session(Connection())
    chain = get_by_label(session, "default", names.TASK_ID, STAGES[0].split("-")[1])
    assert pipeline.needs_action(chain)
    pipeline.lead(session, chain, datetime.now(UTC))
    assert [job(api, stage)["spec"]["suspend"] for stage in STAGES] == [False, True, True]


def test_controller_resumes_what_waits_for_task_or_pipeline(
    api: FakeCluster, send: Submitter
) -> None:
    send_both(send)
    send(CHAIN)
    send("name: report\nrun: 'true'\n", task_id="report01", after="chain")
    loop = Loop(TasksController(api.session(), None), api.session(), "default")
    loop.start()

    try:
        assert job(api)["spec"]["suspend"] is True
        end(api)
        eventually(lambda: job(api)["spec"]["suspend"] is False)
        for stage in range(3):
            assert job(api, "report-report01")["spec"]["suspend"] is True
            eventually(partial(is_resumed, api, STAGES[stage]))
            run(api, stage)
        eventually(lambda: job(api, "report-report01")["spec"]["suspend"] is False)
    finally:
        loop.stop()
        loop.join(60)
