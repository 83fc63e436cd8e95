"""What commands say of tasks after each of ten faults: the same rank and cause."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.cluster.node_faults import NodeFaults
from tests.e2e.command import Command
from tests.e2e.support import failure_texts
from tests.nodes.causes import FAILING, FAULTS, HOST, RECOVERING, TASKS, Fault, Makers, write_task
from tests.nodes.recorder import Recorder
from tests.nodes.support import hosts, ranks, until_lines
from tests.polling import eventually

pytestmark = [pytest.mark.faults, pytest.mark.timeout(500)]


def shown(sky: Command, task_id: str) -> dict[str, str]:
    """Return what commands say of a task that may go on."""
    commands = {"list": ("-o", "wide"), "status": (task_id,), "doctor": (task_id,)}
    texts = {name: sky(name, *arguments).stdout for name, arguments in commands.items()}
    (row,) = (line for line in texts["list"].splitlines() if line.startswith(task_id))
    return {name: " ".join(text.split()) for name, text in (texts | {"list": row}).items()}


def is_replaced(sky: Command, task_id: str, rank: int) -> bool:
    """Return whether a rank has another pod: one that was lost does not count as a restart."""
    row = ranks(sky, task_id)[rank]
    return row.get("host", HOST) != HOST or bool(row["restarts"])


def check_told(sky: Command, task_id: str, rank: int, cause: str) -> bool:
    for command, text in shown(sky, task_id).items():
        assert f"node-{rank}" in text and re.search(cause, text), (command, text)
    return True


def check_failed(sky: Command, task_id: str, rank: int, cause: str) -> None:
    for command, text in failure_texts(sky, task_id, "240s").items():
        words = " ".join(text.split())
        assert f"node-{rank}" in words and re.search(cause, words), (command, text)


@contextmanager
def made(fault: Fault, makers: Makers) -> Iterator[None]:
    fault.make(makers)
    try:
        yield
    finally:
        if fault.repair:
            fault.repair(makers)


@pytest.mark.parametrize("name", FAULTS)
def test_commands_after_fault_name_the_same_rank_and_cause(
    sky: Command, kubectl: Command, faults: NodeFaults, name: str
) -> None:
    fault = FAULTS[name]
    assert sky("config", "set", "node_lost_after", "20").returncode == 0
    for task_id in TASKS:
        file = sky.write(f"{task_id}.yaml", write_task(fault, task_id))
        sky.start("submit", file, "--id", task_id, "--backend", FAILING.get(task_id, "jobs"))
    for task_id in TASKS:
        until_lines(sky, task_id, "started", 3)
        eventually(lambda task_id=task_id: "waits" not in shown(sky, task_id)["list"])  # type: ignore[misc]
    on_host = {task_id: hosts(sky, task_id).index(HOST) for task_id in TASKS}
    recorder = Recorder(sky, kubectl) if os.environ.get("RECORD_SNAPSHOTS") else None

    with made(fault, Makers(sky, kubectl, faults)):
        for task_id, rank in on_host.items():
            if not fault.cause:
                assert "no problem" in shown(sky, task_id)["doctor"]
            elif task_id in FAILING and fault.fails:
                check_failed(sky, task_id, rank, fault.cause)
            else:
                cause = "" if fault.fails else fault.cause  # it starts again meanwhile
                eventually(lambda: check_told(sky, task_id, rank, cause), 120)  # noqa: B023
            if recorder:
                recorder.save(f"{name}-{FAILING.get(task_id, RECOVERING)}", task_id, rank)

        if fault.cause and fault.fails:
            eventually(lambda: is_replaced(sky, RECOVERING, on_host[RECOVERING]), 200)
