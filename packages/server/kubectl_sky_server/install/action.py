"""Render what runs the server or the controllers in a cluster."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Json, Session
from kubectl_sky.errors import ClusterError, NotFound
from kubectl_sky.render.manifests import Manifest, render_template
from kubectl_sky.words import kinds, names
from kubectl_sky.words.kinds import ENDPOINT_SLICE
from kubectl_sky_server.assets import TEMPLATES
from kubectl_sky_server.install.model import RIGHTS, ControllerInstall, ServerInstall

_KEPT = ("CustomResourceDefinition", "Namespace")  # with them, objects of others would go
_render = partial(render_template, TEMPLATES)


def api_server_ports(session: Session) -> list[int]:
    """Return the ports of the API server: of the Service, and of its endpoints.

    Some network plugins compare a policy with the one, some with the other. Raises ClusterError.
    """
    selector = "kubernetes.io/service-name=kubernetes"
    slices = objects.list_all(session, ENDPOINT_SLICE, "default", label_selector=selector)
    ports = (entry.port for item in slices for entry in item.ports or ())
    return sorted({443, *(port for port in ports if isinstance(port, int) and 0 < port < 65536)})


def check(session: Session, items: Sequence[Manifest]) -> None:
    """Let the API server check all objects before any is applied. Raises ClusterError.

    What goes into a namespace that is among the objects cannot be checked before it exists.
    """
    created = {
        item.object["metadata"]["name"] for item in items if item.object["kind"] == "Namespace"
    }
    for item in items:
        namespace = item.object["metadata"].get("namespace")
        try:
            objects.apply(session, item.object, dry_run=True)
        except NotFound as error:
            if namespace not in created:
                hint = f"create it first: kubectl create namespace {namespace}"
                raise NotFound(f"{error.what}; nothing was applied", hint) from None
        except ClusterError as error:
            raise ClusterError(f"{error.what}; nothing was applied", error.hint) from None


def server(values: ServerInstall) -> Iterator[Manifest]:
    for part in ("serviceaccount", "config", "deployment", "service"):
        yield _render(f"install/server-{part}.yaml.j2", server=values)
    yield _render("install/networkpolicy.yaml.j2", install=values)


def controllers(installs: Sequence[ControllerInstall]) -> Iterator[Manifest]:
    """Yield the objects that run controllers in a cluster, in the order of creation."""
    if not installs[0].served:
        yield _render("install/controllers-namespace.yaml.j2", controller=installs[0])
    for values in installs:
        yield from (_render(crd) for crd in RIGHTS[values.controller].crds)
    for values in installs:
        yield _render("install/controllers-serviceaccount.yaml.j2", controller=values)
        for role in values.roles:
            yield _render("install/controllers-role.yaml.j2", role=role)
            yield _render("install/controllers-rolebinding.yaml.j2", role=role)
        yield _render("install/networkpolicy.yaml.j2", install=values)
        if values.replicas > 1:
            yield _render("install/controllers-poddisruptionbudget.yaml.j2", controller=values)
        yield _render("install/controllers-deployment.yaml.j2", controller=values)


def list_to_delete(items: Iterable[Manifest], more: Iterable[Json] = ()) -> Json:
    """Return a List for `kubectl delete -f -` of what is installed, the last one first.

    `more` are objects that the programs have made, or need, and that are not installed.
    """
    installed = [item.object for item in items if item.object["kind"] not in _KEPT]
    doomed = [_identify(item) for item in (*reversed(installed), *more)]
    return {"apiVersion": "v1", "kind": "List", "items": doomed}


def _identify(item: Json) -> Json:
    metadata = {key: item["metadata"].get(key) for key in ("name", "namespace")}
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "metadata": {key: text for key, text in metadata.items() if text},
    }


def sessions(values: ServerInstall) -> Json:
    """Return the Secret of the keys of sessions, which an admin may have made."""
    metadata = {"name": "kubectl-sky-sessions", "namespace": values.namespace}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}


def made_by_controllers(installs: Sequence[ControllerInstall]) -> Iterator[Json]:
    """Yield the Leases of controllers; the history of deleted tasks stays."""
    for values in installs:
        metadata = {
            "name": names.controller_lease(values.controller, not values.served),
            "namespace": values.served or names.CONTROLLERS_NAMESPACE,
        }
        yield {"apiVersion": kinds.LEASE.api_version, "kind": "Lease", "metadata": metadata}
