"""`kubectl sky rerun`: the last `submit` or `run` of this machine again."""

import os
import shlex

import click

from kubectl_sky.cli import commands, output, submit, submits
from kubectl_sky.errors import UserError


@commands.command(
    "rerun", examples=["rerun", "rerun --env EPOCHS=20", "rerun --detach --gpus A100:8"]
)
def command(**flags: object) -> int:
    """Submit the file of your last submit or run again, with its flags and those given here.

    If its task has not ended, it is stopped, logs included, once the cluster would accept the new
    one. It runs in the folder of that submit, and asks before it submits to another context or
    namespace. Values of --secret are not kept: export K for --secret K.
    """
    context = click.get_current_context()
    last = submits.last()
    if last.words[0] == "submit" and last.words[-1] == "-":
        raise UserError(
            f"the file of task {last.id} was standard input", f"use `submit --from {last.id}`"
        )

    parent = context.parent
    assert parent and isinstance(parent.command, click.Group)
    given: list[str] = context.meta[commands.WORDS]  # ends with `--`

    end = last.words.index("--")
    options = [param for param in context.command.params if isinstance(param, click.Option)]
    switches = {name for option in options if option.is_flag for name in option.opts}
    kept = [word for word in last.words[:end] if word not in switches or word not in given]
    name, *words = [*kept, *given[:-1], *last.words[end:]]

    try:
        os.chdir(last.folder)
    except OSError as error:
        raise UserError(f"the folder of the last submit, {last.folder}: {error.strerror}") from None

    shown = shlex.join(word for word in words if name != "submit" or word != "--")
    output.note(f"in {last.folder}: kubectl sky {name} {shown}")

    again = parent.command.get_command(parent, name)
    assert again
    context.meta[commands.RERUN] = submits.Rerun(last, given)
    with again.make_context(name, words, parent=parent) as inner:
        code: int = again.invoke(inner)
    return code


# Those of submit, which are parsed there: to list and to complete them, and to find wrong ones.
command.params = [
    param
    for param in submit.command.params
    if isinstance(param, click.Option) and param.name not in ("task", "task_id")
]
