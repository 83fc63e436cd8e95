"""`kubectl sky top`."""

from fractions import Fraction

import click

from kubectl_sky.cli import commands, options, output


@commands.command("top", examples=["top train", "top train -o json"])
@click.argument("task")
@options.where_all
@options.all_users
@options.output("json", "yaml")
def command(task: str, where: options.Where, all_users: bool, form: str | None) -> None:
    """Show the CPUs and the memory that the nodes of TASK use, where the cluster measures it."""
    from kubectl_sky.actions import find, usage

    session = where.session()
    found = find.task(session, options.scope(session, where, all_users), task)
    uses = usage.top(session, found)
    if form:
        values = [
            {
                "node": use.node.index,
                "pod": use.node.pod,
                "cpus": float(use.cpus),
                "memory_bytes": int(use.memory),
                "cpus_asked": float(use.cpus_asked) or None,
                "memory_bytes_asked": int(use.memory_asked) or None,
            }
            for use in uses
        ]
        output.out(output.data({"task_id": found.id, "nodes": values}, form))
        return
    rows = [
        [
            use.node.name,
            f"{int(use.cpus * 1000)}m",
            _share(use.cpus, use.cpus_asked),
            f"{int(use.memory / 2**20)}Mi",
            _share(use.memory, use.memory_asked),
            use.node.host,
        ]
        for use in uses
    ]
    output.out(output.table(["NODE", "CPU", "CPU%", "MEMORY", "MEMORY%", "HOST"], rows))
    if not uses:
        output.note("nothing has been measured yet; it takes about a minute after a start")


def _share(used: Fraction, asked: Fraction) -> str:
    """How much of what was asked for is used, as kubectl top shows it."""
    return f"{int(100 * used / asked)}%" if asked else "-"
