"""Which controllers run, which process leads, and what it did last."""

from contextlib import suppress
from datetime import datetime
from typing import Annotated

from msgspec import Struct, structs

from kubectl_sky.cluster import leases, objects
from kubectl_sky.cluster.leases import Lease
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import Forbidden
from kubectl_sky.words import kinds, names
from kubectl_sky.words.documents import Document, Note
from kubectl_sky.words.names import CONTROLLERS, CONTROLLERS_NAMESPACE, controller_lease
from kubectl_sky.words.task_objects import Deployment

_SELECTOR = f"{names.APP_NAME} in ({','.join(CONTROLLERS.values())})"


class Controller(Struct, frozen=True):
    """A controller of one namespace or of all: it has a Deployment, a Lease or both."""

    controller: Annotated[str, Note("`tasks`, `ray` or `fairshare`")]
    namespace: Annotated[str, Note("where its Lease or Deployment is")]
    serves: Annotated[str, Note("the namespace that it acts on; empty for all")]
    replicas: Annotated[int | None, Note("of its Deployment; null without one")] = None
    ready: Annotated[int, Note("replicas that are ready")] = 0
    leader: Annotated[str, Note("the process that holds its Lease; empty for none")] = ""
    since: Annotated[str, Note("when the leader took the Lease")] = ""
    last_action: Annotated[str, Note("a time and what it did last; may be empty")] = ""


class ControllerList(Document, frozen=True, kw_only=True):
    """Controllers: `controllers status`."""

    controllers: list[Controller]


def controllers(session: Session, namespace: str | None) -> list[Controller]:
    """Return the controllers with a Deployment or a Lease in a namespace, None for all.

    Raises ClusterError.
    """
    deployments = objects.list_all(session, kinds.DEPLOYMENT, namespace, label_selector=_SELECTOR)
    held = leases.list_ours(session, namespace)
    if namespace:
        deployments += _list_elsewhere(session, namespace)
        served = {place for _, place in map(_key, deployments)} - {"", namespace}
        held += [lease for place in sorted(served) for lease in _list_leases(session, place)]
    now = session.now()
    by_key = {key: lease for lease in held if (key := _find_served(lease))}

    found = []
    for item in deployments:
        key = _key(item)
        status = Controller(
            key[0],
            item.metadata.namespace,
            key[1],
            item.spec.replicas,
            item.status.ready_replicas,
        )
        found.append(_with_leader(status, by_key.pop(key, None), now))

    found += [  # of processes without a Deployment
        _with_leader(Controller(controller, lease.namespace, served), lease, now)
        for (controller, served), lease in by_key.items()
        if lease.live(now)
    ]
    return sorted(found, key=lambda item: (item.serves, item.controller))


def _list_elsewhere(session: Session, served: str) -> list[Deployment]:
    """Return the Deployments of other namespaces that serve one; none without the right to look."""
    with suppress(Forbidden):
        items = objects.list_all(session, kinds.DEPLOYMENT, label_selector=_SELECTOR)
        return [
            item for item in items if item.metadata.namespace != served and _key(item)[1] == served
        ]
    return []


def _list_leases(session: Session, namespace: str) -> list[Lease]:
    with suppress(Forbidden):
        return leases.list_ours(session, namespace)
    return []


def _with_leader(status: Controller, lease: Lease | None, now: datetime) -> Controller:
    if not lease:
        return status
    status = structs.replace(status, last_action=lease.last_action)
    if not lease.live(now):
        return structs.replace(status, leader="", since="")
    return structs.replace(status, leader=lease.holder, since=lease.acquired_at)


def _find_served(lease: Lease) -> tuple[str, str] | None:
    """Return controller and namespace of a Lease, "" for all; None if it is of another program."""
    for controller in CONTROLLERS:
        if lease.name == controller_lease(controller, all_namespaces=False):
            return controller, lease.namespace
        if lease.name == controller_lease(controller, all_namespaces=True):
            return (controller, "") if lease.namespace == CONTROLLERS_NAMESPACE else None
    return None


def _key(deployment: Deployment) -> tuple[str, str]:
    """Return controller and served namespace of a Deployment, by its name and arguments."""
    program = deployment.metadata.labels.get(names.APP_NAME)
    controller = next(name for name, label in CONTROLLERS.items() if label == program)
    containers = deployment.spec.template.spec.containers
    arguments = (containers[0].args or ()) if containers else ()
    served = arguments[arguments.index("-n") + 1 :] if "-n" in arguments else []
    return controller, next(iter(served), "")
