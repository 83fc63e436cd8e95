"""`kubectl sky cp`."""

import click

from kubectl_sky.cli import commands, options, output, tasks
from kubectl_sky.errors import UserError


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
    from kubectl_sky.actions import exec, find  # noqa: A004

    source_path, target_path = exec.parse_path(source), exec.parse_path(target)
    if source_path.task and target_path.task:
        raise UserError(
            "cannot copy from one node to another", "copy to a local path first, or use a volume"
        )
    if not (source_path.task or target_path.task):
        raise UserError("source or target must be in a task", "use TASK:PATH for it")
    session = cluster.session()
    task_name = source_path.task or target_path.task
    match = find.get_task(session, options.scope(session, cluster, all_users), task_name)
    session, match = tasks.located(session, match)
    node = exec.Node(
        session, exec.task_environment(session, match), exec.node_of_rank(match, rank), output.note
    )
    if source_path.task:
        node.get(source_path.path, target_path.path)
    else:
        node.put(source_path.path, target_path.path)
