"""`kubectl sky submit`."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, cast

import click

from kubectl_sky.cli import commands, options, output
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import Problem, UserError
from kubectl_sky.submitting.flags import Overrides
from kubectl_sky.tasks.ui import Collected

if TYPE_CHECKING:
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.spec.dangers import Danger
    from kubectl_sky.spec.volumes import Storage
    from kubectl_sky.submitting import submit, taskfile
    from kubectl_sky.tasks.submissions import Submission, Submitted


def _new_volumes(size: str) -> "Storage | None":
    from kubectl_sky.plan import pvc

    return pvc.storage(size, None, ["ReadWriteOnce"]) if size else None


@commands.command(
    "submit",
    examples=[
        "submit task.yaml",
        "submit task.yaml --env EPOCHS=10 --gpus A100:8 --num-nodes 2",
        "submit task.yaml --detach --id train001",
        "submit task.yaml --dry-run=server",
        "submit train.yaml eval.yaml",
    ],
)
@options.files
@options.sending(
    detach="Return at once, without following the logs.",
    limited="the first node to start (default: provision_timeout, then 5m)",
)
@click.option(
    "--create-volumes",
    callback=options.parsed(_new_volumes),
    metavar="SIZE",
    help="Create the volumes that do not exist, each of this size: 10Gi.",
)
@click.option(
    "--wait-for-volumes",
    is_flag=True,
    help="Submit although volumes do not exist; the task waits for them.",
)
@click.option("--after", metavar="TASK", help="Start when this task or pipeline has succeeded.")
@options.task
@options.strict
@options.cluster
@options.output("json", "yaml", "name", paths=False)
def command(
    files: tuple[str, ...],
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: object,
) -> int:
    """Run the task in each FILE (`-` is standard input) and follow their logs.

    Prints each task's id at once. Exits with 4 if a task failed. Ctrl-C leaves the tasks running;
    `kubectl sky wait --notify URL` sends you a message when they have finished.
    """
    from kubectl_sky.submitting import submit, taskfile

    cluster.check()
    if len(files) > 1 and overrides.task_id:
        raise UserError("--id names one task", "submit one FILE with it")
    strict = bool(flags["strict"])
    sources = [
        taskfile.Source(file, overrides, os.environ, sys.stdin.buffer, strict) for file in files
    ]
    requests = [request(source, cluster, form, flags) for source in sources]
    ui = Results(form, str(flags["dry_run"]), several=len(files) > 1)
    try:
        if len(requests) > 1:
            submit.submit_all(requests, ui)
        else:
            submit.submit(requests[0], ui)
    finally:
        ui.finish()
    return 0


def request(
    source: "taskfile.Source",
    cluster: options.ClusterFlags,
    form: str | None,
    flags: Mapping[str, object],
) -> "submit.Options":
    """Return what to submit, from the flags of `submit`, `dev` and `serve`."""
    from kubectl_sky.submitting import submit

    timeout = flags["wait_timeout"]
    return submit.Options(
        source=source,
        connection=cluster.flags(),
        user=cluster.user,
        dry_run=cast("submit.DryRun", flags["dry_run"]),
        show_secrets=bool(flags["show_secrets"]),
        follow=not (flags["detach"] or form),
        start_timeout=timeout.total_seconds() if isinstance(timeout, timedelta) else None,
        new_volumes=cast("Storage | None", flags.get("create_volumes")),
        wait_for_volumes=cast("bool | None", flags.get("wait_for_volumes")),
        after=cast("str | None", flags.get("after")),
    )


class Preview(Terminal):
    """Print the objects of a dry run in the form that the user chose."""

    def __init__(self, form: str | None, dry_run: str) -> None:
        super().__init__()
        self._form = form
        self._suffix = options.DRY_RUNS[dry_run]

    def preview(self, manifests: "Manifests") -> None:
        """Print the objects of a dry run: names for people, else the output of `render`."""
        from kubectl_sky.render.manifests import as_json, as_yaml

        if self._form == "name":
            output.out("\n".join(manifest.name.lower() for manifest in manifests.all))
        elif self._form:
            write = as_json if self._form == "json" else as_yaml
            output.out(write(manifests.all).rstrip("\n"))
        else:
            lines = (f"{manifest.name} created{self._suffix}" for manifest in manifests.all)
            output.out("\n".join(lines))


class Results(Preview):
    """Print the results of a submit in the form that the user chose."""

    def __init__(self, form: str | None, dry_run: str, several: bool = False) -> None:
        super().__init__(form, dry_run)
        self._several = several
        self._results: list[Submission] = []
        self._report = Collected()  # of all files

    def submitted(self, submitted: "Submitted") -> None:
        """Print the id: one line for people, fixed fields for programs."""
        name = f"{submitted.decision.word}/{submitted.id}"
        if self._form == "name":
            output.out(name)
        elif self._form and self._several:
            self._results.append(self._document(submitted))
        elif self._form:
            output.out(output.data(self._document(submitted), self._form))
        else:
            status = "unchanged" if submitted.unchanged else "submitted"
            decision = submitted.decision
            size = _size(decision.plans)
            output.out(
                f"{name} {status}: {decision.title}, {size} in namespace {decision.namespace}"
            )
        sys.stdout.flush()

    def problems(self, problems: Sequence[Problem]) -> None:
        super().problems(problems)
        self._report.problems(problems)

    def review(self, dangers: "Sequence[Danger]") -> None:
        super().review(dangers)
        self._report.review(dangers)

    def notes(self, items: Iterable[object]) -> None:
        notes = list(items)
        super().notes(notes)
        self._report.notes(notes)

    def _document(self, submitted: "Submitted") -> "Submission":
        report = self._report
        if not self._several:
            return submitted.document(report)
        path = submitted.file
        report = Collected(
            warnings=[problem for problem in report.warnings if problem.file == path],
            dangers=[danger for danger in report.dangers if danger.problem.file == path],
        )
        return submitted.document(report, path)

    def finish(self) -> None:
        """Print the results of several files for programs, as far as they were submitted."""
        if self._results and self._form:
            from kubectl_sky.tasks.submissions import SubmissionList

            document = SubmissionList(submitted=self._results, notes=self._report.notes_)
            output.out(output.data(document, self._form))


def _size(plans: "Sequence[Plan]") -> str:
    if len(plans) > 1:
        return output.count(len(plans), "task")
    from kubectl_sky.workloads.arrays import Indexes

    extras = plans[0].extras
    if not isinstance(extras, Indexes):
        return output.count(len(plans[0].nodes), "node")
    tasks = output.count(extras.array.count, "task")
    return f"{tasks} of one node, {extras.array.at_once} at once"
