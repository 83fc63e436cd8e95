"""Tell since when nodes are in setup, by the beginning of their logs."""

from collections.abc import Collection, Sequence
from contextlib import closing
from time import monotonic

from kubectl_sky.cluster import parallel
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, Forbidden
from kubectl_sky.observe.nodes import State
from kubectl_sky.observe.setups import (
    MAX_BYTES,
    ContainerKey,
    SetupTimes,
    container_key,
    read_setup,
    with_setups,
)
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import names

_INTERVAL = 10.0  # seconds between looks at whether nodes are still in setup
_RUNNING = (State.RUNNING,)


class SetupReader:
    """Read when the setups of nodes began and ended, with a request for each node that has one.

    A log is read once its container has started, then at intervals while it may tell more.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._told: dict[ContainerKey, SetupTimes | None] = {}  # None: it will tell nothing
        self._next_look = 0.0

    def awaits(self, tasks: Sequence[TaskStatus]) -> bool:
        """Return whether the log of a running node is to be read now."""
        return bool(self._list_due(tasks, _RUNNING))

    def read(
        self, tasks: Sequence[TaskStatus], states: Collection[State] = _RUNNING
    ) -> dict[ContainerKey, SetupTimes]:
        """Return the setups of nodes in these states, without logs that cannot be read."""
        due = self._list_due(tasks, states)
        is_over = monotonic() >= self._next_look
        self._told |= zip(due, parallel.map_parallel(self._read_log, due), strict=True)
        if is_over:
            self._next_look = monotonic() + _INTERVAL
        return {key: setup for key, setup in self._told.items() if setup}

    def explain(self, tasks: Sequence[TaskStatus]) -> list[TaskStatus]:
        """Return tasks with since when their nodes are in setup."""
        setups = self.read(tasks)
        return [with_setups(task, setups) for task in tasks]

    def _list_due(
        self, tasks: Sequence[TaskStatus], states: Collection[State]
    ) -> list[ContainerKey]:
        """List the containers whose logs are to be read now: their cluster nodes respond."""
        keys = [
            container_key(task.namespace, node)
            for task in tasks
            if task.has_setup
            for node in task.nodes
            if node.state in states and node.pod and node.started_at and not node.lost_since
        ]
        is_over = monotonic() >= self._next_look
        return [key for key in keys if key not in self._told or (is_over and self._goes_on(key))]

    def _goes_on(self, key: ContainerKey) -> bool:
        setup = self._told[key]
        return setup is not None and setup.ended is None

    def _read_log(self, key: ContainerKey) -> SetupTimes | None:
        namespace, pod, _ = key
        lines = CoreManager(self._session).first_lines(namespace, pod, names.CONTAINER, MAX_BYTES)
        try:
            with closing(lines):
                return read_setup(lines)
        except Forbidden:
            return None
        except ClusterError:  # deleted, or its cluster node does not answer now
            return self._told.get(key, SetupTimes())
