"""`kubectl sky init`."""

import sys
from typing import Any

import click

from kubectl_sky.cli import commands, output
from kubectl_sky.errors import UserError

_DEFAULT = "task"


@commands.command(
    "init",
    examples=[
        "init",
        "init train.py --gpus A100:8 --nodes 2",
        "init llm --kind vllm",
        "init --list",
        "init --example pytorch-ddp",
        "init - | less",
        "init --from train.sbatch",
    ],
)
@click.argument("target", metavar="[SCRIPT|NAME]", default=_DEFAULT)
@click.option("--gpus", default="", metavar="GPUS", help="GPUs per node: 1, A100:8.")
@click.option(
    "--nodes",
    type=click.IntRange(min=1, max=1000),
    default=1,
    show_default=True,
    help="Number of nodes.",
)
@click.option(
    "--kind",
    type=click.Choice(["script", "torchrun", "vllm"]),
    help="torchrun: distributed PyTorch (default if SCRIPT imports torch); vllm: serve a model.",
)
@click.option(
    "--from", "batch_script", metavar="FILE", help="Print the task of a batch script of Slurm."
)
@click.option("--example", metavar="NAME", help="Copy an example and its programs: pytorch-ddp.")
@click.option("--list", "lists", is_flag=True, help="List the examples.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def command(
    target: str, example: str | None, lists: bool, force: bool, kind: str | None, **flags: Any
) -> None:
    """Write a task file with comments: SCRIPT.yaml for a script, otherwise NAME.yaml.

    The task uploads the current folder and runs SCRIPT. Without SCRIPT, it prints a line. With `-`
    in place of a name, the file is printed instead.
    """
    from kubectl_sky.actions import documents, gallery, init

    if lists:
        examples = gallery.list_examples().items()
        output.out(output.table(["EXAMPLE", ""], [[name, text] for name, (_, text) in examples]))
        return
    if flags["batch_script"]:
        output.out(_convert(flags["batch_script"]))
        return
    if example:
        if target != _DEFAULT or kind or flags["gpus"] or flags["nodes"] != 1:
            raise UserError("--example copies files as they are", "name it alone, and edit them")
        paths = gallery.copy(gallery.find(example), force)
        output.out("\n".join(f"{path} created" for path in paths))
        output.note(f'its first lines say how to run it: "head {paths[0]}"')
        return
    to_stdout = target == "-"
    name = _DEFAULT if to_stdout else target
    draft, path = init.draft(name, flags["gpus"], flags["nodes"], kind or "")
    if to_stdout:
        output.out(init.text(draft, str(path)).rstrip("\n"))
        return
    init.write(draft, path, force)
    output.out(f"{path} created")
    if documents.is_batch_file(target):
        output.note(f"{target} is a batch script of Slurm, which submit and --from read as it is")
    if kind is None and target in init.KINDS:
        output.note(f'for {target}, run "kubectl sky init {target} --kind {target} --force"')
    output.note(f'to run it, run "kubectl sky submit {path}"')


def _convert(path: str) -> str:
    """Return the task file of a batch script, after notes on what is not carried out."""
    from kubectl_sky.actions import documents
    from kubectl_sky.render import writer

    if path != documents.STDIN and not documents.is_batch_file(path):
        hint = "--from reads a file that starts with #! and has lines with #SBATCH"
        raise UserError(f"{path} is no batch script of Slurm", hint)
    (document,) = documents.read_documents(path, sys.stdin.buffer)
    output.notes((*map(str, document.warnings), *document.notes))
    if document.after:
        output.note(f"the printed file does not wait: submit it with --after {document.after}")
    return writer.document(document.data).rstrip("\n")
