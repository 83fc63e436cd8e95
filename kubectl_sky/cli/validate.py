"""`kubectl sky validate`."""

import sys

import click

from kubectl_sky.cli import options, output


@click.command("validate")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.output("json", "yaml")
@options.strict
def command(files: tuple[str, ...], form: str | None, strict: bool) -> int:
    """Check task FILEs (`-` is standard input); say everything that is wrong, and where.

    Exits with 2 when there is an error. Warnings name what is understood but not carried out.
    """
    from kubectl_sky.actions.validate import check

    problems = check(files, sys.stdin.buffer)
    bad = any(strict or problem.severity == "error" for problem in problems)
    if form:
        found = [problem.as_json() for problem in problems]
        output.out(output.data({"valid": not bad, "problems": found}, form))
        return 2 if bad else 0
    for problem in problems:
        output.note(str(problem))
    if not bad:
        output.out(f"{len(files)} file{'s' * (len(files) > 1)} valid")
    return 2 if bad else 0
