"""Stop and clean on a cluster in memory: objects that change between list and delete."""

from datetime import timedelta

import pytest

from kubectl_sky.cluster import session as session_module
from kubectl_sky.errors import Forbidden
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks import find, stop
from kubectl_sky.tasks.find import Scope
from kubectl_sky.words import kinds, names
from tests import clock, fake_cluster
from tests.actions.conftest import Run, Submitter, disown
from tests.builders import ID
from tests.fake_cluster import FakeCluster

TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"
JOBS = [f"train-{ID}-node-0", f"train-{ID}-node-1"]
SCOPE = Scope("default", None)


def task(api: FakeCluster) -> TaskStatus:
    return find.get_task(api.session(), SCOPE, ID)


def test_stop_deletes_jobs_and_dependents_follow(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    api.start(JOBS[0])
    existing = task(api)
    api.requests.clear()
    stop.stop(api.session(), [existing])
    assert sorted(api.writes) == [f"delete jobs {name}" for name in JOBS]
    assert api.names() == []


def test_stop_killed_between_two_nodes_finishes_the_next_time(
    api: FakeCluster, send: Submitter
) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    send(TWO)
    api.before(f"delete jobs {JOBS[1]}", killed)
    with pytest.raises(KeyboardInterrupt):
        stop.stop(api.session(), [task(api)])
    assert [name for name in api.names() if name.startswith("jobs")] == [f"jobs {JOBS[1]}"]
    stop.stop(api.session(), [task(api)])
    assert api.names() == []


@pytest.mark.parametrize("words", [("stop", "--all"), ("clean", "--older-than", "0s")])
def test_stop_and_clean_of_all_tasks_read_pods_once(
    api: FakeCluster, send: Submitter, run: Run, words: tuple[str, ...]
) -> None:
    for number in range(3):
        send(TWO.replace("num_nodes: 2\n", ""), task_id=f"many000{number}")
        api.start(f"train-many000{number}")
        api.finish(f"train-many000{number}")
    api.requests.clear()
    assert run(*words, "--yes")[0] == 0
    assert api.names() == []
    assert api.count("list pods") == 1, "to see that they are gone"


def test_stop_deleted_task_succeeds(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    existing = task(api)
    stop.stop(api.session(), [existing])
    assert api.names() == []
    stop.stop(api.session(), [existing])
    assert api.names() == []


def test_stop_resubmitted_task_keeps_new_task(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    existing = task(api)
    stop.stop(api.session(), [existing])
    ui = send(TWO)
    stop.stop(api.session(), [existing])
    uids = {item["metadata"]["uid"] for item in ui.results[-1].workloads}
    assert set(task(api).uids.values()) == uids


def test_stop_incomplete_task_deletes_objects_without_owner(
    api: FakeCluster, send: Submitter
) -> None:
    send(TWO)
    for name in (name for name in api.names() if "-runtime-" not in name):
        plural, _, title = name.partition(" ")
        kind = next(kind for kind in api.kinds if kind.plural == plural)
        item = api.get(kind, title)
        item["metadata"].pop("ownerReferences", None)
        api.put(item)
    api.remove(kinds.JOB, JOBS[1])
    stop.stop(api.session(), [task(api)])
    assert api.names() == []


def test_stop_submit_killed_before_owners_deletes_all(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    disown(api)
    existing = task(api)
    assert not existing.incomplete, "all Jobs exist"
    stop.stop(api.session(), [existing])
    assert [name for name in api.names() if "-runtime-" not in name] == []


def test_stop_job_without_labels_is_deleted(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    job = api.get(kinds.JOB, JOBS[1])
    del job["metadata"]["labels"][names.TASK_ID]
    api.put(job)
    stop.stop(api.session(), [task(api)])
    assert api.names() == []


def test_stop_without_right_to_list_services_deletes_jobs(
    api: FakeCluster, send: Submitter
) -> None:
    send(TWO)
    existing = task(api)
    api.forbidden.add("list services")
    stop.stop(api.session(), [existing])
    assert not any(name.startswith("jobs") for name in api.names())


def test_stop_without_right_to_delete_is_error(api: FakeCluster, send: Submitter) -> None:
    send(TWO)
    api.forbidden.add("delete jobs")
    with pytest.raises(Forbidden, match="may not delete"):
        stop.stop(api.session(), [task(api)])


def test_clean_orphan_adopted_meanwhile_is_kept(api: FakeCluster, send: Submitter) -> None:
    """A submit in progress makes its Job the owner between the list and the delete."""
    send(TWO)
    disown(api)
    for name in JOBS:
        api.remove(kinds.JOB, name)
    orphans, _ = stop.list_orphans(api.session(), SCOPE)
    assert len(orphans) == 3
    service = api.get(kinds.SERVICE, f"train-{ID}")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": JOBS[0]}}
    service["metadata"]["ownerReferences"] = [{"uid": api.put(job)["metadata"]["uid"]}]
    api.before("delete services", lambda: api.put(service))
    stop.delete_orphans([(api.session(), item) for item in orphans])
    assert f"services train-{ID}" in api.names()
    assert f"configmaps train-{ID}" not in api.names()


@pytest.mark.parametrize(("seconds", "expected"), [(-1, 0), (0, 0), (-3600, -3600)])
def test_clock_of_server_within_resolution_of_date_is_ours(
    api: FakeCluster, monkeypatch: pytest.MonkeyPatch, seconds: int, expected: int
) -> None:
    now = clock.stop(monkeypatch, session_module)
    monkeypatch.setattr(fake_cluster, "time", now.timestamp)
    api.ahead = timedelta(seconds=seconds)
    session = api.session()
    find.list_tasks(session, Scope("default", None))
    assert session.now() - now == timedelta(seconds=expected)


@pytest.mark.parametrize("clock", [-1.5, 0, 1.5])
def test_clean_wrong_client_clock_keeps_objects_of_running_submit(
    api: FakeCluster, send: Submitter, run: Run, clock: float
) -> None:
    api.ahead = timedelta(hours=clock)
    send(TWO)
    disown(api)
    for name in JOBS:
        api.remove(kinds.JOB, name)
    code, _, err = run("clean", "--yes")
    assert (code, "younger than 10 minutes kept" in err) == (0, True), err
    assert {f"configmaps train-{ID}", f"services train-{ID}"} <= set(api.names())


@pytest.mark.parametrize(
    ("lost_job", "unowned", "remaining"),
    [(True, False, True), (False, True, True), (False, False, False)],
    ids=["not all Jobs", "no owners", "complete"],
)
def test_stop_without_right_to_list_secrets_warns_of_killed_submits(
    api: FakeCluster, send: Submitter, lost_job: bool, unowned: bool, remaining: bool
) -> None:
    send(TWO)
    if unowned or lost_job:
        disown(api)
    if lost_job:
        api.remove(kinds.JOB, JOBS[1])
    api.forbidden.add("list secrets")
    warnings = stop.stop(api.session(), [task(api)])
    assert [f"interrupted submit of task {ID} may remain" in text for text in warnings] == (
        [True] if remaining else []
    )
    left = [name for name in api.names() if "-runtime-" not in name]
    assert left == ([f"secrets train-{ID}"] if remaining else [])


def test_stop_and_clean_object_with_labels_of_task_and_other_name_is_kept(
    api: FakeCluster, send: Submitter, run: Run
) -> None:
    send(TWO)
    disown(api)
    labels = api.get(kinds.CONFIG_MAP, f"train-{ID}")["metadata"]["labels"]
    for kind, name in (("ConfigMap", "precious"), ("Service", f"{ID}x")):
        metadata = {"name": name, "namespace": "default", "labels": labels}
        api.put({"apiVersion": "v1", "kind": kind, "metadata": metadata})
    run("stop", ID, "--yes")
    run("clean", "--yes", "--older-than", "0s")
    assert api.names() == ["configmaps precious", f"services {ID}x"]


def test_stop_killed_submit_with_right_to_list_secrets_returns_nothing(
    api: FakeCluster, send: Submitter
) -> None:
    send(TWO)
    api.remove(kinds.JOB, JOBS[1])
    assert stop.stop(api.session(), [task(api)]) == []
