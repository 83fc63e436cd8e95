"""`kubectl sky port-forward`."""

import click

from kubectl_sky.cli import commands, options, output


@commands.command(
    "port-forward", examples=["port-forward 8888", "port-forward train 8080:80 :6006 --rank 2"]
)
@click.argument("task", required=False)
@click.argument("ports", nargs=-1, metavar="[LOCAL:]REMOTE...")
@click.option(
    "--rank", type=click.IntRange(min=0), default=0, help="Rank of the node (default: 0)."
)
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    metavar="ADDRESS,...",
    help="Local address to listen on; 0.0.0.0 allows other machines.",
)
@options.cluster_all_namespaces
@options.all_users
def command(
    task: str | None,
    ports: tuple[str, ...],
    rank: int,
    address: str,
    cluster: options.ClusterFlags,
    all_users: bool,
) -> None:
    """Forward local ports to a node of TASK (your last task), until Ctrl-C.

    8888 is the same port on both sides, 8080:80 is local 8080, and :6006 any free local port.

    If the connection is lost or the pod restarts, open connections end, and new ones go to the new
    pod. Half-closed connections are not supported.
    """
    from kubectl_sky.tasks import multikueue
    from kubectl_sky.tasks import ports as action

    if not ports:  # the only argument is a port of the last task
        ports = (task,) if task else ()
        task = None
    if not ports:
        raise click.UsageError("Missing argument '[LOCAL:]REMOTE...'.")
    pairs = [action.parse_pair(text) for text in ports]
    addresses = [item.strip() for item in address.split(",") if item.strip()]
    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    session, match = multikueue.locate_task(session, scope, task)
    try:
        action.forward(session, match, rank, (addresses, pairs), output.note)
    except KeyboardInterrupt:  # the normal way to stop
        return
