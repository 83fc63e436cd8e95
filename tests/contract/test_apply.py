"""Apply many objects: in order, in parallel, and all or none."""

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.apply import Applied, apply_all
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, Unreachable, UserError
from kubectl_sky.words import kinds
from tests.contract.makers import make_config_map, make_job
from tests.contract.proxies import CuttingProxy
from tests.polling import eventually


def refuse(manifest: Json, live: Json) -> None:
    """Accept an existing object with the same data."""
    if manifest.get("data") != live.get("data"):
        raise UserError(f"{live['metadata']['name']} is another's")


create_all = partial(apply_all, accept=refuse)


def names(session: Session, namespace: str) -> list[str]:
    config_maps = objects.list_all(session, kinds.CONFIG_MAP, namespace, label_selector="of=test")
    return [item.metadata.name for item in config_maps if not item.metadata.deletion_timestamp]


def test_apply_all_stages_are_sent_in_order(session: Session, namespace: str) -> None:
    stages = [
        [make_config_map(f"a{index}", namespace) for index in range(20)],
        [make_config_map(f"b{index}", namespace) for index in range(20)],
    ]
    done: list[Applied] = []
    applied = create_all(session, stages, on_done=done.append)
    wanted = [manifest["metadata"]["name"] for stage in stages for manifest in stage]
    assert [result.object["metadata"]["name"] for result in applied] == wanted
    assert all(result.created for result in applied)
    assert {result.label[:12] for result in done[:20]} == {"configmaps a"}
    assert {result.label[:12] for result in done[20:]} == {"configmaps b"}
    assert not any(result.created for result in create_all(session, stages))


def test_apply_all_failure_deletes_created_objects(session: Session, namespace: str) -> None:
    objects.apply(session, make_config_map("old", namespace, data={"x": "1"}))
    stages = [
        [make_config_map("new", namespace), make_config_map("old", namespace, data={"x": "1"})],
        [make_config_map("BAD", namespace), make_config_map("newer", namespace)],
        [make_config_map("never", namespace)],
    ]
    with pytest.raises(ClusterError) as error:
        create_all(session, stages)
    assert "ConfigMap BAD as invalid: metadata.name" in str(error.value)
    assert "the created objects were deleted again" in str(error.value)
    assert names(session, namespace) == ["old"]


def test_apply_all_failure_deletes_pods_of_created_jobs(session: Session, namespace: str) -> None:
    with pytest.raises(ClusterError, match="deleted again"):
        create_all(session, [[make_job("a", namespace)], [make_config_map("BAD", namespace)]])
    eventually(
        lambda: (
            not objects.list_all(session, kinds.JOB, namespace)
            and not objects.list_all(session, kinds.POD, namespace)
        )
    )


@pytest.mark.practice_only
def test_apply_all_failure_keeps_recreated_object_of_other_client(
    session: Session, namespace: str
) -> None:
    def replace(done: Applied) -> None:
        if done.object["metadata"]["name"] == "a":
            objects.delete(session, kinds.CONFIG_MAP, "a", namespace)
            objects.create(session, make_config_map("a", namespace, data={"by": "another"}))

    with pytest.raises(ClusterError):
        create_all(
            session,
            [[make_config_map("a", namespace)], [make_config_map("BAD", namespace)]],
            on_done=replace,
        )
    assert objects.get(session, kinds.CONFIG_MAP, "a", namespace).data == {"by": "another"}


@pytest.mark.practice_only
def test_apply_all_failed_deletion_names_remaining_objects(
    cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    def lose(done: Applied) -> None:
        proxy.refusing = True
        proxy.cut()

    with pytest.raises(Unreachable, match="could not be deleted: configmaps a") as error:
        create_all(
            cut_session.impatient(),
            [[make_config_map("a", namespace)], [make_config_map("b", namespace)]],
            on_done=lose,
        )
    assert "\n" not in str(error.value)


JOBS = 20


def make_jobs(namespace: str) -> list[Json]:
    jobs = [make_job(f"a{index}", namespace) for index in range(JOBS)]
    return [job | {"spec": job["spec"] | {"suspend": True}} for job in jobs]


@pytest.mark.practice_only
def test_apply_all_outage_of_seconds_creates_each_object_once(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    done: list[Applied] = []

    def leave(applied: Applied) -> None:
        done.append(applied)
        if len(done) == 3:
            proxy.leave(3)

    applied = create_all(cut_session, [make_jobs(namespace)], on_done=leave)
    assert [item.created for item in applied] == [True] * JOBS
    jobs = objects.list_all(session, kinds.JOB, namespace)
    uids = {job.metadata.uid for job in jobs}
    assert len(jobs) == JOBS
    assert uids == {item.object["metadata"]["uid"] for item in applied}


@pytest.mark.practice_only
def test_apply_all_outage_of_seconds_deletes_what_a_failed_run_created(
    session: Session, cut_session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    def fail(applied: list[Applied]) -> None:
        proxy.leave(3)
        raise ClusterError("a policy refuses it")

    with pytest.raises(ClusterError, match="refuses it; the created objects were deleted again"):
        create_all(cut_session, [make_jobs(namespace)], finish=fail)
    assert objects.list_all(session, kinds.JOB, namespace) == []


def test_apply_all_existing_object_is_accepted_or_refused(session: Session, namespace: str) -> None:
    first, other = (make_config_map("a", namespace, data={"x": text}) for text in "12")
    dry = objects.create_or_accept(session, first, refuse, dry_run=True)
    assert dry.status == 201
    for wanted in (True, False):
        [applied] = apply_all(session, [[first]], refuse)
        assert applied.created is wanted
        assert applied.label == "configmaps a"
    kept = applied.object["metadata"]["uid"]
    with pytest.raises(UserError, match="a is another's; the created objects were deleted again"):
        apply_all(session, [[make_config_map("b", namespace)], [other]], refuse)
    [live] = objects.list_all(session, kinds.CONFIG_MAP, namespace, label_selector="of=test")
    assert (live.data, live.metadata.uid) == ({"x": "1"}, kept)
    with pytest.raises(ClusterError, match="ConfigMap BAD as invalid"):
        apply_all(session, [[make_config_map("BAD", namespace)]], refuse)


@pytest.mark.practice_only
def test_apply_all_broken_connections_delete_or_name_every_object(
    cut_session: Session, session: Session, proxy: CuttingProxy, namespace: str
) -> None:
    """Connections break all the time: created objects are deleted or named in the error."""
    stop = threading.Event()

    def cut() -> None:
        while not stop.wait(0.1):
            proxy.cut()

    stages = [[make_config_map(f"a{index}", namespace) for index in range(30)]]
    with ThreadPoolExecutor(1) as pool:
        cutting = pool.submit(cut)
        try:
            with pytest.raises(ClusterError) as error:
                create_all(cut_session, [*stages, [make_config_map("BAD", namespace)]])
        finally:
            stop.set()
        cutting.result()
    remaining = {item["metadata"]["name"] for item in error.value.remaining}
    assert set(names(session, namespace)) <= remaining
    assert ("could not be deleted: " in str(error.value)) == bool(remaining)
