"""Layout of --help: examples, options of the command, then connection options."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from kubectl_sky.bounded import is_utf8
from kubectl_sky.cli import complete

Function = Callable[..., Any]


class ConnectionOption(click.Option):
    """An option for the cluster or the user, which most commands share with kubectl."""


class Command(click.Command):
    """A command with examples."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:  # noqa: ANN401
        super().__init__(*args, **options)
        self.examples = examples
        complete.add_types(self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reject option values that are not UTF-8: no manifest or request can hold them."""
        rest = super().parse_args(ctx, args)
        for option in self.get_params(ctx):
            value = ctx.params.get(option.name or "")
            texts = value if isinstance(value, tuple) else (value,)
            if isinstance(option, click.Option) and not all(
                is_utf8(text) for text in texts if isinstance(text, str)
            ):
                raise click.BadParameter("is not UTF-8", ctx, option)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as complete commands, then the options."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}kubectl sky {example}\n")
        records: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection options": []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            shared = isinstance(option, ConnectionOption)
            if record:
                records["Connection options" if shared else "Options"].append(record)
        for title, rows in records.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(click.Group):
    """A group of commands with examples."""

    command_class = Command


def command(name: str, examples: Sequence[str]) -> Callable[[Function], Command]:
    """Turn a function into a command; examples omit the leading `kubectl sky`."""
    return click.command(name, cls=Command, examples=examples)


def group(name: str) -> Callable[[Function], Group]:
    """Turn a function into a group of commands."""
    return click.group(name, cls=Group)
