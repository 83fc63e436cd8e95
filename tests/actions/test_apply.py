"""Apply on a cluster in memory: failures, lost responses, Ctrl-C and other users, step by step."""

from collections.abc import Callable
from pathlib import Path

import pytest

from kubectl_sky.actions.identity import whoami
from kubectl_sky.cluster import access
from kubectl_sky.errors import ClusterError, Interrupted, SkyError, UserError
from kubectl_sky.words import kinds
from tests.actions.conftest import Submitter, lose
from tests.builders import ID, Json
from tests.fake_cluster import FakeCluster, interrupt, lost

TWO = "name: train\nnum_nodes: 2\nrun: echo hello\n"
CREATED = [
    f"configmaps train-{ID}",
    f"jobs train-{ID}-node-0",
    f"jobs train-{ID}-node-1",
    f"secrets train-{ID}",
    f"services train-{ID}",
]
PATCHES = ["patch configmaps", "patch secrets", "patch services"]  # sets owners, at the end


def task_objects(api: FakeCluster) -> list[str]:
    """Return the objects of the task, without the scripts that all tasks share."""
    return [name for name in api.names() if "-runtime-" not in name]


@pytest.fixture
def files(tmp_path: Path) -> str:
    """A task whose local file goes to a ConfigMap that other tasks may use too."""
    (tmp_path / "data.txt").write_text("some data")
    return TWO + f"file_mounts: {{/data.txt: {tmp_path / 'data.txt'}}}\n"


FAILURES: list[tuple[Callable[[], object], type[SkyError]]] = [
    (lambda: 403, ClusterError),
    (lambda: 422, ClusterError),
    (lambda: 500, ClusterError),
    (interrupt, Interrupted),
]


@pytest.mark.parametrize(("failure", "error"), FAILURES)
@pytest.mark.parametrize("request_", [f"create {name}" for name in CREATED] + PATCHES)
def test_write_that_fails_or_is_interrupted_leaves_no_objects(
    api: FakeCluster,
    send: Submitter,
    request_: str,
    failure: Callable[[], object],
    error: type[SkyError],
) -> None:
    (api.after if error is Interrupted else api.before)(request_, failure)
    with pytest.raises(error):
        send(TWO)
    assert api.names() == []
    assert send.ui.results == []


def test_adopt_failure_without_right_to_delete_names_both(
    api: FakeCluster, send: Submitter
) -> None:
    api.before("patch services", lambda: 422)
    api.forbidden.add("delete jobs")
    with pytest.raises(ClusterError) as caught:
        send(TWO)
    jobs = f"jobs.batch train-{ID}-node-0, jobs.batch train-{ID}-node-1"
    assert "the cluster refuses services" in caught.value.what
    assert caught.value.what.endswith(f"could not be deleted: {jobs}")
    assert set(api.names()) == {name for name in CREATED if name.startswith("jobs")}


def test_create_failure_without_right_to_delete_shared_files_names_the_cause(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    api.before("create jobs", lambda: 422)
    api.forbidden.add("delete configmaps")
    with pytest.raises(ClusterError, match="the cluster refuses jobs"):
        send(files)


@pytest.mark.parametrize("effective", [True, False])
@pytest.mark.parametrize("request_", CREATED)
def test_create_whose_connection_is_lost_is_sent_until_it_has_an_effect(
    api: FakeCluster, send: Submitter, request_: str, effective: bool
) -> None:
    (api.after if effective else api.before)(f"create {request_}", lost)
    send(TWO)
    assert task_objects(api) == CREATED
    assert api.count(f"create {request_}") == (1 if effective else 2)


@pytest.mark.parametrize("request_", CREATED[:3])
def test_create_connection_lost_then_failure_leaves_no_objects(
    api: FakeCluster, send: Submitter, request_: str
) -> None:
    """Objects created without a response are deleted too."""
    api.after(f"create {request_}", lost)
    api.before("patch services", lambda: 403)
    with pytest.raises(ClusterError):
        send(TWO)
    assert api.names() == []


def test_create_unreachable_after_effect_leaves_no_objects(
    api: FakeCluster, send: Submitter
) -> None:
    """Neither the response nor the check arrives; the rollback deletes the object."""
    request = f"create jobs train-{ID}-node-1"
    api.after(request, lost)
    lose(api, f"get jobs train-{ID}-node-1")
    with pytest.raises(ClusterError, match="the created objects were deleted again"):
        send(TWO)
    assert api.names() == []


def test_create_lost_and_get_forbidden_names_remaining_object(
    api: FakeCluster, send: Submitter
) -> None:
    api.after("create secrets", lost)
    api.before("get secrets", lambda: 403, nth=2)  # the first is the preflight check
    api.before("get secrets", lambda: 403, nth=3)
    with pytest.raises(ClusterError, match=f"could not be deleted: secrets train-{ID}"):
        send(TWO)
    assert api.names() == [f"secrets train-{ID}"]  # without its uid, it may belong to another user


def test_admission_check_connection_lost_is_repeated(api: FakeCluster, send: Submitter) -> None:
    api.after("create pods", lost)
    send(TWO)
    assert api.count("create pods") == 2


@pytest.mark.parametrize("review", ["selfsubjectreviews", "selfsubjectaccessreviews"])
def test_review_connection_lost_is_repeated(api: FakeCluster, review: str) -> None:
    api.after(f"create {review}", lost)
    session = api.session()
    assert (whoami(session, None)[0].name, access.may(session, "create", kinds.JOB)) == (
        "alice",
        True,
    )
    assert api.count(f"create {review}") == 2


def test_create_too_many_requests_is_retried(api: FakeCluster, send: Submitter) -> None:
    api.before("create jobs", lambda: 429)
    send(TWO)
    assert task_objects(api) == CREATED
    assert api.count("create jobs") == 3


def test_list_expired_is_repeated(api: FakeCluster, send: Submitter) -> None:
    api.before("list configmaps", lambda: 410)
    send(TWO)
    assert task_objects(api) == CREATED


def test_admission_check_interrupted_sends_no_objects(api: FakeCluster, send: Submitter) -> None:
    api.after("create pods", interrupt)
    with pytest.raises(KeyboardInterrupt):
        send(TWO)
    assert api.names() == []


@pytest.mark.parametrize("meanwhile", [True, False])
@pytest.mark.parametrize("kind", [kinds.CONFIG_MAP, kinds.SECRET, kinds.SERVICE])
def test_create_name_taken_by_other_user_is_refused(
    api: FakeCluster, send: Submitter, kind: kinds.Kind, meanwhile: bool
) -> None:
    name = f"{kind.plural} train-{ID}"
    foreign: Json = {"apiVersion": kind.api_version, "kind": kind.kind}
    foreign |= {"metadata": {"name": f"train-{ID}"}, "data": {"run.sh": "other"}}
    if meanwhile:
        api.before(f"create {name}", lambda: api.put(foreign))
    else:
        api.put(foreign)
    with pytest.raises(UserError, match="already exists and was not created by this task"):
        send(TWO)
    assert api.names() == [name]
    assert api.get(kind, f"train-{ID}")["data"] == {"run.sh": "other"}


def shared(send: Submitter, text: str) -> Json:
    """Return the ConfigMap with the local files of a task."""
    manifests = send(text, dry_run="client").previews[0].shared
    return next(item.object for item in manifests if "files-" in item.name)


def shared_name(api: FakeCluster) -> str:
    [name] = [name.split()[1] for name in api.names() if "configmaps files-" in name]
    return name


def owners(api: FakeCluster, name: str) -> list[str]:
    """Return the ConfigMaps of the tasks that keep a shared ConfigMap."""
    references = api.get(kinds.CONFIG_MAP, name)["metadata"]["ownerReferences"]
    return [reference["name"] for reference in references]


def test_shared_files_created_meanwhile_by_other_task_are_used(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    neighbour = shared(send, files)
    api.before(f"create configmaps {neighbour['metadata']['name']}", lambda: api.put(neighbour))
    send(files)
    assert owners(api, shared_name(api)) == [f"train-{ID}"]


def test_shared_files_of_other_task_are_kept_after_failure(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    neighbour = shared(send, files)
    api.before(f"create configmaps {neighbour['metadata']['name']}", lambda: api.put(neighbour))
    api.before("create jobs", lambda: 403)
    with pytest.raises(ClusterError):
        send(files)
    assert api.names() == [f"configmaps {shared_name(api)}"]


def test_shared_files_with_different_content_are_refused(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    neighbour = shared(send, files)
    key = next(iter(neighbour["binaryData"]))
    foreign = neighbour | {"binaryData": {key: "Zm9yZWlnbg=="}}
    api.before(f"create configmaps {neighbour['metadata']['name']}", lambda: api.put(foreign))
    with pytest.raises(UserError, match="was not created by this task"):
        send(files)
    assert api.names() == [f"configmaps {shared_name(api)}"]


def test_shared_files_deleted_before_adopt_are_created_again(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    api.put(shared(send, files))
    name = shared_name(api)
    api.before(f"patch configmaps {name}", lambda: api.remove(kinds.CONFIG_MAP, name))
    send(files)
    assert owners(api, name) == [f"train-{ID}"]


def test_shared_files_adopted_concurrently_have_both_owners(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    send(files, task_id="cdfg2345")
    api.before(f"patch configmaps {shared_name(api)}", lambda: 409)
    send(files)
    assert owners(api, shared_name(api)) == ["train-cdfg2345", f"train-{ID}"]


def test_shared_files_created_by_submit_are_deleted_after_failure(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    api.before("create jobs", lambda: 403)
    with pytest.raises(ClusterError):
        send(files)
    assert api.names() == []


def test_shared_files_used_by_other_task_are_kept_after_failure(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    def neighbour() -> int:
        item = api.get(kinds.CONFIG_MAP, shared_name(api))
        item["metadata"]["ownerReferences"] = [{"uid": api.put(job)["metadata"]["uid"]}]
        api.put(item)
        return 403

    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "other"}}
    api.before("create jobs", neighbour)
    with pytest.raises(SkyError):
        send(files)
    assert api.names() == [f"configmaps {shared_name(api)}", "jobs other"]


def test_shared_files_are_deleted_with_last_owner(
    api: FakeCluster, send: Submitter, files: str
) -> None:
    send(files)
    send(files, task_id="cdfg2345")
    api.remove(kinds.JOB, f"train-{ID}-node-0")
    api.remove(kinds.JOB, f"train-{ID}-node-1")
    assert shared_name(api)
    api.remove(kinds.JOB, "train-cdfg2345-node-0")
    api.remove(kinds.JOB, "train-cdfg2345-node-1")
    assert api.names() == []
