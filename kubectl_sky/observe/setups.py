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

PodKey = tuple[str, str]  # namespace and name

MAX_BYTES = 1 << 20  # of the begin of a log in which the end of setup is looked for

_SETUP_BEGINS = f"{NOTE_PREFIX}setup begins"
# After the rest of a line of setup that has no newline.
RUN_BEGINS = re.compile(rf"{NOTE_PREFIX}setup has ended after \d+ seconds, run begins$")


class SetupTimes(Struct, frozen=True):
    """When setup began and ended, in whole seconds; None if it has not, or that is not known."""

    began: datetime | None = None
    ended: datetime | None = None


def read_setup(lines: Iterable[bytes]) -> SetupTimes | None:
    """Return what the lines of a log tell; they begin with their times.

    Nothing is read after the end of setup: a program may print the same lines. None if the end is
    not within the first bytes.
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


def with_setups(task: TaskStatus, setups: Mapping[PodKey, SetupTimes]) -> TaskStatus:
    """Return the task with since when its nodes are in setup; `setups` are by pod."""

    def mark(node: NodeStatus) -> NodeStatus:
        setup = setups.get((task.namespace, node.pod))
        if setup is None or setup.began is None or setup.ended:
            return node
        return replace(node, setup_since=age.timestamp(setup.began))

    return replace(task, nodes=tuple(map(mark, task.nodes))) if setups else task
