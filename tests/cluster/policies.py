"""NetworkPolicies, enforced on each of several cluster nodes by kube-network-policies.

Its own rules need nft_queue, which not every kernel has. Rules of iptables ask it instead.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import programs
from tests.cluster.place import Place
from tests.cluster.shell import run

_ACCEPT = ("-j", "ACCEPT")
_ASK = ("-j", "NFQUEUE", "--queue-num", "100", "--queue-bypass")  # if it runs


def program() -> Path:
    """Return the enforcer. Raises Unavailable, Broken."""
    return programs.path("network-policies")


def enforcer(node: Place) -> Sequence[str]:
    """What decides about the packets of a cluster node."""
    flags = [f"--kubeconfig={node.kubeconfig}", f"--hostname-override={node.node}"]
    return [str(program()), *flags]


def asking(namespace: str) -> Iterator[Sequence[str]]:
    """What asks the enforcer about new connections of a network namespace: not the kubelet's."""
    add = _change(namespace, "-A", "POSTROUTING")
    yield [*add, "-m", "owner", "--uid-owner", "0", *_ACCEPT]
    yield [*add, "-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", *_ACCEPT]
    yield [*add, *_ASK]


@contextmanager
def seeing_services(nodes: Sequence[Place]) -> Iterator[None]:
    """Ask it before the addresses of Services become those of pods, too, as some plugins do."""
    match = ("-m", "conntrack", "--ctstate", "NEW", *_ASK)
    for node in nodes:
        run([*_change(node.router, "-A", "PREROUTING"), "-i", node.bridge, *match])
    try:
        yield
    finally:
        for node in nodes:
            run([*_change(node.router, "-D", "PREROUTING"), "-i", node.bridge, *match])


def _change(namespace: str, flag: str, chain: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, "iptables", "-t", "mangle", flag, chain]
