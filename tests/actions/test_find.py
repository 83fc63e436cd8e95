"""Find tasks on a cluster in memory: by id, prefix and name, and when deleted meanwhile."""

import pytest

from kubectl_sky import kinds, users
from kubectl_sky.actions import find
from kubectl_sky.actions.find import Scope, TaskNotFound
from kubectl_sky.errors import UserError
from tests.actions.conftest import Submitter
from tests.builders import ID
from tests.fake_cluster import FakeCluster

HELLO = "name: hello\nrun: echo hello\n"
PIPELINE = "name: both\n---\nname: one\nrun: 'true'\n---\nname: two\nrun: 'true'\n"
OTHER = "bcdg6789"
ALICE = Scope("default", users.named("alice"))


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
    bob = Scope("default", users.named("bob"))
    with pytest.raises(UserError, match=f"task {ID} belongs to alice"):
        find.get_task(api.session(), bob, ID)
    with pytest.raises(TaskNotFound, match='task "hello" not found in namespace "default"'):
        find.get_task(api.session(), bob, "hello")


@pytest.mark.usefixtures("tasks")
@pytest.mark.parametrize("text", [ID, "hello"])
def test_find_task_deleted_between_requests_is_not_found(api: FakeCluster, text: str) -> None:
    api.after("list jobs", lambda: api.remove(kinds.JOB, f"hello-{ID}"))
    with pytest.raises(TaskNotFound, match="not found in namespace"):
        find.get_task(api.session(), ALICE, text)


@pytest.mark.usefixtures("tasks")
def test_refetch_deleted_task_is_none(api: FakeCluster) -> None:
    seen = find.get_task(api.session(), ALICE, ID)
    api.remove(kinds.JOB, f"hello-{ID}")
    assert find.refetch(api.session(), seen) is None


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
