"""`kubectl sky dev`."""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from kubectl_sky.actions.flags import Overrides
from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.submit import Results, request
from kubectl_sky.errors import UserError

if TYPE_CHECKING:
    from kubectl_sky.actions.apply import Submitted
    from kubectl_sky.actions.taskfile import Source
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.observe.status import TaskStatus

# The connection options that are written into an ssh configuration: no token.
_WRITTEN = {
    "kubeconfig": "--kubeconfig",
    "context": "--context",
    "cluster": "--cluster",
    "server": "--server",
    "server_url": "--server-url",
    "certificate_authority": "--certificate-authority",
    "as_user": "--as",
}
_CHECK_SECONDS = 30.0


class _Group(commands.Group):
    """A group whose default command is `up`: `dev task.yaml` is `dev up task.yaml`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert `up`, unless a command or --help is given."""
        named = args and args[0] in (*self.commands, *ctx.help_option_names)
        if not named and (args or not ctx.resilient_parsing):
            args = ["up", *args]
        return super().parse_args(ctx, args)


@click.group("dev", cls=_Group)
def command() -> None:
    """Run a development pod, which stays after setup.

    `up` can be left out: kubectl sky dev --gpus A100:1 --idle 1h
    """


class _Terminal(Results):
    """Print the result of a submit, and keep the id."""

    id = ""

    def submitted(self, submitted: "Submitted") -> None:
        """Print the id and keep it."""
        super().submitted(submitted)
        self.id = submitted.id


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
    help="End the pod this long after setup (default: no limit).",
)
@click.option(
    "--idle",
    type=options.DURATION,
    help="End the pod after this time without exec sessions and CPU use (default: never).",
)
@click.option("-d", "--detach", is_flag=True, help="Return at once, without waiting for the pod.")
@options.task
@options.dry_run
@click.option("--show-secrets", is_flag=True, help="With --dry-run -o yaml: print secret values.")
@click.option(
    "--wait-timeout",
    type=options.DURATION,
    help="Time limit for the pod to start (default: provision_timeout, then 5m).",
)
@options.strict
@options.cluster
@options.output("json", "yaml", "name", paths=False)
def up(
    file: str | None,
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: Any,  # noqa: ANN401 -- click's own types
) -> None:
    """Run setup of the task in FILE on one node, and stay, without `run`.

    Without FILE, the flags say what the pod needs. `exec`, `cp` and `port-forward` work as for
    every task, and `dev ssh-config` is for ssh and VS Code. `stop` deletes the pod.

    A pod that ends by --for or --idle is completed; its disk is lost, volumes remain. --idle counts
    programs that exec started, and use of more than 5% of a CPU. A forwarded port alone does not.
    """
    from kubectl_sky.actions import submit

    ui = _Terminal(form, flags["dry_run"])
    try:
        submit.submit(request(_source(file, overrides, flags), cluster, form, flags), ui)
    finally:
        ui.finish()
    if ui.id and not form:
        output.note(f'to copy files, run "kubectl sky cp FILE {ui.id}:"')
        output.note(f'to forward a port, run "kubectl sky port-forward {ui.id} 8888"')
        command = f"kubectl sky dev ssh-config {ui.id} >> ~/.ssh/config"
        output.note(f'for ssh and VS Code, run "{command}"')


def _source(file: str | None, overrides: Overrides, flags: Mapping[str, Any]) -> "Source":
    from kubectl_sky.actions import dev
    from kubectl_sky.actions.taskfile import Source

    pod, strict = dev.limits(_seconds(flags["lifetime"]), _seconds(flags["idle"])), flags["strict"]
    if file is None:
        return dev.without_file(overrides, os.environ, pod, strict)
    return Source(file, overrides, os.environ, sys.stdin.buffer, strict, dev=pod)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


@command.command(
    "ssh-config",
    examples=["dev ssh-config dev", "dev ssh-config train --public-key key.pub"],
)
@click.argument("task", required=False)
@click.option(
    "--public-key",
    metavar="FILE",
    help="Public key that may log in (default: the first of ~/.ssh/id_*.pub).",
)
@options.cluster
def ssh_config(task: str | None, public_key: str | None, cluster: options.ClusterFlags) -> None:
    """Print the Host entry of ~/.ssh/config for a development pod, such as for VS Code.

    Each connection is a `kubectl sky exec`, which starts sshd in the pod: no port is opened, and
    RBAC decides who may connect. The image needs openssh-server, or setup installs it.
    """
    from kubectl_sky.actions import dev, find

    key = dev.public_key(public_key)
    session = cluster.session()
    match = find.get_task(session, options.scope(session, cluster, all_users=False), task)
    user = _login(session, match)
    reference = task or match.id
    flags = [reference, "--namespace", match.namespace]
    for name, flag in _WRITTEN.items():
        if cluster.connection[name]:
            flags += [flag, str(cluster.connection[name])]
    if cluster.user:
        flags += ["--user", cluster.user]
    alias = dev.alias_of(reference, match.id)
    output.out(dev.ssh_config(alias, user, flags, key))
    output.note(f'with this in ~/.ssh/config, run "ssh {alias}", or choose the host in VS Code')


def _login(session: "Session", task: "TaskStatus") -> str:
    """Return the user to log in as. Raises UserError if the pod cannot serve ssh."""
    from kubectl_sky.actions import dev
    from kubectl_sky.actions import exec as action
    from kubectl_sky.cluster.exec import FirstBytes, Pipes, run

    node = action.node_of_rank(task, 0)
    check = ["/bin/sh", "-c", '[ -f "$1" ] || exit 64; exec /bin/sh "$1" --check', "sh", dev.SSHD]
    program = action.task_environment(session, task).program(node, check)
    out, err = FirstBytes(), FirstBytes()
    code = run(session, program, Pipes(stdout=out, stderr=err, seconds=_CHECK_SECONDS))
    if code == 64:
        raise UserError(f"task {task.id} is not a development pod", "run `kubectl sky dev`")
    if code or not out.line:
        raise UserError(
            f"ssh cannot reach task {task.id}: {err.line or f'exit code {code}'}",
            "install openssh-server in setup or in the image; `kubectl sky exec -it` works without",
        )
    if not dev.is_user(out.line):  # the image decides what it prints
        raise UserError(f"ssh cannot reach task {task.id}: it has no valid user name")
    return out.line
