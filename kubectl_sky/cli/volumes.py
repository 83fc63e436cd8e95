"""`kubectl sky volumes`."""

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.errors import UnknownName, UserError
from kubectl_sky.observe.volumes import (
    KeptLogList,
    VolumeCreated,
    VolumeFileList,
    VolumeList,
    VolumeStatus,
    VolumeUsageList,
)
from kubectl_sky.plan.resources import readable
from kubectl_sky.words import names

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.choice import Choice, Labels
    from kubectl_sky.tasks.volume_pods import VolumePod


@commands.group("volumes")
def command() -> None:
    """Create, list and delete volumes: PVCs with a name and an owner."""


@command.command(
    "create",
    examples=["volumes create data-vol 10Gi", "volumes create shared 1Ti --access-modes RWX"],
)
@click.argument("name")
@click.argument("size")
@click.option("--storage-class", help="StorageClass (default: that of the cluster).")
@click.option(
    "--access-modes",
    default="ReadWriteOnce",
    show_default=True,
    metavar="MODE,...",
    help="ReadWriteOnce (RWO), ReadOnlyMany (ROX), ReadWriteMany (RWX), ReadWriteOncePod (RWOP).",
)
@click.option(
    "--pvc-name",
    metavar="NAME",
    help="PVC of the volume (default: NAME-ID), such as one that a task waits for.",
)
@options.cluster
@options.output("json", "yaml", "name")
def create(
    name: str,
    size: str,
    access_modes: str,
    cluster: options.ClusterFlags,
    form: str | None,
    **texts: str | None,
) -> None:
    """Create a volume of SIZE (10Gi, 1Ti; a number is GiB) that tasks mount by NAME."""
    from kubectl_sky.actions import identity, volumes
    from kubectl_sky.plan import pvc
    from kubectl_sky.submitting import preflight

    modes = [mode.strip() for mode in access_modes.split(",") if mode.strip()]
    storage = pvc.storage(size, texts["storage_class"], modes)
    session = cluster.session()
    output.notes(preflight.storage_class_notes(session, [storage.storage_class]))
    user = identity.user(session, cluster.user)
    volume = volumes.create(session, user, name, names.new_id(), storage, texts["pvc_name"])
    message = f"Volume created successfully with ID: {volume.id}"
    if form not in (None, "name"):
        output.out(output.data(VolumeCreated(volume_id=volume.id, message=message), form))
    else:
        output.out(
            f"volume/{volume.id}"
            if form == "name"
            else f"volume/{volume.id} ({volume.name}) created"
        )


@command.command(
    "apply", examples=["volumes apply volume.yaml", "volumes apply volume.yaml --dry-run=server"]
)
@click.argument("file")
@options.accepted_yes
@options.dry_run
@options.cluster
@options.output("json", "yaml", "name")
def apply(file: str, dry_run: str, cluster: options.ClusterFlags, form: str | None) -> None:
    """Create the volumes of FILE (`-` is standard input), in SkyPilot's format.

    Example: {name: data, type: k8s-pvc, size: 10Gi, config: {access_mode: ReadWriteMany}}. Applying
    the same file again changes nothing. A larger size and other labels are applied if the cluster
    allows it. With use_existing, it only checks that the PVC exists.
    """
    from kubectl_sky.actions import identity, volumes
    from kubectl_sky.submitting import preflight

    results = []
    for spec in volumes.read(file, sys.stdin.buffer):
        session = cluster.with_defaults(spec.context, spec.namespace).session()
        if spec.storage:
            output.notes(preflight.storage_class_notes(session, [spec.storage.storage_class]))
        user = identity.user(session, cluster.user)
        results.append(volumes.apply(session, user, spec, names.new_id(), dry_run))
    if form not in (None, "name"):
        documents = [replace(item.volume.document, done=item.done) for item in results]
        one = documents[0] if len(documents) == 1 else VolumeList(volumes=documents)
        output.out(output.data(one, form))
    else:
        suffix = options.DRY_RUNS[dry_run]
        for item in results:
            volume = item.volume
            name = f"volume/{volume.id}" if volume.id else f"persistentvolumeclaim/{volume.claim}"
            title = f" ({volume.name})" if volume.name else ""
            output.out(name if form == "name" else f"{name}{title} {item.done}{suffix}")


@command.command(
    "list", examples=["volumes list", "volumes list -A --all-users", "volumes list -l team=vision"]
)
@options.cluster_all_namespaces
@options.all_users
@options.output("wide", "json", "yaml", "name")
@options.no_headers
@options.labels
@click.option("--details", is_flag=True, help="Also show class, access modes and PVCs.")
def list_volumes(
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    labels: "Labels | None",
    details: bool,
) -> None:
    """List your volumes, newest first."""
    from kubectl_sky.actions import volumes
    from kubectl_sky.tasks.choice import Choice

    session = cluster.session()
    choice = Choice(labels=labels, everything=True)
    statuses = volumes.find_chosen(session, options.scope(session, cluster, all_users), choice)
    document = VolumeList(volumes=[row.document for row in statuses])
    if output.print_document(form, document, (f"volume/{row.id}" for row in statuses)):
        return
    if not statuses:
        output.note("No volumes found.")
    else:
        columns = ["NAMESPACE"] if cluster.all_namespaces else []
        columns += ["ID", "NAME", "SIZE", "STATUS", "AGE"]
        columns += ["USER"] if all_users or details else []
        columns += ["CLASS", "MODES", "CLAIM"] if details or form == "wide" else []
        columns += ["REASON"] if any(volume.reason for volume in statuses) else []
        output.out(
            output.table(columns, [[_CELLS[name](row) for name in columns] for row in statuses])
        )


_CELLS: dict[str, Callable[[VolumeStatus], str]] = {
    "ID": lambda volume: volume.id,
    "NAME": lambda volume: volume.name,
    "SIZE": lambda volume: volume.readable_size,
    "STATUS": lambda volume: volume.phase,
    "AGE": lambda volume: tasks.since(volume.created_at),
    "NAMESPACE": lambda volume: volume.namespace,
    "USER": lambda volume: volume.user,
    "CLASS": lambda volume: volume.storage_class,
    "MODES": lambda volume: ",".join(volume.access_modes),
    "CLAIM": lambda volume: volume.claim,
    "REASON": lambda volume: volume.reason,
}


@command.command("status", examples=["volumes status data-vol", "volumes status data-vol -o yaml"])
@click.argument("volume")
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml", "name")
def status(volume: str, cluster: options.ClusterFlags, all_users: bool, form: str | None) -> None:
    """Show VOLUME (an id, a prefix of an id, or a name) and what uses it."""
    from kubectl_sky.actions import volumes

    session = cluster.session()
    match = volumes.find(session, options.scope(session, cluster, all_users), volume)
    users = volumes.in_use(session, match)
    if form == "name":
        output.out(f"volume/{match.id}")
    elif form:
        output.out(output.data(replace(match.document, used_by=users), form))
    else:
        facts = {
            "Id": match.id,
            "Name": match.name,
            "Status": f"{match.phase}: {match.reason}" if match.reason else match.phase,
            "Size": match.readable_size,
            "Class": match.storage_class or "(the cluster's default)",
            "Modes": ", ".join(match.access_modes),
            "Claim": match.claim,
            "Namespace": match.namespace,
            "User": match.user,
            "Created": f"{match.created_at} ({tasks.since(match.created_at)} ago)",
            "Used by": ", ".join(users) or "nothing",
        }
        output.out("\n".join(output.fields(facts)))


@command.command("logs", examples=["volumes logs data-vol", "volumes logs data-vol train-kqf7x2wm"])
@click.argument("volume")
@click.argument("task", required=False)
@options.yes
@options.cluster
@options.output("json", "yaml")
def logs(
    volume: str, task: str | None, yes: bool, cluster: options.ClusterFlags, form: str | None
) -> None:
    """List the logs that tasks have written to VOLUME, or print those of TASK (an id or a name).

    They are read in a running pod of yours that mounts VOLUME; --yes starts one without asking.
    """
    from kubectl_sky.cli.terminal import Terminal
    from kubectl_sky.cli.volume_pods import Volumes
    from kubectl_sky.cluster.streams import LogOptions
    from kubectl_sky.tasks import kept_logs
    from kubectl_sky.tasks.logs import LogRequest

    session = cluster.session()
    scope = options.scope(session, cluster, all_users=False)
    reader = Volumes(session, cluster, scope, yes)
    with reader.open(reader.find_claim(volume)) as pod:
        logs = kept_logs.list_logs(pod)
        kept = [log for log in logs if task in (None, log.task, *log.task.rsplit("-", 1))]
        if task and kept:
            newest = max(kept, key=lambda log: log.updated_at).task
            of_task = [log for log in kept if log.task == newest]
            kept_logs.show(pod, of_task, LogRequest(LogOptions()), Terminal())
            return
    if task:
        raise UnknownName(f'volume "{volume}" has no log of task "{task}"')
    if form:
        output.out(output.data(KeptLogList(logs=kept), form))
    elif not kept:
        output.note("No logs found.")
    else:
        rows = [
            [log.task, str(log.rank), str(log.bytes), tasks.since(log.updated_at)] for log in kept
        ]
        output.out(output.table(["TASK", "NODE", "BYTES", "AGE"], rows))


@command.command("ls", examples=["volumes ls data-vol", "volumes ls data-vol /run7 -o json"])
@click.argument("volume")
@click.argument("path", default="/")
@options.yes
@options.cluster
@options.output("json", "yaml", "name")
@options.no_headers
def ls(volume: str, path: str, yes: bool, cluster: options.ClusterFlags, form: str | None) -> None:
    """List the files of VOLUME in PATH (default: all of it).

    They are read in a running pod of yours that mounts VOLUME; --yes starts one without asking.
    """
    with _open(volume, yes, cluster) as pod:
        files = pod.list_files(path, output.note)
    document = VolumeFileList(files=files)
    if output.print_document(form, document, (file.name for file in files)):
        return
    if not files:
        output.note("No files found.")
        return
    rows = [
        [file.name, file.kind, _readable(file.bytes), tasks.since(file.updated_at)]
        for file in files
    ]
    output.out(output.table(["NAME", "KIND", "SIZE", "AGE"], rows))


@command.command("du", examples=["volumes du data-vol", "volumes du data-vol /run7"])
@click.argument("volume")
@click.argument("path", default="/")
@options.yes
@options.cluster
@options.output("json", "yaml")
@options.no_headers
def du(volume: str, path: str, yes: bool, cluster: options.ClusterFlags, form: str | None) -> None:
    """Show the space that the folders of VOLUME in PATH take, the largest first.

    The first line is that of PATH itself. Read as by `volumes ls`.
    """
    with _open(volume, yes, cluster) as pod:
        folders = pod.measure(path, output.note)
    if form:
        output.out(output.data(VolumeUsageList(folders=folders), form))
    else:
        rows = [[_readable(folder.bytes), folder.name] for folder in folders]
        output.out(output.table(["SIZE", "NAME"], rows))


def _open(
    volume: str, yes: bool, cluster: options.ClusterFlags
) -> "AbstractContextManager[VolumePod]":
    from kubectl_sky.cli.volume_pods import Volumes

    session = cluster.session()
    scope = options.scope(session, cluster, all_users=False)
    volumes = Volumes(session, cluster, scope, yes)
    return volumes.open(volumes.find_claim(volume))


def _readable(size: int) -> str:
    return readable("memory", str(size)) if size >= _KIB else str(size)


_KIB = 1024


@command.command(
    "delete",
    examples=[
        "volumes delete data-vol",
        "volumes delete 'run-*' --yes --wait=false",
        "volumes delete -l team=vision",
    ],
)
@options.volumes
@options.cluster_all_namespaces
@options.all_users
@options.yes
@click.option(
    "-f", "--force", is_flag=True, help="Like --yes, and delete it even while it is in use."
)
@options.waits
def delete(choice: "Choice", cluster: options.ClusterFlags, all_users: bool, **flags: bool) -> None:
    """Delete VOLUMEs and their data.

    VOLUME is an id, a prefix of an id, a name, or a glob in quotes. It ends when the PVCs are gone.
    If one is not after 30 seconds, it says what keeps it; the exit code is 3.
    """
    from kubectl_sky.actions import volumes
    from kubectl_sky.tasks import deletion

    if not choice.references and not choice.is_filter:
        raise UserError("no VOLUME given", "name the volumes to delete, or use --all")
    session = cluster.session()
    matches = volumes.find_chosen(session, options.scope(session, cluster, all_users), choice)
    if not matches:
        output.note("No volumes found.")
        return
    if not flags["force"]:
        _confirm_deletion(session, matches, flags["yes"])
    for match in matches:
        volumes.delete(session, match)
    remaining = []
    done = "deleted" if flags["waits"] else "is being deleted"
    for match in matches:
        kept = volumes.wait_until_gone(session, match) if flags["waits"] else []
        remaining += kept
        if not kept:
            output.out(f"volume/{match.id} ({match.name}) {done}")
    if remaining:
        raise deletion.still_deleting(remaining)


def _confirm_deletion(session: "Session", chosen: Sequence[VolumeStatus], yes: bool) -> None:
    """Refuse volumes that pods use, and ask unless `yes`."""
    from kubectl_sky.actions import volumes

    for volume in chosen:
        volumes.check_unused(session, volume, "use --force")
    listed = ", ".join(f"{it.name} ({it.id}, {it.readable_size})" for it in chosen)
    if not yes:
        one = f"Delete volume {listed} and its data?"
        several = f"Delete {len(chosen)} volumes and their data: {listed}?"
        options.confirm(several if chosen[1:] else one)
