"""`kubectl sky stacks`."""

import click

from kubectl_sky.cli import commands, options, output


@commands.command(
    "stacks", examples=["stacks train", "stacks train --bring-py-spy", "stacks train -o json"]
)
@click.argument("task", required=False)
@options.cluster_all_namespaces
@options.all_users
@click.option(
    "--bring-py-spy",
    is_flag=True,
    help="Copy this machine's py-spy to the nodes before, for images without it.",
)
@options.output("json", "yaml")
def command(
    task: str | None,
    cluster: options.ClusterFlags,
    all_users: bool,
    bring_py_spy: bool,
    form: str | None,
) -> None:
    """Show where the programs of TASK's nodes are; those at the same place together.

    Runs py-spy in each node if the image has it. If not, a Python program that registers
    faulthandler for SIGUSR1 or SIGUSR2 gets that signal. Of other programs, it shows what the
    kernel says. Needs no root; what it cannot read is listed at the end.
    """
    from kubectl_sky.observe.findings import spans
    from kubectl_sky.observe.stacks import count_ranks
    from kubectl_sky.tasks import multikueue, stacks

    session = cluster.session()
    scope = options.scope(session, cluster, all_users)
    session, match = multikueue.locate_task(session, scope, task)
    if bring_py_spy:
        stacks.bring_py_spy(session, match)
    result = stacks.dump(session, match)
    if form:
        output.out(output.data(result, form))
        return
    lines = [result.summary or "no programs found", *result.flight_recorder]
    for stack in result.stacks:
        lines += ["", f"{spans(stack.ranks)}: {stack.command} ({stack.source})"]
        lines += [f"  {frame}" for frame in stack.frames]
    missing = [f"not read, {count_ranks(them)}: {what}" for what, them in result.unread.items()]
    output.out("\n".join([*lines, *([""] if missing else []), *missing]))
