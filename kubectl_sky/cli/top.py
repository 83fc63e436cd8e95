"""`kubectl sky top`."""

from fractions import Fraction

import click

from kubectl_sky.cli import commands, options, output


@commands.command("top", examples=["top train", "top train -o json"])
@click.argument("task", required=False)
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml")
@options.no_headers
def command(
    task: str | None, cluster: options.ClusterFlags, all_users: bool, form: str | None
) -> None:
    """Show the CPU and memory usage of TASK's nodes, if the cluster measures it."""
    from kubectl_sky.actions import find, usage

    session = cluster.session()
    match = find.get_task(session, options.scope(session, cluster, all_users), task)
    samples = usage.top(session, match)
    if form:
        values = [sample.as_json() for sample in samples]
        output.out(output.document("Usage", {"task_id": match.id, "nodes": values}, form))
        return
    rows = [
        [
            sample.node.name,
            f"{int(sample.cpus * 1000)}m",
            _percentage(sample.cpus, sample.cpus_asked),
            f"{int(sample.memory / 2**20)}Mi",
            _percentage(sample.memory, sample.memory_asked),
            sample.node.host,
        ]
        for sample in samples
    ]
    output.out(output.table(["NODE", "CPU", "CPU%", "MEMORY", "MEMORY%", "HOST"], rows))
    if not samples:
        output.note("no measurements yet; they take about a minute after a start")


def _percentage(used: Fraction, asked: Fraction) -> str:
    """Format usage as a percentage of the request, like kubectl top."""
    return f"{int(100 * used / asked)}%" if asked else "-"
