"""Describe how a task failed: its first failed node, the cause, and the program's last lines."""

import re
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from kubectl_sky.observe.documents import DeletedPod
from kubectl_sky.observe.escapes import harmless
from kubectl_sky.observe.evidence import Evidence
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.words.pod_objects import Pod
from kubectl_sky.words.settings import DEFAULT_IMAGE, MISSING_PROGRAM_ADVICE
from kubectl_sky.workloads.workload import LATE

NOTE_PREFIX = "kubectl-sky: "  # of the lines that entry.sh adds to a log
_MAX_LINES = 5  # of a program
_MAX_CAUSE = 200  # characters
_PROGRAM_REASONS = ("Error", "OOMKilled")  # the message is the end of the log, or what it wrote
_CAUSE = re.compile(
    r"^(?:e|err|error|fatal|\w*(?:error|exception))\b|\berror:|\bfatal:|not found|no such file"
    r"|not written back to |not deleted from "
    r"|cannot |permission denied",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"^(?:\[notice\]|hint:|note:|warning:)", re.IGNORECASE)


def describe(
    task: TaskStatus, record: Evidence | None, last_shown: str | None = None, verdict: str = ""
) -> str:
    """Return the first failed node and its cause, with its last log lines unless they were shown.

    `record` has the evidence of the task's failed pods, and `last_shown` the last line of the
    failed pod's log that was shown, if any. `verdict` is what the log says about the cause.
    """
    node = task.first_failure
    if node is None:
        return task.note

    death = first_death(task, record)
    lines = list(death.lines) if death else []
    head = replace(task, causes={}).note
    title = "its last lines"
    gone = None if node.pod or node.reason == LATE else death
    if not gone and node.reason in _PROGRAM_REASONS:
        lines = lines or node.message.splitlines()
    own_lines = program_lines(lines)
    last_lines = "".join(f"\n  {line}" for line in own_lines[-_MAX_LINES:])
    is_shown = last_shown is not None and last_shown.endswith("".join(lines[-1:]))

    if gone:
        head = f"{gone.name}: {gone.end}"
        title = f"last lines of its deleted pod {gone.pod}"
    else:
        known = task.causes.get(node.reason, "")
        message = _cause(node, lines) or verdict or ("" if known in last_lines else known)
        message = message or (last_error(lines) if is_shown else "")
        head = f"{head}: {message}" if message and message not in head else head

    never_ran = node.exit_code is None and bool(node.pod)
    if never_ran or not own_lines or is_shown:
        return head
    return f"{head}; {title}:{last_lines}"


def first_death(task: TaskStatus, record: Evidence | None) -> DeletedPod | None:
    """Return the recorded end of the first failed node, whose pod may be deleted since."""
    node = task.first_failure
    if node is None or record is None:
        return None
    if not node.pod:
        return next(iter(record.gone(task).deaths), None)
    return next((death for death in record.deaths if death.pod == node.pod), None)


def program_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines of a program: without the notes of entry.sh, and safe for a terminal."""
    own_lines = [line for line in lines if line.strip() and not line.startswith(NOTE_PREFIX)]
    return [harmless(line.encode(errors="replace")).decode() for line in own_lines]


_ADVICE_BY_LINE = (
    (
        r"\\r\W|\r|bad interpreter|required file not found",
        r"correct its first line: a missing program, or \r at its end (sed -i 's/\r$//' FILE)",
    ),
    (
        r"^(?!.*\benv: ).*(?:No such file or directory|/\S*: not found)$",
        "check the path: scripts start in ~/sky_workdir, the folder of workdir",
    ),
    (
        r"\bnvidia-smi: ",
        "request a GPU with resources.accelerators: its driver brings nvidia-smi",
    ),
)


def missing_command_advice(pod: Pod, lines: Sequence[str]) -> str:
    """Return what to do about a command that was not found; the log's last lines say which."""
    text = "\n".join(lines[-_MAX_LINES:])
    for pattern, advice in _ADVICE_BY_LINE:
        if re.search(pattern, text, re.MULTILINE):
            return advice
    containers = pod.spec.containers
    if any(container.image == DEFAULT_IMAGE for container in containers):
        return MISSING_PROGRAM_ADVICE
    return "install it in setup, or use an image that has it"


def cause(lines: Sequence[str]) -> str:
    """Return the line that most likely names the cause: the last error, or else the last line."""
    return last_error(lines) or _last(_candidates(lines))


def last_error(lines: Sequence[str]) -> str:
    """Return the last line of a program that names an error; empty if none does."""
    return _last([line for line in _candidates(lines) if _CAUSE.search(line)])


def _candidates(lines: Sequence[str]) -> list[str]:
    return [line.strip() for line in program_lines(lines) if not _ADVICE.match(line.strip())]


def _last(lines: Sequence[str]) -> str:
    return lines[-1][:_MAX_CAUSE] if lines else ""


def _cause(node: NodeStatus, lines: Sequence[str]) -> str:
    """Return the cause that the note of the task does not name yet; empty if unknown."""
    message = " ".join(node.message.split())
    if node.phase == "setup":
        plain = message == f"setup failed with exit code {node.exit_code}"
        return cause(lines) if plain else message
    if node.reason not in _PROGRAM_REASONS:  # a message of the kubelet, the Job or entry.sh
        return message
    return message if NOTE_PREFIX + message in lines else ""
