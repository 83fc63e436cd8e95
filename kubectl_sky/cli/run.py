"""`kubectl sky run`."""

import io
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from kubectl_sky.cli import arguments, commands, options, output, submits
from kubectl_sky.cli.submit import Results, print_task_file, request
from kubectl_sky.errors import UserError
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.words.bounded import is_utf8

_NO_FILE = "<run>"  # the file name in messages on a task that has no file


@commands.command(
    "run",
    examples=[
        "run -- python -c 'print(1 + 1)'",
        "run --gpus A100:1 --workdir . -- python train.py --lr 3e-4",
        "run --num-nodes 2 'echo rank $SKYPILOT_NODE_RANK'",
        "run --gpus 1 --dry-run=client -o task -- nvidia-smi > task.yaml",
    ],
)
@click.argument("words", nargs=-1, required=True, metavar="-- CMD...")
@options.sending(
    detach="Return at once, without following the logs.",
    limited="the first node to start (default: provision_timeout, then 5m)",
)
@options.new_task
@options.strict
@options.cluster
@options.output("task", "json", "yaml", "name", paths=False)
def command(
    words: tuple[str, ...],
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: object,
) -> int:
    """Run a command as a task, without a file, and follow its logs.

    The words of CMD reach the program as they are: variables and wildcards stay text. A single word
    is a line of shell, such as 'echo $SKYPILOT_NODE_RANK | tee rank.txt'.

    --dry-run=client -o task prints the task file, for what has no flag: setup, volumes and so on.
    """
    from kubectl_sky.submitting import submit
    from kubectl_sky.submitting.taskfile import Source

    if click.get_current_context().meta[commands.BEFORE_DASHES]:
        hint = "write the command after --; --name names the task"
        raise UserError(f'"{words[0]}" stands before --', hint)
    _check_local_files(words, overrides)
    stdin = io.BytesIO(_task_file(words))
    strict = bool(flags["strict"])
    source = Source(_NO_FILE, overrides, os.environ, stdin, strict, in_memory=True)
    dry_run = str(flags["dry_run"])
    ui = Results(form, dry_run, confirm=submits.confirm_repeated(dry_run))
    if form == "task":
        print_task_file(source, ui, dry_run)
        return 0
    submit.submit(request(source, cluster, form, flags), ui, submits.connect_again(dry_run))
    return 0


_INTERPRETERS = {".py": "python", ".sh": "sh"}
_SHELL = frozenset(";|&<>$`\n*(")  # of a line that may make its own files


def _check_local_files(words: Sequence[str], overrides: Overrides) -> None:
    """Refuse a command that cannot find its files in the pods, before anything is created.

    An image of the user's may have them: then it is a note.
    """
    from kubectl_sky.actions.documents import is_batch_file
    from kubectl_sky.cli.skypilot import file_and_arguments

    if len(words) == 1:
        words = [] if _SHELL & set(words[0]) else words[0].split()
    relative = [word for word in words if not word.startswith(("/", "~"))]
    files = [word for word in relative if os.path.isfile(word)]  # noqa: PTH113 -- False if too long
    if not files or files[0].startswith("-"):
        return

    file = files[0]
    is_program = file == words[0]
    if is_program and file.endswith((".yaml", ".yml")):
        raise UserError(f'"{file}" is a task file', f"use `kubectl sky submit {shlex.quote(file)}`")
    if (is_program or words[0] == "sbatch") and is_batch_file(file):
        line = shlex.join(file_and_arguments(words[words.index(file) :]))
        hint = f"use `kubectl sky submit {line}`"
        raise UserError(f'"{file}" is a batch script of Slurm', hint)
    interpreter = _INTERPRETERS.get(Path(file).suffix) if is_program else None
    command = [interpreter, *words] if interpreter else [*words]
    given: list[str] = click.get_current_context().meta[commands.WORDS]
    flags = list(arguments.without_secrets(given[: given.index("--")]))

    if overrides.workdir or overrides.git_url:
        if interpreter:
            line = shlex.join([*flags, "--", *command])
            raise UserError(f'"{file}" is not a program', f"use `kubectl sky run {line}`")
        return
    what = f'"{file}" is a file on this machine, which the nodes do not have'
    line = shlex.join([*flags, "--workdir", ".", "--", *command])
    hint = f"use `kubectl sky run {line}`"
    if not overrides.image:
        raise UserError(what, hint)
    output.note(f"{what}, unless the image has it: {hint}")


def _task_file(words: tuple[str, ...]) -> bytes:
    """Return a task file that runs a program with arguments, or one word as a line of shell."""
    import yaml

    from kubectl_sky.words import names

    if not all(map(is_utf8, words)):
        raise UserError("the command is not UTF-8")
    run = words[0] if len(words) == 1 else shlex.join(words)
    program = next(iter(run.split()), "")
    if not program:
        raise UserError("the command is empty")
    name = names.dns_label(Path(program.strip("'\"")).name)
    return yaml.safe_dump({"name": name, "run": run}, allow_unicode=True, encoding="utf-8")
