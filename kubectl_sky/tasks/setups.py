"""Tell since when nodes are in setup, by the begin of their logs."""

from collections.abc import Collection, Sequence
from contextlib import closing

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.setups import MAX_BYTES, PodKey, SetupTimes, read_setup, with_setups
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import names

_RUNNING = (State.RUNNING,)


class SetupReader:
    """Read when the setups of nodes began and ended, with a request for each node that has one.

    The log of a pod is read again only while it may tell more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._over = set[PodKey]()

    def awaits(self, task: TaskStatus) -> bool:
        """Return whether a running node may be in setup, or before it."""
        return any(self._list_pods([task], _RUNNING))

    def read(
        self, tasks: Sequence[TaskStatus], states: Collection[State] = _RUNNING
    ) -> dict[PodKey, SetupTimes]:
        """Return the setups of nodes in these states, without logs that cannot be read."""
        pods = self._list_pods(tasks, states)
        setups = zip(pods, parallel.map_parallel(self._read_log, pods), strict=True)
        known = {pod: setup for pod, setup in setups if setup}
        self._over |= {pod for pod in pods if pod not in known or known[pod].ended}
        return known

    def explain(self, tasks: Sequence[TaskStatus]) -> list[TaskStatus]:
        """Return tasks with since when their nodes are in setup."""
        setups = self.read(tasks)
        return [with_setups(task, setups) for task in tasks]

    def _list_pods(self, tasks: Sequence[TaskStatus], states: Collection[State]) -> list[PodKey]:
        """List the pods of nodes whose container has started, and whose cluster node responds."""
        pods = [
            (task.namespace, node.pod)
            for task in tasks
            if task.has_setup
            for node in task.nodes
            if node.state in states and node.pod and node.started_at and not node.lost_since
        ]
        return [pod for pod in pods if pod not in self._over]

    def _read_log(self, pod: PodKey) -> SetupTimes | None:
        lines = CoreManager(self._session).first_lines(*pod, names.CONTAINER, MAX_BYTES)
        try:
            with closing(lines):
                return read_setup(lines)
        except ClusterError:  # no right to read it, deleted, or its cluster node does not answer
            return None
