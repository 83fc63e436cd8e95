"""`kubectl sky controllers`."""

from datetime import timedelta
from typing import Any

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.words import age
from kubectl_sky.words.names import CONTROLLERS
from kubectl_sky_server.install import flags as install_flags


@commands.group("controllers")
def command() -> None:
    """Run controllers: what goes on in the cluster when no client runs."""


def _check_names(
    context: click.Context, option: click.Parameter, value: str | None
) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(value.split(","))) if value is not None else tuple(CONTROLLERS)
    unknown = [name for name in names if name not in CONTROLLERS]
    if unknown:
        known = ", ".join(CONTROLLERS)
        raise click.BadParameter(f'unknown controller "{unknown[0]}"; use {known}', context, option)
    return names


_only = click.option(
    "--only",
    "names",
    metavar="NAMES",
    callback=_check_names,
    help=f"Controllers, separated by commas (default: {','.join(CONTROLLERS)}).",
)


_retention = click.option(
    "--delete-finished-after",
    "retention",
    type=options.DURATION,
    help="Delete tasks this long after they have finished (default: keep them).",
)


@command.command("run", examples=["controllers run -n team-a", "controllers run -A --only tasks"])
@_only
@click.option(
    "--health-port",
    type=click.IntRange(1, 65535),
    help="Port of /healthz, for the probes of a kubelet, and of /metrics (default: none).",
)
@click.option(
    "--health-host", metavar="ADDRESS", default="127.0.0.1", help="Its address.", show_default=True
)
@_retention
@options.cluster_all_namespaces
def run(
    names: tuple[str, ...],
    health_port: int | None,
    health_host: str,
    retention: timedelta | None,
    cluster: options.ClusterFlags,
) -> None:
    """Run controllers until Ctrl-C, with the credentials of your kubeconfig.

    They act on the namespace of -n, or on all namespaces with -A. A Lease shows that they live: one
    process per namespace leads, and clients leave pipelines to it.
    """
    from kubectl_sky.actions import config
    from kubectl_sky_server.controllers.run import Options
    from kubectl_sky_server.controllers.run import run as run_controllers

    namespace = None if cluster.all_namespaces else cluster.session().namespace
    settings = config.preferences()
    health = (health_host, health_port)
    run_controllers(Options(names, cluster.flags(), namespace, settings, health, retention))


@command.command(
    "install",
    examples=[
        "controllers install | kubectl apply -f -",
        "controllers install --apply --only tasks --replicas 2 -n team-a",
    ],
)
@_only
@click.option("--apply", "applies", is_flag=True, help="Apply the manifests instead of printing.")
@install_flags.image
@install_flags.api_server_ports
@click.option(
    "--replicas",
    type=click.IntRange(1, 5),
    default=1,
    show_default=True,
    help="Pods per controller: one leads, the others are standbys, with a PodDisruptionBudget.",
)
@click.option(
    "--for",
    "served",
    metavar="NAMESPACE",
    help="Namespace to act on, if its users must not change the controllers (default: that of -n).",
)
@_retention
@options.connection
def install(
    names: tuple[str, ...],
    applies: bool,
    retention: timedelta | None,
    cluster: options.ClusterFlags,
    image: str | None,
    **flags: Any,
) -> None:
    """Print the manifests that run controllers in a cluster, with the least rights.

    Each controller has a Deployment, a ServiceAccount and a NetworkPolicy of its own. Without -n,
    they run in the namespace kubectl-sky and act on all namespaces, by ClusterRoles. With -n, they
    run in that namespace and act on it alone, by Roles; fairshare does not.
    """
    from kubectl_sky.actions import config
    from kubectl_sky.render import manifests
    from kubectl_sky_server.install import action
    from kubectl_sky_server.install.model import controllers_install

    seconds = None if retention is None else int(retention.total_seconds())
    installs = controllers_install(
        install_flags.read(cluster, image, flags.pop("api_server_ports")),
        names,
        retention_seconds=seconds,
        settings=config.preferences(),
        **flags,
    )
    items = list(action.controllers(installs))
    if not applies:
        output.out(manifests.as_yaml(items).rstrip("\n"))
        return
    from kubectl_sky.cluster import objects

    session = cluster.session()
    action.check(session, items)
    for item in items:
        objects.apply(session, item.object)
        output.out(f"{item.name.lower()} applied")


@command.command(
    "uninstall",
    examples=[
        "controllers uninstall | kubectl delete --ignore-not-found -f -",
        "controllers uninstall --only tasks -n team-a",
    ],
)
@_only
@click.option("--for", "served", metavar="NAMESPACE", help="That of `install`.")
@options.connection
def uninstall(names: tuple[str, ...], served: str | None, cluster: options.ClusterFlags) -> None:
    """Print what `controllers install` made, and the Leases, for `kubectl delete -f -`.

    Take the flags -n, --for and --only of the install. The namespace stays, and so do the CRDs,
    with which all RayServeGraphs would go, and the histories of deleted tasks.
    """
    from kubectl_sky_server.install import action
    from kubectl_sky_server.install.model import Flags, controllers_install

    installs = controllers_install(Flags(cluster.namespace), names, served=served, replicas=2)
    items = action.controllers(installs)
    more = action.made_by_controllers(installs)
    output.out(output.data(action.list_to_delete(items, more), "yaml"))


@command.command("status", examples=["controllers status", "controllers status -n team-a -o json"])
@options.connection
@options.output("json", "yaml", "name")
@options.no_headers
def status(cluster: options.ClusterFlags, form: str | None) -> None:
    """Show which controllers run, which process leads, since when, and what it did last.

    In all namespaces, or that of -n. It reads the Deployments of `controllers install`, and Leases.
    What a controller did last is written when it renews its Lease, every 15 seconds.
    """
    from kubectl_sky_server.install import status as install_status

    session = cluster.session()
    statuses = install_status.controllers(session, cluster.namespace)
    document = install_status.ControllerList(controllers=statuses)
    if output.print_document(form, document, (f"controller/{row.controller}" for row in statuses)):
        return
    if not statuses:
        output.note("No controllers found; install them: kubectl sky controllers install")
    else:
        header = ("CONTROLLER", "SERVES", "NAMESPACE", "READY", "LEADER", "SINCE", "LAST ACTION")
        rows = [
            [
                item.controller,
                item.serves or "all namespaces",
                item.namespace,
                "-" if item.replicas is None else f"{item.ready}/{item.replicas}",
                item.leader or "<none>",
                age.since(item.since, session.now()) if item.since else "-",
                item.last_action or "-",
            ]
            for item in statuses
        ]
        output.out(output.table(header, rows))
