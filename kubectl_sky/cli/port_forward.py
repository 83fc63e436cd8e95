"""`kubectl sky port-forward`."""

import click

from kubectl_sky.cli import commands, options, output


@commands.command(
    "port-forward", examples=["port-forward train 8888", "port-forward train 9000:8888 --rank 2"]
)
@click.argument("task")
@click.argument("ports", nargs=-1, required=True, metavar="[LOCAL:]REMOTE...")
@click.option("--rank", type=click.IntRange(min=0), default=0, help="Of this node; else of rank 0.")
@click.option(
    "--address",
    default="localhost",
    show_default=True,
    metavar="ADDRESS,...",
    help="Where to listen; 0.0.0.0 lets others in.",
)
@options.where_all
@options.all_users
def command(
    task: str,
    ports: tuple[str, ...],
    rank: int,
    address: str,
    where: options.Where,
    all_users: bool,
) -> None:
    """Make ports of a node of TASK ports of this machine, until Ctrl-C.

    \b
        kubectl sky port-forward abcd 8888          # 8888 here is 8888 there
        kubectl sky port-forward abcd 8080:80 :6006 # 6006 there is any free port here

    A lost connection or a pod that starts again ends what goes through it, and new connections go
    to the new pod. That a client has nothing more to send is not passed on.
    """  # noqa: D301 -- click reads the \b
    from kubectl_sky.actions import find, forward

    pairs = [forward.pair(text) for text in ports]
    addresses = [one.strip() for one in address.split(",") if one.strip()]
    session = where.session()
    found = find.task(session, options.scope(session, where, all_users), task)
    try:
        forward.serve(session, found, rank, (addresses, pairs), output.note)
    except KeyboardInterrupt:  # how it is meant to end
        return
