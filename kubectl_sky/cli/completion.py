"""`kubectl sky completion`."""

import os

import click

from kubectl_sky.cli import commands, complete, output

_PROGRAM = "kubectl-sky"
_LOAD = {
    "bash": "source <(kubectl-sky completion bash)",
    "zsh": "source <(kubectl-sky completion zsh)",
    "fish": "kubectl-sky completion fish | source",
    "powershell": "kubectl-sky completion powershell | Out-String | Invoke-Expression",
}


@commands.group("completion")
def command() -> None:
    """Complete commands, tasks and flags in your shell.

    For `kubectl sky`, load kubectl's own completion and run `kubectl sky completion install` once.
    For `kubectl-sky`, load the script of your shell.
    """


@command.command("install", examples=["completion install", "completion install --dir ~/bin"])
@click.option("--dir", "folder", metavar="DIR", help="Folder of PATH (default: the plugin's).")
def install(folder: str | None) -> None:
    """Let kubectl complete `kubectl sky`: write kubectl_complete-sky to a folder of PATH."""
    from kubectl_sky.actions import completion

    path, written = completion.install(folder, os.environ)
    output.out(f"{path} {'created' if written else 'unchanged'}")
    output.note("kubectl's own completion must be loaded; see `kubectl completion --help`")


@command.command(
    "uninstall",
    examples=[
        "completion uninstall",
        "completion uninstall && kubectl sky completion install --dir ~/bin",
    ],
)
def uninstall() -> None:
    """Delete the script that `completion install` wrote."""
    from kubectl_sky.actions import completion

    output.out(f"{completion.uninstall(os.environ)} deleted")


def _add_shell(shell: str, load: str) -> None:
    text = f"Print the completion script of `kubectl-sky` for {shell}.\n\nLoad it with `{load}`."

    @command.command(
        shell, help=text, examples=[f"completion {shell}", f"completion {shell} | less"]
    )
    def show() -> None:
        from click.shell_completion import get_completion_class

        from kubectl_sky.cli.main import sky

        script = get_completion_class(shell)
        assert script
        output.out(script(sky, {}, _PROGRAM, complete.VARIABLE).source())


for _name, _line in _LOAD.items():
    _add_shell(_name, _line)
