"""A Kubernetes of three cluster nodes, each a network namespace with programs of its own.

The control plane has a namespace, too, so that nothing changes in the machine's network. A socket
that is a file leads clients of this machine to the API server: namespaces do not separate files.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.cluster import cache, components, images, machine, policies
from tests.cluster.api import request
from tests.cluster.components import USERS
from tests.cluster.place import NodePlace, Place
from tests.cluster.shell import run
from tests.cluster.starter import Starter
from tests.cluster.target import OTHERS, Cluster

_IMAGES = ("busybox", "python")  # archives: all that tasks of these tests use


class Daemon(NamedTuple):
    """A program that runs until the cluster is stopped, and its network namespace, if any."""

    command: Sequence[str]
    namespace: str = ""

    @property
    def entering(self) -> Sequence[str]:
        """The command that enters the namespace: `ip netns exec` would hide control groups."""
        enter = ["nsenter", f"--net=/run/netns/{self.namespace}"] if self.namespace else []
        return [*enter, *self.command]


def prepare() -> None:
    """Install and build all that the cluster needs. Raises Unavailable, Broken."""
    machine.prepare()
    policies.program()


def places(place: Place) -> list[NodePlace]:
    """Return the places of the cluster nodes."""
    return [NodePlace(place.number, index) for index in (1, 2, 3)]


def archives() -> list[Path]:
    """Return the archives of the images that each cluster node gets."""
    return [path for path in images.archives() if path.stem in _IMAGES]


def plane(place: Place, kube: str) -> dict[str, Daemon]:
    """Return the programs of the control plane, by name, in the order of their start."""
    apart = place.router
    socket = f"{place.folder}/api.sock"
    port = place.ports.api
    inner = ["socat", f"UNIX-LISTEN:{socket},fork,unlink-early", f"TCP:127.0.0.1:{port}"]
    outer = ["socat", f"TCP-LISTEN:{port},bind=127.0.0.1,fork,reuseaddr", f"UNIX-CONNECT:{socket}"]

    return {
        "etcd": Daemon([kube, *components.etcd(place)], apart),
        "kube-apiserver": Daemon([kube, *components.api_server(place, "InternalIP")], apart),
        "inner-relay": Daemon(inner, apart),
        "outer-relay": Daemon(outer),
        "relay": Daemon(components.relay(place), apart),
        "controllers": Daemon([kube, *components.controllers(place)], apart),
        "scheduler": Daemon([kube, *components.scheduler(place)], apart),
        "dns": Daemon([kube, *components.dns(place)], apart),
    }


def programs(node: NodePlace, kube: str) -> dict[str, Daemon]:
    """Return the programs of a cluster node, by name, in the order of their start."""
    flags = [f"--node-ip={node.listen}", f"--node-labels=topology.kubernetes.io/zone={node.zone}"]
    kubelet = [kube, *components.kubelet(node), *flags]
    proxy = [kube, *components.proxy(node)]
    return {
        f"{node.node}-containerd": Daemon(components.containerd(node), node.router),
        f"{node.node}-kubelet": Daemon(kubelet, node.router),
        f"{node.node}-proxy": Daemon(proxy, node.router),
        f"{node.node}-enforcer": Daemon(policies.enforcer(node), node.router),
    }


def network(place: Place, nodes: Sequence[NodePlace]) -> Iterator[Sequence[str]]:
    """What makes the namespaces, and the bridge in that of the control plane which joins them."""
    plane = ["ip", "-n", place.router]
    yield ["ip", "netns", "add", place.router]
    yield [*plane, "link", "set", "lo", "up"]
    yield [*plane, "link", "add", place.bridge, "type", "bridge"]
    yield [*plane, "address", "add", f"{place.address}/24", "dev", place.bridge]
    yield [*plane, "link", "set", place.bridge, "up"]
    yield components.forwarding(place.router)

    for node in nodes:
        own = ["ip", "-n", node.router]
        peer = ["peer", "name", "eth0", "netns", node.router]
        yield ["ip", "netns", "add", node.router]
        yield [*own, "link", "set", "lo", "up"]
        yield [*plane, "link", "add", node.node, "type", "veth", *peer]
        yield [*plane, "link", "set", node.node, "master", place.bridge, "up"]
        yield [*own, "address", "add", f"{node.listen}/24", "dev", "eth0"]
        yield [*own, "link", "set", "eth0", "up"]
        yield [*own, "route", "add", "default", "via", place.address]
        yield components.forwarding(node.router)
        yield from policies.asking(node.router)
        yield [*plane, "route", "add", str(node.subnet), "via", node.listen]

    for node in nodes:
        for other in nodes:
            if other != node:
                route = ["route", "add", str(other.subnet), "via", other.listen]
                yield ["ip", "-n", node.router, *route]


def order(place: Place, kube: str) -> tuple[dict[str, Daemon], dict[str, Daemon]]:
    """Return the programs to start before the API server is ready, and those to start then."""
    first = plane(place, kube)
    later = {name: first.pop(name) for name in ("controllers", "scheduler", "dns")}
    for node in places(place):
        containerd, *others = programs(node, kube).items()
        first |= [containerd]
        later |= others
    return first, later


class _Nodes(Starter):
    """Starts a cluster of several cluster nodes."""

    def start(self) -> None:
        """Start everything. Raises Broken when something ends or takes too long."""
        place = self._place
        nodes = places(place)
        place.cgroup.create()
        self._write(place)
        for node in nodes:
            node.cgroup.create()
            self._write(node)
        for command in network(place, nodes):
            run(command)

        first, later = order(place, self._kube)
        for name, daemon in first.items():
            self._run(name, daemon.entering)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: self._import(node, archives()), nodes))
        self._wait("the API server", lambda: request(place, "GET", "/readyz") == {})
        self._create_first()

        for name, daemon in later.items():
            self._run(name, daemon.entering)
        for node in nodes:
            self._wait_for_node(node)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Run the cluster. Raises Unavailable."""
    prepare()
    with cache.lock("clusters"):
        machine.sweep()
        place = Place.claim_apart()
        cache.own(place.folder / "owner")

    try:
        _Nodes(place, machine.kube()).start()
        users = {name: USERS[name][0] for name in OTHERS}
        yield Cluster(place.kubeconfig, machine.kubectl(), "nodes", users)
    finally:
        machine.down(place)
