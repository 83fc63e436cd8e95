"""What the time of a task went into, beside programs whose truth is known."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kubectl_sky.observe.goodput import (
    Attempt,
    NodeTimes,
    TaskGoodput,
    account,
    read_attempts,
    record_uses,
    recorded_goodput,
    task_goodput,
)
from kubectl_sky.observe.status import tasks
from kubectl_sky.observe.steps import StepReader, Steps
from kubectl_sky.observe.uses import Use, read_uses
from tests.builders import make_job, make_pod
from tests.reading import read_jobs, read_pods

SUBMITTED = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return SUBMITTED + timedelta(seconds=seconds)


def read(lines: Iterable[tuple[float, str]]) -> Steps:
    reader = StepReader()
    for seconds, text in lines:
        reader.read(f"{at(seconds).isoformat()} {text}".encode())
    return reader.steps


def train(
    begin: float, steps: Iterable[int], step: float = 2.0, pauses: dict[int, float] | None = None
) -> list[tuple[float, str]]:
    """Return the lines of steps, each printed at its end; some are preceded by a pause."""
    lines = []
    for number in steps:
        begin += step + (pauses or {}).get(number, 0.0)
        lines.append((begin, f"step {number}: loss 1.0"))
    return lines


def attempt(begin: float, end: float | None, lines: Iterable[tuple[float, str]]) -> Attempt:
    """An attempt that waits 5 s, needs 20 s for its image, and then runs."""
    finished = None if end is None else at(end)
    return Attempt(at(begin), at(begin + 5), at(begin + 25), finished, steps=read(lines))


def uses(attempts: list[Attempt], end: float) -> dict[Use, Any]:
    result = account(SUBMITTED, attempts, at(end))
    assert sum(result.values()) == pytest.approx(end), "no second is lost or doubled"
    return {use: pytest.approx(seconds, abs=0.02 * end) for use, seconds in result.items()}


def test_time_before_the_first_step_is_queue_start_and_loading() -> None:
    lines = train(35, range(1, 101))

    found = uses([attempt(0, 235, lines)], 235)

    assert found[Use.QUEUE] == 5
    assert found[Use.START] == 20
    assert found[Use.LOADING] == 10
    assert found[Use.STEPS] == 200


def test_steps_after_the_last_checkpoint_are_repeated_and_an_unfinished_one_is_lost() -> None:
    first = attempt(0, 146, train(25, range(1, 61)))  # killed within step 61
    second = attempt(156, 261, train(181, range(51, 91)))  # goes on from a checkpoint

    found = uses([first, second], 261)

    assert found[Use.STEPS] == 2 * 90
    assert found[Use.REPEATED] == 2 * 10 + 1
    assert found[Use.DOWN] == 10
    assert found[Use.QUEUE] == 10
    assert found[Use.START] == 40


def test_a_pause_without_output_is_a_stall_and_one_with_output_is_other_work() -> None:
    lines = train(25, range(1, 51), pauses={20: 60, 40: 30})
    evaluation = [
        (time - 3, "validation: accuracy 0.9") for time, text in lines if "step 40:" in text
    ]

    found = uses([attempt(0, 215, sorted([*lines, *evaluation]))], 215)

    assert found[Use.STALLS] == 60
    assert found[Use.OTHER] == 30
    assert found[Use.STEPS] == 100


def test_a_task_that_has_been_silent_for_long_stalls_now() -> None:
    found = uses([attempt(0, None, train(25, range(1, 51)))], 325)

    assert found[Use.STALLS] == 200


def test_a_silence_after_two_steps_is_a_stall() -> None:
    found = uses([attempt(0, None, train(25, [1, 2]))], 329)

    assert found[Use.STALLS] == 298
    assert found[Use.STEPS] == 6


def test_steps_that_become_slow_are_no_stalls() -> None:
    lines = train(25, range(1, 51))
    lines += train(125, range(51, 91), step=8)

    found = uses([attempt(0, 445, lines)], 445)

    assert found[Use.STALLS] == 0
    assert found[Use.STEPS] == 420


def test_unnamed_epochs_are_not_told_as_repeated() -> None:
    lines = [(25 + 2 * number, f"{number % 10}/10") for number in range(1, 50)]
    again = [(256 + number, text) for number, text in enumerate(text for _, text in lines)]
    first = attempt(0, 124, lines)

    found = uses([first, attempt(230, 305, again)], 305)

    assert found[Use.REPEATED] == 0


def test_the_time_of_an_attempt_without_its_log_is_unknown() -> None:
    lost = Attempt(at(0), at(5), at(25), at(100))

    found = uses([lost, attempt(100, 225, train(125, range(1, 51)))], 225)

    assert found[Use.UNKNOWN] == 75
    assert found[Use.STEPS] == 100


def goodput_of(*nodes: Attempt, end: float) -> TaskGoodput:
    objects = [make_job(node, len(nodes)) for node in range(len(nodes))]
    (task,) = tasks(read_jobs(objects), [])
    times = [NodeTimes(node, [it], at(end)) for node, it in zip(task.nodes, nodes, strict=True)]
    return task_goodput(task, times, at(end))


def test_nodes_that_print_no_steps_count_like_the_one_that_does() -> None:
    silent = attempt(0, 235, [])

    found = goodput_of(attempt(0, 235, train(35, range(1, 101))), silent, end=235)

    shares = {share.use: share.percent for share in found.shares}
    assert shares["steps"] == pytest.approx(100 * 200 / 235, abs=1)
    assert found.nodes[1].steps == 0


def test_the_slowest_node_is_named_with_the_time_since_when() -> None:
    usual = attempt(0, None, train(25, range(1, 201)))
    slow = attempt(0, None, [*train(25, range(1, 101)), *train(225, range(101, 161), step=3.2)])

    found = goodput_of(usual, slow, usual, end=430)

    assert [bool(node.slow_since) for node in found.nodes] == [False, True, False]
    assert found.nodes[1].slow_since == "2026-01-01T00:03:45Z"
    assert found.nodes[1].latest_seconds == 3.2
    assert not found.slow_since


def test_nodes_that_wait_for_each_other_are_slow_as_a_whole() -> None:
    lines = [*train(25, range(1, 101)), *train(225, range(101, 161), step=3)]

    found = goodput_of(attempt(0, None, lines), attempt(0, None, lines), end=405)

    assert found.slow_since == "2026-01-01T00:03:45Z"


def test_a_log_without_steps_says_how_to_name_them() -> None:
    found = goodput_of(attempt(0, None, [(30, "hello")]), end=60)

    assert found.notes == ("no line of its log counts steps: set config.kubectl_sky.step_regex",)


def test_what_is_recorded_of_the_first_node_is_what_its_log_told() -> None:
    (task,) = tasks(read_jobs([make_job(0, 2, "Complete"), make_job(1, 2, "Complete")]), [])
    first = NodeTimes(task.nodes[0], [attempt(0, 235, train(35, range(1, 101)))], at(235))
    whole = task_goodput(task, [first], at(235))

    found = record_uses(task, first)
    assert found
    assert read_uses(found.text) == found
    later = recorded_goodput(task, found)

    assert (later.percent, later.seconds) == (whole.percent, whole.seconds)
    assert later.percent == pytest.approx(100 * 200 / 235, abs=0.1)
    assert later.step_seconds == 2
    assert found.share_of_gpu_time == pytest.approx(200 / 230, abs=0.001)


def test_nothing_is_recorded_of_a_log_without_steps() -> None:
    (task,) = tasks(read_jobs([make_job(0, 1, "Complete")]), [])
    first = NodeTimes(task.nodes[0], [attempt(0, 60, [(30, "hello")])], at(60))
    assert record_uses(task, first) is None


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"uses": {"steps": -1}}', '{"uses": {"steps": 1e400}}', '{"uses": {}}'],
)
def test_a_damaged_record_counts_as_none(text: str) -> None:
    assert read_uses(text) is None


def test_what_was_read_of_an_annotation_is_not_kept() -> None:
    text = '{"uses": {"steps": 1}}'
    assert read_uses(text) is not read_uses(text)


def test_the_time_of_a_finished_node_without_pods_is_unknown() -> None:
    (task,) = tasks(read_jobs([make_job(0, 1, "Complete")]), [])

    found = task_goodput(task, [NodeTimes(task.nodes[0], [], at(540))], at(600))

    assert [(share.use, share.seconds) for share in found.shares] == [(Use.UNKNOWN, 540)]
    assert found.notes == ("logs of earlier attempts are gone: their time is not divided",)


def test_a_container_that_started_again_in_its_pod_has_two_attempts() -> None:
    running = {"running": {"startedAt": "2026-01-01T00:05:00Z"}}
    before = {
        "exitCode": 1,
        "reason": "Error",
        "startedAt": "2026-01-01T00:01:00Z",
        "finishedAt": "2026-01-01T00:04:00Z",
    }
    pod = make_pod(phase="Running", state=running)
    pod["status"]["containerStatuses"][-1]["lastState"] = {"terminated": before}

    first, second = read_attempts(read_pods([pod]))

    assert (first[1], first[2].finished) == (True, at(240))
    assert (second[1], second[2].created, second[2].finished) == (False, at(300), None)
