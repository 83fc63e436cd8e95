"""`kubectl sky local`."""

import shlex
import sys

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.local.driver import CLUSTER, ClusterState
from kubectl_sky.local.state_dir import StateDir

_DRIVERS = ("practice", "kind")
_NOT_RUNNING = 3


@commands.group("local")
def command() -> None:
    """Run a local cluster, to try things out.

    The practice cluster needs no Docker, no root and no Kubernetes: its pods are your own
    processes. It is for trials and tests; kind creates a real cluster.
    """


@command.command("up", examples=["local up --nodes 2 --gpus A100:8", "local up --gpus host"])
@click.option(
    "--driver",
    type=click.Choice(_DRIVERS),
    help="Program that runs the cluster (default: that of the existing cluster, else practice).",
)
@click.option("--nodes", type=click.IntRange(1, 100), help="Number of cluster nodes (default: 1).")
@click.option(
    "--gpus",
    metavar="KIND:N",
    help="Simulated GPUs per node, such as A100:8; host for this machine's GPUs, or none.",
)
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the API server on loopback.")
@click.option(
    "--use", is_flag=True, help="Make it the current context of your kubeconfig, as kubectl does."
)
def up(
    driver: str | None, nodes: int | None, gpus: str | None, port: int | None, use: bool
) -> None:
    """Start the cluster; a cluster that is already running is not changed.

    Prints the line that makes a shell use the cluster. Without --use, none of your files change.

    \b
        eval "$(kubectl sky local up)"
        kubectl sky local up --use
    """  # noqa: D301 -- click reads the \b
    from kubectl_sky.actions import local

    request = local.ClusterOptions(driver, nodes, gpus, port)
    cluster = local.up(StateDir.find(), request, use, _waiting)
    each = "" if cluster.gpus.endswith("machine") else " each"
    size = output.count(cluster.nodes, "node")
    size += f" with {cluster.gpus}{each}" if cluster.gpus else ""
    state = "is ready" if cluster.started else "runs already"
    output.note(f"The {cluster.driver} cluster {state}: {cluster.server}, {size}")
    if use:
        output.note(f"Context {CLUSTER} is the current one in {cluster.used_in}")
    else:
        path = shlex.quote(cluster.kubeconfig)
        output.out(f"export KUBECONFIG={path}")
        if sys.stdout.isatty():  # otherwise eval runs it
            output.note(f"Run that line to use it in this shell, or: kubectl --kubeconfig {path}")


@command.command("down", examples=["local down", "local down --purge"])
@click.option("--purge", is_flag=True, help="Remove it with all tasks, volumes and logs in it.")
def down(purge: bool) -> None:
    """Stop the cluster; its contents are kept for the next start."""
    from kubectl_sky.actions import local

    previous = local.down(StateDir.find(), purge, _waiting)
    if previous.state is ClusterState.ABSENT and not previous.driver:
        output.note("No local cluster exists")
    elif purge:
        output.note(f"The {previous.driver} cluster was removed")
    elif previous.state is ClusterState.RUNNING:
        output.note(f"The {previous.driver} cluster was stopped; its data is kept")
    else:
        output.note(f"The {previous.driver} cluster was not running; {previous.note}")


@command.command("status", examples=["local status", "local status -o json"])
@options.output("json", "yaml")
def status(form: str | None) -> int:
    """Show the cluster. Exits with 0 if it is running, otherwise with 3."""
    from kubectl_sky.actions import local

    cluster = local.status(StateDir.find())
    if form:
        output.out(output.document("LocalCluster", cluster.as_json(), form))
    else:
        labels = {"used_in": "Current in", "gpus": "GPUs", "pid": "PID"}
        for name, value in cluster.as_json().items():
            if value:
                output.out(f"{labels.get(name, name.capitalize()) + ':':<12}{value}")
    return 0 if cluster.state is ClusterState.RUNNING else _NOT_RUNNING


def _waiting() -> None:
    output.note("waiting for another `kubectl sky local` to finish")
