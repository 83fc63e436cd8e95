"""`kubectl sky render`."""

import os
import sys
from pathlib import Path

import click

from kubectl_sky.actions.flags import Overrides
from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.ui import Terminal
from kubectl_sky.errors import UserError


@commands.command(
    "render",
    examples=[
        "render task.yaml",
        "render task.yaml --explain",
        "render task.yaml --output-dir manifests/",
    ],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.task
@options.output("yaml", "json", paths=False)
@options.strict
@click.option("--output-dir", metavar="DIR", help="Write one file per object into DIR.")
@click.option("--show-secrets", is_flag=True, help="Print secret values instead of REDACTED.")
@click.option(
    "--no-runtime",
    is_flag=True,
    help="Leave out the ConfigMap with the scripts that all tasks share.",
)
@click.option(
    "--explain", is_flag=True, help="Add a comment to each line: the field that it comes from."
)
@click.option(
    "-n", "--namespace", help="Namespace of the manifests (default: none, kubectl's own)."
)
@click.option("--user", help="Owner of the task (default: `auth login`, then your OS user name).")
def command(
    files: tuple[str, ...],
    overrides: Overrides,
    form: str | None,
    strict: bool,
    **flags: str | None,
) -> None:
    """Print the manifests that submit would send for each FILE (`-` is standard input).

    Needs no cluster. `--id` makes the output reproducible. Volumes are taken as PVC names, and the
    owner comes from this machine; `submit --dry-run=client -o yaml` asks the cluster for both.
    """
    if flags["explain"] and form == "json":
        raise UserError("--explain writes comments, which JSON does not support", "remove -o json")
    from kubectl_sky.actions import render as action
    from kubectl_sky.actions.taskfile import Source
    from kubectl_sky.render import manifests

    if len(files) > 1 and overrides.task_id:
        raise UserError("--id names one task", "render one FILE with it")
    sources = [Source(file, overrides, os.environ, sys.stdin.buffer, strict) for file in files]
    facts = action.offline_facts(flags["user"], flags["namespace"], os.environ)
    rendered = action.render_files(
        sources, facts, Terminal(), bool(flags["show_secrets"]), bool(flags["explain"])
    )
    if flags["no_runtime"]:
        rendered = rendered.without_runtime
    if flags["output_dir"]:
        for path in action.write(rendered, Path(flags["output_dir"])):
            output.out(str(path))
        return
    write = manifests.as_json if form == "json" else manifests.as_yaml
    output.out(write(rendered.all).rstrip("\n"))
