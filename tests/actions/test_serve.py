"""Names and time limits of services, without a cluster."""

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubectl_sky import kinds, names, users
from kubectl_sky.actions import serve
from kubectl_sky.actions.preflight import Existing
from kubectl_sky.actions.submit import Options
from kubectl_sky.actions.ui import UI
from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import NameTaken, TaskFailed, UnknownName, Unreachable
from kubectl_sky.kinds import Kind
from kubectl_sky.observe.services import State
from kubectl_sky.plan.serving import Serving

Json = dict[str, Any]
SESSION = cast(Session, SimpleNamespace(namespace="default"))
LABELS = {"kubectl-sky/service": "web", "username": "alice"}


def make_item(kind: Kind, labels: Json) -> Json:
    metadata = {"name": "web", "namespace": "default", "labels": labels}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Kind, Json]]:
    """The objects with the name of the service, by kind."""
    items: dict[Kind, Json] = {}
    monkeypatch.setattr(serve, "_live", lambda session, kind, name: items.get(kind))
    yield items


def test_find_foreign_deployment_does_not_hide_rayservice(live: dict[Kind, Json]) -> None:
    live[kinds.DEPLOYMENT] = make_item(kinds.DEPLOYMENT, {})
    live[kinds.RAY_SERVICE] = make_item(kinds.RAY_SERVICE, LABELS)
    assert serve.find(SESSION, users.named("alice"), "web")["kind"] == "RayService"


def test_up_name_of_service_with_other_backend_is_taken(
    live: dict[Kind, Json], monkeypatch: pytest.MonkeyPatch
) -> None:
    live[kinds.DEPLOYMENT] = make_item(kinds.DEPLOYMENT, LABELS)
    prepared = SimpleNamespace(
        session=SESSION,
        serving=SimpleNamespace(name="web"),
        user=users.named("alice"),
        named=lambda: [SimpleNamespace(object=make_item(kinds.RAY_SERVICE, LABELS))],
    )
    monkeypatch.setattr(serve, "_prepare", lambda options, ui: prepared)
    with pytest.raises(NameTaken, match="already exists"):
        serve.up(cast(Options, None), cast(UI, None))


def test_follow_rayservice_not_ready_fails_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(0, 5000, 500))
    waiting = SimpleNamespace(
        state=State.STARTING, reason="ImagePullBackOff", ready=0, version=1, wanted=2
    )
    monkeypatch.setattr(serve, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(serve, "sleep", lambda wait: next(seconds))
    monkeypatch.setattr(serve, "find", lambda session, user, name: {})
    monkeypatch.setattr(serve, "status", lambda session, item: waiting)
    serving = SimpleNamespace(name="web", ray=object(), deadline=1800)
    options = SimpleNamespace(follow=True, start_timeout=None)
    ui = SimpleNamespace(note=lambda text: None)
    with pytest.raises(TaskFailed, match="ImagePullBackOff"):
        serve._follow(SESSION, cast(Serving, serving), cast(Options, options), cast(UI, ui))


@pytest.mark.parametrize(("version", "deleted"), [("new", []), ("old", ["web-new"])])
def test_update_failed_deletes_objects_of_version_only_if_not_sent(
    monkeypatch: pytest.MonkeyPatch, version: str, deleted: list[str]
) -> None:
    workload = make_item(kinds.DEPLOYMENT, LABELS)
    workload["metadata"]["uid"] = "1"
    labels = {"metadata": {"labels": {names.TASK_ID: version}}}
    script = make_item(kinds.CONFIG_MAP, LABELS)
    script["metadata"] |= {"name": "web-new", "uid": "2"}
    removed: list[str] = []

    def lose(session: Session, item: Json) -> None:
        raise Unreachable("the answer was lost")

    monkeypatch.setattr(serve, "admit", lambda *given: None)
    monkeypatch.setattr(serve, "shared_objects", lambda *given: nullcontext(()))
    applied = [SimpleNamespace(object=script, created=True)]
    monkeypatch.setattr(serve, "apply_all", lambda *given: applied)
    monkeypatch.setattr(serve, "_replacing", lambda item, *given: item)
    monkeypatch.setattr(objects, "replace_object", lose)
    current = workload | {"spec": {"template": labels}}
    monkeypatch.setattr(objects, "get", lambda *given: current)
    monkeypatch.setattr(
        objects, "delete_by_uid", lambda session, kind, metadata: removed.append(metadata["name"])
    )
    prepared = SimpleNamespace(
        session=SESSION,
        serving=SimpleNamespace(name="web", scaling=None),
        decision=SimpleNamespace(id="new"),
        manifests=SimpleNamespace(workload=(), own=(), shared=()),
        named=lambda: [SimpleNamespace(object=workload)],
    )
    with pytest.raises(Unreachable):
        serve._replace(
            cast(serve._Prepared, prepared),
            cast(Existing, SimpleNamespace(shared=None)),
            workload,
            {"Deployment": workload},
        )
    assert removed == deleted


def test_find_service_of_other_user_names_flag_of_all_commands(live: dict[Kind, Json]) -> None:
    live[kinds.DEPLOYMENT] = make_item(kinds.DEPLOYMENT, LABELS | {"username": "bob"})
    with pytest.raises(UnknownName, match="add --user bob"):
        serve.find(SESSION, users.named("alice"), "web")
