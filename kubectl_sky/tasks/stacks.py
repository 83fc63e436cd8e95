"""`stacks`: where the programs of a task's nodes are, by one dump per node."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from time import sleep

from kubectl_sky.cluster import exec as executing
from kubectl_sky.cluster.core import CoreManager
from kubectl_sky.cluster.exec import FirstBytes, Pipes, Program
from kubectl_sky.cluster.session import Session
from kubectl_sky.errors import ClusterError, SkyError, UserError
from kubectl_sky.observe import stacks
from kubectl_sky.observe.nodes import NodeStatus
from kubectl_sky.observe.status import TaskStatus
from kubectl_sky.tasks.exec import in_nodes, read_script
from kubectl_sky.words import assets, names

_SECONDS = 30.0  # of a dump
_BRING = """
folder=${KUBECTL_SKY_FILES-/kubectl-sky}/bin
mkdir -p "$folder" && cat > "$folder/py-spy" && chmod 755 "$folder/py-spy"
"""
_LOG_LINES = 2000  # of the last seconds, in which faulthandler's dump is looked for
_LOG_DELAY = 1.0  # seconds until a dump is in the log


def dump(session: Session, task: TaskStatus, *, quiet: bool = False) -> stacks.Stacks:
    """Return where the running and the held nodes of a task are; equal stacks once.

    Raises UserError if no node runs, and the error of the first node if none can be read.
    """
    nodes = _list_nodes(task)
    answers = read_dumps(session, task.namespace, nodes, quiet=quiet)
    failures = [answer for answer in answers.values() if isinstance(answer, SkyError)]
    if len(failures) == len(nodes):
        raise failures[0]
    return stacks.fold(
        task.id,
        {
            rank: stacks.Dump((), (answer.what,)) if isinstance(answer, SkyError) else answer
            for rank, answer in answers.items()
        },
        independent=task.workload.independent_nodes,
    )


def _list_nodes(task: TaskStatus) -> list[NodeStatus]:
    """Return the nodes whose containers exist. Raises UserError if there are none."""
    nodes = [it for it in task.nodes if (it.started and not it.state.ended) or it.held_until]
    if not nodes:
        what = f"no node of task {task.id} is running"
        raise UserError(what, f"see `kubectl sky status {task.id}`")
    return nodes


def bring_py_spy(session: Session, task: TaskStatus) -> None:
    """Copy this machine's py-spy to the nodes, beside their files, where stacks.sh finds it.

    Raises UserError if there is none, and the error of the first node if one cannot take it.
    """
    found = shutil.which("py-spy")
    if not found:
        raise UserError("this machine has no py-spy", "run `pip install py-spy`")
    content = Path(found).read_bytes()

    def bring(node: NodeStatus, stop: Event) -> None:
        program = Program(task.namespace, node.pod, names.CONTAINER, ["/bin/sh", "-c", _BRING])
        stderr = FirstBytes()
        pipes = Pipes(stdin=iter((content,)), stderr=stderr, seconds=_SECONDS, stop=stop)
        if code := executing.run(session, program, pipes):
            why = stderr.line or f"exit code {code}"
            raise ClusterError(f"{node.name}: py-spy cannot be written: {why}")

    for answer in in_nodes(_list_nodes(task), bring).values():
        if isinstance(answer, SkyError):
            raise answer


def read_dumps(
    session: Session,
    namespace: str,
    nodes: Sequence[NodeStatus],
    *,
    quiet: bool = False,
    with_recorder: bool = True,
) -> dict[int, stacks.Dump | SkyError]:
    """Return what the processes of each node do, or why that is not known, by rank.

    Programs that register faulthandler are asked by a signal, and write to their log; unless
    `quiet`.
    """
    recorder = b""
    if with_recorder:
        recorder = assets.read("runtime", "flight_recorder.py").encode()  # too long for an argument
    now = int(session.now().timestamp())
    words = ["quiet" if quiet else "", str(len(recorder)), str(now)]
    script = [assets.read("runtime", "stacks.sh"), *words]

    def read(node: NodeStatus, stop: Event) -> stacks.Dump:
        pod = (namespace, node.pod)
        text = read_script(session, pod, script, _SECONDS, stop, recorder)
        if f"@source {stacks.FAULTHANDLER}" not in text:
            return stacks.read(text)
        sleep(_LOG_DELAY)
        lines = CoreManager(session).last_lines(
            namespace, node.pod, names.CONTAINER, _LOG_LINES, sinceSeconds="5"
        )
        return stacks.read(text, b"\n".join(lines).decode(errors="replace"))

    return in_nodes(nodes, read)
