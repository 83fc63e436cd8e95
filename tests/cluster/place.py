"""Where one cluster is on this machine: its folder, ports, network and control group.

Nothing in it is shared with another cluster, so that several can run side by side.
"""

import ipaddress
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from tests.cluster import cache
from tests.cluster.cgroup import Cgroup
from tests.cluster.shell import Unavailable, run

FOLDER = cache.ROOT / "clusters"
_NUMBERS = range(100, 250)
_PORTS = 20000  # and some thousands on: below those that the kernel gives to clients, and NodePorts


class Ports(NamedTuple):
    """One for each thing that listens."""

    api: int
    etcd: int
    peer: int
    kubelet: int


@dataclass(frozen=True)
class Place:
    """One cluster's place. `number` is unique on this machine while its folder exists."""

    number: int

    @classmethod
    def claim(cls) -> Self:
        """Find a free place and take it, with its bridge. Raises Unavailable."""
        place = cls.claim_apart()
        run(["ip", "link", "add", place.bridge, "type", "bridge"])
        run(["ip", "address", "add", f"{place.address}/16", "dev", place.bridge])
        run(["ip", "link", "set", place.bridge, "up"])
        return place

    @classmethod
    def claim_apart(cls) -> Self:
        """Find and take one for a cluster that has networks of its own. Raises Unavailable."""
        taken = [ipaddress.ip_network(net, strict=False) for net in _networks()]
        for number in _NUMBERS:
            place = cls(number)
            if place.folder.exists() or any(place.subnet.overlaps(network) for network in taken):
                continue
            if not all(map(_free, place.ports)):
                continue
            place.folder.mkdir(parents=True)
            return place
        raise Unavailable("no network of this machine is free for a cluster")

    @property
    def folder(self) -> Path:
        """All files of the cluster."""
        return FOLDER / str(self.number)

    @property
    def ports(self) -> Ports:
        """The ports, on the loopback address."""
        first = _PORTS + 10 * self.number
        return Ports(first, first + 1, first + 2, first + 3)

    @property
    def node(self) -> str:
        """The cluster node's name: one that leads the API server to a kubelet on the loopback."""
        return "localhost"

    @property
    def listen(self) -> str:
        """The address on which the kubelet listens."""
        return "127.0.0.1"

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://127.0.0.1:{self.ports.api}"

    @property
    def certificates(self) -> Path:
        """The folder with the certificate of the API server."""
        return FOLDER / str(self.number) / "certificates"

    @property
    def bridge(self) -> str:
        """The network device that the pods hang on."""
        return f"skytest{self.number}"

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        """The pods' addresses."""
        return ipaddress.IPv4Network(f"10.{self.number}.0.0/16")

    @property
    def first_pod(self) -> str:
        """The lowest address of a pod."""
        return f"10.{self.number}.1.1"

    @property
    def address(self) -> str:
        """The node's, and that of the DNS server, as the pods see it."""
        return f"10.{self.number}.0.1"

    @property
    def cgroup(self) -> Cgroup:
        """The control group of everything that runs."""
        return Cgroup(self.bridge)

    @property
    def router(self) -> str:
        """The network namespace with the rules of the kube-proxy, which are no other cluster's."""
        return self.bridge

    @property
    def services(self) -> str:
        """The addresses of Services, which lead to the router."""
        return f"198.18.{self.number}.0/24"

    @property
    def kubeconfig(self) -> Path:
        """The file with the contexts of the administrator and the users."""
        return self.folder / "kubeconfig"


@dataclass(frozen=True)
class NodePlace(Place):
    """Where one of several cluster nodes of a cluster is: in a network namespace of its own."""

    index: int

    @property
    def cluster(self) -> Place:
        """The place of the cluster."""
        return Place(self.number)

    @property
    def folder(self) -> Path:
        return self.cluster.folder / self.node

    @property
    def node(self) -> str:
        return f"n{self.index}"

    @property
    def zone(self) -> str:
        """The topology zone."""
        return f"z{self.index}"

    @property
    def listen(self) -> str:
        return f"10.{self.number}.0.{10 + self.index}"

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports.api}"

    @property
    def bridge(self) -> str:
        return "pods"

    @property
    def subnet(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.{self.number}.{self.index}.0/24")

    @property
    def first_pod(self) -> str:
        return f"10.{self.number}.{self.index}.10"

    @property
    def cgroup(self) -> Cgroup:
        """The control group of the pods, within that of the cluster."""
        return Cgroup(f"{self.cluster.cgroup.name}/{self.node}")

    @property
    def router(self) -> str:
        """The network namespace, with the rules of the kube-proxy."""
        return f"{self.cluster.router}-{self.node}"


def _networks() -> list[str]:
    """The networks that this machine has or has a route to."""
    routes = run(["ip", "-4", "route", "show", "table", "all"])
    addresses = run(["ip", "-4", "-o", "address"])
    return re.findall(r"\d+\.\d+\.\d+\.\d+/\d+", routes + addresses)


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
