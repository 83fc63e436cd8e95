"""Find tasks on a cluster in memory: by id, prefix and name, and when deleted meanwhile."""

from datetime import timedelta

import pytest

from kubectl_sky.errors import UserError
from kubectl_sky.observe.ownership import Missing
from kubectl_sky.tasks import find, submissions
from kubectl_sky.tasks.find import Scope, TaskNotFound
from kubectl_sky.words import kinds, names, owners
from tests.actions.conftest import Run, Submitter
from tests.builders import ID, make_job
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
OTHER = "bcdg6789"
ALICE = Scope("default", owners.name_owner("alice"))


@pytest.fixture
def tasks(api: FakeCluster, send: Submitter) -> None:
    send(HELLO)
    send(HELLO.replace("hello", "train"), task_id=OTHER)


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize("text", [ID, ID[:4], "hello", f"task/{ID}"])
def test_find_by_id_prefix_or_name_returns_task(api: FakeCluster, text: str) -> None:
    assert find.get_task(api.session(), ALICE, text).id == ID


@pytest.mark.usefixtures("tasks")
def test_find_ambiguous_prefix_is_refused(api: FakeCluster) -> None:
    with pytest.raises(UserError, match='"bcd" matches 2 tasks'):
        find.get_task(api.session(), ALICE, "bcd")


@pytest.mark.usefixtures("tasks")
def test_find_task_of_other_user_is_refused(api: FakeCluster) -> None:
    bob = Scope("default", owners.name_owner("bob"))
    for text in (ID, ID[:4], "hello"):
        with pytest.raises(UserError, match=f'task "{text}" belongs to alice'):
            find.get_task(api.session(), bob, text)
    with pytest.raises(TaskNotFound, match="`kubectl sky serve status` for services"):
        find.get_task(api.session(), bob, "helo")
    with pytest.raises(TaskNotFound, match=r'task "helo" not found .* did you mean "hello"'):
        find.get_task(api.session(), ALICE, "helo")
    with pytest.raises(TaskNotFound, match=f'did you mean "{ID}"'):
        find.get_task(api.session(), ALICE, f"job/hello-{ID}-node-0")
    with pytest.raises(TaskNotFound, match='did you mean "hello"'):
        find.get_task(api.session(), ALICE, "job/hello")


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize("text", [ID, "hello"])
def test_find_task_deleted_between_requests_is_not_found(api: FakeCluster, text: str) -> None:
    api.after("list jobs", lambda: api.remove(kinds.JOB, f"hello-{ID}"))
    with pytest.raises(TaskNotFound, match="not found in namespace"):
        find.get_task(api.session(), ALICE, text)


@pytest.mark.parametrize(
    ("hours", "missing"), [(0, Missing.DELETED), (2, Missing.EXPIRED)], ids=["early", "late"]
)
def test_find_missing_node_has_expired_by_clock_of_server(
    api: FakeCluster, send: Submitter, hours: int, missing: Missing
) -> None:
    send("name: train\nnum_nodes: 2\nrun: echo\n")
    job = api.get(kinds.JOB, f"train-{ID}-node-0")
    api.change(kinds.JOB, f"train-{ID}-node-0", spec=job["spec"] | {"ttlSecondsAfterFinished": 600})
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    api.ahead = timedelta(hours=hours)
    assert find.get_task(api.session(), ALICE, ID).missing is missing


def test_find_id_of_pipeline_label_without_task_is_not_found(api: FakeCluster) -> None:
    job = make_job()
    job["metadata"]["labels"] = {"pipeline": ID, "skypilot-task": "true"}
    api.put(job)
    with pytest.raises(TaskNotFound, match="not found in namespace"):
        find.get_task(api.session(), ALICE, ID)


@pytest.mark.usefixtures("tasks")
def test_refetch_deleted_task_is_none(api: FakeCluster) -> None:
    task = find.get_task(api.session(), ALICE, ID)
    api.remove(kinds.JOB, f"hello-{ID}")
    assert find.refetch(api.session(), task) is None


def test_find_pipeline_by_id_or_name_returns_tasks(api: FakeCluster, send: Submitter) -> None:
    send(PIPELINE)
    for text in (ID, "both", f"pipeline/{ID}"):
        assert [task.name for task in find.get_tasks(api.session(), ALICE, [text])] == [
            "one",
            "two",
        ]
    with pytest.raises(UserError, match=f"pipeline {ID} has several tasks"):
        find.get_task(api.session(), ALICE, ID)


@pytest.mark.usefixtures("tasks")
def test_find_served_kinds_are_discovered_once_per_session(api: FakeCluster) -> None:
    session = api.session()
    find.list_tasks(session, ALICE)
    find.list_tasks(session, ALICE)
    assert api.requests.count("get /apis") == 2 + 1  # the two submits used other sessions


@pytest.mark.parametrize("label", [names.TASK, names.TASK_ID, names.USERNAME, names.NODE_IDX])
def test_task_whose_job_lost_label_failed_and_advice_works(
    api: FakeCluster, run: Run, send: Submitter, label: str
) -> None:
    two = HELLO.replace("run", "num_nodes: 2\nrun")
    send(two)
    job = api.get(kinds.JOB, f"hello-{ID}-node-1")
    del job["metadata"]["labels"][label]
    api.put(job)
    assert "node-1: JobNotFound" in run("list")[1]
    assert f"run `kubectl sky stop {ID}` and submit the task again" in run("doctor", ID)[1]
    assert run("stop", ID)[0] == 0
    assert api.names() == []
    send(two)
    assert api.count("create jobs") == 4


def scope(notes: list[str]) -> Scope:
    """The scope of a command."""
    return Scope("default", owners.name_owner("alice"), submissions.newest(notes.append))


def copy_job(api: FakeCluster, task_id: str = "copied01") -> None:
    """Create a newer task of the same name and owner, as from another machine."""
    job = api.get(kinds.JOB, f"hello-{ID}")
    for key in ("uid", "resourceVersion"):
        del job["metadata"][key]
    job["metadata"] |= {"name": f"hello-{task_id}", "creationTimestamp": "2099-01-01T00:00:00Z"}
    job["metadata"]["labels"]["task-id"] = task_id
    api.put(job)


def test_find_last_task_is_last_one_of_this_machine_then_newest(
    api: FakeCluster, send: Submitter
) -> None:
    send(HELLO)
    copy_job(api)
    notes = list[str]()
    assert find.get_task(api.session(), scope(notes), None).id == ID
    api.remove(kinds.JOB, f"hello-{ID}")
    assert find.get_task(api.session(), scope(notes), None).id == "copied01"
    assert notes == [f"last task: {ID} (hello)", "last task: copied01 (hello)"]


def test_find_150_ids_sends_two_requests_per_kind_and_step(
    api: FakeCluster, send: Submitter
) -> None:
    send(HELLO)
    ids = [f"many{number:04d}" for number in range(150)]
    for task_id in ids:
        copy_job(api, task_id)
    api.requests.clear()
    assert [task.id for task in find.get_tasks(api.session(), ALICE, [*ids, ids[0]])] == ids
    lists = [request for request in api.requests if request.startswith("list ")]
    by_id_and_status = 2 + 2
    assert lists.count("list jobs") == by_id_and_status
    assert lists.count("list pods") == 2
    assert len(lists) == by_id_and_status + 2


@pytest.mark.usefixtures("tasks")
def test_find_several_references_raises_error_of_first_wrong_one(api: FakeCluster) -> None:
    for references in ([ID, "bcd", "nowhere1"], ["hello", "bcd", "nothing"]):
        with pytest.raises(UserError, match='"bcd" matches 2 tasks'):
            find.get_targets(api.session(), ALICE, references)
    with pytest.raises(TaskNotFound, match='task "nowhere1" not found'):
        find.get_targets(api.session(), ALICE, [OTHER, "nowhere1", "bcd"])


def test_find_pipelines_and_tasks_by_id_keeps_order(api: FakeCluster, send: Submitter) -> None:
    send(PIPELINE)
    send(HELLO, task_id=OTHER)
    targets = find.get_targets(api.session(), ALICE, [OTHER, ID])
    assert [target.id for target in targets] == [OTHER, ID]
    assert [len(find.tasks_of(target)) for target in targets] == [1, 2]
