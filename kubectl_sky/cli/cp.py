"""`kubectl sky cp`."""

import click

from kubectl_sky.cli import commands, options, output


@commands.command(
    "cp", examples=["cp data.csv train:/data/", "cp train:results ./results --rank 1"]
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

    \b
        kubectl sky cp data.csv abcd:/data/          # into an existing folder
        kubectl sky cp abcd:results ./results        # relative to ~/sky_workdir
        kubectl sky cp abcd:~/model.pt . --rank 1

    TASK:PATH is a path in the node. A relative path starts at the node's working directory. The
    image needs tar. A copy from a node never writes outside of TARGET, whatever the node sends.
    """  # noqa: D301 -- click reads the \b
    from kubectl_sky.actions import exec as action

    paths = action.parse_paths(source, target)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    action.copy(session, scope, paths, rank, output.note)
