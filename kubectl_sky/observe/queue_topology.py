"""Tell where a queue with a topology places pods: Kueue does it there, not the scheduler.

https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling
"""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kubectl_sky.observe.admission import QueueState
from kubectl_sky.observe.preemption import Holder, read_holders
from kubectl_sky.words.core_objects import Node
from kubectl_sky.words.pod_objects import Pod

_HOSTNAME = "kubernetes.io/hostname"
_NOT_READY = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class Topology(Struct, frozen=True):
    """The levels of a topology: labels of cluster nodes, the widest first."""

    levels: tuple[str, ...]

    def find_nodes(self, cluster_nodes: Iterable[Node]) -> list[Node]:
        """Return the cluster nodes that are in it: those that have all labels."""
        return [node for node in cluster_nodes if self.levels_in(node)]

    def levels_in(self, node: Node) -> bool:
        return all(level in node.metadata.labels for level in self.levels)

    def list_down_to(self, level: str) -> tuple[str, ...]:
        """Return the levels down to one, whose values name a domain; none without a level."""
        return self.levels[: self.levels.index(level) + 1] if level else ()


def is_ready(node: Node) -> bool:
    """Return whether Kueue places pods on a cluster node, whatever they tolerate."""
    return not any(taint.key in _NOT_READY for taint in node.spec.taints)


def find_topology(
    state: QueueState, flavors: Sequence[Sequence[str]], level: str | None
) -> Topology | None:
    """Return the topology of the flavors of a template; None if Kueue's choice is not computed.

    It is computed for one template, down to cluster nodes: above them, Kueue adds up what is free.
    """
    names = {name for part in flavors for name in part}
    (topology, *others) = state.find_topologies(names)
    levels = tuple((state.topologies or {}).get(topology, ()))
    is_plain = not others and len(set(map(tuple, flavors))) == 1
    if level is None or not is_plain or not levels or levels[-1] != _HOSTNAME:
        return None
    return Topology(levels)


def list_placed(state: QueueState) -> list[Holder]:
    """Return the workloads whose cluster nodes Kueue has chosen."""
    return [
        holder
        for holder in read_holders(state.workloads)
        if state.find_topologies(flavor for flavor, _ in holder.usage)
    ]


def are_all_running(holders: Iterable[Holder], running: Sequence[Pod]) -> bool:
    """Return whether all of these workloads have pods, and each pod has its cluster node."""
    hosts: dict[str, bool] = {}
    for pod in running:
        for owner in pod.metadata.owner_references:
            has_host = bool(pod.spec.node_name)
            hosts[owner.uid] = has_host and hosts.get(owner.uid, True)
    return all(hosts.get(holder.owner.uid, False) for holder in holders)
