"""How a failed task is described: the cause, and last lines only if they were not shown."""

import pytest

from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.evidence import Evidence
from kubectl_sky.observe.failure import cause, describe, missing_command_advice, program_lines
from kubectl_sky.observe.nodes import end_text
from kubectl_sky.observe.status import TaskStatus, tasks
from tests.builders import Json, make_job, make_pod, terminated
from tests.reading import read_job, read_jobs, read_pod, read_pods

PIP = (
    "kubectl-sky: setup begins",
    "Collecting torch==99",
    "ERROR: Could not find a version that satisfies the requirement torch==99",
    "ERROR: No matching distribution found for torch==99",
    "[notice] A new release of pip is available: 23.2 -> 26.0",
    "kubectl-sky: setup failed with exit code 1",
)
NOTICE = "[notice] A new release of pip is available: 23.2 -> 26.0"


def make_failed(end: Json, **status: str) -> TaskStatus:
    (task,) = tasks(
        [read_job(make_job(end="Failed"))], [read_pod(make_pod(0, "Failed", end, **status))]
    )
    return task


def make_record(task: TaskStatus, *lines: str, pod: str = "") -> Evidence:
    node = task.nodes[0]
    death = DeletedPod(0, "node-0", pod or node.pod, reason="Error", exit_code=1, lines=lines)
    return Evidence(task.id, task.name, task.namespace, "https://x", task.created_at, (death,))


@pytest.mark.parametrize(
    ("reason", "code", "text"),
    [
        ("Error", 1, "exit code 1"),
        ("Error", 127, "exit code 127 (command not found)"),
        ("Error", 137, "exit code 137 (SIGKILL: killed, often out of memory)"),
        ("Error", 139, "exit code 139 (SIGSEGV: segmentation fault)"),
        ("OOMKilled", 137, "OOMKilled (exit code 137)"),
        ("FAILED_SETUP", 2, "setup failed (exit code 2)"),
        ("Evicted", None, "Evicted"),
        ("Failed", None, "Failed"),
        ("", None, "failed"),
    ],
)
def test_end_text_names_reason_or_exit_code_with_meaning(
    reason: str, code: int | None, text: str
) -> None:
    assert end_text(reason, code) == text


def test_describe_shown_log_is_not_repeated_but_for_its_error() -> None:
    task = make_failed(terminated(1) | {})
    record = make_record(task, "kubectl-sky: files unpacked", "Traceback", "ValueError: bad")
    head = "node-0: exit code 1"
    assert describe(task, record, "ValueError: bad") == f"{head}: ValueError: bad"
    silent = make_record(task, "kubectl-sky: files unpacked", "one", "two")
    assert describe(task, silent, "two") == head
    stamped = "2026-01-01T00:00:00Z ValueError: bad"
    assert describe(task, record, stamped) == f"{head}: ValueError: bad"
    assert describe(task, record) == f"{head}; its last lines:\n  Traceback\n  ValueError: bad"
    assert describe(task, record, "an earlier line").endswith("\n  ValueError: bad")


def test_describe_killed_program_has_no_message_of_the_job() -> None:
    task = make_failed(terminated(137))
    assert describe(task, None) == "node-0: exit code 137 (SIGKILL: killed, often out of memory)"
    assert task.nodes[0].message == ""


def test_describe_termination_message_without_record_is_last_lines() -> None:
    end = terminated(3)
    end["terminated"]["message"] = "kubectl-sky: setup begins\nfirst\nlast\n"
    task = make_failed(end)
    assert describe(task, None) == "node-0: exit code 3; its last lines:\n  first\n  last"


def test_describe_failed_setup_quotes_its_error() -> None:
    end = terminated(1)
    end["terminated"]["message"] = PIP[-1].removeprefix("kubectl-sky: ")
    task = make_failed(end)
    error = "ERROR: No matching distribution found for torch==99"
    assert describe(task, make_record(task, *PIP), PIP[-1]) == (
        f"node-0: setup failed (exit code 1): {error}"
    )
    assert describe(task, None) == "node-0: setup failed (exit code 1)"


def test_describe_failed_setup_of_other_rank_names_rank() -> None:
    end = terminated(1)
    end["terminated"]["message"] = "setup failed with exit code 1 on rank 2"
    assert describe(make_failed(end), None).endswith(": setup failed with exit code 1 on rank 2")


def test_describe_message_of_entry_script_is_cause() -> None:
    end = terminated(1)
    text = "the image has no git"
    end["terminated"]["message"] = text
    task = make_failed(end)
    line = f"kubectl-sky: {text}"
    assert describe(task, make_record(task, line), line) == f"node-0: exit code 1: {text}"


def test_describe_evicted_pod_has_message_of_the_kubelet_once() -> None:
    task = make_failed(terminated(137), reason="Evicted", message="The node was low on memory.")
    assert describe(task, make_record(task, "epoch 1"), "epoch 1") == (
        "node-0: Evicted (exit code 137): The node was low on memory."
    )


def test_describe_deleted_pod_has_recorded_lines() -> None:
    (task,) = tasks([read_job(make_job(end="Failed"))], [])
    text = describe(task, make_record(task, "why", pod="train-0-x"))
    assert text == "node-0: exit code 1; last lines of its deleted pod train-0-x:\n  why"
    assert describe(task, make_record(task, "why", pod="train-0-x"), "why") == "node-0: exit code 1"


def test_first_failure_of_same_second_is_node_that_was_not_stopped() -> None:
    """Both nodes lack torchrun; the client saw node-1 first and began to stop node-0."""
    jobs = [make_job(rank, 2, "Failed") for rank in range(2)]
    jobs[0]["metadata"]["annotations"]["kubectl-sky/stopped-for"] = "node-1"
    pods = [make_pod(rank, "Failed", terminated(127)) for rank in range(2)]
    (task,) = tasks(read_jobs(jobs), read_pods(pods))
    assert describe(task, None) == "node-1: exit code 127 (command not found)"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (PIP, "ERROR: No matching distribution found for torch==99"),
        (("E: Unable to locate package nosuch", "done"), "E: Unable to locate package nosuch"),
        (
            ("run.sh: line 2: nosuch: command not found", "done"),
            "run.sh: line 2: nosuch: command not found",
        ),
        (("Traceback", "ImportError: No module named 'x'", ""), "ImportError: No module named 'x'"),
        (("one", "two"), "two"),
        ((NOTICE, "kubectl-sky: setup failed with exit code 1"), ""),
        ((), ""),
        (("error: " + "x" * 900,), "error: " + "x" * 193),
    ],
)  # fmt: skip
def test_cause_is_last_error_or_last_line(lines: tuple[str, ...], expected: str) -> None:
    assert cause(lines) == expected


def test_program_lines_leave_out_notes_and_are_safe_for_terminal() -> None:
    lines = ("kubectl-sky: setup begins", " ", "a\x1b[2Jb", "c")
    assert program_lines(lines) == ["ab", "c"]


IMAGE = "install it in setup, or use an image that has it"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("bash: line 1: foo: command not found", IMAGE),
        ("sh: foo: not found", IMAGE),
        ("/usr/bin/env: 'python': No such file or directory", IMAGE),
        ("/usr/bin/env: 'bash\\r': No such file or directory", "correct its first line"),
        ("bash: line 1: ./y.sh: cannot execute: required file not found", "correct its first line"),
        ("run.sh: 1: ./x.sh: not found", "check the path: scripts start in ~/sky_workdir"),
        ("bash: x.sh: No such file or directory", "check the path"),
        ("bash: line 1: nvidia-smi: command not found", "request a GPU"),
    ],
)
def test_missing_command_advice_fits_last_line(line: str, advice: str) -> None:
    assert missing_command_advice(read_pod({}), ["a", line, "/usr/bin/env: use -[v]S"]).startswith(
        advice
    )
