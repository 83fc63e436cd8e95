"""`kubectl sky local`."""

import shlex

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.local.driver import CLUSTER, State
from kubectl_sky.local.place import Place

_DRIVERS = ("practice", "kind", "k3d", "minikube")
_NOT_RUNNING = 3


@commands.group("local")
def command() -> None:
    """Have a cluster on this machine, to try things out.

    The practice cluster needs no Docker, no root and no Kubernetes: its pods are processes of
    yours. It is for trying and testing; kind, k3d and minikube make real ones.
    """


@command.command(
    "up", examples=["local up --nodes 2 --gpus A100:8", "local up --driver kind --use"]
)
@click.option(
    "--driver",
    type=click.Choice(_DRIVERS),
    help="What makes the cluster; else that of the cluster that is here, else practice.",
)
@click.option("--nodes", type=click.IntRange(1, 100), help="Nodes of the cluster; else one.")
@click.option("--gpus", metavar="KIND:N", help="Pretend GPUs of each node, A100:8; `none` again.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API server on loopback.")
@click.option(
    "--use", is_flag=True, help="Make it the current context of your kubeconfig, as kubectl does."
)
def up(
    driver: str | None, nodes: int | None, gpus: str | None, port: int | None, use: bool
) -> None:
    """Start the cluster; where it runs already, nothing changes.

    Prints the line that makes a shell use it; nothing of yours is touched without --use.

    \b
        eval "$(kubectl sky local up)"
        kubectl sky local up --use
    """  # noqa: D301 -- click reads the \b
    from kubectl_sky.actions import local

    asked = local.Asked(driver, nodes, gpus, port)
    found = local.up(Place.find(), asked, use, _waiting)
    what = output.count(found.nodes, "node") + (f" with {found.gpus} each" if found.gpus else "")
    how = "is ready" if found.started else "runs already"
    output.note(f"The {found.driver} cluster {how}: {found.server}, {what}")
    if use:
        output.note(f"Context {CLUSTER} is the current one in {found.used_in}")
    else:
        path = shlex.quote(found.kubeconfig)
        output.out(f"export KUBECONFIG={path}")
        output.note(f"That line makes a shell use it; or say: kubectl --kubeconfig {path}")


@command.command("down", examples=["local down", "local down --purge"])
@click.option("--purge", is_flag=True, help="Remove it with all tasks, volumes and logs in it.")
def down(purge: bool) -> None:
    """Stop the cluster; what is in it stays until it is started again."""
    from kubectl_sky.actions import local

    before = local.down(Place.find(), purge, _waiting)
    if before.state is State.ABSENT and not before.driver:
        output.note("There is no local cluster")
    elif purge:
        output.note(f"The {before.driver} cluster is removed")
    elif before.state is State.RUNNING:
        output.note(f"The {before.driver} cluster is stopped; what is in it stays")
    else:
        output.note(f"The {before.driver} cluster was not running; {before.note}")


@command.command("status", examples=["local status"])
@options.output("json", "yaml")
def status(form: str | None) -> int:
    """Show the cluster. Exits with 0 when it runs, else with 3."""
    from kubectl_sky.actions import local

    found = local.status(Place.find())
    if form:
        output.out(output.data(found.as_json(), form))
    else:
        names = {"used_in": "Current in", "gpus": "GPUs", "pid": "PID"}
        for name, value in found.as_json().items():
            if value:
                output.out(f"{names.get(name, name.capitalize()) + ':':<12}{value}")
    return 0 if found.state is State.RUNNING else _NOT_RUNNING


def _waiting() -> None:
    output.note("waiting for another `kubectl sky local` that is at work")
