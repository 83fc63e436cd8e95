"""What to type instead of a command line that click refuses.

Imported only after such an error.
"""

import re
import shlex
from collections.abc import Container, Iterable, Sequence
from difflib import get_close_matches
from itertools import pairwise

import click

from kubectl_sky.cli import options, skypilot
from kubectl_sky.cli import unknown as unknown_words
from kubectl_sky.cli.arguments import OF_PROGRAM, Arguments, takes_program, without_secrets
from kubectl_sky.spec import other_names, schema, variables
from kubectl_sky.submitting.overrides import FLAGS
from kubectl_sky.words import skypilot_verbs
from kubectl_sky.words.skypilot_options import ALIKE

# Who runs a command and where: a wrong guess would be harmful.
_NOT_GUESSED = frozenset(
    {
        *("--as", "--as-group", "--as-uid", "--client-certificate", "--client-key"),
        *("--cluster", "--context", "--kubeconfig", "--server", "--token"),
    }
)
_USED = re.compile(r"use (--?[\w-]+)")  # the option in an answer
_ARGUMENTS = {
    "command": "CMD",
    "job": "TASK",
    "id": "TASK",
    "pod": "TASK",
    "job-id": "TASK",
    "name": "TASK",
    "port": "REMOTE",
    "yaml": "FILE",
    "task-file": "FILE",
    "task-id": "TASK",
    "filename": "FILE",
}
_MAX_LETTERS = 3  # of options with one letter that are written as one word
_MAX_LISTED = 12  # options in an answer
_INVALID = re.compile(r"""(['"])([^,]{1,40}?)\1 is not """)  # an error of a choice
_UNIT = re.compile("[kKMGTP]i?[bB]?|[smhd]|min")


def _path(ctx: click.Context) -> list[str]:
    return ctx.command_path.removeprefix(ctx.find_root().command_path).split()


def unknown(ctx: click.Context, name: str, names: Iterable[str]) -> str:
    """Say that a command does not exist, and which one is similar."""
    path = _path(ctx)
    names = [*names]
    match = (path and unknown_words.find_action(name, names)) or unknown_words.similar(name, names)
    hint = f"; did you mean `{ctx.command_path} {match}`?" if match else ""
    if path and not match:
        hint = f"; the commands are {', '.join(names)}"
    return f'unknown command "{" ".join([*path, name])}"{hint}'


def unknown_command(ctx: click.Context, words: Sequence[str]) -> click.UsageError | None:
    """Return the error of a command's words if they are a verb of SkyPilot."""
    path = _path(ctx)
    message = skypilot.verb([*path, *words], len(path) + 1)
    return click.UsageError(message, ctx) if message else None


def advise(error: click.UsageError, ctx: click.Context, args: Sequence[str]) -> click.UsageError:
    """Return the error with what to type instead, if it is a habit of SkyPilot's users."""
    if unknown := unknown_command(ctx, sorted(args, key=lambda word: word.startswith("-"))):
        return unknown
    answer = ""
    command = " ".join(_path(ctx))
    if isinstance(error, click.NoSuchOption):
        return _unknown_options(error, ctx, args)
    if isinstance(error, click.BadOptionUsage):  # another option here, which takes a value
        answer = skypilot_verbs.option(command, error.option_name)
        if _ends_with_program(ctx, args):
            answer = OF_PROGRAM
        answer = answer or _describe_value(error.option_name, ctx)
    elif isinstance(error, click.MissingParameter):
        answer = _describe_example(ctx)
    elif isinstance(error, click.BadParameter) and error.param and ";" not in error.message:
        words = [word.partition("=")[0] for word in args]
        typed = [name for name in error.param.opts if name in words]
        answer = "".join(skypilot_verbs.option(command, name) for name in typed)
        answer = _closest_value(error) or answer
    elif "unexpected extra argument" in error.message:
        answer = (
            _quote([*without_secrets(args)])
            or _noun(command, args)
            or _join([*without_secrets(args)])
            or skypilot.ARGUMENTS.get(command)
            or _describe_arguments(ctx)
        )
    message = error.format_message().rstrip(".")
    return click.UsageError(f"{message}; {answer}", ctx) if answer else error


def _closest_value(error: click.BadParameter) -> str:
    """Return the value that an invalid one misspells; "" if there is none."""
    kind = error.param.type if error.param else None
    values = getattr(kind, "choices", ()) or getattr(kind, "formats", ())
    match = _INVALID.match(error.message)
    similar = get_close_matches(match[2].lower(), map(str, values), n=1) if match else []
    return f"did you mean '{similar[0]}'?" if similar else ""


def _join(args: Sequence[str]) -> str:
    """Return how to write a size that the shell has split, such as `10 Gi`; "" for others."""
    pairs = ((first, second) for first, second in pairwise(args) if _UNIT.fullmatch(second))
    match = next((f"{first}{second}" for first, second in pairs if first.isdigit()), "")
    return f"write {match}, without a space" if match else ""


def _noun(command: str, args: Sequence[str]) -> str:
    """Return the command of a noun after `list`, such as volumes; "" for other words."""
    return unknown_words.find_noun(args) if command == "list" else ""


def _ends_with_program(ctx: click.Context, args: Sequence[str]) -> bool:
    """Return whether the last word, an option without its value, may be of the program."""
    params = ctx.command.get_params(ctx)
    arguments = [param for param in params if isinstance(param, click.Argument)]
    if not takes_program(params) or "--" in args:
        return False
    try:
        return len(Arguments(params, args[:-1]).others) >= len(arguments)
    except click.UsageError:
        return False


def _quote(args: Sequence[str]) -> str:
    """Return how to write a value that the shell has split, such as `-l a=b, c=d`."""
    for index, word in enumerate(args):
        value = word
        for following in args[index + 1 :] if _is_unfinished(word) else ():
            value = f"{value} {following}"
            if not _is_unfinished(value):
                return f"quote it: {shlex.quote(value)}"
    return ""


def _is_unfinished(value: str) -> bool:
    pairs = ("()", "[]", "{}")
    return value.endswith(",") or any(value.count(pair[0]) > value.count(pair[1]) for pair in pairs)


def _describe_value(name: str, ctx: click.Context) -> str:
    """Return how to write an option that has no value; "" if the command does not have it."""
    options_of = (param for param in ctx.command.get_params(ctx) if name in param.opts)
    option = next((param for param in options_of if isinstance(param, click.Option)), None)
    if option is None or option.is_flag:
        return ""
    formats = getattr(option.type, "formats", ())
    value = f"[{'|'.join(formats)}]" if formats else option.make_metavar(ctx)
    return f"write {name} {value}"


def _describe_example(ctx: click.Context) -> str:
    """Return an example of a command; "" if it has none."""
    examples = getattr(ctx.command, "examples", ())
    return f"such as `kubectl sky {examples[0]}`" if examples else ""


def _describe_arguments(ctx: click.Context) -> str:
    params = ctx.command.get_params(ctx)
    words = [param.make_metavar(ctx) for param in params if isinstance(param, click.Argument)]
    return f"it takes {' '.join(words) or 'no argument'}"


def _unknown_options(
    error: click.NoSuchOption, ctx: click.Context, args: Sequence[str]
) -> click.UsageError:
    """Return the error of all unknown options, with what to type instead, a line each."""
    params = ctx.command.get_params(ctx)
    own = [param for param in params if isinstance(param, click.Option)]
    known = {name for param in own for name in (*param.opts, *param.secondary_opts)}
    names = [flag[0].partition("=")[0] for flag in Arguments(params, args).flags]
    # The digits of `-i10` are no options.
    unknown = [name for name in names if name not in known and not name[1:].isdigit()]
    command = " ".join(_path(ctx))
    answers = {
        name: skypilot_verbs.option(command, name) for name in unknown or [error.option_name]
    }
    for name, answer in answers.items():
        used = _USED.match(answer)
        if used and used[1] not in known:  # that command has no such option
            answers[name] = ""

    answers = {
        name: answer
        or _similar(name, known)
        or _argument_option(name, params)
        or _field_flag(name, known)
        or _alike(name, own)
        for name, answer in answers.items()
    }
    if takes_program(params) and "--" not in args and not any(answers.values()):
        message = error.message.rstrip(".")
        return click.UsageError(f"{message}; {OF_PROGRAM}", ctx)

    lines = []
    for name, answer in answers.items():
        advice = answer or _field_option(name, known) or _list_options(params)
        lines.append(f"no such option '{name}'; {advice}" if advice else f"no such option '{name}'")
    return click.UsageError("\n".join(lines), ctx)


def _alike(option: str, own: Iterable[click.Option]) -> str:
    """Return the option that another tool calls so, or that has this word as a value."""
    own = [param for param in own if not isinstance(param, options.SharedOption)]
    names = {name for param in own for name in param.opts}
    if match := next((name for name in ALIKE.get(option, ()) if name in names), ""):
        return f"use {match}"
    word = option.lstrip("-")
    longer = [name for name in names if word and word in name.lstrip("-").split("-")]
    if len(longer) == 1:
        return f"did you mean '{longer[0]}'?"
    for param in own:
        values = getattr(param.type, "choices", ()) or getattr(param.type, "formats", ())
        if word in values:
            return f"use {max(param.opts, key=len)} {word}"
    return ""


def _field_flag(option: str, known: Container[str]) -> str:
    """Return the option for a field of tasks, by its name here or in another tool.

    Only the commands that take the fields of a task have --gpus.
    """
    field = other_names.rename(other_names.fold(option.removeprefix("--")))
    flags = {
        flag.field.rpartition(".")[2]: flag.option
        for flag in FLAGS
        if flag.field and not flag.field.startswith("workdir.")
    }
    return f"use {flags[field]}" if "--gpus" in known and flags.get(field) in known else ""


def _field_option(option: str, known: Container[str]) -> str:
    """Return where a field that has no option is, or how to pass a value of one's own."""
    if "--gpus" not in known or not option.startswith("--"):
        return ""
    field = other_names.rename(other_names.fold(option.removeprefix("--")))
    if place := schema.find_place(field):
        return f"write `{field}:` {place} in the file"
    answer = other_names.answer(field).replace("give it to `kubectl sky submit` as", "use")
    word = other_names.fold(option.removeprefix("--")).upper()
    if not answer and variables.is_named_as_secret(word):
        return f"for a secret, export {word}=…, then --secret {word}"
    return answer or f"for a value of your own, use --env {word}=VALUE"


def _argument_option(option: str, params: Iterable[click.Parameter]) -> str:
    """Return the argument that an option such as --task names; "" for others."""
    arguments = [
        param.make_metavar(click.Context(click.Command("")))
        for param in params
        if isinstance(param, click.Argument)
    ]
    word = _ARGUMENTS.get(option.lstrip("-"), option.lstrip("-").upper())
    match = next((text for text in arguments if word in re.findall("[A-Z]+", text)), "")
    if match and word == "CMD":
        return "write CMD after --"
    return f"leave it out: {word} is an argument" if match else ""


def _list_options(params: Iterable[click.Parameter]) -> str:
    """Return the options of a command that has few of its own; "" if it has many."""
    own = [
        max(param.opts, key=len)
        for param in params
        if isinstance(param, click.Option)
        and not isinstance(param, options.SharedOption)
        and param.name not in options.COMMON
        and "--help" not in param.opts
    ]
    return f"the options are {', '.join(own)}" if 0 < len(own) <= _MAX_LISTED else ""


def _similar(option: str, known: Iterable[str]) -> str:
    """Propose a similar option, if there is one; they are compared without their dashes."""
    by_word = {name.lstrip("-"): name for name in sorted({*known} - _NOT_GUESSED)}
    letters = option.removeprefix("--")
    is_short = option.startswith("--") and 1 < len(letters) <= _MAX_LETTERS
    if is_short and all(f"-{letter}" in known for letter in letters):
        return f"did you mean '-{letters}'?"
    matches = get_close_matches(option.lstrip("-"), by_word, n=1, cutoff=0.75)
    return f"did you mean '{by_word[matches[0]]}'?" if matches else ""
