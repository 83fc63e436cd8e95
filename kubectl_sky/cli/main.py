"""Entry point of the command line: run the command and report its errors.

Each error becomes one line and an exit code.
"""

import errno
import gc
import importlib
import os
import re
import signal
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

import click

from kubectl_sky import __version__
from kubectl_sky.cli import commands, complete, output, packages
from kubectl_sky.errors import Interrupted, SkyError, UserError
from kubectl_sky.observe.escapes import plain
from kubectl_sky.words import bounded, settings

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# New objects before the garbage collector looks for cycles. API responses have no cycles, and with
# Python's default threshold the search takes two thirds of the time of reading a long list. The
# second number is of such searches before the objects that they left are searched again: with
# Python's 10, that takes 0.2 of the 1.6 s of a list of 10,000 tasks.
_GC_THRESHOLDS = 50_000, 100

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)

# Name and purpose, in the groups of --help. Each command is a module of its name, imported when it
# runs, or it is in another package.
_GROUPS = {
    "Write and review": {
        "init": "Write a first task file",
        "explain": "Explain a field of task files or settings",
        "validate": "Check task files and report every problem with its line",
        "render": "Print the manifests that submit would send",
        "diff": "Show what submit would change of a task in the cluster",
        "submit": "Submit a task and follow its logs",
        "rerun": "Submit the last file again, in place of its task",
        "run": "Run a command as a task, without a file",
        "dev": "Run a development pod, for exec, ssh and VS Code",
    },
    "Watch": {
        "list": "List tasks, newest first",
        "status": "Show a task and its nodes",
        "logs": "Print the logs of a task's nodes",
        "compare": "Show what differs between tasks, and the numbers that they printed last",
        "wait": "Wait until tasks have finished or run, and notify a URL",
        "ui": "Show tasks, nodes and logs on the whole terminal, live",
    },
    "Serve": {
        "serve": "Run a service of replicas: up, update, status, logs, down",
    },
    "Debug": {
        "doctor": "Explain why a task does not start or has failed; check the cluster",
        "exec": "Run a command in a node of a task",
        "top": "Show the CPU and memory usage of a task's nodes",
        "stacks": "Show where the programs of a task's nodes are, to see which one hangs",
        "port-forward": "Forward local ports to a node of a task",
    },
    "Manage tasks and data": {
        "stop": "Stop tasks and delete their objects, or what interrupted submits left",
        "cp": "Copy files to a node of a task, or from it",
        "volumes": "Create, list and delete volumes",
    },
    "Cluster": {
        "gpus": "Show the cluster's GPUs: total, used and free",
        "usage": "Show GPU-hours by user, task name or GPU",
        "queues": "Show queues, the tasks that wait in them, and fair shares",
        "local": "Run a local cluster",
        "dashboard": "Show tasks, logs and GPUs in a browser",
    },
    "Settings": {
        "auth": "Manage the owner recorded on your tasks and volumes",
        "config": "Show and change the settings",
    },
    "For cluster admins": {
        "api": "Serve the REST API",
        "controllers": "Run pipelines without a client, Ray graphs, fair share",
        "users": "Give users a namespace with rights and a quota",
    },
}
_OTHERS = {
    "completion": "Complete commands, tasks and flags in your shell",
    "options": "List the options of all commands",
    "version": "Print the version, and look for a newer one",
}
COMMANDS = {name: text for group in (*_GROUPS.values(), _OTHERS) for name, text in group.items()}

# Words that --help does not list: other names, names of the past, and commands of the k8s-cli.
_ALIASES = {
    "why": ["doctor"],
    "clean": ["stop", "--leftovers"],
    "ports": ["status", "--ports"],
    "fairshare status": ["queues", "fairshare"],
    "jobs submit": ["submit"],
    "jobs list": ["list"],
    "jobs status": ["status"],
    "jobs logs": ["logs", "--follow"],
    "jobs stop": ["stop"],
}


class Commands(commands.Group):
    """A group whose commands are imported when they run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in workflow order, not in alphabetical order."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module; return None for an unknown name."""
        if name not in COMMANDS or name in packages.EXTRAS:
            return packages.find_command(name)
        module = "shared" if name == "options" else name.replace("-", "_")
        command = importlib.import_module(f"kubectl_sky.cli.{module}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; suggest a similar one for an unknown name."""
        for count in (2, 1):
            if words := _ALIASES.get(" ".join(args[:count])):
                args = [*words, *args[count:]]
        if args[0] == "help":  # as in `kubectl help COMMAND`
            if not args[1:]:
                output.out(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
        name = args[0]
        if name in COMMANDS or name.startswith("-") or packages.find_command(name):
            return super().resolve_command(ctx, args)
        raise click.UsageError(self._answer(ctx, args), ctx)

    def _answer(self, ctx: click.Context, args: Sequence[str]) -> str:
        """Return the error of an unknown command, with what it means."""
        from kubectl_sky.cli import advice, skypilot, unknown

        if answer := unknown.find_line(args, {*COMMANDS, *_ALIASES, "help"}):
            return f'unknown command "{args[0]}"; {answer}'
        words = unknown.without_prompt(args)
        if answer := unknown.find_swapped(words, COMMANDS):
            return f'unknown command "{words[0]}"; {answer}'

        submit = self.get_command(ctx, "submit")
        assert submit
        if message := skypilot.verb(words, submit_takes=partial(commands.takes, submit, ctx)):
            return message
        message = advice.unknown(ctx, words[0], COMMANDS)
        program = "" if ";" in message else unknown.find_program(words)
        return f"{message}; {program}" if program else message

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; click itself would write an empty line after Ctrl-C, also to a file."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted") from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return the commands that begin with a word, without importing any command."""
        from click.shell_completion import CompletionItem

        names = [name for name in COMMANDS if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=COMMANDS[name]) for name in names]
        return commands + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for title, purposes in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, text in purposes.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text(f"Other commands: {', '.join(_OTHERS)}.")
        formatter.write_text(f"Run `{ctx.command_path} COMMAND --help` for options and examples.")
        formatter.write_text(
            "Exit codes: 0 success, 1 a bug or a timeout (--timeout, --wait-timeout), 2 the file or"
            " the flags are wrong, 3 the cluster refused or did not answer, 4 the task failed,"
            " 130 interrupted."
        )


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def sky() -> None:
    """Run SkyPilot task files on any Kubernetes cluster, as plain Jobs.

    Nothing needs to be installed in the cluster. Start with:

    \b
        kubectl sky submit task.yaml

    Without a cluster, start one on this machine first:

    \b
        eval "$(kubectl sky local up)"
    """  # noqa: D301 -- click reads the \b
    for warning in settings.unsafe_cache():
        output.note(warning)


def run(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command as a process of its own, and exit with its code."""
    code = main(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C is no traceback of the exit
    output.live.end()
    gc.freeze()  # no search for cycles at the exit: it takes 25 of the 180 ms of `validate`
    try:
        sys.stdout.flush()
    except OSError:  # it was reported; or Python writes it again, and exits with 120
        output.discard(sys.stdout)
    sys.exit(code)


def run_completion() -> NoReturn:
    """Run as `kubectl_complete-sky`, which kubectl starts with the words after `sky`."""
    run([complete.COMMAND, *sys.argv[1:]])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1, 2, 3, 4 or 130.

    The design notes and the README define the codes.
    """
    # A relative or empty part would find programs in the current folder, such as a checkout's git.
    os.environ["PATH"] = os.pathsep.join(filter(os.path.isabs, os.get_exec_path()))
    _prepare_streams()

    name = Path(sys.argv[0]).name
    gc.set_threshold(*_GC_THRESHOLDS)
    output.style = output.Style()
    program = "kubectl sky" if name.startswith(("kubectl-sky", "kubectl_sky")) else "kubectl-sky"

    words = list(sys.argv[1:] if arguments is None else arguments)
    if complete.answer(sky, words):
        return 0

    failure = commands.Failure()
    stdout = sys.stdout
    try:
        code = sky.main(
            args=words,
            prog_name=program,
            complete_var=complete.VARIABLE,
            standalone_mode=False,
            obj=failure,
        )
        sys.stdout.flush()
    except click.ClickException as error:
        return _report(_usage_error(error))
    except SkyError as error:
        code = _report(error, interrupted=isinstance(error, Interrupted))
        return max(code, failure.least_code)
    except (click.Abort, KeyboardInterrupt):
        return _report(Interrupted("interrupted"))
    except (BrokenPipeError, SystemExit) as error:
        return _closed_pipe(error, stdout)
    except Exception as error:  # noqa: BLE001 -- the last one to print it
        if os.environ.get("KUBECTL_SKY_DEBUG"):
            traceback.print_exc()
            return max(SkyError.exit_code, failure.least_code)
        return max(_report(_report_unexpected(error)), failure.least_code)
    return code if isinstance(code, int) else 0


def _closed_pipe(error: BaseException, stdout: TextIO) -> int:
    """Succeed if the reader has closed the pipe, as with `| head`.

    Click then replaces stdout and exits with 1. Raises any other SystemExit.
    """
    if isinstance(error, SystemExit) and sys.stdout is stdout:
        raise error
    output.discard(sys.stdout)
    return 0


def _prepare_streams() -> None:
    """Open the streams that are closed, as by `>&-` in a shell."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115 -- until the exit


def _usage_error(error: click.ClickException) -> UserError:
    message = plain(error.format_message()).rstrip(".")  # it quotes arguments
    message = re.sub(r"\. \(?Did you mean (.*\?)\)?$", r"; did you mean \1", message)
    message = re.sub(r"a valid integer( range)?(?=;|$)", "a whole number", message)
    context = getattr(error, "ctx", None)
    hint = f"run `{context.command_path} --help` for options and examples" if context else ""
    return UserError(message[:1].lower() + message[1:], hint)


def _report_unexpected(error: Exception) -> SkyError:
    """Return a full disk as an error of its own, and all else as a bug."""
    if isinstance(error, OSError) and error.errno in _DISK_FULL:
        return SkyError(f"{error.filename or 'cannot write the output'}: {bounded.reason(error)}")
    message = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
    return SkyError(message, "run again with KUBECTL_SKY_DEBUG=1 and report what it prints")


def _report(error: SkyError, *, interrupted: bool = False) -> int:
    """Print an error and what to do next, and return the exit code.

    If it is `interrupted`, the terminal has shown ^C, and a new line begins; click begins its own.
    """
    if interrupted and sys.stderr.isatty():
        output.live.interrupt()
    output.live.end()
    output.error(error.what if error.without_prefix else f"error: {error.what}")
    if error.hint:
        output.error(f"hint: {error.hint}")
    return error.exit_code
