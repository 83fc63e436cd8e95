"""`kubectl sky dev`."""

import io
import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.exec import enter
from kubectl_sky.cli.submit import Results, request
from kubectl_sky.observe.nodes import State
from kubectl_sky.submitting.overrides import Overrides

if TYPE_CHECKING:
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.submitting import submit
    from kubectl_sky.submitting.taskfile import Source, TaskFile
    from kubectl_sky.tasks.submissions import Submitted

_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash; exec sh")  # not all have bash
_OF_TASKS = ("list", "status", "logs", "exec", "stop")  # commands, which dev does not have
_NO_FILE = "<dev>"  # the file name in messages on a pod that has no task file


class _Group(commands.Group):
    """A group whose default command is `up`: `dev task.yaml` is `dev up task.yaml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `up`, unless a command or --help is given."""
        named = (args[:1] and args[0] in ctx.help_option_names) or self.commands.keys() & {*args}
        if args[:1] and args[0] in _OF_TASKS and not os.path.lexists(args[0]):
            hint = f"use `kubectl sky {args[0]}`: a development pod is a task"
            raise click.UsageError(f'unknown command "dev {args[0]}"; {hint}', ctx)
        if not named and (args or not ctx.resilient_parsing):
            args = ["up", *args]
        return super().parse_args(ctx, args)


@click.group("dev", cls=_Group)
def command() -> None:
    """Run a development pod, which stays after setup.

    `up` can be left out: kubectl sky dev --gpus A100:1 --idle 1h

    Its flags: kubectl sky dev up --help
    """


class _Terminal(Results):
    """Print the result of a submit, and keep the id."""

    id = ""

    def submitted(self, submitted: "Submitted") -> None:
        super().submitted(submitted)
        self.id = submitted.id

    def existing(self, task: "TaskStatus") -> None:
        """Print the id of a pod that exists, as an unchanged submit does, and keep it."""
        self.id = task.id
        name = f"task/{task.id}"
        message = f"Task was submitted before with ID: {task.id}"
        if self._form == "name":
            output.out(name)
        elif self._form:
            from kubectl_sky.tasks.submissions import Submission

            report = self._report.report
            document = Submission(task_id=task.id, status="unchanged", message=message, **report)
            output.out(output.data(document, self._form))
        else:
            output.out(f"{name} unchanged: {task.name}, 1 node in namespace {task.namespace}")
            output.note("it has the flags and files of its first `dev`; --new makes another pod")
        sys.stdout.flush()


@command.command(
    "up",
    examples=[
        "dev up --gpus A100:1 --for 8h --idle 1h",
        "dev up task.yaml --image pytorch/pytorch --cpus 8",
    ],
)
@click.argument("file", required=False)
@click.option(
    "--for",
    "lifetime",
    type=options.DURATION,
    help="End the pod this long after setup; 0: no limit (default: the settings).",
)
@click.option(
    "--idle",
    type=options.DURATION,
    help="End the pod after this time without exec sessions and CPU use; 0: never (default: the"
    " settings).",
)
@click.option("--new", is_flag=True, help="Run another pod, even if one of this name exists.")
@options.sending(
    detach="Return at once, without waiting for the pod.",
    limited="the pod to start (default: provision_timeout, then 5m)",
)
@options.node
@options.strict
@options.cluster
@options.output("json", "yaml", "name", paths=False)
def up(
    file: str | None,
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: Any,
) -> int:
    """Run setup of the task in FILE on one node, and stay, without `run`.

    The pod has the name of the task; with -dev, if the task has a `run`: NAME stays that of its
    program.

    Without FILE, the flags say what the pod needs. `exec`, `cp`, `port-forward` and `stop` work as
    for every task, and `dev ssh-config` is for ssh and VS Code.

    If your pod of this name exists, it stays as it is: on a terminal, `dev` opens a shell in it.
    """
    from kubectl_sky.submitting import submit, taskfile

    cluster.check()
    ui = _Terminal(form, flags["dry_run"])
    sending = request(_source(file, overrides, flags), cluster, form, flags)
    task_file = replace(taskfile.prepare(sending.source, ui), after="")
    is_new = flags["new"] or flags["dry_run"] != "none" or task_file.given_id
    if not is_new and (code := _enter_existing(sending, task_file, cluster, ui)) is not None:
        return code
    try:
        submit.submit_file(sending, task_file, ui)
    finally:
        ui.finish()
    _note_uses(ui, form)
    return 0


def _note_uses(ui: _Terminal, form: str | None) -> None:
    if ui.id and not form:
        output.note(f'to copy files, run "kubectl sky cp FILE {ui.id}:"')
        output.note(f'to forward a port, run "kubectl sky port-forward {ui.id} 8888"')
        command = f"kubectl sky dev ssh-config {ui.id} --install"
        output.note(f'for ssh and VS Code, run "{command}"')


def _enter_existing(
    sending: "submit.Options", task_file: "TaskFile", cluster: options.ClusterFlags, ui: _Terminal
) -> int | None:
    """Open a shell in the existing pod of this name, or say how to; None without such a pod."""
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.cluster.streams import LogOptions
    from kubectl_sky.dev import action
    from kubectl_sky.submitting import contexts
    from kubectl_sky.tasks import find, follow
    from kubectl_sky.tasks.logs import LogRequest

    _, connection = contexts.choose(task_file, sending.connection)
    session = Session.connect(connection)
    scope = options.scope(session, cluster, all_users=False)
    pod = action.find_existing(session, scope, task_file.entries[0].task.name)
    if pod is None:
        return None
    ui.existing(pod)
    if not sending.follow:
        return 0
    if pod.state is State.PENDING:
        limit = sending.start_timeout or task_file.start_timeout
        request = LogRequest(LogOptions(follow=True), start_timeout=limit, until_ready=True)
        follow.follow(session, pod, request, ui)
        pod = find.refetch(session, pod) or pod
    if sys.stdin.isatty() and sys.stdout.isatty():
        return enter(session, pod, _SHELL)
    output.note(f'to get in, run "kubectl sky exec {pod.id} -it -- bash"')
    _note_uses(ui, None)
    return 0


def _source(file: str | None, overrides: Overrides, flags: Mapping[str, Any]) -> "Source":
    from kubectl_sky.actions.config import preferences
    from kubectl_sky.dev import model
    from kubectl_sky.submitting.taskfile import Source

    expiry = model.expiry(_seconds(flags["lifetime"]), _seconds(flags["idle"]), preferences())
    stdin = sys.stdin.buffer if file else io.BytesIO(b"name: dev\n")
    return Source(
        file or _NO_FILE,
        overrides,
        os.environ,
        stdin,
        flags["strict"],
        in_memory=not file,
        adapt=partial(model.only_pod, expiry=expiry, is_named=overrides.name is not None),
    )


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


@command.command(
    "ssh-config",
    examples=["dev ssh-config dev --install", "dev ssh-config train --public-key key.pub"],
)
@click.argument("task", required=False)
@click.option("--install", is_flag=True, help="Write the entry, and include it in ~/.ssh/config.")
@click.option(
    "--public-key",
    metavar="FILE",
    help="Public key that may log in (default: the first of ~/.ssh/id_*.pub).",
)
@options.cluster
def ssh_config(
    task: str | None, install: bool, public_key: str | None, cluster: options.ClusterFlags
) -> None:
    """Print the Host entry of a development pod for ~/.ssh/config, such as for VS Code.

    Each connection is a `kubectl sky exec`, which starts sshd in the pod: no port is opened, and
    RBAC decides who may connect. The image needs openssh-server, or setup installs it.

    The pod's host key is read through the API server, and saved in ~/.ssh/kubectl-sky. ssh connects
    to this pod only. Run the command again after the pod was replaced.
    """
    from kubectl_sky.dev import action, model
    from kubectl_sky.tasks import find

    key = action.public_key(public_key)
    session = cluster.session()
    match = find.get_task(session, options.scope(session, cluster, all_users=False), task)
    alias = model.alias_of(task or match.id, match.id)
    host = model.SshHost(alias, match.id, action.login(session, match), key)
    program = action.exec_command(session, match, {**cluster.connection, "user": cluster.user})
    output.out(action.save(host, program, install=install))
    output.note(f'to connect, run "ssh {host.alias}", or choose the host in VS Code')
