"""`kubectl sky cp`."""

import click

from kubectl_sky.cli import commands, options, output


@commands.command(
    "cp",
    examples=[
        "cp data.csv train:/data/",
        "cp train:results ./results",
        "cp train:~/model.pt . --rank 1",
    ],
)
@click.argument("source")
@click.argument("target")
@click.option(
    "--rank", type=click.IntRange(min=0), default=0, help="Rank of the node (default: 0)."
)
@options.cluster_all_namespaces
@options.all_users
def command(
    source: str, target: str, rank: int, cluster: options.ClusterFlags, all_users: bool
) -> None:
    """Copy a file or folder to or from a node of a task, like kubectl cp.

    TASK:PATH is a path in the node. A relative path starts at the node's working directory,
    ~/sky_workdir. If the target is an existing folder, the copy is made in it. The image needs tar.
    A copy from a node never writes outside of TARGET, whatever the node sends.
    """
    from kubectl_sky.tasks import cp as action

    paths = action.parse_paths(source, target)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    action.copy(session, scope, paths, rank, output.note)
