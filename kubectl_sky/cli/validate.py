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
@click.option("--compat", is_flag=True, help="Say whether SkyPilot 0.14 accepts each file too.")
def command(
    files: tuple[str, ...], form: str | None, strict: bool, as_task: bool, compat: bool
) -> int:
    """Check task FILEs (`-` is standard input); say everything that is wrong, and where.

    Exits with 2 when there is an error. Warnings name what is understood but not carried out.
    Warnings that end in a class such as [host] name fields that reach beyond the task: they are
    no errors with --strict, but settings can refuse a class (refuse: [privileged, host]).

    --compat goes by a table of known differences and does not run SkyPilot: it knows nothing of
    SkyPilot's server, of GPUs and prices that it looks up, or of variables that are still to be
    given. It does not change the exit code.
    """
    from kubectl_sky.actions.validate import check

    reports = check(files, sys.stdin.buffer, os.environ, as_task, compare=compat)
    problems = [problem for report in reports for problem in report.problems]
    if strict:
        problems = [problem.as_error() for problem in problems]
    bad = any(problem.severity == "error" for problem in problems)
    if form:
        found: dict[str, object] = {
            "valid": not bad,
            "problems": [problem.as_json() for problem in problems],
            "dangers": [danger.as_json() for each in reports for danger in each.review.dangers],
        }
        if compat:
            found["compat"] = [_compat(report) for report in reports]
        output.out(output.data(found, form))
        return 2 if bad else 0
    output.problems(problems)
    for report in reports:
        output.notes(report.review.reported)
    for report in reports if compat else []:
        output.out(_told(report))
    if not bad:
        output.out(f"{len(files)} file{'s' * (len(files) > 1)} valid")
    return 2 if bad else 0


def _compat(report: "Report") -> dict[str, object]:
    """SkyPilot's view of a file for programs; null where the file has errors."""
    accepted = None if report.erroneous else not report.differences
    found = [] if report.erroneous else [each.as_json() for each in report.differences]
    return {"file": report.file, "accepted": accepted, "differences": found}


def _told(report: "Report") -> str:
    if report.erroneous:
        return f"{report.file}: has errors, so SkyPilot 0.14 was not considered"
    if not report.differences:
        return f"{report.file}: no reason is known why SkyPilot 0.14 would refuse it"
    reasons = "".join(f"\n  {found}" for found in report.differences)
    return f"{report.file}: SkyPilot 0.14 refuses it:{reasons}"
