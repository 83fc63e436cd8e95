"""`kubectl sky gpus`."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import UserError

if TYPE_CHECKING:
    from kubectl_sky.gpus.model import AcceleratorNode
    from kubectl_sky.spec.task import Task


@commands.command("gpus", examples=["gpus", "gpus -o json", "gpus --fit task.yaml"])
@click.option("--fit", metavar="FILE", help="Say where the GPUs of a task file are free now.")
@options.cluster
@options.output("json", "yaml")
@options.no_headers
def command(cluster: options.ClusterFlags, form: str | None, fit: str | None) -> None:
    """Show the cluster's accelerators by type, by cluster node and by user.

    They come from device plugins, and from the ResourceSlices of DRA drivers.

    Types have the names that `accelerators` of a task accepts. USED is what pods request. FREE
    counts only cluster nodes that are ready and accept pods. --fit compares GPUs only: no CPUs, no
    memory and no quotas.
    """
    from kubectl_sky.gpus import action

    if fit and form:
        raise UserError("--fit cannot be combined with -o", "choose one of them")
    tasks = _read_tasks(fit) if fit else ()
    machines = action.accelerators(cluster.session())
    if form:
        from kubectl_sky.gpus.model import GpuList

        output.out(output.data(GpuList(machines=machines), form))
        return
    if tasks:
        from kubectl_sky.gpus.fit import describe

        output.out("\n".join(line for task in tasks for line in describe(task, machines)))
    elif machines:
        _print(machines)
    if not machines:
        output.note("no cluster node has accelerators")
    if any(machine.used is None for machine in machines):
        output.note("usage is unknown: you are not allowed to list pods in all namespaces")


def _print(machines: Sequence["AcceleratorNode"]) -> None:
    from kubectl_sky.plan.accelerators import RESOURCES

    tables = (_by_type(machines), _by_machine(machines), _by_user(machines))
    output.out("\n\n".join(filter(None, tables)))
    for driver in sorted({item.resource for item in machines} - {*RESOURCES}):
        output.note(
            f"tasks cannot request the devices of {driver}: no DeviceClass gives them an"
            " extendedResourceName such as nvidia.com/gpu"
        )


def _read_tasks(path: str) -> "Sequence[Task]":
    from kubectl_sky.submitting.overrides import Overrides
    from kubectl_sky.submitting.taskfile import Source, prepare
    from kubectl_sky.tasks.ui import UI

    return prepare(Source(path, Overrides(), os.environ, sys.stdin.buffer), UI()).tasks


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
