"""NetworkPolicies, enforced in a cluster of this machine by rules in its pods' network namespaces.

Each pod resolves Services by itself, so that rules see the pods at both ends of a connection. What
a pod sends to its cluster node, where the API server and the DNS server are, needs a rule, too:
this is stricter than Kubernetes.
"""

import re
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster import mounts
from tests.cluster.api import request
from tests.cluster.place import Place
from tests.cluster.shell import Broken, run
from tests.cluster.target import Cluster

Json = dict[str, Any]

_NETWORKS = "containerd/state/*/netns/*"
# The addresses of other pods are free.
_LIVE = "status.phase!=Succeeded,status.phase!=Failed"
_PATHS = {
    "namespaces": "/api/v1/namespaces",
    "pods": f"/api/v1/pods?fieldSelector={_LIVE}",
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
    "services": "/api/v1/services",
    "slices": "/apis/discovery.k8s.io/v1/endpointslices",
}
_EVERYWHERE = "0.0.0.0/0"
_OPEN = "*nat\nCOMMIT\n*filter\nCOMMIT\n"


class Way(NamedTuple):
    """A direction, in the words of policies and of iptables."""

    name: str
    peers: str
    chain: str
    flag: str


IN = Way("Ingress", "from", "INPUT", "-s")
OUT = Way("Egress", "to", "OUTPUT", "-d")


class State(NamedTuple):
    """What the API server says of pods, and of who may reach them."""

    namespaces: list[Json]
    pods: list[Json]
    policies: list[Json]
    services: list[Json]
    slices: list[Json]

    def rules(self, pod: Json, node: str, resolving: bool = True) -> str:
        """Return the rules of a pod's network namespace, for iptables-restore."""
        services = self._services() if resolving else ()
        allowed = [*self._isolation(pod, IN, [f"-s {node}"]), *self._isolation(pod, OUT, [])]
        return "\n".join(("*nat", *services, "COMMIT", "*filter", *allowed, "COMMIT", ""))

    def _isolation(self, pod: Json, way: Way, always: list[str]) -> Iterator[str]:
        policies = [policy for policy in self.policies if _selects(policy, pod, way)]
        if not policies:
            return
        answers = "-m conntrack --ctstate ESTABLISHED,RELATED"
        device = "-i lo" if way is IN else "-o lo"
        accepted = (match for policy in policies for match in self._matches(policy, way))
        for match in (device, answers, *always, *accepted):
            yield f"-A {way.chain} {match} -j ACCEPT"
        yield f"-A {way.chain} -j REJECT --reject-with icmp-admin-prohibited"

    def _matches(self, policy: Json, way: Way) -> Iterator[str]:
        for rule in policy["spec"].get(way.name.lower()) or ():
            peers = rule.get(way.peers) or [{"ipBlock": {"cidr": _EVERYWHERE}}]
            addresses = [address for peer in peers for address in self._addresses(policy, peer)]
            for port in map(_port, rule.get("ports") or [{}]):
                yield from (f"{way.flag} {address}{port}" for address in addresses)

    def _addresses(self, policy: Json, peer: Json) -> list[str]:
        if "ipBlock" in peer:
            return [_known(peer["ipBlock"], "cidr")["cidr"]]
        namespaces = {policy["metadata"]["namespace"]}

        if "namespaceSelector" in peer:
            namespaces = {
                item["metadata"]["name"]
                for item in self.namespaces
                if _matched(peer["namespaceSelector"], item)
            }

        return [
            pod["status"]["podIP"]
            for pod in self.pods
            if pod["metadata"]["namespace"] in namespaces
            and pod["status"].get("podIP")
            and _matched(peer.get("podSelector") or {}, pod)
        ]

    def _services(self) -> Iterator[str]:
        for service in self.services:
            address = service["spec"].get("clusterIP", "None")
            for port in service["spec"].get("ports", ()) if address != "None" else ():
                if target := self._target(service["metadata"], port):
                    protocol = f"-p {port['protocol'].lower()} --dport {port['port']}"
                    to = f"-j DNAT --to-destination {target}"
                    yield f"-A OUTPUT -d {address} {protocol} {to}"

    def _target(self, service: Json, port: Json) -> str:
        """Return the first endpoint of a Service that is ready."""
        for item in self.slices:
            metadata = item["metadata"]
            name = (metadata.get("labels") or {}).get("kubernetes.io/service-name")
            if (metadata["namespace"], name) != (service["namespace"], service["name"]):
                continue
            ports = item.get("ports") or ()
            same = [p["port"] for p in ports if (p.get("name") or "") == port.get("name", "")]
            for endpoint in item.get("endpoints") or ():
                if same and endpoint.get("conditions", {}).get("ready", True):
                    return f"{endpoint['addresses'][0]}:{same[0]}"
        return ""


def _selects(policy: Json, pod: Json, way: Way) -> bool:
    same = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
    chosen = _matched(policy["spec"].get("podSelector") or {}, pod)
    return same and chosen and way.name in policy["spec"]["policyTypes"]


def _matched(selector: Json, item: Json) -> bool:
    labels = item["metadata"].get("labels") or {}
    wanted: Json = _known(selector, "matchLabels").get("matchLabels", {})
    return wanted.items() <= labels.items()


def _port(port: Json) -> str:
    """Return what matches a port of a policy; all ports for an empty one."""
    _known(port, "protocol", "port")
    match = f" -p {port['protocol'].lower()}" if port else ""
    return match + (f" --dport {int(port['port'])}" if "port" in port else "")


def _known(part: Json, *keys: str) -> Json:
    """Return a part of a policy that has no other keys: those that policies of ours have."""
    if others := part.keys() - set(keys):
        raise ValueError(f"rules are not derived from {', '.join(others)}")
    return part


class Enforcer:
    """Writes the rules of the pods of some namespaces: other pods are those of other tests."""

    def __init__(self, place: Place, namespaces: Collection[str]) -> None:
        self._place = place
        self._namespaces = namespaces
        self._written: dict[Path, str] = {}
        self._addresses: dict[Path, str] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self.resolving = True

    def sync(self) -> None:
        """Let the rules of the pods be those of the policies there are now."""
        with self._lock:
            read = {name: request(self._place, "GET", path) for name, path in _PATHS.items()}
            state = State(**{name: answer["items"] for name, answer in read.items()})
            own = (it for it in state.pods if it["metadata"]["namespace"] in self._namespaces)
            pods = {pod["status"].get("podIP"): pod for pod in own}
            for network in self._place.folder.glob(_NETWORKS):
                if pod := pods.get(self._address(network)):
                    self._write(network, state.rules(pod, self._place.address, self.resolving))

    def follow(self) -> None:
        """Go on until the end. A busy API server is asked again."""
        while not self._ended.wait(0.5):
            with suppress(OSError):
                self.sync()

    def end(self) -> None:
        """Follow no more."""
        self._ended.set()

    def remove(self) -> None:
        """Remove all rules."""
        for network in self._written:
            self._write(network, _OPEN)

    def _address(self, network: Path) -> str:
        """Return the pod's address, "" while it has none."""
        if not self._addresses.get(network):
            match = re.search(r"eth0 +inet ([\d.]+)", _within(network, "ip", "-4", "-o", "address"))
            self._addresses[network] = match[1] if match else ""
        return self._addresses[network]

    def _write(self, network: Path, text: str) -> None:
        if self._written.get(network) != text:
            _within(network, "iptables-restore", "--wait", text=text)
            self._written[network] = text


def _within(network: Path, *command: str, text: str = "") -> str:
    """Run a command in a network namespace; one that has gone meanwhile is no failure."""
    try:
        return run(["nsenter", f"--net={network}", *command], text=text)
    except Broken:
        if str(network) in mounts.below(network.parent):
            raise
        return ""


@contextmanager
def enforced(cluster: Cluster, namespaces: Collection[str]) -> Iterator[Enforcer]:
    """Enforce policies in a cluster that was built here; those that come later, too."""
    if cluster.driver != "machine":
        pytest.skip("policies are enforced in the cluster that is built here only")
    enforcer = Enforcer(Place(int(cluster.kubeconfig.parent.name)), namespaces)
    thread = threading.Thread(target=enforcer.follow)
    thread.start()
    try:
        yield enforcer
    finally:
        enforcer.end()
        thread.join()
        enforcer.remove()
