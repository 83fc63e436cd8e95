"""`kubectl sky submit`."""

import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
from msgspec import Struct
from msgspec.structs import replace

from kubectl_sky.cli import commands, options, output, submits
from kubectl_sky.cli.terminal import Terminal
from kubectl_sky.errors import Problem, UserError
from kubectl_sky.submitting.overrides import Overrides
from kubectl_sky.tasks.ui import Collected

if TYPE_CHECKING:
    from kubectl_sky.cluster.session import Session
    from kubectl_sky.plan.plan import Plan
    from kubectl_sky.render.manifests import Manifests
    from kubectl_sky.spec.dangers import Danger
    from kubectl_sky.spec.volumes import Storage
    from kubectl_sky.submitting import submit, taskfile
    from kubectl_sky.tasks.find import Target
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
        "submit --from train --env EPOCHS=20",
        "submit train.sbatch a b",
        "submit train.sbatch -- --lr 0.1",
    ],
)
@options.optional_files
@click.option(
    "--from",
    "task",
    metavar="TASK",
    help="Submit the file of TASK again, as the cluster keeps it.",
)
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
@options.output("task", "json", "yaml", "name", paths=False)
def command(
    files: tuple[str, ...],
    task: str | None,
    overrides: Overrides,
    cluster: options.ClusterFlags,
    form: str | None,
    **flags: object,
) -> int:
    """Run the task in each FILE (`-` is standard input) and follow their logs.

    Prints each task's id at once. Exits with 4 if a task failed. Ctrl-C leaves the tasks running;
    `kubectl sky wait --notify URL` sends you a message when they have finished.

    With --from, flags change the file as usual, local files are uploaded as they are now, and
    secrets are asked for again: on a terminal, or by --secret.

    FILE may be a batch script of Slurm: all words after it are its arguments, and options of
    submit stand before it or before --.
    """
    from kubectl_sky.submitting import submit, taskfile

    cluster.check()
    files, arguments = options.with_arguments(files)
    if bool(files) == (task is not None):
        raise UserError(
            "submit needs FILE or --from TASK", "give one of them; FILE may be - for standard input"
        )
    if len(files) > 1 and (overrides.task_id or form == "task"):
        flag = "--id names" if overrides.task_id else "-o task prints"
        raise UserError(f"{flag} one task", "submit one FILE with it")
    strict = bool(flags["strict"])
    dry_run = str(flags["dry_run"])
    confirm = submits.confirm_repeated(dry_run)
    if task is None:
        sources = [
            taskfile.Source(
                file, overrides, os.environ, sys.stdin.buffer, strict, arguments=arguments
            )
            for file in files
        ]
    else:
        kept = _find_kept(task, overrides, cluster)
        record = submits.of_task(kept.session, kept.target.namespace, kept.target.id)
        sources = [_source_of(kept, overrides, strict, record, flags)]
        confirm = submits.confirm_files(record, dry_run)
    if form == "task":
        print_task_file(sources[0], Terminal(), dry_run)
        return 0

    requests = [request(source, cluster, form, flags) for source in sources]
    ui = Results(form, dry_run, several=len(files) > 1, confirm=confirm)
    try:
        if len(requests) > 1:
            submit.submit_all(requests, ui)
        else:
            submit.submit(requests[0], ui, submits.connect_again(dry_run))
    finally:
        ui.finish()
    return 0


class _Kept(Struct, frozen=True):
    """A task, pipeline or group, and its file as the cluster keeps it."""

    session: "Session"
    target: "Target"
    word: str
    text: str


def _find_kept(reference: str, overrides: Overrides, cluster: options.ClusterFlags) -> _Kept:
    """Read the file that the cluster keeps of a task. Raises UserError."""
    from kubectl_sky.observe.status import TaskStatus
    from kubectl_sky.tasks import describe, find

    session = cluster.session()
    scope = options.scope(session, cluster, all_users=False)
    target = find.get_of_anyone(session, scope, reference)
    word = "task" if isinstance(target, TaskStatus) else target.word
    text = describe.task_file(session, target)
    if text is None:
        raise UserError(f"the cluster keeps no file of {word} {target.id}", "submit its FILE")
    return _Kept(session, target, word, text)


def _source_of(
    kept: _Kept,
    overrides: Overrides,
    strict: bool,
    record: submits.Record | None,
    flags: Mapping[str, object],
) -> "taskfile.Source":
    """Return the file that the cluster keeps of a task, with the secrets that the user types.

    A dry run that shows no secrets needs none.

    Asks before local files are sent from another folder than that of the task's own submit.
    """
    from kubectl_sky.spec.document import join_path
    from kubectl_sky.spec.files import local_files
    from kubectl_sky.submitting import check, taskfile

    target = kept.target
    path = f"<{kept.word}/{target.id}>"
    data = kept.text.encode()
    source = taskfile.Source(path, overrides, os.environ, io.BytesIO(data), strict, in_memory=True)
    once = replace(overrides, env_files=(), secret_files=())  # they may be pipes
    documents, _ = taskfile.load(replace(source, overrides=once))
    sent: list[str] = []
    for document in documents:
        for files in local_files(document.data):
            folder = files.source if files.source[:1] == "~" else str(Path.cwd() / files.source)
            if not document.source(files.field):  # a flag names the others
                sent.append(folder)
            output.note(
                f"{join_path(files.field)}: {folder} is uploaded as it is now;"
                f" the files of {kept.word} {target.id} are not kept"
            )
    if sent and flags["dry_run"] == "none":
        submits.confirm_folder(record, f"{kept.word} {target.id}", sent)

    shows_no_secret = flags["dry_run"] == "client" and not flags["show_secrets"]
    if once == overrides:
        unset = {path for item in documents for path, _ in check.unset_flags(item)}
        names = sorted(str(name) for field, name in unset if field == "secrets")
        given = [f"{name}={value}" for name, value in _ask(names, shows_no_secret).items()]
        overrides = replace(overrides, secret=(*overrides.secret, *given))
    return replace(source, overrides=overrides, stdin=io.BytesIO(data))


def _ask(names: Iterable[str], shows_no_secret: bool) -> Mapping[str, str]:
    """Return the values of secrets that the user types; none without a terminal."""
    if shows_no_secret:
        return dict.fromkeys(names, "***")
    if not sys.stdin.isatty():
        return {}
    return {name: click.prompt(name, hide_input=True, err=True) for name in names}


def print_task_file(source: "taskfile.Source", ui: Terminal, dry_run: str) -> None:
    """Print the checked task file with the changes of the flags, without values of secrets."""
    from kubectl_sky.render import writer
    from kubectl_sky.submitting import taskfile

    if dry_run != "client":
        raise UserError("-o task prints the task file and submits nothing", "add --dry-run=client")
    task_file = taskfile.prepare(source, ui)
    documents = [document for entry in task_file.entries for document in entry.task_file]
    output.out("---\n".join(map(writer.document, documents)).rstrip("\n"))


def request(
    source: "taskfile.Source",
    cluster: options.ClusterFlags,
    form: str | None,
    flags: Mapping[str, object],
) -> "submit.Options":
    """Return what to submit, from the flags of `submit`, `dev` and `serve`."""
    from kubectl_sky.submitting import submit

    timeout = flags["wait_timeout"]
    start_timeout = timeout.total_seconds() if isinstance(timeout, timedelta) else None
    rerun = submits.repeated()
    replaced = rerun.record.id if rerun and rerun.replaces else ""
    return submit.Options(
        source=source,
        connection=cluster.flags(),
        user=cluster.user,
        dry_run=cast("submit.DryRun", flags["dry_run"]),
        show_secrets=bool(flags["show_secrets"]),
        follow=not (flags["detach"] or form),
        start_timeout=start_timeout,
        new_volumes=cast("Storage | None", flags.get("create_volumes")),
        wait_for_volumes=cast("bool | None", flags.get("wait_for_volumes")),
        after=cast("str | None", flags.get("after")),
        replaces=replaced,
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

    def __init__(
        self,
        form: str | None,
        dry_run: str,
        several: bool = False,
        confirm: "Callable[[Sequence[Danger]], None]" = lambda dangers: None,
    ) -> None:
        super().__init__(form, dry_run)
        self._several = several
        self._confirm = confirm
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
        if not self._several and click.get_current_context().info_name in ("submit", "run"):
            submits.remember(submitted, self._report.dangers)

    def problems(self, problems: Sequence[Problem]) -> None:
        super().problems(problems)
        self._report.problems(problems)

    def review(self, dangers: "Sequence[Danger]") -> None:
        super().review(dangers)
        self._report.review(dangers)
        self._confirm(dangers)

    def notes(self, items: Iterable[object]) -> None:
        notes = list(items)
        super().notes(notes)
        self._report.notes(notes)

    def _document(self, submitted: "Submitted") -> "Submission":
        report = self._report
        if not self._several:
            return submitted.document(report.report)
        path = submitted.file
        report = Collected(
            warnings=[problem for problem in report.warnings if problem.file == path],
            dangers=[danger for danger in report.dangers if danger.problem.file == path],
        )
        return submitted.document(report.report, path)

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
    array = extras.array
    tasks = output.count(array.count, "task")
    sweep = f" ({', '.join(array.sweep.variables)})" if array.sweep else ""
    return f"{tasks} of one node{sweep}, {array.at_once} at once"
