"""`kubectl sky top`."""

from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.gpus.action import GpuReport


@commands.command("top", examples=["top train", "top train -o json", "top train --gpu"])
@click.argument("task", required=False)
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml")
@options.no_headers
@click.option(
    "--gpu",
    "of_gpus",
    is_flag=True,
    help="Show the usage of each GPU: run nvidia-smi or rocm-smi in every running node.",
)
def command(
    task: str | None,
    cluster: options.ClusterFlags,
    all_users: bool,
    form: str | None,
    of_gpus: bool,
) -> None:
    """Show the CPU and memory usage of TASK's nodes, if the cluster measures it.

    With --gpu, show utilization, memory, temperature and power of each GPU. The image must have
    nvidia-smi, which device plugins add to most images, or rocm-smi.
    """
    from kubectl_sky.gpus import action
    from kubectl_sky.gpus.model import Usage
    from kubectl_sky.tasks import find

    session = cluster.session()
    match = find.get_task(session, options.scope(session, cluster, all_users), task)
    if of_gpus:
        _print_gpus(match.id, action.gpus(session, match), form)
        return
    samples = action.top(session, match)
    if form:
        output.out(output.data(Usage(task_id=match.id, nodes=samples), form))
        return
    nodes = {node.index: node for node in match.nodes}
    rows = [
        [
            nodes[sample.node].name,
            f"{int(round(sample.cpus * 1000, 6))}m",
            _percentage(sample.cpus, sample.cpus_asked),
            f"{int(sample.memory_bytes / 2**20)}Mi",
            _percentage(sample.memory_bytes, sample.memory_bytes_asked),
            nodes[sample.node].host,
        ]
        for sample in samples
    ]
    output.out(output.table(["NODE", "CPU", "CPU%", "MEMORY", "MEMORY%", "HOST"], rows))
    if not samples:
        output.note("no measurements yet; they take about a minute after a start")


def _percentage(used: float, asked: float | None) -> str:
    """Format usage as a percentage of the request, like kubectl top."""
    return f"{int(round(100 * used / asked, 6))}%" if asked else "-"


def _print_gpus(task_id: str, report: "GpuReport", form: str | None) -> None:
    if form:
        from kubectl_sky.gpus.smi import GpuFailure, GpuUsage

        failures = [GpuFailure(node.index, node.pod, error.what) for node, error in report.failures]
        usage = GpuUsage(task_id=task_id, gpus=report.gpus, failures=failures)
        output.out(output.data(usage, form))
        return
    rows = [
        [
            str(gpu.rank),
            f"{gpu.index} {gpu.name}".rstrip(),
            _amount(gpu.utilization, "%"),
            _of(_amount(gpu.memory_used, "Mi", 2**20), _amount(gpu.memory_total, "Mi", 2**20)),
            _amount(gpu.temperature, "C"),
            _of(_amount(gpu.power, "W"), _amount(gpu.power_limit, "W")),
        ]
        for gpu in report.gpus
    ]
    output.out(output.table(["RANK", "GPU", "UTIL", "MEMORY", "TEMPERATURE", "POWER"], rows))
    for node, error in report.failures:
        output.warning(f"{node.name}: {error}")


def _amount(value: float | None, unit: str, size: int = 1) -> str:
    return "-" if value is None else f"{int(value / size)}{unit}"


def _of(used: str, total: str) -> str:
    return used if total == "-" else f"{used}/{total}"
