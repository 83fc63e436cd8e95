"""`kubectl sky gpus`."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.observe.usage import Machine


@commands.command("gpus", examples=["gpus", "gpus -o json"])
@options.where
@click.option("--free", is_flag=True, help="Only machines that have some free.")
@options.output("json", "yaml")
def command(where: options.Where, free: bool, form: str | None) -> None:
    """Show the cluster's accelerators by type, by machine and by user.

    A type is called as `accelerators` in a task may call it. USED is what pods ask for; FREE counts
    machines that are ready and take pods.
    """
    from kubectl_sky.actions import usage

    machines = usage.accelerators(where.session())
    if free:
        machines = [machine for machine in machines if machine.free]
    if form:
        output.out(output.data({"machines": [one.as_json() for one in machines]}, form))
    elif not machines:
        which = "free" if free else "there"
        output.note(f"no accelerators are {which}: no machine of the cluster offers any")
    else:
        output.out("\n\n".join(table for table in _tables(machines) if table))
        if any(machine.used is None for machine in machines):
            output.note("what is used is not known: you may not list pods of all namespaces")


def _tables(machines: Sequence["Machine"]) -> tuple[str, ...]:
    return _by_type(machines), _by_machine(machines), _by_user(machines)


def _by_type(machines: Sequence["Machine"]) -> str:
    groups: dict[tuple[str, str], list[Machine]] = {}
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
    header = ["ACCELERATOR", "RESOURCE", "MACHINES", "TOTAL", "USED", "FREE", "MOST ON ONE"]
    return output.table(header, rows)


def _sum(numbers: Sequence[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    return str(sum(known)) if len(known) == len(numbers) else "?"


def _by_machine(machines: Sequence["Machine"]) -> str:
    rows = [
        [
            one.name,
            one.model or "unnamed",
            str(one.total),
            _sum([one.used]),
            _sum([one.free]),
            "" if one.ready else "takes no pods",
        ]
        for one in machines
    ]
    return output.table(["MACHINE", "ACCELERATOR", "TOTAL", "USED", "FREE", ""], rows)


def _by_user(machines: Sequence["Machine"]) -> str:
    """Who has how many of which type, the most first."""
    held: Counter[tuple[str, str]] = Counter()
    for machine in machines:
        for user, count in machine.users:
            held[user, machine.model or machine.resource] += count
    if not held:
        return ""
    rows = [[user, model, str(count)] for (user, model), count in held.most_common()]
    return output.table(["USER", "ACCELERATOR", "USED"], rows)
