"""`kubectl sky exec`."""

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.terminal import write
from kubectl_sky.errors import UserError
from kubectl_sky.observe.escapes import Cleaner

if TYPE_CHECKING:
    from kubectl_sky.cluster.exec import Pipes, Sink
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus


_SHELL_LINE = 'exec "$(command -v bash || command -v sh)" -c "$0"'  # as setup and run
_BLOCK_BYTES = 64 * 1024

Size = tuple[int, int]


def _no_program(task: str | None, container: str | None) -> click.UsageError:
    """Return the error of a missing program; in SkyPilot, -c names the task."""
    from kubectl_sky.words import skypilot_verbs

    name = task if task and " " not in task else "TASK"
    answer = f"such as `kubectl sky exec {name} -- nvidia-smi`"
    if container:
        answer = skypilot_verbs.option("exec", "-c")
    message = f"missing argument '-- CMD...'; {answer}"
    return click.UsageError(message, click.get_current_context())


@commands.command(
    "exec",
    examples=[
        "exec train --rank 1 -it -- bash",
        "exec -- nvidia-smi",
        "exec train 'ls $HOME'",
        "exec train --all-ranks -- cat /etc/hostname",
    ],
)
@click.argument("task", required=False)
@click.argument("program", nargs=-1, metavar="-- CMD...")
@click.option("--rank", type=click.IntRange(min=0), help="Rank of the node (default: 0).")
@click.option(
    "--all-ranks", is_flag=True, help="Run in all nodes in parallel, with a prefix for each."
)
@click.option("-i", "--stdin", "pass_stdin", is_flag=True, help="Pass stdin to the command.")
@click.option("-t", "--tty", is_flag=True, help="Allocate a terminal; requires -i.")
@click.option("-c", "--container", default="", help="Container of the pod (default: the task's).")
@options.cluster_all_namespaces
@options.all_users
def command(
    task: str | None,
    program: tuple[str, ...],
    cluster: options.ClusterFlags,
    all_users: bool,
    **flags: Any,
) -> int:
    """Run a program in a node of TASK, like kubectl exec, and exit with its code.

    Without TASK, run it in your last task. One word with spaces is a line of a shell.

    The program runs in ~/sky_workdir if that exists, with the variables of run: envs and secrets,
    SKYPILOT_NODE_RANK, SKYPILOT_NUM_NODES, SKYPILOT_NODE_IPS, MASTER_ADDR and so on. Variables
    that run itself exported are not available.
    """
    from kubectl_sky.cluster.exec import run
    from kubectl_sky.tasks import exec as action
    from kubectl_sky.tasks import multikueue

    before_dashes = click.get_current_context().meta[commands.BEFORE_DASHES]
    if before_dashes and before_dashes > 1:
        hint = "only TASK stands there; write the program after --"
        raise UserError(f'"{program[0]}" stands before --', hint)
    if task and before_dashes == 0:
        program = (task, *program)
        task = None
    if len(program) == 1 and " " in program[0].strip():  # a line of a shell, as in SkyPilot
        program = ("/bin/sh", "-c", _SHELL_LINE, program[0])
    if not program:
        raise _no_program(task, flags["container"])
    if before_dashes is None and program[0].endswith((".yaml", ".yml")):  # as in SkyPilot
        raise UserError(
            f'"{program[0]}" is a file; exec runs a program in the task',
            f"submit it as a task of its own: kubectl sky submit {program[0]}",
        )
    rank = flags["rank"]
    container = flags["container"]
    all_ranks = flags["all_ranks"]
    if all_ranks and (rank is not None or flags["pass_stdin"] or flags["tty"] or container):
        raise UserError("--all-ranks cannot be combined with --rank, -i, -t or -c")
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    session, match = multikueue.locate_task(session, scope, task)
    target = action.task_environment(session, match)
    if all_ranks:
        out = action.Stream(write, sys.stdout.isatty())
        err = action.Stream(_write_stderr, sys.stderr.isatty())
        return action.run_all(session, target, program, action.Output(out, err, output.note))
    node = action.node_of_rank(match, rank or 0)
    with _pipes(flags["pass_stdin"], flags["tty"]) as pipes:
        return run(session, target.program(node, program, container), pipes)


def _write_stderr(block: bytes) -> None:
    sys.stderr.buffer.write(block)
    sys.stderr.buffer.flush()


def enter(session: "Session", task: "TaskStatus", program: Sequence[str]) -> int:
    """Run a program of a terminal in rank 0 of a task; return its exit code."""
    from kubectl_sky.cluster.exec import run
    from kubectl_sky.tasks import exec as action

    target = action.task_environment(session, task)
    node = action.node_of_rank(task, 0)
    with _pipes(pass_stdin=True, tty=True) as pipes:
        return run(session, target.program(node, program), pipes)


@contextmanager
def _pipes(pass_stdin: bool, tty: bool) -> Iterator["Pipes"]:
    """Yield the local streams.

    A terminal passes on every key until the program exits.
    """
    from kubectl_sky.cluster.exec import Pipes

    stdin = _read_stdin() if pass_stdin else None
    if tty and not pass_stdin:
        output.note("-t requires -i")
    elif tty and not sys.stdin.isatty():
        output.note("stdin is not a terminal; running without a TTY")
    elif tty:
        with _raw_terminal() as sizes:
            yield Pipes(stdin, write, _write_stderr, tty=True, sizes=sizes)
        return
    with (
        _without_control_sequences(write, sys.stdout) as out,
        _without_control_sequences(_write_stderr, sys.stderr) as err,
    ):
        yield Pipes(stdin, out, err)


@contextmanager
def _without_control_sequences(sink: "Sink", stream: TextIO) -> "Iterator[Sink]":
    """Yield the sink; for a terminal, one that makes control sequences harmless."""
    if not stream.isatty():
        yield sink
        return
    cleaner = Cleaner()
    try:
        yield lambda data: sink(cleaner.clean(data))
    finally:
        sink(cleaner.clean(b"", final=True))


def _read_stdin() -> Iterator[bytes]:
    while block := os.read(sys.stdin.fileno(), _BLOCK_BYTES):
        yield block


@contextmanager
def _raw_terminal() -> Iterator[Iterator[Size]]:
    """Pass on every key, Ctrl-C too; yield columns and rows, now and at each change."""
    try:
        import termios
        import tty
    except ImportError:
        raise UserError("-t does not work on this system", "use -i, or kubectl exec -it") from None
    queue: SimpleQueue[Size | None] = SimpleQueue()  # put() is safe in a signal handler

    def resized(*_: object) -> None:
        columns, rows = os.get_terminal_size(sys.stdin.fileno())
        queue.put((columns, rows))

    resized()
    previous_handler = signal.signal(signal.SIGWINCH, resized)
    attributes = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin, termios.TCSADRAIN)  # TCSADRAIN keeps what has already been typed
    try:
        yield iter(queue.get, None)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)
        signal.signal(signal.SIGWINCH, previous_handler)
        queue.put(None)
