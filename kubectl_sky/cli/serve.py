"""`kubectl sky serve`."""

import os
import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.cli.submit import Preview, request
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import UserError
from kubectl_sky.submitting.overrides import Overrides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kubectl_sky.serve.model import ServiceStatus
    from kubectl_sky.submitting.taskfile import Source
    from kubectl_sky.tasks.deletion import Remainder


@commands.group("serve")
def command() -> None:
    """Serve the `service:` of a file by a Deployment: replicas behind one address."""


_sending = options.combined(  # of up and update
    [
        click.argument("file"),
        click.option(
            "--replicas", type=click.IntRange(0, 10_000), help="Fixed number of replicas."
        ),
        click.option(
            "--qps-metric",
            metavar="NAME",
            help="Metric of the pods to scale by target_qps_per_replica.",
        ),
        click.option(
            "--cpu-target",
            type=click.IntRange(1, 1000),
            metavar="PERCENT",
            help="Scale by the CPU usage, in percent of the requested CPUs.",
        ),
        options.sending(
            detach="Return without waiting for replicas.",
            limited="the replicas (default: initial_delay_seconds or 20m, and 10m)",
        ),
        options.task,
        options.strict,
        options.cluster,
        options.output("json", "yaml", "name", paths=False),
    ]
)


def _source(file: str, overrides: Overrides, flags: dict[str, Any], new: bool = True) -> "Source":
    from kubectl_sky.spec.service import Flags
    from kubectl_sky.submitting.taskfile import Source

    if overrides.backend not in (None, "rayservice"):
        raise UserError(f"--backend {overrides.backend} is not supported", "use rayservice")
    backend = overrides.backend or "service"
    overrides = replace(overrides, backend=None)
    serve = Flags(flags["replicas"], flags["qps_metric"], flags["cpu_target"], backend, new)
    return Source(file, overrides, os.environ, sys.stdin.buffer, bool(flags["strict"]), serve=serve)


@command.command(
    "up",
    examples=[
        "serve up service.yaml --replicas 3",
        "serve up service.yaml --dry-run=client -o yaml",
    ],
)
@_sending
def up(
    file: str,
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: Any,
) -> None:
    """Create the service of FILE (`-` is standard input) and wait until it is ready.

    With --backend rayservice, KubeRay runs the application of `serve run MODULE:APP`.

    A Deployment runs the replicas, and a Service of the same name is their address. With
    min_replicas and max_replicas, a HorizontalPodAutoscaler scales them. Ctrl-C leaves the service
    running. --dry-run=client needs no cluster.
    """
    from kubectl_sky.serve.action import up as create
    from kubectl_sky.submitting import render as action

    source = _source(file, overrides, flags)
    ui = Preview(form, flags["dry_run"])
    if flags["dry_run"] == "client":
        facts = action.offline_facts(cluster.user, cluster.namespace, os.environ)
        ui.preview(action.render_files([source], facts, ui, flags["show_secrets"]))
        return
    cluster.check()
    _print(create(request(source, cluster, None, flags), ui), form)


@command.command(
    "update",
    examples=["serve update service.yaml", "serve update service.yaml --env MODEL=gemma"],
)
@_sending
def update(
    file: str,
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: Any,
) -> None:
    """Replace a running service by that of FILE, replica by replica.

    Replicas of the old version serve until new ones are ready. If these do not get ready, the
    exit code is 4, the old ones keep serving, and `kubectl rollout undo deployment/NAME` returns
    to the version before.
    """
    from kubectl_sky.serve.update import update as replace_version

    cluster.check()
    source = _source(file, overrides, flags, new=False)
    ui = Preview(form, flags["dry_run"])
    _print(replace_version(request(source, cluster, None, flags), ui), form)


@command.command("status", examples=["serve status", "serve status llm"])
@click.argument("name", required=False)
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml", "name")
def status(
    name: str | None, cluster: options.ClusterFlags, all_users: bool, form: str | None
) -> None:
    """Show your services, or one with its replicas, and why they are not ready."""
    from kubectl_sky.serve import action
    from kubectl_sky.serve.model import ServiceList

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    if name:
        _print(action.status(session, action.find(session, scope.user, name)), form)
        return
    services = action.statuses(session, scope.namespace, scope.user)
    document = ServiceList(services=[service.document for service in services])
    if output.print_document(form, document, (f"service/{row.name}" for row in services)):
        return
    if services:
        columns = ["NAME", "STATE", "VERSION", "READY", "ENDPOINT", "AGE"]
        rows = [
            [
                service.name,
                service.status,
                str(service.version),
                f"{service.replicas.ready}/{service.replicas.wanted}",
                next(iter(service.endpoints), "-"),
                tasks.since(service.created_at),
            ]
            for service in services
        ]
        output.out(output.table(columns, rows))
    else:
        output.note("No services found")


@command.command("logs", examples=["serve logs llm -f", "serve logs llm --replica 0 --tail 100"])
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Follow the logs, also of new replicas.")
@click.option("--replica", type=click.IntRange(0), metavar="N", help="Show only this replica.")
@click.option("--tail", type=click.IntRange(-1), help="Show only the last lines of each replica.")
@click.option("--since", type=options.DURATION, help="Show only lines of the last 90s, 5m, 2h.")
@click.option("-p", "--previous", is_flag=True, help="Show the log before the last restart.")
@options.cluster
@options.all_users
def logs(
    name: str,
    cluster: options.ClusterFlags,
    all_users: bool,
    **flags: Any,
) -> None:
    """Print the logs of the replicas: `replica-0 | line`. Numbers are those of `serve status`."""
    from kubectl_sky.cluster.streams import LogOptions
    from kubectl_sky.serve import action, logs

    session = cluster.session()
    since = flags["since"]
    since_seconds = max(int(since.total_seconds()), 1) if since else None
    scope = options.scope(session, cluster, all_users)
    lines = LogOptions(
        follow=flags["follow"],
        tail=flags["tail"],
        since_seconds=since_seconds,
        previous=flags["previous"],
    )
    deployment = action.find(session, scope.user, name)
    logs.show(session, deployment, lines, flags["replica"], Terminal())


@command.command(
    "down", examples=["serve down llm", "serve down --all --yes", "serve down llm --wait=false"]
)
@click.argument("names", nargs=-1, metavar="[NAME...]")
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Delete all your services, and what an interrupted `up` left.",
)
@options.cluster
@options.yes
@options.waits
@options.output("json", "yaml", "name")
def down(
    names: tuple[str, ...],
    everything: bool,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: bool,
) -> None:
    """Delete services: replicas, addresses and all other objects.

    It ends when the pods are gone. If some are not after 30 seconds, it says what keeps them; the
    exit code is 3.
    """
    from kubectl_sky.actions import identity
    from kubectl_sky.serve import action
    from kubectl_sky.tasks import deletion

    if bool(names) == everything:
        raise UserError("name the services to delete, or use --all")
    session = cluster.session()
    user = identity.user(session, cluster.user)
    if everything:
        items = action.find_all(session, session.namespace, user) + action.leftovers(session, user)
        services = {item.metadata.name for item in items}
        if services and not flags["yes"]:
            options.confirm(f"Delete {output.count(len(services), 'service')}?")
    else:
        items = action.find_to_delete(session, user, names)
    deleted = action.delete(session, items)
    remaining = action.wait_until_gone(session, items) if flags["waits"] else None
    _print_deleted(deleted, remaining, form)
    if remaining:
        raise deletion.still_deleting(remaining)


def _print_deleted(
    services: "Sequence[str]", remaining: "Sequence[Remainder] | None", form: str | None
) -> None:
    """Print the services that are gone; those that are being deleted if nobody waits for it."""
    from kubectl_sky.serve import action

    if form not in (None, "name"):
        output.out(output.data(action.describe_deleted(services, remaining), form))
        return
    kept = {item.id for item in remaining or ()}
    done = "is being deleted" if remaining is None else "deleted"
    for name in services:
        if name not in kept:
            output.out(f"service/{name}" if form == "name" else f"service/{name} {done}")
    if not services and form is None:
        output.out("No services found")


def _print(service: "ServiceStatus | None", form: str | None) -> None:
    """Print a service; nothing after a dry run."""
    if service is None:
        return
    if form == "name":
        output.out(f"service/{service.name}")
    elif form:
        output.out(output.document("Service", service.document, form))
    else:
        output.out(describe(service))


def describe(service: "ServiceStatus") -> str:
    counts = service.replicas
    current = sum(replica.ready and replica.version == service.version for replica in service.pods)
    earlier = " (an earlier version serves)" if counts.ready and not current else ""
    facts = {
        "Service": service.name,
        "Namespace": service.namespace,
        "User": service.username,
        "State": service.status + earlier,
        "Version": f"{service.version} (id {service.version_id})",
        "Replicas": f"{counts.ready} of {counts.wanted} ready, {current} of this version",
        "Endpoints": ", ".join(service.endpoints) or "none",
    }
    if counts.most:
        facts["Replicas"] += f", scaled up to {counts.most}"
    if service.remark:
        facts["Message"] = service.remark
    lines = output.fields(facts)
    rows = [
        [
            str(replica.number),
            replica.pod,
            str(replica.version),
            "ready" if replica.ready else replica.reason,
            str(replica.restarts),
            tasks.since(replica.created_at),
            replica.host or "-",
        ]
        for replica in service.pods
    ]
    columns = ["REPLICA", "POD", "VERSION", "STATE", "RESTARTS", "AGE", "CLUSTER-NODE"]
    lines += ["", output.table(columns, rows)] if rows else []

    for finding in service.findings:
        numbers = ", ".join(map(str, finding.ranks))
        lines += ["", f"replica {numbers}: {finding.what}", f"next: {finding.then}"]

    return "\n".join(lines)
