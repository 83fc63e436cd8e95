"""`kubectl sky diff`."""

import os
import sys

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import UserError
from kubectl_sky.submitting.overrides import Overrides


@commands.command("diff", examples=["diff task.yaml", "diff task.yaml --id train001 --gpus A100:8"])
@click.argument("file")
@options.task
@options.strict
@options.cluster
def command(file: str, overrides: Overrides, cluster: options.ClusterFlags, strict: bool) -> int:
    """Show what the task in FILE (`-` is standard input) changes against the cluster.

    Compares with the task of --id, or with the newest task of that name. Each object is compared as
    the API server would store it, by a dry run, so that defaults are no differences. Values of
    Secrets are masked. A task is never changed in place: submit FILE as a new task.

    As in kubectl, the exit code is 0 without differences, 1 with some, and greater if the command
    failed: 2 for the file, the flags or a bug, 3 for the cluster. KUBECTL_EXTERNAL_DIFF is the
    program that compares two folders.
    """
    from kubectl_sky.submitting import diff
    from kubectl_sky.submitting.taskfile import Source

    click.get_current_context().ensure_object(commands.Failure).least_code = 2
    source = Source(file, overrides, os.environ, sys.stdin.buffer, strict)
    pairs = diff.diff(source, cluster.flags(), cluster.user, Terminal())
    changed = [pair for pair in pairs if pair.differs]
    external = os.environ.get(diff.EXTERNAL)
    if external and changed:
        sys.stdout.flush()
        code = diff.run_external(changed, external, os.environ)
        if code not in (0, 1):
            reason = f"exit code {code}" if code > 0 else f"signal {-code}"
            raise UserError(f"{diff.EXTERNAL}={external} failed with {reason}")
        return code
    for pair in changed:
        output.out("\n".join(pair.unified()))
    return 1 if changed else 0
