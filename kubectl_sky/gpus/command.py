"""`kubectl sky gpus`."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.gpus.model import AcceleratorNode


@commands.command("gpus", examples=["gpus", "gpus -o json"])
@options.cluster
@options.output("json", "yaml")
@options.no_headers
def command(cluster: options.ClusterFlags, form: str | None) -> None:
    """Show the cluster's accelerators by type, by cluster node and by user.

    They come from device plugins, and from the ResourceSlices of DRA drivers.

    Types have the names that `accelerators` of a task accepts. USED is what pods request. FREE
    counts only cluster nodes that are ready and accept pods.
    """
    from kubectl_sky.gpus import action
    from kubectl_sky.gpus.model import GpuList
    from kubectl_sky.plan.accelerators import RESOURCES

    machines = action.accelerators(cluster.session())
    if form:
        output.out(output.data(GpuList(machines=machines), form))
    elif not machines:
        output.note("no cluster node has accelerators")
    else:
        tables = (_by_type(machines), _by_machine(machines), _by_user(machines))
        output.out("\n\n".join(filter(None, tables)))
        drivers = {item.resource for item in machines if item.resource not in RESOURCES}
        for driver in sorted(drivers):
            output.note(
                f"tasks cannot request the devices of {driver}: no DeviceClass gives them an"
                " extendedResourceName such as nvidia.com/gpu"
            )
        if any(machine.used is None for machine in machines):
            output.note("usage is unknown: you are not allowed to list pods in all namespaces")


def _by_type(machines: Sequence["AcceleratorNode"]) -> str:
    groups: dict[tuple[str, str], list[AcceleratorNode]] = {}
    for machine in machines:
        groups.setdefault((machine.model, machine.resource), []).append(machine)
    rows = [
        [
            model or "unnamed",
            resource,
            str(len(group)),
            str(sum(machine.total for machine in group)),
            _sum([machine.used for machine in group]),
            _sum([machine.free for machine in group]),
            str(max(machine.free or 0 for machine in group)) if group[0].used is not None else "?",
        ]
        for (model, resource), group in groups.items()
    ]
    header = ["ACCELERATOR", "RESOURCE", "CLUSTER NODES", "TOTAL", "USED", "FREE", "MOST ON ONE"]
    return output.table(header, rows)


def _sum(numbers: Sequence[int | None]) -> str:
    values = [number for number in numbers if number is not None]
    return str(sum(values)) if len(values) == len(numbers) else "?"


def _by_machine(machines: Sequence["AcceleratorNode"]) -> str:
    rows = [
        [
            node.name,
            node.model or "unnamed",
            str(node.total),
            _sum([node.used]),
            _sum([node.free]),
            "" if node.ready else "cordoned",
        ]
        for node in machines
    ]
    return output.table(["CLUSTER NODE", "ACCELERATOR", "TOTAL", "USED", "FREE", ""], rows)


def _by_user(machines: Sequence["AcceleratorNode"]) -> str:
    """Format the number of accelerators by user and type, highest first."""
    counts: Counter[tuple[str, str]] = Counter()
    for machine in machines:
        for user, count in machine.users.items():
            counts[user, machine.model or machine.resource] += count
    if not counts:
        return ""
    rows = [[user, model, str(count)] for (user, model), count in counts.most_common()]
    return output.table(["USER", "ACCELERATOR", "USED"], rows)
