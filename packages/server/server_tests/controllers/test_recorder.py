"""The tasks controller keeps the last states of finished tasks in one ConfigMap."""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, history
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names
from kubectl_sky.words.owners import User
from kubectl_sky.words.settings import Settings
from kubectl_sky_server.controllers import recorder
from kubectl_sky_server.controllers.recorder import Recorder
from kubectl_sky_server.install.model import Flags, controllers_install
from server_tests.controllers.conftest import running
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster
from tests.polling import eventually

TASK = "name: train\nrun: 'true'\n"
WIDE = "name: wide\nnum_nodes: 3\nresources: {accelerators: 'A100:8'}\nrun: 'true'\n"
CREATE = f"create configmaps {names.HISTORY}"
PATCH = f"patch configmaps {names.HISTORY}"

WORDS = "token hunter2"
EMPTY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": names.HISTORY}}
STORED = json.dumps(
    {
        "id": ID, "name": "train", "namespace": "default", "user": "alice", "num_nodes": 1,
        "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:09:00Z",
        "nodes": [
            {
                "index": 0, "name": "node-0", "job": f"train-{ID}", "state": "failed",
                "pod": f"train-{ID}-x", "restarts": 0, "reason": "OOMKilled", "exit_code": 137,
                "started_at": "2026-01-01T00:01:00Z", "ended_at": "2026-01-01T00:09:00Z",
            }
        ],
        "labels": {"username": "alice"}, "missing": "expired", "logs": "out:logs",
        "requested": {"image": "python:3.13-slim", "resources": {"gpus": 8, "cpus": "4"}},
    }
)  # fmt: skip


@pytest.fixture(autouse=True)
def settle_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "_SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(Recorder, "rest", 0.1)


def finish(api: FakeCluster, job: str, exit_code: int = 0) -> None:
    api.start(job)
    api.finish(job, exit_code)


def recorded(api: FakeCluster) -> dict[str, str]:
    """Return the ids of the recorded tasks, and their reasons."""
    try:
        data = api.get(kinds.CONFIG_MAP, names.HISTORY)["data"]
    except KeyError:
        return {}
    return {key: json.loads(text)["nodes"][0].get("reason", "") for key, text in data.items()}


def tasks_of(api: FakeCluster, send: Submitter) -> list[TaskStatus]:
    """Return a task that has failed."""
    send(TASK)
    finish(api, f"train-{ID}", 3)
    return find.list_tasks(api.session(), Scope("default", None))


def deleted(api: FakeCluster) -> list[TaskStatus]:
    return history.read(api.session(), Scope("default", None)).tasks


def test_recorder_records_each_finished_task_once_in_one_request(
    api: FakeCluster, send: Submitter
) -> None:
    for number in range(3):
        send(TASK, task_id=f"train00{number}")
        finish(api, f"train-train00{number}", number)
    for _ in range(2):  # a restart, or another leader
        with running(api, Recorder(api.session(), 10)):
            eventually(lambda: api.count(f"get configmaps {names.HISTORY}"))
            eventually(lambda: len(recorded(api)) == 3)
        api.remove(kinds.POD, next(name.split()[1] for name in api.names() if "pods " in name))
        api.requests.clear()
    assert (api.count(CREATE), api.count(PATCH)) == (0, 0)
    assert deleted(api) == []
    api.remove(kinds.JOB, "train-train002")
    (task,) = deleted(api)
    assert (task.id, task.state, task.note) == ("train002", "failed", "node-0: exit code 2")


def test_recorder_records_task_that_is_stopped_while_it_runs(
    api: FakeCluster, send: Submitter
) -> None:
    send(WIDE)
    jobs = [name.split()[1] for name in api.names() if name.startswith("jobs ")]
    with running(api, Recorder(api.session(), 10)):
        api.start(jobs[0])
        eventually(lambda: api.count("watch jobs"))
        for job in jobs:
            api.remove(kinds.JOB, job)
        eventually(lambda: recorded(api))
    (task,) = deleted(api)
    assert (task.state, task.detailed_status, task.ready) == ("failed", "stopped", 0)
    assert task.requested.resources.gpus == 8
    assert task.note == "pods deleted: the task was stopped"


def test_recorder_keeps_the_exit_code_of_task_that_is_deleted_at_once(
    api: FakeCluster, send: Submitter
) -> None:
    send(TASK, task_id="train001")
    with running(api, Recorder(api.session(), 10)):
        eventually(lambda: api.count("watch jobs") and api.count("watch pods"))
        finish(api, "train-train001", 3)
        api.remove(kinds.JOB, "train-train001")
        eventually(lambda: recorded(api))
    (task,) = deleted(api)
    assert (task.state, task.note) == ("failed", "node-0: exit code 3")


def test_recorder_keeps_what_the_time_of_task_went_into(api: FakeCluster, send: Submitter) -> None:
    logs = {"train": b"step 1\nstep 2\nstep 3\n", "quiet": b"hello\n", "short": b"step 1\nstep 2\n"}
    for name in ("train", "quiet"):
        send(TASK.replace("train", name), task_id=f"{name}001")
        api.log(api.start(f"{name}-{name}001"), logs[name])
    api.ahead += timedelta(minutes=2)
    send(TASK.replace("train", "short"), task_id="short001")
    api.log(api.start("short-short001"), logs["short"])
    api.ahead += timedelta(seconds=30)
    api.finish("short-short001", 0)
    api.finish("train-train001", 0)
    api.finish("quiet-quiet001", 0)
    with running(api, Recorder(api.session(), 10)):
        eventually(lambda: len(recorded(api)) == 3)
    known = {task.id: task for task in find.list_tasks(api.session(), Scope("default", None))}
    shown = known["train001"].goodput
    assert shown and shown.steps == 3
    assert (known["quiet001"].goodput, known["short001"].goodput) == (None, None)

    api.remove(kinds.JOB, "train-train001")
    (task,) = deleted(api)
    assert task.goodput == shown


def test_recorder_replaces_record_of_task_that_is_submitted_again(
    api: FakeCluster, send: Submitter
) -> None:
    with running(api, Recorder(api.session(), 10)):
        send(TASK, task_id="train001")
        finish(api, "train-train001", 3)
        eventually(lambda: recorded(api) == {"train001": "Error"})
        api.remove(kinds.JOB, "train-train001")
        api.ahead += timedelta(minutes=1)
        send(TASK, task_id="train001")
        assert deleted(api) == []
        finish(api, "train-train001")
        eventually(lambda: recorded(api) == {"train001": ""})


def test_recorder_where_it_may_not_write_says_so_once_and_tries_again(
    api: FakeCluster, send: Submitter, caplog: pytest.LogCaptureFixture
) -> None:
    send(TASK)
    finish(api, f"train-{ID}")
    api.forbidden.add("create configmaps")
    with running(api, Recorder(api.session(), 10)):
        eventually(lambda: api.count(CREATE) > 2)
        api.forbidden.clear()
        eventually(lambda: recorded(api))
    (line,) = [text for text in caplog.messages if "retrying" in text]
    assert line.startswith("default: forbidden") and "configmaps" in line


def test_history_keeps_the_newest_tasks_that_fit(
    api: FakeCluster, send: Submitter, monkeypatch: pytest.MonkeyPatch
) -> None:
    (task,) = tasks_of(api, send)
    times = {f"train00{number}": f"2026-01-01T00:00:0{number}Z" for number in range(5)}
    every = [replace(task, id=key, created_at=time, updated_at=time) for key, time in times.items()]
    api.put(EMPTY | {"data": {"broken": "{"}})
    assert history.record(api.session(), "default", every[:3], 2) == 3
    assert sorted(recorded(api)) == ["train001", "train002"]
    size = sum(map(len, api.get(kinds.CONFIG_MAP, names.HISTORY)["data"].values()))
    monkeypatch.setattr(history, "_MAX_BYTES", size + 2 * len(task.id))
    history.record(api.session(), "default", every, 100)
    assert sorted(recorded(api)) == ["train003", "train004"]


def test_record_of_a_wide_failed_task_is_small_and_has_the_same_row(
    api: FakeCluster, send: Submitter
) -> None:
    (task,) = tasks_of(api, send)
    (node,) = task.nodes
    nodes = [
        replace(node, index=rank, name=f"node-{rank}", message="long " * 100, reason="OOMKilled")
        for rank in range(512)
    ]
    nodes[7] = replace(nodes[7], state=State.COMPLETED, reason="")
    wide = replace(task, nodes=tuple(nodes), num_nodes=512)
    history.record(api.session(), "default", [wide], 1)
    api.remove(kinds.JOB, f"train-{ID}")
    (shown,) = deleted(api)
    assert (shown.note, shown.ready) == (wide.note, wide.ready) == (shown.note, 1)
    assert len(api.get(kinds.CONFIG_MAP, names.HISTORY)["data"][ID]) < 90_000


def test_history_reads_records_of_earlier_versions(api: FakeCluster) -> None:
    """A field of TaskStatus that is renamed would lose the history of all users."""
    api.put(EMPTY | {"data": {ID: STORED}})
    (task,) = deleted(api)
    assert (task.name, task.user, task.state, task.logs) == ("train", "alice", "failed", "out:logs")
    assert task.note == "node-0: OOMKilled (exit code 137)"
    assert history.read(api.session(), Scope(None, User("bob"))).tasks == []


def test_record_has_no_words_of_the_program(api: FakeCluster, send: Submitter) -> None:
    send(TASK)
    api.start(f"train-{ID}")
    api.finish(f"train-{ID}", 1, message=f"ValueError: cannot log in with {WORDS}")
    (task,) = find.list_tasks(api.session(), Scope("default", None))
    assert WORDS in task.note
    history.record(api.session(), "default", [task], 1)
    assert WORDS not in json.dumps(api.get(kinds.CONFIG_MAP, names.HISTORY))
    api.remove(kinds.JOB, f"train-{ID}")
    (shown,) = deleted(api)
    assert shown.note == "node-0: exit code 1"


def test_record_of_a_task_with_a_bucket_has_no_secret_variable(
    api: FakeCluster, send: Submitter
) -> None:
    send(f"{TASK}envs: {{WANDB_API_KEY: hunter2}}\nfile_mounts: {{/in: 's3://data/images'}}\n")
    finish(api, f"train-{ID}")
    (task,) = find.list_tasks(api.session(), Scope("default", None))
    assert task.mounts
    history.record(api.session(), "default", [task], 1)
    assert "hunter2" not in json.dumps(api.get(kinds.CONFIG_MAP, names.HISTORY))


def test_record_of_earlier_version_loses_words_of_the_program_when_written(
    api: FakeCluster, send: Submitter
) -> None:
    (task,) = tasks_of(api, send)
    node = json.loads(STORED)["nodes"][0] | {"message": WORDS}
    old = json.loads(STORED) | {"id": "old00001", "nodes": [node], "causes": {"OOMKilled": WORDS}}
    api.put(EMPTY | {"data": {"old00001": json.dumps(old)}})
    assert all(WORDS not in task.note for task in deleted(api))
    history.record(api.session(), "default", [task], 10)
    assert sorted(recorded(api)) == sorted(["old00001", ID])
    assert WORDS not in json.dumps(api.get(kinds.CONFIG_MAP, names.HISTORY))


@pytest.mark.parametrize(
    "change",
    [
        {"nodes": []},
        {"nodes": [{"index": 0}]},
        {"backend": "unknown"},
        {"updated_at": 7},
        {"member": {"id": "p", "title": "p", "stage": 1, "stages": 10**12}},
    ],
)
def test_history_counts_record_that_it_cannot_read(
    api: FakeCluster, change: dict[str, object]
) -> None:
    bad = json.loads(STORED) | change
    api.put(EMPTY | {"data": {ID: STORED, "aaaaaaa1": json.dumps(bad)}})
    past = history.read(api.session(), Scope(None, None))
    assert [task.id for task in past.tasks] == [ID]
    assert past.notes == ["namespace default: 1 record of a deleted task cannot be read"]


def test_history_setting_adds_the_rights_on_one_configmap_and_on_logs() -> None:
    def rules(number: int) -> list[object]:
        (install,) = controllers_install(
            Flags("team-a"), ["tasks"], settings=Settings(history=number)
        )
        return [rule for role in install.roles for rule in role.rules]

    assert [rule for rule in rules(10) if rule not in rules(0)] == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "verbs": ["get", "patch"],
            "resourceNames": [names.HISTORY],
        },
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    ]
