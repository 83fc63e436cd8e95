"""The application: keys, commands of the prompt, and the end."""

import asyncio
import signal
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize

from kubectl_sky.cluster.session import Session
from kubectl_sky.words.owners import User
from kubectl_sky_ui.view import COMMANDS, View
from kubectl_sky_ui.views import HelpView, NamespaceList, TaskList, TooSmall
from kubectl_sky_ui.workspace import Workspace

_TICK_SECONDS = 1.0  # seconds between updates of ages
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_MIN_COLUMNS = 40
_MIN_ROWS = 12  # of a terminal

_CSS = """
#title { height: 1; background: $panel; }
#content { height: 1fr; }
#line { height: 1; }
#sigil { width: 2; color: $accent; }
#prompt { width: 1fr; }
#status { height: 1; }
#text { padding: 0 1; }
DataTable > .datatable--cursor { background: $primary-muted; }  /* states stay readable on it */
DataTable:nocolor > .datatable--cursor { text-style: bold reverse; }
StopQuestion, TooSmall { align: center middle; }
#question {
    width: 58; max-width: 100%; height: auto;
    border: round $error; padding: 0 1; background: $surface;
}
"""


class SkyApp(Workspace):
    """Show tasks, nodes, logs and diagnoses. All requests are sent from other threads."""

    CSS = _CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True)
    ]

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.exit, None, 128 + number)
        if self.no_color:
            self.theme = "ansi-dark"
        self.push_screen(TaskList())
        self.start_reading()
        self.set_interval(_TICK_SECONDS, self.update_view)

    def on_resize(self, event: Resize) -> None:
        """Cover the views while the terminal is too small for a question, for instance."""
        small = event.size.width < _MIN_COLUMNS or event.size.height < _MIN_ROWS
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall(_MIN_COLUMNS, _MIN_ROWS))
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    def action_interrupt(self) -> None:
        self.exit(return_code=128 + signal.SIGINT)

    def action_stop_app(self) -> None:
        self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """Keep the bug, which the command line reports."""
        self.bug = self.bug or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Leave the screen without Textual's traceback: it prints values, which may be secret."""
        self.panic()

    def update_view(self) -> None:
        view = next((view for view in reversed(self.screen_stack) if isinstance(view, View)), None)
        if view:
            view.update_view()

    def run_command(self, text: str) -> None:
        word, _, argument = text.partition(" ")
        namespace = argument.strip()
        actions: Mapping[str, Callable[[], object]] = {
            "tasks": self.show_task_list,
            "ns": partial(self.choose_namespace, namespace)
            if namespace
            else self.action_namespaces,
            "all": self.action_all_namespaces,
            "users": self.action_toggle_users,
            "help": self.action_help,
            "quit": self.action_stop_app,
        }

        names = [name for name in COMMANDS if name.startswith(word.lower())]
        if len(names) == 1:
            actions[names[0]]()
        else:
            self.show_note(f'unknown command "{text}"; press ? for help')

    def action_all_namespaces(self) -> None:
        self.choose_namespace(None)

    def action_namespaces(self) -> None:
        self.push_screen(NamespaceList())

    def action_toggle_users(self) -> None:
        self.show_task_list()
        self.all_users = not self.all_users
        self.read_tasks()

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpView):
            self.push_screen(HelpView())


def run(session: Session, user: User, namespace: str | None, all_users: bool) -> int:
    """Show the interface until the user quits; return the exit code. Raises what failed."""
    app = SkyApp(session.impatient(), user, namespace, all_users)
    app.run(mouse=False)  # so that the terminal selects text as usual
    app.finish_stops()
    if app.bug:
        raise app.bug
    return app.return_code or 0
