"""`kubectl sky fairshare`."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kubectl_sky.cli import commands, extras, options, output
from kubectl_sky.errors import UserError
from kubectl_sky.words import bounded

if TYPE_CHECKING:
    from kubectl_sky.fairshare.model_policy import Policy
    from kubectl_sky.fairshare.simulate import Job, Outcome

_POLICIES = ("linear", "exponential", "half-life")
_UNUSED = {  # fields that a policy does not use
    "linear": ("percent",),
    "exponential": ("penalty",),
    "half-life": ("percent", "recovery_step"),
}
_BAR_CHARACTERS = 30
_MARKS = "#=.+o-*%"  # of the users in a bar
_MAX_TRACE_BYTES = 50_000_000
_NUMBER = click.IntRange(min=1, max=1_000_000_000)
_VALUE = click.IntRange(-(2**31), 1_000_000_000)


@commands.group("fairshare")
def command() -> None:
    """Show and simulate the fair share of Volcano queues, which the fairshare controller keeps."""


@command.command("status", examples=["fairshare status", "fairshare status -o json"])
@options.connection
@options.output("json", "yaml", "name")
@options.no_headers
def status(cluster: options.ClusterFlags, form: str | None) -> None:
    """List the PriorityClasses of fair share, with their values and what lowers them.

    COUNT are finished PodGroups, RUNNING those that run. RECOVERS is the time until the count
    falls, if none starts or finishes before.
    """
    from kubectl_sky.fairshare.action import list_classes
    from kubectl_sky.words import age

    classes = list_classes(cluster.session())
    if output.print_list(
        form, "FairShareList", "classes", classes, lambda item: f"priorityclass/{item.name}"
    ):
        return
    if not classes:
        output.note("No PriorityClasses of fair share found; see `kubectl sky controllers`.")
    else:
        now = datetime.now(UTC)
        rows = [
            [
                item.name,
                item.queue,
                item.owner or "-",
                *(str("?" if number is None else number) for number in (item.base, item.value)),
                *("?" if number is None else str(number) for number in (item.count, item.running)),
                age.duration(recovers - now) if (recovers := age.parse(item.recovers)) else "-",
            ]
            for item in classes
        ]
        header = ["NAME", "QUEUE", "OWNER", "BASE", "VALUE", "COUNT", "RUNNING", "RECOVERS"]
        output.out(output.table(header, rows))


@command.command(
    "simulate",
    examples=[
        "fairshare simulate",
        "fairshare simulate --queue team-queue --plot shares.png",
        "fairshare simulate --trace jobs.csv --policy exponential",
    ],
)
@click.option(
    "--users",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Users, who submit at unequal rates.",
)
@click.option(
    "--jobs", type=click.IntRange(1, 100_000), default=1000, show_default=True, help="Random jobs."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random jobs.")
@click.option(
    "--trace",
    metavar="FILE",
    help="CSV or JSON with user, submitted, seconds; replaces --users and --jobs.",
)
@click.option(
    "--slots", type=click.IntRange(1, 100_000), default=10, show_default=True, help="Jobs at once."
)
@click.option("--queue", metavar="NAME", help="Start from the policy of a queue in the settings.")
@click.option("--policy", type=click.Choice(_POLICIES), help="How the value falls.")
@click.option("--penalty", type=_NUMBER, help="Points for each PodGroup; not for exponential.")
@click.option(
    "--percent", type=click.IntRange(1, 100), help="Percentage for each PodGroup; exponential."
)
@click.option("--base", type=_VALUE, help="Value without penalty.")
@click.option("--floor", type=_VALUE, help="Lowest value.")
@click.option("--recovery-interval", type=_NUMBER, help="Seconds until a step of the recovery.")
@click.option(
    "--recovery-step", type=_NUMBER, help="PodGroups forgotten by a step; not for half-life."
)
@click.option("--plot", metavar="FILE", help="Write a plot as PNG.")
@options.output("json", "yaml")
def simulate(
    queue: str | None,
    slots: int,
    plot: str | None,
    form: str | None,
    **flags: Any,  # noqa: ANN401 -- of any type
) -> None:
    """Show how users would share a queue with a policy, beside the same queue without.

    Jobs take one slot. They run by priority, then first come, first served.
    """
    from kubectl_sky.fairshare import simulate as simulation

    if plot and not extras.is_installed("matplotlib"):
        raise UserError("--plot needs matplotlib", extras.install_hint("plot"))
    jobs = _jobs(slots, **{name: flags.pop(name) for name in ("users", "jobs", "seed", "trace")})
    policy = _policy(queue, flags)
    outcomes = {
        f"with {policy.policy.value}": simulation.simulate(jobs, slots, policy),
        "without": simulation.simulate(jobs, slots, None),
    }
    if form:
        names = ("fair", "without")
        values = dict(zip(names, map(_as_json, outcomes.values()), strict=True))
        result = {"jobs": len(jobs), "slots": slots, "policy": policy.policy.value, **values}
        output.out(output.document("FairShareSimulation", result, form))
    else:
        output.out(f"{_over_time(outcomes)}\n\n{_summary(outcomes)}")
    if plot:
        from kubectl_sky.fairshare.plot import write

        write(outcomes, Path(plot))
        output.note(f"Wrote {plot}")


def _jobs(slots: int, users: int, jobs: int, seed: int, trace: str | None) -> "list[Job]":
    from kubectl_sky.fairshare.simulate import generate, read_trace

    if not trace:
        return generate(users, jobs, slots, seed)
    try:
        with Path(trace).open("rb") as file:
            data = file.read(_MAX_TRACE_BYTES + 1)
    except OSError as error:
        raise UserError(f"cannot read {trace}: {bounded.reason(error)}") from error
    if len(data) > _MAX_TRACE_BYTES:
        raise UserError(f"{trace} is larger than {_MAX_TRACE_BYTES // 10**6} MB")
    try:
        return read_trace(data.decode(), trace)
    except UnicodeDecodeError:
        raise UserError(f"{trace} is not UTF-8") from None


def _policy(queue: str | None, flags: Mapping[str, Any]) -> "Policy":
    """Return the policy of a queue with the flags that are set. Raises UserError."""
    from kubectl_sky.actions import config
    from kubectl_sky.fairshare.model_policy import policy

    fields: Mapping[str, Any] = {}
    if queue is not None:
        queues = config.preferences().fair_share
        if queue not in queues:
            known = ", ".join(queues)
            hint = f"queues: {known}" if known else "the settings have no fair_share"
            raise UserError(f'queue "{queue}" has no fair share in the settings', hint)
        fields = queues[queue]
    given = {key: value for key, value in flags.items() if value is not None}
    result = policy({**fields, **given})
    for name in _UNUSED[result.policy.value]:
        if name in given:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} has no effect with the policy {result.policy.value}")
    return result


def _as_json(outcome: "Outcome") -> dict[str, object]:
    return {
        "shares": outcome.contended,
        "deviation": outcome.deviation,
        "contended_seconds": outcome.contended_seconds,
        "waits": outcome.waits,
        "end": outcome.end,
        "over_time": list(outcome.over_time),
    }


def _over_time(outcomes: "Mapping[str, Outcome]") -> str:
    """Return a line for each period, with a bar for each outcome."""
    from kubectl_sky.words import age

    users = list(next(iter(outcomes.values())).contended)
    blocks = []
    for title, outcome in outcomes.items():
        rows = [
            [
                age.duration(timedelta(seconds=outcome.end * number // len(outcome.over_time))),
                "".join(
                    _MARKS[index % len(_MARKS)] * width
                    for index, width in enumerate(_widths([period[user] for user in users]))
                ),
            ]
            for number, period in enumerate(outcome.over_time)
        ]
        blocks.append(output.table(["TIME", title.upper()], rows).splitlines())
    width = max(map(len, blocks[0]))
    lines = [f"{left:<{width}}   {right}" for left, right in zip(*blocks, strict=True)]
    legend = ", ".join(
        f"{_MARKS[index % len(_MARKS)]} {output.cell(user)}" for index, user in enumerate(users)
    )
    return "\n".join([*lines, "", legend])


def _widths(shares: list[float]) -> list[int]:
    """Return the widths of the parts of a bar; their sum is that of the bar, unless it is empty."""
    bounds = [round(sum(shares[:number]) * _BAR_CHARACTERS) for number in range(len(shares) + 1)]
    return [last - first for first, last in pairwise(bounds)]


def _summary(outcomes: "Mapping[str, Outcome]") -> str:
    """Return the share and the mean wait of each user."""
    from kubectl_sky.words import age

    header, columns = ["USER"], [list(next(iter(outcomes.values())).contended)]
    for title, outcome in outcomes.items():
        header += [f"SHARE {title.upper()}", "WAIT"]
        columns.append([f"{share:.1%}" for share in outcome.contended.values()])
        columns.append([age.duration(timedelta(seconds=wait)) for wait in outcome.waits.values()])
    rows = [list(row) for row in zip(*columns, strict=True)]
    text = "Shares are of the time while all users had waiting jobs."
    if all(outcome.contended_seconds for outcome in outcomes.values()):
        deviations = [f"{outcome.deviation:.1%} ({title})" for title, outcome in outcomes.items()]
        text += f" Largest deviation from equal shares: {', '.join(deviations)}."
    else:
        text = "There are no shares: the users never had waiting jobs all at the same time."
    return f"{output.table(header, rows)}\n\n{text}"
