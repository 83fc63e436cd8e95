"""`kubectl sky validate`."""

import os
import sys
from typing import TYPE_CHECKING

import click

from kubectl_sky.cli import commands, options, output

if TYPE_CHECKING:
    from kubectl_sky.actions.validate import Report


@commands.command(
    "validate",
    examples=["validate task.yaml", "validate --strict tasks/*.yaml", "validate -o json task.yaml"],
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.output("json", "yaml")
@options.strict
@options.as_task
@click.option("--compat", is_flag=True, help="Also check whether SkyPilot 0.14 accepts each file.")
def command(
    files: tuple[str, ...], form: str | None, strict: bool, as_task: bool, compat: bool
) -> int:
    """Check task FILEs (`-` is standard input); report all problems with their lines.

    Exits with 2 if there is an error: submit would refuse the file. Warnings name what is
    recognized but not supported. Warnings that end in a class such as [host] name fields that reach
    beyond the task: --strict does not turn them into errors, but settings can refuse a class
    (refuse: [privileged, host]).

    --compat uses a table of known differences and does not run SkyPilot. It does not consider
    SkyPilot's server, the GPUs and prices that SkyPilot looks up, or variables that are not set
    yet. It does not change the exit code.
    """
    from kubectl_sky.actions.validate import check

    reports = check(files, sys.stdin.buffer, os.environ, as_task, compare=compat)
    problems = [problem for report in reports for problem in report.problems]
    if strict:
        problems = [problem.as_error() for problem in problems]
    has_errors = any(problem.severity == "error" for problem in problems)
    if form:
        result: dict[str, object] = {
            "valid": not has_errors,
            "problems": [problem.as_json() for problem in problems],
            "dangers": [
                danger.as_json() for file_report in reports for danger in file_report.review.dangers
            ],
        }
        if compat:
            result["compat"] = [_compat(report) for report in reports]
        output.out(output.document("Validation", result, form))
        return 2 if has_errors else 0
    output.problems(problems)
    for report in reports:
        output.notes(report.review.reported)
    for report in reports if compat else []:
        output.out(_format_comparison(report))
    if not has_errors:
        output.out(f"{len(files)} file{'s' * (len(files) > 1)} valid")
    return 2 if has_errors else 0


def _compat(report: "Report") -> dict[str, object]:
    """Return whether SkyPilot accepts a file, for programs; null if it has errors."""
    accepted = None if report.erroneous else not report.differences
    differences = (
        [] if report.erroneous else [difference.as_json() for difference in report.differences]
    )
    return {"file": report.file, "accepted": accepted, "differences": differences}


def _format_comparison(report: "Report") -> str:
    if report.erroneous:
        return f"{report.file}: not compared with SkyPilot 0.14 because it has errors"
    if not report.differences:
        return f"{report.file}: SkyPilot 0.14 accepts it, as far as known"
    reasons = "".join(f"\n  {difference}" for difference in report.differences)
    return f"{report.file}: SkyPilot 0.14 rejects it:{reasons}"
