"""The command line's door: finds the command, and makes each error one line and an exit code."""

import atexit
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from kubectl_sky import __version__, settings
from kubectl_sky.cli.output import note
from kubectl_sky.errors import Interrupted, SkyError

# Objects that are made before cycles are looked for. What a cluster answers has none: to look for
# them as often as Python does by itself takes two thirds of the time of reading a long list.
_GARBAGE = 50_000

# Name: what it is for. Each is a module of this folder that is imported only when it is run.
COMMANDS = {
    "validate": "Check task files; say everything that is wrong, and where",
    "render": "Print the manifests that submit would send",
    "submit": "Run a task on the cluster",
    "list": "List tasks, newest first",
    "status": "Show a task and each of its nodes",
    "logs": "Print the logs of a task's nodes",
    "exec": "Run a program in a node of a task",
    "doctor": "Say why a task does not start or failed; check the cluster",
    "gpus": "Show the cluster's accelerators: asked for, used and free",
    "queues": "Show Kueue's queues: what they give, and who waits",
    "top": "Show the CPUs and the memory that a task's nodes use",
    "cp": "Copy files to a node of a task, and from it",
    "ports": "Show where the ports of a task are reached",
    "port-forward": "Make ports of a node ports of this machine",
    "wait": "Wait until tasks have ended",
    "stop": "Stop tasks and remove what they consist of",
    "clean": "Remove what interrupted submits left behind",
    "volumes": "Create, list and delete volumes",
    "local": "Have a cluster on this machine, to try things out",
    "auth": "Say who you are to the tasks and volumes you make",
    "version": "Print the version",
}

# Other names of commands, which --help does not list.
ALIASES = {"why": "doctor"}


class Commands(click.Group):
    """A group whose commands are imported when they are run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the work, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import the command's module; None for a name that is no command."""
        name = ALIASES.get(name, name)
        if name not in COMMANDS:
            return None
        command = importlib.import_module(f"kubectl_sky.cli.{name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(version)s")
def sky() -> None:
    """Run SkyPilot task files on any Kubernetes cluster, as plain Jobs.

    Nothing needs to be installed in the cluster. Start with:

    \b
        kubectl sky submit task.yaml

    Without a cluster, have one on this machine first:

    \b
        eval "$(kubectl sky local up)"
    """  # noqa: D301 -- click reads the \b
    for warning in settings.unsafe_cache():
        note(warning)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1, 2, 3, 4 or 130, as design and README say."""
    name = Path(sys.argv[0]).name
    gc.set_threshold(_GARBAGE)
    atexit.register(gc.freeze)  # to look for cycles in what ends anyway takes a tenth of a start
    program = "kubectl sky" if name.startswith(("kubectl-sky", "kubectl_sky")) else "kubectl-sky"
    try:
        code = sky.main(args=arguments, prog_name=program, standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return 2
    except SkyError as error:
        return _tell(str(error), error.exit_code, bare=error.bare)
    except (click.Abort, KeyboardInterrupt):
        return _tell("interrupted", Interrupted.exit_code, bare=True)
    except BrokenPipeError:  # the reader has gone, as with `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("KUBECTL_SKY_DEBUG"):
            raise
        what = f"internal error: {type(error).__name__}: {error}".splitlines()[0]
        return _tell(f"{what}; run again with KUBECTL_SKY_DEBUG=1 and report what it prints", 1)
    return code if isinstance(code, int) else 0


def _tell(message: str, code: int, bare: bool = False) -> int:
    note(message if bare else f"error: {message}")
    return code
