"""`kubectl sky rerun`: submits of this machine again, or files that the cluster keeps."""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from kubectl_sky.cli import arguments, commands, options, output, submit, submits
from kubectl_sky.errors import UserError
from kubectl_sky.words.facts import Place

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.tasks.choice import Choice
    from kubectl_sky.tasks.find import Scope, Target

_OF_CHOICE = {"--all": 1, "-l": 2, "--selector": 2, "--from": 2}  # words of each flag


@commands.command(
    "rerun",
    examples=[
        "rerun",
        "rerun --env EPOCHS=20",
        "rerun train --detach --gpus A100:8",
        "rerun 'train-*' eval",
    ],
)
@options.tasks
def command(choice: "Choice", task: str | None, **flags: Any) -> int:
    """Submit the files of TASKs (your last submit or run) again, with the flags given here, too.

    What this machine has submitted keeps its flags, and runs in the folder of that submit; of other
    tasks the file is taken that the cluster keeps, also of tasks of other users, with you as the
    owner. If a task of yours has not ended, it is stopped, logs included, once the cluster would
    accept the new one. Several tasks are not followed.

    It asks before it submits to another context or namespace. Values of --secret are not kept:
    export K for --secret K.
    """
    context = click.get_current_context()
    words: list[str] = context.meta[commands.WORDS]
    given = _without_choice(words[: words.index("--")])
    if task:
        choice = replace(choice, references=(*choice.references, task))
    if not choice.references and not choice.is_filter:
        return _repeat(context, submits.Rerun(submits.last(), given))

    reruns = _find_submits(choice, flags, given)
    if len(reruns) > 1:
        detach = () if {"--detach", "-d"}.intersection(given) else ("--detach",)
        reruns = [replace(rerun, words=[*given, *detach]) for rerun in reruns]
    return max((_repeat(context, rerun) for rerun in reruns), default=0)


def _without_choice(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without the flags that choose tasks."""
    kept = []
    rest = list(words)
    while rest:
        count = _OF_CHOICE.get(rest[0], 0)
        if not count:
            kept.append(rest[0])
        rest = rest[max(count, 1) :]
    return kept


def _find_submits(
    choice: "Choice", flags: Mapping[str, Any], given: list[str]
) -> list[submits.Rerun]:
    """Return the submits of the tasks; if this machine did not submit one, that of its file."""
    cluster = options.flags_of(flags)
    session = cluster.session()
    scope = options.scope(session, cluster, all_users=False)
    assert scope.user

    reruns = []
    for target in _find_targets(session, scope, choice):
        place = Place(session.server, session.context, target.namespace)
        of_file = submits.Record(
            words=["submit", "--from", target.id, "--"],
            folder=str(Path.cwd()),
            id=target.id,
            place=place,
            sent=[],
        )
        record = submits.of_task(session, target.namespace, target.id) or of_file
        reruns.append(submits.Rerun(record, given, replaces=target.user == scope.user.name))
    return reruns


def _find_targets(session: "Session", scope: "Scope", choice: "Choice") -> "Iterable[Target]":
    """Return the chosen tasks of the user; an id or a name may also be another user's."""
    from kubectl_sky.tasks import find
    from kubectl_sky.tasks.choice import find_targets

    if choice.is_filter:
        return find_targets(session, scope, choice)

    targets: list[Target] = []
    for reference in choice.references:
        if find.is_glob(reference):
            targets += find.get_targets(session, scope, [reference])
        else:
            targets.append(find.get_of_anyone(session, scope, reference))
    return {target.id: target for target in targets}.values()


def _repeat(context: click.Context, rerun: submits.Rerun) -> int:
    """Run the command of a submit again, in its folder, with more flags."""
    last = rerun.record
    if last.words[0] == "submit" and last.words[-1] == "-":
        raise UserError(
            f"the file of task {last.id} was standard input", f"use `submit --from {last.id}`"
        )

    parent = context.parent
    assert parent and isinstance(parent.command, click.Group)
    end = last.words.index("--")
    params = [param for param in context.command.params if isinstance(param, click.Option)]
    switches = {name for option in params if option.is_flag for name in option.opts}
    kept = [word for word in last.words[:end] if word not in switches or word not in rerun.words]
    name, *words = [*kept, *rerun.words, *last.words[end:]]

    try:
        os.chdir(last.folder)
    except OSError as error:
        raise UserError(f"the folder of the submit, {last.folder}: {error.strerror}") from None

    safe = arguments.without_secrets(words)
    shown = shlex.join(word for word in safe if name != "submit" or word != "--")
    output.note(f"in {last.folder}: kubectl sky {name} {shown}")

    again = parent.command.get_command(parent, name)
    assert again
    context.meta[commands.RERUN] = rerun
    with again.make_context(name, words, parent=parent) as inner:
        code: int = again.invoke(inner)
    return code


# Those of submit, which are parsed there: to list and to complete them, and to find wrong ones.
command.params += [
    param
    for param in submit.command.params
    if isinstance(param, click.Option)
    and param.name != "task_id"
    and param.name not in {existing.name for existing in command.params}
]
