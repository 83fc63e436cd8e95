"""Render what runs the server or the controllers in a cluster."""

from collections.abc import Iterator, Sequence

from kubectl_sky.cluster import objects
from kubectl_sky.cluster.session import Session
from kubectl_sky.install.model import RIGHTS, ControllerInstall, ServerInstall
from kubectl_sky.render.manifests import Manifest, built_in
from kubectl_sky.words.kinds import ENDPOINT_SLICE


def api_server_ports(session: Session) -> list[int]:
    """Return the ports of the API server: of the Service, and of its endpoints.

    Some network plugins compare a policy with the one, some with the other. Raises ClusterError.
    """
    selector = "kubernetes.io/service-name=kubernetes"
    slices = objects.list_all(session, ENDPOINT_SLICE, "default", label_selector=selector)
    ports = (entry.get("port") for item in slices for entry in item.get("ports") or ())
    return sorted({443, *(port for port in ports if isinstance(port, int) and 0 < port < 65536)})


def server(values: ServerInstall) -> Iterator[Manifest]:
    """Yield the objects that run the server in a cluster."""
    for part in ("serviceaccount", "config", "deployment", "service"):
        yield built_in(f"install/server-{part}.yaml.j2", server=values)
    yield built_in("install/networkpolicy.yaml.j2", install=values)


def controllers(installs: Sequence[ControllerInstall]) -> Iterator[Manifest]:
    """Yield the objects that run controllers in a cluster, in the order of creation."""
    if not installs[0].served:
        yield built_in("install/controllers-namespace.yaml.j2", controller=installs[0])
    for values in installs:
        yield from map(built_in, RIGHTS[values.controller].crds)
    for values in installs:
        yield built_in("install/controllers-serviceaccount.yaml.j2", controller=values)
        for role in values.roles:
            yield built_in("install/controllers-role.yaml.j2", role=role)
            yield built_in("install/controllers-rolebinding.yaml.j2", role=role)
        yield built_in("install/networkpolicy.yaml.j2", install=values)
        if values.replicas > 1:
            yield built_in("install/controllers-poddisruptionbudget.yaml.j2", controller=values)
        yield built_in("install/controllers-deployment.yaml.j2", controller=values)
