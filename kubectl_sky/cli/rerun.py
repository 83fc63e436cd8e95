"""`kubectl sky rerun`: the last `submit` or `run` of this machine again, and what is kept of it."""

import os
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import msgspec

from kubectl_sky.cli import commands, output, submit
from kubectl_sky.errors import UserError
from kubectl_sky.words import settings
from kubectl_sky.words.private import Folder

_FILE = "last-submit"
_DROPPED = ("--id", "--token")


class _Last(msgspec.Struct):
    """A command with its words, the folder where it ran, and the task that it submitted."""

    words: list[str]
    folder: str
    id: str


def remember(task_id: str) -> None:
    """Keep the words of the command that submitted a task, without values of secrets."""
    context = click.get_current_context()
    words = [str(context.info_name), *_without_secrets(context.meta[commands.WORDS])]
    last = _Last(words, str(Path.cwd()), task_id)
    try:
        Folder(settings.state_folder()).write(_FILE, msgspec.json.encode(last))
    except OSError as error:
        output.warning(f"`kubectl sky rerun` will not know task {task_id}: {error.strerror}")


def _without_secrets(words: Sequence[str]) -> Iterator[str]:
    """Yield words in click's forms; of `--secret K=V` only K, whose value a rerun asks for."""
    flags = iter(words)
    for word in flags:
        if word == "--":
            yield word
            yield from flags
        elif word in _DROPPED:
            next(flags)
        else:
            yield word
            if word == "--secret":
                yield next(flags).partition("=")[0]


def _last() -> _Last:
    try:
        data = Folder(settings.state_folder()).read(_FILE)
        last = msgspec.json.decode(data, type=_Last)
    except (OSError, msgspec.DecodeError):
        raise UserError("this machine has submitted nothing yet", "submit a FILE first") from None
    if last.words[0] == "submit" and last.words[-1] == "-":
        raise UserError(
            f"the file of task {last.id} was standard input", f"use `submit --from {last.id}`"
        )
    return last


@commands.command(
    "rerun", examples=["rerun", "rerun --env EPOCHS=20", "rerun --detach --gpus A100:8"]
)
def command(**flags: object) -> int:
    """Submit the file of your last submit or run again, with its flags and those given here.

    If its task has not ended, it is stopped first, logs included, once the file has been checked.
    It runs in the folder of that submit. Values of --secret are not kept: export K for --secret K.
    """
    context = click.get_current_context()
    last, parent = _last(), context.parent
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
    context.meta[commands.REPLACED] = last.id
    with again.make_context(name, words, parent=parent) as inner:
        code: int = again.invoke(inner)
    return code


# Those of submit, which are parsed there: to list and to complete them, and to find wrong ones.
command.params = [
    param
    for param in submit.command.params
    if isinstance(param, click.Option) and param.name not in ("task", "task_id")
]
