"""Tell when the setup of a node began and ended, by what entry.sh writes into its log."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.observe.failure import NOTE_PREFIX
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words import age

ContainerKey = tuple[str, str, str]  # namespace, pod, and when its container started

MAX_BYTES = 1 << 20  # of the beginning of a log in which the end of setup is looked for

_SETUP_BEGINS = f"{NOTE_PREFIX}setup begins"
# After the rest of a line of setup that has no newline.
RUN_BEGINS = re.compile(rf"{NOTE_PREFIX}setup has ended after \d+ seconds, run begins$")


class SetupTimes(Struct, frozen=True):
    """When setup began and ended, in whole seconds; None if it has not, or that is not known."""

    began: datetime | None = None
    ended: datetime | None = None


def read_setup(lines: Iterable[bytes]) -> SetupTimes | None:
    """Return what the lines of a log tell; they begin with their times.

    Nothing is read after the end of setup: a program may print the same lines. None if that
    is not within the first bytes.
    """
    began = None
    size = 0
    for line in lines:
        size += len(line) + 1
        stamp, _, text = line.decode(errors="replace").partition(" ")
        if began is None:
            began = _time(stamp) if text == _SETUP_BEGINS else None
        elif RUN_BEGINS.search(text):
            return SetupTimes(began, _time(stamp))
    return SetupTimes(began) if size < MAX_BYTES else None


def _time(stamp: str) -> datetime | None:
    time = age.parse(stamp)
    return time and time.replace(microsecond=0)


def container_key(namespace: str, node: NodeStatus) -> ContainerKey:
    """Return whose log it is: a container that is restarted in place keeps its pod."""
    return namespace, node.pod, node.started_at


def with_setups(task: TaskStatus, setups: Mapping[ContainerKey, SetupTimes]) -> TaskStatus:
    """Return the task with since when its nodes are in setup."""

    def mark(node: NodeStatus) -> NodeStatus:
        setup = setups.get(container_key(task.namespace, node))
        if setup is None or setup.began is None or setup.ended:
            return node
        return replace(node, setup_since=age.timestamp(setup.began))

    return replace(task, nodes=tuple(map(mark, task.nodes))) if setups else task
