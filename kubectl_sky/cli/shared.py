"""`kubectl sky options`: the options that commands share, as `kubectl options`."""

import click

from kubectl_sky.cli import commands, output


@commands.command("options", examples=["options", "options | less"])
@click.pass_context
def command(context: click.Context) -> None:
    """List the options that all commands have; those of connections only if they need a cluster."""
    formatter = context.make_formatter()
    formatter.write_text("These options can be given to any command that needs a cluster:")
    formatter.write_paragraph()
    records = [
        record
        for option in commands.SHARED
        if option.name not in ("all_namespaces", "all_users")
        and (record := option.get_help_record(context))
    ]
    with formatter.indentation():
        formatter.write_dl(records)
    output.out(formatter.getvalue().rstrip("\n"))
