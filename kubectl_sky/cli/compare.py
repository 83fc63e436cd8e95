"""`kubectl sky compare`."""

import difflib
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from kubectl_sky.cli import commands, options, output
from kubectl_sky.observe.comparison import ComparedTask, Comparison
from kubectl_sky.words import age

if TYPE_CHECKING:
    from kubectl_sky.tasks.choice import Choice

_MAX_CELL = 40  # characters of a value


@commands.command(
    "compare",
    examples=[
        "compare train-a train-b",
        "compare sweep",
        "compare sweep:0 sweep:3 -o json",
        "compare 'train-*' --all-users",
    ],
)
@options.tasks
@options.cluster_all_namespaces
@options.all_users
@options.output("json", "yaml")
def command(
    choice: "Choice", cluster: options.ClusterFlags, all_users: bool, form: str | None
) -> None:
    """Show what differs between TASKs: files, flags, image, commit, node type, time, numbers.

    TASK:INDEX is an index of an array; an array alone means all its indexes. The numbers are the
    last ones that all have printed at the end of their logs, such as `loss=0.1` and `acc: 93`.

    What is the same in all is left out, and variables that TASK shows; -o json has them.
    """
    from kubectl_sky.tasks import compare

    session = cluster.session()
    result = compare.compare(session, options.scope(session, cluster, all_users), choice)
    output.out(output.data(result, form) if form else _format(result))


def _format(result: Comparison) -> str:
    fields = [name for name in result.differing if not _is_titled(name, result.tasks)]
    header = ["TASK", "STATUS", "EXIT", "TIME", *result.metrics, *fields]
    rows = [_row(task, result.metrics, fields) for task in result.tasks]
    table = output.table(header, rows, fits=False)
    if not result.differing:
        table += "\n\nNothing differs in file, flags, image, files and commit."
    return "\n\n".join([table, *_script_differences(result)])


def _is_titled(field: str, tasks: Sequence[ComparedTask]) -> bool:
    """Return whether the titles of all tasks have a variable: `train LR=0.1`."""
    variable = field.removeprefix("envs.")
    return field != variable and all(
        f" {variable}={task.fields.get(field)} " in f"{task.title} " for task in tasks
    )


def _script_differences(result: Comparison) -> Iterator[str]:
    """Yield the lines of scripts that differ, if two tasks are compared."""
    if len(result.tasks) != 2:
        return
    first, second = result.tasks
    for name in result.differing:
        texts = [task.fields.get(name, "") for task in (first, second)]
        if any("\n" in text for text in texts):
            old, new = (text.splitlines() for text in texts)
            before = f"{name} of {first.title}"
            after = f"{name} of {second.title}"
            lines = difflib.unified_diff(old, new, before, after, lineterm="", n=1)
            yield "\n".join(lines)


def _row(task: ComparedTask, metrics: Sequence[str], fields: Sequence[str]) -> list[str]:
    seconds = task.seconds
    return [
        task.title,
        task.status,
        "" if task.exit_code is None else str(task.exit_code),
        "" if seconds is None else age.duration(timedelta(seconds=seconds)),
        *(_number(task.metrics.get(name)) for name in metrics),
        *(_short(task.fields.get(name, "")) for name in fields),
    ]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_CELL else f"{text[: _MAX_CELL - 1]}…"
