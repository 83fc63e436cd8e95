"""Layout of --help: examples, options of the command, then connection options."""

import importlib
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import click

from kubectl_sky.cli import complete, options, output
from kubectl_sky.cli.arguments import OF_PROGRAM, Arguments, takes_program, without_secrets
from kubectl_sky.words.bounded import is_utf8

Function = Callable[..., Any]

BEFORE_DASHES = "kubectl_sky.before_dashes"  # number of arguments before `--`, in Context.meta
WORDS = "kubectl_sky.words"  # those of the command in click's forms, in Context.meta
RERUN = "kubectl_sky.rerun"  # the submit that a rerun repeats, in Context.meta
_EPILOG = "Options of all commands: kubectl sky options"
_LEADING = "kubectl_sky.leading"  # flags before the command, in Context.meta
_STRICT = ("--all-namespaces", "--all-users")  # refused by commands that do not have them


@dataclass
class Failure:
    """The lowest exit code of an error; `main` passes it to the command as click's object."""

    least_code: int = 1


def _set_style(context: click.Context, option: click.Parameter, value: Any) -> None:
    setattr(output.style, option.human_readable_name, value)


def _set_verbosity(context: click.Context, option: click.Parameter, value: int) -> None:
    name = "kubectl_sky.cli.verbosity"
    if value or name in sys.modules:  # a Python program may run several commands
        importlib.import_module(name).start(value)


_GENERAL = [
    options.SharedOption(
        ["-q", "--quiet"],
        is_flag=True,
        callback=_set_style,
        help="Print results, warnings and errors only: no notes and no progress.",
        expose_value=False,
        is_eager=True,
    ),
    options.SharedOption(
        ["-v", "--v"],
        type=click.IntRange(min=0),
        default=0,
        metavar="LEVEL",
        callback=_set_verbosity,
        help="4: say why on stderr; 6: and print each HTTP request; 7: headers; 8, 9: bodies.",
        expose_value=False,
        is_eager=True,
    ),
    options.SharedOption(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        callback=_set_style,
        help="Colour the output; auto: on a terminal, unless NO_COLOR is set.",
        expose_value=False,
        is_eager=True,
    ),
]


# The options that may also stand before the command.
SHARED = [
    *click.command()(
        options.cluster_all_namespaces(options.all_users(lambda cluster, all_users: None))
    ).params,
    *_GENERAL,
]
for _option in SHARED:
    options.name_value(_option)
complete.add_types(SHARED)


class Command(click.Command):
    """A command with examples, which reads kubectl's forms of flags."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.epilog = _EPILOG
        self.examples = examples
        self.params += _GENERAL
        for param in self.params:
            options.name_value(param)
        complete.add_types(self.params)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after the flags that stood before the command."""
        params = self.get_params(ctx)
        rewritten = list(args)
        try:
            with suppress(*_incomplete(ctx)):
                arguments = Arguments(params, args)
                ctx.meta[BEFORE_DASHES] = arguments.before_dashes
                ctx.meta[options.AFTER_VALUES] = arguments.after_values
                if any(param.name == "program" for param in params):
                    _refuse_options_of_program(ctx, arguments, args)
                _refuse_one_dash(ctx, arguments, params)
                leading = ctx.meta.get(_LEADING, ())
                # As in kubectl, a command without a cluster ignores --namespace before it.
                existing = {name for param in params for name in param.opts} | {*_STRICT}
                before = [word for flag in leading if flag[0] in existing for word in flag]
                rewritten = [*before, *arguments.rewritten]
                ctx.meta[WORDS] = [*rewritten]  # click empties its list
            rest = super().parse_args(ctx, rewritten)
        except click.UsageError as error:
            from kubectl_sky.cli.advice import advise

            error.ctx = error.ctx or ctx
            raise advise(error, ctx, args) from None
        for option in params:
            value = ctx.params.get(option.name or "")
            texts = value if isinstance(value, tuple) else (value,)
            if isinstance(option, click.Option) and not all(
                is_utf8(text) for text in texts if isinstance(text, str)
            ):  # no manifest or request can hold it
                raise click.BadParameter("is not UTF-8", ctx, option)
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples as complete commands, then the options of this command."""
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}kubectl sky {example}\n")

        params = sorted(
            self.get_params(ctx), key=lambda item: (item.is_eager, item.name in options.COMMON)
        )
        records = [
            record
            for option in params
            if isinstance(option, click.Option)
            and not isinstance(option, options.SharedOption)
            and (record := option.get_help_record(ctx))
        ]

        with formatter.section("Options"):
            formatter.write_dl(records)


class Group(click.Group):
    """A group of commands with examples, which accepts kubectl's flags before the command."""

    command_class = Command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, for shell completion with the flags before the command."""
        return [*super().get_params(ctx), *(SHARED if ctx.resilient_parsing else ())]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands with their whole summaries; click itself cuts them."""
        items = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, item.get_short_help_str(limit=1000)) for name, item in items if item]
            )

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the flags that belong to the command, and parse those of the group."""
        if args and args[0].startswith("-"):
            params = self.get_params(ctx)
            shared = {name: option.opts[-1] for option in SHARED for name in option.opts}
            with suppress(*_incomplete(ctx)):
                arguments = Arguments([*SHARED, *params], args, interspersed=False)
                kept = [
                    (shared[name], *value) for name, *value in arguments.flags if name in shared
                ]
                ctx.meta[_LEADING] = [*ctx.meta.get(_LEADING, ()), *kept]
                refused = [flag for flag in arguments.flags if flag[0] not in shared]
                args = [*(word for flag in refused for word in flag), *arguments.others]

        if not args and self.no_args_is_help and not ctx.resilient_parsing:
            output.out(ctx.get_help())  # on stdout, and no error: as in kubectl
            ctx.exit()
        try:
            return super().parse_args(ctx, [*args])
        except click.NoSuchOption as error:
            raise self._misplaced(error, ctx, args) from None

    def _misplaced(
        self, error: click.NoSuchOption, ctx: click.Context, args: Sequence[str]
    ) -> click.UsageError:
        """Return the error of an option before the command, with its place if that has it."""
        dashed = error.option_name.lstrip("-")
        if dashed in self.list_commands(ctx):
            message = f"no such option '{error.option_name}'"
            return click.UsageError(f"{message}; did you mean `{ctx.command_path} {dashed}`?", ctx)
        name = next((word for word in args if word in self.list_commands(ctx)), "")
        command = self.get_command(ctx, name)
        params = command.get_params(ctx) if command else ()
        if not any(error.option_name in param.opts for param in params):
            return error
        place = f"`{ctx.command_path} {name} {error.option_name}`"
        return click.UsageError(
            f"no such option '{error.option_name}'; write it after the command: {place}", ctx
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for a verb of SkyPilot, say what it is here."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            from kubectl_sky.cli.advice import unknown, unknown_command

            message = unknown(ctx, error.command_name, self.commands)
            raise unknown_command(ctx, args) or click.UsageError(message, ctx) from None


def _refuse_options_of_program(
    ctx: click.Context, arguments: Arguments, words: Sequence[str]
) -> None:
    """Raise UsageError if options follow `TASK PROGRAM` without `--`, of whom they may be."""
    begin = arguments.second
    if begin is None or arguments.before_dashes is not None:
        return
    if begin < arguments.last_flag and not words[begin].endswith((".yaml", ".yml")):
        line = shlex.join([*without_secrets(words[:begin]), "--", *words[begin:]])
        message = f"put -- before a program with options: `{ctx.command_path} {line}`"
        raise click.UsageError(message, ctx)


def _refuse_one_dash(
    ctx: click.Context, arguments: Arguments, params: Sequence[click.Parameter]
) -> None:
    """Raise UsageError for a long option with one dash: `-name` is no namespace `ame`."""
    word = arguments.one_dash
    if word:
        of_program = arguments.others and takes_program(params)
        advice = OF_PROGRAM if of_program else f"did you mean '-{word}'?"
        raise click.BadOptionUsage(word, f"no such option '{word}'; {advice}", ctx)


def takes(command: click.Command, ctx: click.Context, words: Sequence[str]) -> bool:
    """Return whether a command has all options of some arguments."""
    params = command.get_params(ctx)
    known = {name for param in params for name in (*param.opts, *param.secondary_opts)}
    try:
        flags = Arguments(params, words).flags
    except click.UsageError:
        return False
    return all(flag[0].partition("=")[0] in known for flag in flags)


def _incomplete(ctx: click.Context) -> tuple[type[Exception], ...]:
    """Return the errors of arguments that the user is still typing, for shell completion."""
    return (click.UsageError,) if ctx.resilient_parsing else ()


def command(name: str, examples: Sequence[str]) -> Callable[[Function], Command]:
    """Turn a function into a command; examples omit the leading `kubectl sky`."""
    return click.command(name, cls=Command, examples=examples)


def group(name: str) -> Callable[[Function], Group]:
    """Turn a function into a group of commands."""
    return click.group(name, cls=Group)
