"""`kubectl sky cp`."""

import click
from msgspec.structs import replace

from kubectl_sky.cli import commands, options
from kubectl_sky.cli.terminal import Terminal


@commands.command(
    "cp",
    examples=[
        "cp data.csv train:/data/",
        "cp train:results ./results",
        "cp train:~/model.pt . --rank 1",
        "cp vol/data:run7 ./results",
        "cp ./images vol/data:",
    ],
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--rank", type=click.IntRange(min=0), default=0, help="Rank of the node (default: 0)."
)
@options.cluster_all_namespaces
@options.all_users
@options.yes
def command(
    source: str, target: str, rank: int, cluster: options.ClusterFlags, all_users: bool, yes: bool
) -> None:
    """Copy a file or folder to or from a node of a task or a volume, like kubectl cp.

    TASK:PATH is a path in the node. A relative path starts at the node's working directory,
    ~/sky_workdir. If the target is an existing folder, the copy is made in it. The image needs tar.
    A copy from a node never writes outside of TARGET, whatever the node sends.

    vol/NAME:PATH is a path on a volume or PVC. If no running pod of yours mounts it, it asks
    whether to start a small one for the copy; --yes agrees. What a task that has ended wrote to a
    volume or bucket is read there, too, by the path that it had in the node.
    """
    from kubectl_sky.cli.volume_pods import Volumes
    from kubectl_sky.tasks import cp as action
    from kubectl_sky.tasks.exec import NodeEnded

    paths = action.parse_paths(source, target)
    ui = Terminal()
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    volumes = Volumes(session, cluster, scope, yes)
    volume = paths[0].volume or paths[1].volume
    writes = paths[1].is_remote
    if volume:
        with volumes.open(volumes.find_claim(volume), writes=writes) as pod:
            action.copy_volume(pod, paths, ui)
        return
    try:
        action.copy(session, scope, paths, rank, ui)
    except NodeEnded as error:
        results = action.locate_results(error, paths)
        of_task = replace(volumes, scope=replace(scope, namespace=error.task.namespace))
        with of_task.open_mount(results.mount, error.end, writes=writes) as pod:
            action.copy_results(pod, results, ui)
