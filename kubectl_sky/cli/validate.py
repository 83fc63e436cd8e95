"""`kubectl sky validate`."""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from msgspec import UNSET, Struct

from kubectl_sky.cli import commands, options, output
from kubectl_sky.errors import ClusterError, Problem, SkyError, UserError

if TYPE_CHECKING:
    from kubectl_sky.submitting.validate import LocalFilesUse, Report


_MAX_EXCERPTS = 10


@commands.command(
    "validate",
    examples=[
        "validate task.yaml",
        "validate --strict tasks/*.yaml",
        "validate --live -n team task.yaml",
        "validate -o json task.yaml",
    ],
)
@options.files
@options.output("json", "yaml")
@options.strict
@options.as_task
@click.option(
    "--no-local-files",
    "local_files",
    flag_value="skip",
    default="read",
    help="Do not look for local files, in CI for example.",
)
@click.option("--live", is_flag=True, help="Also check against the cluster; nothing is created.")
@options.cluster
def command(
    files: tuple[str, ...],
    form: str | None,
    as_task: bool,
    cluster: options.ClusterFlags,
    local_files: "LocalFilesUse",
    **flags: bool,
) -> int:
    """Check task FILEs (`-` is standard input); report all problems with their lines.

    Exits with 2 if there is an error: submit would refuse the file. Local files must exist, as for
    submit. Values of envs and secrets that are not set are no errors: a note has the flags of
    submit that set them.
    Warnings name what is recognized but not supported. Warnings that end in a class such as [host]
    name fields that reach beyond the task: --strict does not turn them into errors, but settings
    can refuse a class (refuse: [privileged, host]).
    """
    from kubectl_sky.submitting.validate import Validation, check

    reports = check(files, sys.stdin.buffer, os.environ, as_task, local_files)
    problems = [problem for report in reports for problem in report.problems]
    problems = [problem.as_error() for problem in problems] if flags["strict"] else problems
    code = 2 if any(problem.severity == "error" for problem in problems) else 0
    if not form:  # first: the cluster may not answer
        _print(problems)
        output.notes(note for report in reports for note in report.notes)
    live = _check_live(reports, cluster) if flags["live"] else _Live()
    code = code or live.exit_code
    if not form:
        output.problems(live.problems)
    if live.error and code != 2:
        raise live.error
    if form:
        notes = live.notes if flags["live"] else UNSET
        document = Validation(
            valid=not code,
            problems=[*problems, *live.problems],
            dangers=[item.report for report in reports for item in report.review.dangers],
            notes=notes,
        )
        output.out(output.data(document, form))
        return code
    output.notes(live.notes)
    if not code:
        output.out(f"{len(files)} file{'s' * (len(files) > 1)} valid")
    return code


def _print(problems: Sequence[Problem]) -> None:
    """Print problems; few ones on a terminal with their lines of the file."""
    if len(problems) > _MAX_EXCERPTS or not sys.stderr.isatty():
        output.problems(problems)
        return
    for problem in problems:
        output.problems([problem])
        if text := _excerpt(problem):
            output.error(text)


def _excerpt(problem: Problem) -> str:
    """Return the line of a problem with a mark below it; empty for one that may have a secret."""
    from kubectl_sky.spec.load import MAX_BYTES
    from kubectl_sky.words import bounded

    try:
        text = bounded.read(problem.file, MAX_BYTES).decode(errors="replace")
        line = text.splitlines()[problem.line - 1] if problem.line else ""
    except (OSError, IndexError):  # standard input
        return ""
    width = shutil.get_terminal_size().columns - 8
    start = problem.column - 1
    place = f"{problem.path} {line}" if problem.path else text  # of a syntax error: anywhere
    if "secret" in place.lower() or not start < min(len(line), width):
        return ""
    mark = "^" * len(match[0] if (match := re.compile(r"[\w./-]+").match(line, start)) else "^")
    shown = line.replace("\t", " ")[:width]
    return f"{problem.line:>5} | {shown}\n{'':>5} | {'':{start}}{mark[: width - start]}"


class _Live(Struct, frozen=True):
    """What the cluster refuses, notes on the remaining files, and the exit code of submit.

    `error` is why the cluster did not answer.
    """

    problems: Sequence[Problem] = ()
    notes: Sequence[str] = ()
    exit_code: int = 0
    error: SkyError | None = None


def _check_live(reports: "Sequence[Report]", cluster: options.ClusterFlags) -> _Live:
    from kubectl_sky.submitting import submit
    from kubectl_sky.submitting.diff import refusals
    from kubectl_sky.submitting.overrides import Overrides
    from kubectl_sky.submitting.taskfile import Source
    from kubectl_sky.tasks.ui import Collected

    problems = list[Problem]()
    notes = list[str]()
    codes = [0]
    unanswered: SkyError | None = None
    for report in reports:
        if not report.task_file:
            if not report.erroneous:
                notes.append(f"{report.file}: not checked against the cluster: {report.unplanned}")
            continue
        file = report.task_file.entries[0].document.file
        source = Source(report.file, Overrides(), os.environ, sys.stdin.buffer)
        ui = Collected()
        try:
            options_ = submit.Options(source, cluster.flags(), cluster.user)
            refused = refusals(report.task_file, options_, ui)
        except (ClusterError, UserError) as error:
            unanswered = error
            notes.append(f"warning: not checked against the cluster: {error}")
            break
        for refusal in refused:
            *first, last = refusal.what.splitlines()
            whole = [Problem(file, 0, 0, "", line) for line in first]
            whole.append(Problem(file, 0, 0, "", last, refusal.hint))
            problems += refusal.problems or whole
            codes.append(refusal.exit_code)
        notes += [f"{file}: {note}" for note in ui.notes_]
    return _Live(problems, notes, min(filter(None, codes), default=0), unanswered)
