"""`kubectl sky render`."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import Refused, UserError
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.words import settings

if TYPE_CHECKING:
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.submitting.taskfile import Source


@commands.command(
    "render",
    examples=[
        "render task.yaml",
        "render task.yaml --explain",
        "render task.yaml --output-dir manifests/",
        "render task.yaml --as-submitted | kubectl apply -f -",
    ],
)
@options.files
@options.task
@options.output("yaml", "json", paths=False)
@options.strict
@click.option("--output-dir", metavar="DIR", help="Write one file per object into DIR.")
@click.option("--show-secrets", is_flag=True, help="Print secret values instead of REDACTED.")
@click.option(
    "--no-runtime",
    is_flag=True,
    help="Leave out the ConfigMap with the scripts that run the task.",
)
@click.option(
    "--explain", is_flag=True, help="Add a comment to each line: the field that it comes from."
)
@click.option(
    "--as-submitted",
    is_flag=True,
    help="Ask the cluster for owner, namespace, volumes, queues and GPUs, as submit does.",
)
@options.cluster
def command(
    files: tuple[str, ...],
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    strict: bool,
    **flags: str | None,
) -> None:
    """Print the manifests that submit would send for each FILE (`-` is stdin).

    A service is rendered as `serve up` sends it, or with --as-task as a task.

    Needs no cluster: without --as-submitted, the owner is that of `auth login` or your OS user
    name, volumes are taken as PVC names, and kubectl chooses the namespace. `--id` makes the output
    reproducible.
    """
    if flags["explain"] and form == "json":
        raise UserError("--explain writes comments, which JSON does not support", "remove -o json")
    from kubectl_sky.render import manifests
    from kubectl_sky.submitting import render as action
    from kubectl_sky.submitting.taskfile import Source

    files, arguments = options.with_arguments(files)
    if len(files) > 1 and overrides.task_id:
        raise UserError("--id names one task", "render one FILE with it")
    stdin = sys.stdin.buffer
    sources = [
        Source(file, overrides, os.environ, stdin, strict, arguments=arguments, services=True)
        for file in files
    ]
    show = bool(flags["show_secrets"]), bool(flags["explain"])
    if flags["as_submitted"]:
        rendered = _render_as_submitted(sources, cluster, show)
    else:
        facts = action.offline_facts(cluster.user, cluster.namespace, os.environ)
        rendered = action.render_files(sources, facts, Terminal(), *show)
        if not cluster.user and not settings.read_login(os.environ):
            output.note(  # `list` may not show the task
                f'owner "{facts.user.name}" is your OS user name: use --user NAME, or'
                " --as-submitted for the name that the cluster knows"
            )
    if flags["no_runtime"]:
        output.notes(output.omitted(item.name) for item in rendered.runtimes)
        rendered = rendered.without_runtime
    if flags["output_dir"]:
        for path in action.write(rendered, Path(flags["output_dir"]), form or "yaml"):
            output.out(str(path))
        return
    write = manifests.as_json if form == "json" else manifests.as_yaml
    output.out(write(rendered.all).rstrip("\n"))


def _render_as_submitted(
    sources: "list[Source]", cluster: options.ClusterFlags, show: tuple[bool, bool]
) -> "Manifests":
    from kubectl_sky.render import manifests
    from kubectl_sky.submitting import render, submit

    requests = [
        submit.Options(
            source, cluster.flags(), cluster.user, show_secrets=show[0], wait_for_volumes=True
        )
        for source in sources
    ]
    return manifests.merge(
        [
            render.render(file.task_file, file.decision, *show) if show[1] else file.shown
            for file in submit.prepare_all(requests, Terminal(), _note_refusal)
        ]
    )


@contextmanager
def _note_refusal() -> Iterator[None]:
    """A full quota refuses a submit now; the manifests are the same."""
    try:
        yield
    except Refused as error:
        output.note(f"warning: {error.what}")
