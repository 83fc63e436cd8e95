"""When setup began and ended, by the lines of a log."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from kubectl_sky.observe import status
from kubectl_sky.observe.setups import (
    MAX_BYTES,
    SetupTimes,
    container_key,
    read_setup,
    with_setups,
)
from tests.builders import ID, make_job, make_pod
from tests.reading import read_jobs, read_pods

BEGINS = "kubectl-sky: setup begins"
ENDS = "kubectl-sky: setup has ended after 9 seconds, run begins"


def at(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def read(*lines: str) -> SetupTimes | None:
    """Read lines, of which one is printed a second."""
    stamped = (f"2026-01-01T00:00:{number:02}.5Z {line}" for number, line in enumerate(lines))
    return read_setup(line.encode() for line in stamped)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([], SetupTimes()),
        (["kubectl-sky: waiting for the upload of the files for ~"], SetupTimes()),
        ([BEGINS, "pip"], SetupTimes(at(0))),
        (["hello", BEGINS, "pip", ENDS], SetupTimes(at(1), at(3))),
        ([BEGINS, f"100%{ENDS}"], SetupTimes(at(0), at(1))),  # the line of setup has no newline
        ([ENDS, BEGINS], SetupTimes(at(1))),
        ([BEGINS, "pip", BEGINS, ENDS, BEGINS, ENDS], SetupTimes(at(0), at(3))),
        ([f"echo {BEGINS}", f"{BEGINS}?"], SetupTimes()),
        ([BEGINS, f"{ENDS}?"], SetupTimes(at(0))),
    ],
)
def test_setup_is_told_by_the_first_lines_in_order(lines: list[str], expected: SetupTimes) -> None:
    assert read(*lines) == expected


def test_setup_that_goes_on_after_the_first_bytes_is_not_known() -> None:
    assert read(BEGINS, "x" * MAX_BYTES) is None
    assert read(BEGINS, "x" * (MAX_BYTES // 2), ENDS) == SetupTimes(at(0), at(2))


def test_lines_without_times_tell_nothing() -> None:
    lines = [BEGINS.encode(), f"\xff {BEGINS}".encode("latin-1"), f"now {BEGINS}".encode()]
    assert read_setup(lines) == SetupTimes()


def test_nothing_is_read_after_the_end_of_setup() -> None:
    lines = iter([f"{at(0).isoformat()} {text}".encode() for text in (BEGINS, ENDS, "step 1")])
    read_setup(lines)
    assert len(list(lines)) == 1


def test_state_of_task_says_since_when_all_running_nodes_are_in_setup() -> None:
    pods = [make_pod(node, nodes=2, state={"running": {}}) for node in range(2)]
    jobs = [make_job(node, nodes=2) for node in range(2)]
    (task,) = status.tasks(read_jobs(jobs), read_pods(pods))
    keys = [container_key("default", node) for node in task.nodes]
    setups = {keys[0]: SetupTimes(at(5)), keys[1]: SetupTimes(at(4))}

    marked = with_setups(task, setups)
    assert [node.setup_since for node in marked.nodes] == [
        "2026-01-01T00:00:05Z",
        "2026-01-01T00:00:04Z",
    ]
    assert (marked.state, marked.state_at(at(34))) == ("running", "running (setup 30s)")

    one_runs = with_setups(task, setups | {keys[1]: SetupTimes(at(4), at(6))})
    assert [node.setup_since for node in one_runs.nodes] == ["2026-01-01T00:00:05Z", ""]
    assert one_runs.state_at(at(34)) == "running"
    assert replace(task, id=ID).state_at(at(34)) == "running"
